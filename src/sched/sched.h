/* Schedules: a collective as data. An algorithm writes one rank's program, a round at a time, out of four steps over
 * symbolic buffers. Pure; no I/O, no allocation.
 *
 * What a program means, exactly:
 *  - Program order is no barrier. A step waits only for earlier steps of its rank whose byte ranges conflict with its
 *    own (one of the two writes), per segment: the engine and the simulator overlap everything else.
 *  - `put` sends bytes to a peer, where the `wait` with the same (pair, tag) names the same number of bytes and where
 *    they go. Tags are unique per (sender, receiver, operation), and both sides emit the puts and waits of a pair in
 *    the same order. A zero-length put still arrives.
 *  - `reduce` makes out = a op b, a the operand of the lower rank (of the lowest rank that contributed to each side);
 *    `finish` marks the one reduction step that completes an element (TUTTI_AVG divides there). out may equal a or b.
 *  - `copy` moves bytes within the rank.
 * Segmentation, pipelining, lanes, fusing and zero-copy are the engine's business. */
#ifndef TT_SCHED_SCHED_H
#define TT_SCHED_SCHED_H

#include <stdbool.h>
#include <stdint.h>
#include "topo/layout.h"
#include "tutti/tutti.h"

enum tt_coll_kind {
    TT_ALLREDUCE, TT_REDUCE, TT_REDUCE_SCATTER, TT_REDUCE_SCATTERV, TT_ALLGATHER, TT_ALLGATHERV, TT_BROADCAST,
    TT_GATHER, TT_GATHERV, TT_SCATTER, TT_SCATTERV, TT_ALLTOALL, TT_ALLTOALLV, TT_BARRIER,
    TT_SEND, TT_RECV,   /* one put, one wait; the peer is `root` */
    TT_COLL_KINDS
};

/* "allreduce"; "?" for none. tt_coll_parse: false for no such name. */
const char *tt_coll_name(enum tt_coll_kind kind);
bool tt_coll_parse(const char *name, enum tt_coll_kind *out);

/* Whether it adds up what ranks give. */
static inline bool tt_coll_reduces(enum tt_coll_kind kind)
{
    return kind == TT_ALLREDUCE || kind == TT_REDUCE || kind == TT_REDUCE_SCATTER || kind == TT_REDUCE_SCATTERV;
}

/* What a quantized call asks of an algorithm. A reduction step takes this rank's part from SRC as it is, but all else as it was packed; so ranks that
 * compute one sum each for themselves would differ. */
enum tt_quantized {
    TT_NOT_QUANTIZED,
    TT_QUANTIZED,           /* each part of the result is computed on one rank, and forwarded; what all-reduces wait for in DST, and what steps
                               that finish write there, is final */
    TT_QUANTIZED_FEEDBACK   /* also, each step that packs a sum has SRC or DST at its elements' own place: it is known whose error it makes */
};

/* The blocks of an alltoallv of which only stretches travel. Each lies as far behind the beginning of its block at its sender as at its receiver. */
struct tt_stretch {
    uint64_t offset, bytes;
};

struct tt_stretches {
    const struct tt_stretch *send, *recv;
    const uint64_t *send_first, *recv_first;    /* [nranks + 1]: those of the pair with rank r are first[r] up to first[r + 1]; what this rank sends itself
                                                   is in `send` alone */
    uint64_t most;          /* of a pair, at least 1; the same on all ranks */
    bool at_most;           /* what arrives may be shorter than recv says */
};

/* The call, as an algorithm sees it. Everything in bytes except where `elem_bytes` is needed to cut blocks at element
 * boundaries. Identical on all ranks but for `rank` (and, for alltoallv, the arrays). */
struct tt_coll {
    enum tt_coll_kind kind;
    uint32_t rank, nranks, root;
    uint32_t elem_bytes;
    bool in_place;          /* see tt_coll_canonical */
    uint8_t quantized;      /* enum tt_quantized: elements are packed blocks */
    const struct tt_layout *layout;     /* where the ranks are, identical on all; NULL: nothing is known of it. The caller's */
    uint64_t bytes;         /* of `count` elements as tutti.h shapes the call; 0 for the v kinds */
    /* v kinds only, in bytes, [nranks] each, owned by the caller of the operation. allgatherv, gatherv: recv_*;
     * scatterv, reduce_scatterv: send_*; alltoallv: both, this rank's own. displs are never NULL. */
    const uint64_t *send_bytes, *send_displs, *recv_bytes, *recv_displs;
    /* alltoallv only: not whole blocks travel but these; bytes and displs are then where blocks lie and how far they reach. The caller's, alive as
     * long as the operation. NULL: whole blocks. */
    const struct tt_stretches *stretches;
    /* For algorithms that bound what is in flight between two ranks (tt_algo.bounded): the longest message, and how many such may be on
     * their way to one peer. 0: the defaults. */
    uint64_t chunk_bytes;
    uint32_t chunks;
    /* For these, too: how much they transfer as one message, where they may choose; and how much of that is added and goes on at a time, a power of
     * two: their segments. 0: the default; segments as the plan has them. */
    uint64_t piece_bytes, reduce_bytes;
};

#define TT_CHUNK_BYTES (8ull << 20)
#define TT_CHUNKS 4u
#define TT_PIECE_BYTES (1ull << 20)
#define TT_REDUCE_BYTES_MIN 8192u

static inline uint64_t tt_coll_chunk_bytes(const struct tt_coll *c)
{
    return c->chunk_bytes ? c->chunk_bytes : TT_CHUNK_BYTES;
}
static inline uint32_t tt_coll_chunks(const struct tt_coll *c)
{
    return c->chunks ? c->chunks : TT_CHUNKS;
}
static inline uint64_t tt_coll_piece_bytes(const struct tt_coll *c)
{
    return c->piece_bytes ? c->piece_bytes : TT_PIECE_BYTES;
}

/* Sizes of the symbolic buffers of this rank, in bytes (the extent: the end of the last block). 0 where the call
 * ignores the buffer: DST of reduce and gather, SRC of broadcast and scatter, on ranks other than root. */
uint64_t tt_coll_src_bytes(const struct tt_coll *c);
uint64_t tt_coll_dst_bytes(const struct tt_coll *c);

enum tt_buf {
    TT_BUF_SRC,     /* the caller's input; never written (unless in place, where it is part of DST or the reverse) */
    TT_BUF_DST,     /* the caller's output */
    TT_BUF_WORK,    /* the operation's own memory, algo->work_bytes long (only barriers read what they have not written,
                       and do not mind what it is). Small, unless the call names the algorithm */
    TT_BUF_PIPE,    /* written by exactly one step and read by exactly one later step, both over the whole range and in
                       ascending order: streams through a window of segments and is never stored as a whole. `offset` is
                       only its name: unique per operation and rank. Never strided. */
    TT_BUF_THERE    /* only as `to` of a put: wherever the receiver's wait says (the sender cannot know, as in
                       alltoallv; such a flow has one put per pair, or stretches of one block, and then `offset` is within it) */
};

/* Bytes of a buffer: contiguous at offset if block == 0; else pieces of `block` bytes, `stride` apart, the first at
 * offset. */
struct tt_ref {
    uint64_t offset;
    uint64_t block, stride;
    uint8_t buf;            /* enum tt_buf */
};

static inline struct tt_ref tt_src(uint64_t offset) { return (struct tt_ref){ .offset = offset, .buf = TT_BUF_SRC }; }
static inline struct tt_ref tt_dst(uint64_t offset) { return (struct tt_ref){ .offset = offset, .buf = TT_BUF_DST }; }
static inline struct tt_ref tt_work(uint64_t offset) { return (struct tt_ref){ .offset = offset, .buf = TT_BUF_WORK }; }
static inline struct tt_ref tt_pipe(uint64_t name) { return (struct tt_ref){ .offset = name, .buf = TT_BUF_PIPE }; }
static inline struct tt_ref tt_there(void) { return (struct tt_ref){ .buf = TT_BUF_THERE }; }
static inline struct tt_ref tt_strided(struct tt_ref ref, uint64_t block, uint64_t stride)
{
    ref.block = block;
    ref.stride = stride;
    return ref;
}

/* In place, SRC and DST share memory. Maps a ref of SRC to the DST bytes it really is (allreduce, reduce, broadcast,
 * alltoall, alltoallv: the same offset; allgather, gather: plus the displacement of this rank's block), or, for reduce_scatter
 * and scatter, a ref of DST to the SRC bytes it is; with a root, on the root only, as elsewhere one of the two is
 * ignored. Other refs, and all refs out of place, come back unchanged. */
struct tt_ref tt_coll_canonical(const struct tt_coll *c, struct tt_ref ref);

/* The [begin, end) extent of `bytes` bytes at ref. */
void tt_ref_extent(const struct tt_ref *ref, uint64_t bytes, uint64_t *begin, uint64_t *end);

/* Whether they name a byte in common. Exact for contiguous ones, and for strided ones where one stride is a multiple of the other
 * and pieces are alike; true where it is not that simple. */
bool tt_ref_overlap(const struct tt_ref *a, uint64_t a_bytes, const struct tt_ref *b, uint64_t b_bytes);

/* How many of ref's bytes, in their order, are needed to have all those before `end`. */
uint64_t tt_ref_before(const struct tt_ref *ref, uint64_t bytes, uint64_t end);

enum tt_opcode { TT_PUT, TT_WAIT, TT_REDUCE_STEP, TT_COPY };

struct tt_step {
    uint8_t opcode;         /* enum tt_opcode */
    bool finish;            /* reduce only */
    bool at_most;           /* wait only: the put may have fewer bytes. Eager ones */
    uint32_t peer;          /* put: to; wait: from */
    uint32_t tag;
    uint32_t round;         /* that it was emitted in; only of flattened programs (verify.h) */
    uint64_t bytes;
    struct tt_ref out;      /* put: at the peer; wait, reduce, copy: written here */
    struct tt_ref a, b;     /* read here: put, copy: a; reduce: a and b */
};

#define TT_ROUND_STEPS_MAX 16   /* steps one round may emit */

/* Where a round goes. The caller provides steps[cap] and n = 0; emitting past cap asserts. A reduce or copy of no
 * bytes is not emitted; a put or wait of none is, with refs that name DST 0 (or THERE), so that no pipe is ever empty.
 * */
struct tt_sched {
    struct tt_step *steps;
    uint32_t n, cap;
};

void tt_sched_put(struct tt_sched *s, uint32_t peer, struct tt_ref from, struct tt_ref to, uint64_t bytes,
                  uint32_t tag);
void tt_sched_wait(struct tt_sched *s, uint32_t peer, struct tt_ref to, uint64_t bytes, uint32_t tag);
void tt_sched_reduce(struct tt_sched *s, struct tt_ref out, struct tt_ref a, struct tt_ref b, uint64_t bytes,
                     bool finish);
void tt_sched_copy(struct tt_sched *s, struct tt_ref to, struct tt_ref from, uint64_t bytes);

/* Block i of `bytes` cut into n blocks at element boundaries, as even as can be, the longer ones first. */
uint64_t tt_block_offset(uint64_t bytes, uint32_t elem_bytes, uint32_t n, uint32_t i);
uint64_t tt_block_bytes(uint64_t bytes, uint32_t elem_bytes, uint32_t n, uint32_t i);

#endif
