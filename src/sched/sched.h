/* Schedules: a collective as data. An algorithm emits one rank's program, a round at a time, as
 * four kinds of steps over symbolic buffers. Pure; no I/O, no allocation.
 *
 * Semantics of a program:
 *  - Program order is not a barrier. A step waits only for earlier steps of its rank whose byte
 *    ranges conflict with its own (one of the two writes), per segment. The engine and the
 *    simulator overlap everything else.
 *  - `put` sends bytes to a peer. The `wait` with the same (pair, tag) has the same number of
 *    bytes, and specifies their destination. Tags are unique per (sender, receiver, operation), and
 *    both sides emit the puts and waits of a pair in the same order. A zero-length put still
 *    arrives.
 *  - `reduce` computes out = a op b, where a is the operand whose lowest contributing rank is
 *    lower. `finish` marks the one reduction step that completes an element (TUTTI_AVG divides
 *    there). out may equal a or b.
 *  - `copy` copies bytes within the rank.
 * The engine decides on segmentation, pipelining, lanes, fusing and zero-copy. */
#ifndef TT_SCHED_SCHED_H
#define TT_SCHED_SCHED_H

#include <stdbool.h>
#include <stdint.h>
#include "topo/layout.h"
#include "tutti/tutti.h"

enum tt_coll_kind {
    TT_ALLREDUCE,
    TT_REDUCE,
    TT_REDUCE_SCATTER,
    TT_REDUCE_SCATTERV,
    TT_ALLGATHER,
    TT_ALLGATHERV,
    TT_BROADCAST,
    TT_GATHER,
    TT_GATHERV,
    TT_SCATTER,
    TT_SCATTERV,
    TT_ALLTOALL,
    TT_ALLTOALLV,
    TT_BARRIER,
    TT_SEND,
    TT_RECV, /* one put, one wait; the peer is `root` */
    TT_COLL_KINDS
};

/* Returns e.g. "allreduce"; "?" for an invalid value. tt_coll_parse returns false for an unknown
 * name. */
const char *tt_coll_name(enum tt_coll_kind kind);
bool tt_coll_parse(const char *name, enum tt_coll_kind *out);

/* Returns whether the collective reduces. */
static inline bool tt_coll_reduces(enum tt_coll_kind kind)
{
    return kind == TT_ALLREDUCE || kind == TT_REDUCE || kind == TT_REDUCE_SCATTER ||
           kind == TT_REDUCE_SCATTERV;
}

/* Requirements of a quantized call on an algorithm. A reduction step reads this rank's part from
 * SRC unquantized, but all other data is quantized. Therefore ranks that compute the same sum
 * separately would get different results. */
enum tt_quantized {
    TT_NOT_QUANTIZED,
    TT_QUANTIZED,           /* each part of the result is computed on one rank and forwarded; in
                               all-reduces, data that waits or finishing steps write to DST is
                               final */
    TT_QUANTIZED_FEEDBACK   /* in addition, each step that quantizes a sum uses SRC or DST at its
                               elements' own offset, so that the error can be assigned to
                               elements */
};

/* Stretches of the blocks of an alltoallv; only these are sent. Each has the same offset within its
 * block at sender and receiver. */
struct tt_stretch {
    uint64_t offset, bytes;
};

struct tt_stretches {
    const struct tt_stretch *send, *recv;
    const uint64_t *send_first, *recv_first;    /* [nranks + 1]: the stretches with rank r are
                                                   [first[r], first[r + 1]); those of this rank with
                                                   itself are only in `send` */
    uint64_t most;          /* maximum number per pair, at least 1; equal on all ranks */
    bool at_most;           /* received stretches may be shorter than in recv */
};

/* The call, as an algorithm sees it. All sizes are in bytes; `elem_bytes` is used to split
 * blocks at element boundaries. Identical on all ranks except for `rank` (and, for alltoallv,
 * the arrays). */
struct tt_coll {
    enum tt_coll_kind kind;
    uint32_t rank, nranks, root;
    uint32_t elem_bytes;
    bool in_place;          /* see tt_coll_canonical */
    uint8_t quantized;      /* enum tt_quantized: elements are quantized blocks */
    const struct tt_layout *layout;     /* locations of the ranks, identical on all; NULL:
                                           unknown. Owned by the caller */
    uint64_t bytes;         /* size of `count` elements as in tutti.h; 0 for the v kinds */
    /* v kinds only, in bytes, [nranks] each, owned by the caller of the operation. allgatherv,
     * gatherv: recv_*; scatterv, reduce_scatterv: send_*; alltoallv: both, this rank's own. displs
     * are never NULL. */
    const uint64_t *send_bytes, *send_displs, *recv_bytes, *recv_displs;
    /* alltoallv only: send only these parts of the blocks; bytes and displs are then the extents of
     * the blocks. Owned by the caller, valid as long as the operation. NULL: whole blocks. */
    const struct tt_stretches *stretches;
    /* For algorithms that limit the data in flight between two ranks (tt_algo.bounded): maximum
     * message length, and maximum number of such messages in flight to one peer. 0: the
     * defaults. */
    uint64_t chunk_bytes;
    uint32_t chunks;
    /* For the same algorithms. piece_bytes: message length, if they may choose it; 0: the default.
     * reduce_bytes: segment length, i.e. the unit of reduction and forwarding, a power of two; 0:
     * that of the plan. */
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

/* Return the sizes of this rank's symbolic buffers in bytes, i.e. the end of the last block. 0 if
 * the call ignores the buffer: DST of reduce and gather, SRC of broadcast and scatter, on ranks
 * other than root. */
uint64_t tt_coll_src_bytes(const struct tt_coll *c);
uint64_t tt_coll_dst_bytes(const struct tt_coll *c);

enum tt_buf {
    TT_BUF_SRC,     /* the caller's input; never written (unless in place, as part of DST or the
                       reverse) */
    TT_BUF_DST,     /* the caller's output */
    TT_BUF_WORK,    /* the operation's own memory, of algo->work_bytes (only barriers read
                       unwritten bytes of it, and ignore their values). Small, unless the call
                       names the algorithm */
    TT_BUF_PIPE,    /* written by exactly one step and read by exactly one later step, both over
                       the whole range in ascending order: streamed through a window of segments
                       and never stored as a whole. `offset` is only its name, unique per
                       operation and rank. Never strided. */
    TT_BUF_THERE    /* only as `to` of a put: the destination of the receiver's wait, which the
                       sender does not have in alltoallv. There is one put per pair, or one per
                       stretch of a block; then `offset` is within the block */
};

/* Bytes of a buffer: contiguous at offset if block == 0; else pieces of `block` bytes, `stride`
 * apart, the first at offset. */
struct tt_ref {
    uint64_t offset;
    uint64_t block, stride;
    uint8_t buf;            /* enum tt_buf */
};

static inline struct tt_ref tt_src(uint64_t offset)
{
    return (struct tt_ref){ .offset = offset, .buf = TT_BUF_SRC };
}
static inline struct tt_ref tt_dst(uint64_t offset)
{
    return (struct tt_ref){ .offset = offset, .buf = TT_BUF_DST };
}
static inline struct tt_ref tt_work(uint64_t offset)
{
    return (struct tt_ref){ .offset = offset, .buf = TT_BUF_WORK };
}
static inline struct tt_ref tt_pipe(uint64_t name)
{
    return (struct tt_ref){ .offset = name, .buf = TT_BUF_PIPE };
}
static inline struct tt_ref tt_there(void)
{
    return (struct tt_ref){ .buf = TT_BUF_THERE };
}
static inline struct tt_ref tt_strided(struct tt_ref ref, uint64_t block, uint64_t stride)
{
    ref.block = block;
    ref.stride = stride;
    return ref;
}

/* In place, SRC and DST share memory. Maps a ref of SRC to the corresponding DST bytes (allreduce,
 * reduce, broadcast, alltoall, alltoallv: the same offset; allgather, gather: plus the displacement
 * of this rank's block), or, for reduce_scatter and scatter, a ref of DST to the SRC bytes. With a
 * root, this applies on the root only, because other ranks ignore one of the two. Returns other
 * refs, and all refs of a call that is not in place, unchanged. */
struct tt_ref tt_coll_canonical(const struct tt_coll *c, struct tt_ref ref);

/* Returns the extent [begin, end) of `bytes` bytes at ref. */
void tt_ref_extent(const struct tt_ref *ref, uint64_t bytes, uint64_t *begin, uint64_t *end);

/* Returns whether two refs have a common byte. Exact for contiguous refs, and for strided ones if
 * one stride is a multiple of the other and the pieces are alike; true for other refs. */
bool tt_ref_overlap(const struct tt_ref *a, uint64_t a_bytes, const struct tt_ref *b,
                    uint64_t b_bytes);

/* Returns the length of the shortest prefix of ref's bytes that includes all bytes before `end`. */
uint64_t tt_ref_before(const struct tt_ref *ref, uint64_t bytes, uint64_t end);

enum tt_opcode { TT_PUT, TT_WAIT, TT_REDUCE_STEP, TT_COPY };

struct tt_step {
    uint8_t opcode;         /* enum tt_opcode */
    bool finish;            /* reduce only */
    bool at_most;           /* wait only: the put may have fewer bytes. Only for eager messages */
    uint32_t peer;          /* put: to; wait: from */
    uint32_t tag;
    uint32_t round;         /* round that emitted it; only in flattened programs (verify.h) */
    uint64_t bytes;
    struct tt_ref out;      /* put: destination at the peer; other steps: destination at this
                               rank */
    struct tt_ref a, b;     /* sources at this rank; put, copy: a; reduce: a and b */
};

#define TT_ROUND_STEPS_MAX 16   /* maximum steps of a round */

/* Output of a round. The caller provides steps[cap] and n = 0; emitting more than cap steps fails
 * an assertion. A reduce or copy of no bytes is not emitted. A put or wait of no bytes is emitted
 * with refs to DST 0 (or THERE), so that no pipe is empty. */
struct tt_sched {
    struct tt_step *steps;
    uint32_t n, cap;
};

void tt_sched_put(struct tt_sched *s, uint32_t peer, struct tt_ref from, struct tt_ref to,
                  uint64_t bytes, uint32_t tag);
void tt_sched_wait(struct tt_sched *s, uint32_t peer, struct tt_ref to, uint64_t bytes,
                   uint32_t tag);
void tt_sched_reduce(struct tt_sched *s, struct tt_ref out, struct tt_ref a, struct tt_ref b,
                     uint64_t bytes, bool finish);
void tt_sched_copy(struct tt_sched *s, struct tt_ref to, struct tt_ref from, uint64_t bytes);

/* Return the offset and size of block i, if `bytes` are split into n blocks at element boundaries,
 * as evenly as possible, the longer ones first. */
uint64_t tt_block_offset(uint64_t bytes, uint32_t elem_bytes, uint32_t n, uint32_t i);
uint64_t tt_block_bytes(uint64_t bytes, uint32_t elem_bytes, uint32_t n, uint32_t i);

#endif
