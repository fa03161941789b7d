/* The trace of operations: a ring of the newest operations of the process, always on by default. A
 * record is written when an operation begins and completed when it ends. docs/observability.md
 * describes the trace for users; include/tutti/trace.h is the interface for programs.
 *
 * Writers. A writer owns a block of TT_OPLOG_BLOCK consecutive slots, and takes the next free block
 * when its own is full. Thus two writers never write to the same slot, and a record needs no atomic
 * read-modify-write. A writer is used by one thread at a time; each engine has one, under its
 * progress lock. Other callers share one (writer NULL), under a mutex.
 *
 * Readers copy the slots while writers run. A slot's stamp is 0 while it is written, and the number
 * of its record afterwards.
 *
 * Sampling (TUTTI_TRACE greater than 1) selects by the sequence number of an operation, so all
 * ranks record the same operations. */
#ifndef TT_TRACE_OPLOG_H
#define TT_TRACE_OPLOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "trace/notes.h"
#include "trace/tick.h"
#include "tutti/tutti.h"

/* Values below TT_OPLOG_CALLS are those of enum tt_coll_kind. Values from TT_OPLOG_RUN on are
 * operations of an elastic run: TT_OPLOG_RUN + enum tutti_coll. */
enum tt_oplog_kind {
    TT_OPLOG_SEND = 14,
    TT_OPLOG_RECV = 15,
    TT_OPLOG_CALLS = 32,
    TT_OPLOG_PUT = TT_OPLOG_CALLS,
    TT_OPLOG_GET,
    TT_OPLOG_SIGNAL,
    TT_OPLOG_ATOMIC,
    TT_OPLOG_WAIT_SIGNAL,
    TT_OPLOG_QUIET,
    TT_OPLOG_WINDOW_CREATE,
    TT_OPLOG_WINDOW_FREE,
    TT_OPLOG_COMM_CREATE,
    TT_OPLOG_COMM_SPLIT,
    TT_OPLOG_COMM_DUP,
    TT_OPLOG_COMM_CREATE_GROUP,
    TT_OPLOG_COMM_DESTROY,
    TT_OPLOG_RUN_EPOCH,
    TT_OPLOG_RUN_SYNC,
    TT_OPLOG_RUN_COMMIT,
    TT_OPLOG_RUN_AGREE,
    TT_OPLOG_CALLS_END,
    TT_OPLOG_RUN = 64,
    TT_OPLOG_RUN_END = TT_OPLOG_RUN + 16
};

/* Returns e.g. "allreduce", "put" or "run_allreduce"; "?" for an invalid value. */
const char *tt_oplog_kind_name(uint8_t kind);

#define TT_OPLOG_NONE UINT32_MAX    /* no root, peer or tag */
#define TT_OPLOG_NO_ALGO UINT8_MAX
#define TT_OPLOG_NO_TYPE UINT8_MAX

enum tt_oplog_flags {
    TT_OPLOG_STARTED = 1u << 0,     /* it starts at the call, and does not wait for other ones */
    TT_OPLOG_IS_BYTES = 1u << 1,    /* count is the number of bytes */
    TT_OPLOG_REDUCES = 1u << 2,     /* redop is valid */
    TT_OPLOG_ROOTED = 1u << 3,      /* peer is the root, a rank of the communicator; otherwise it
                                       is a job rank */
    TT_OPLOG_LATE = 1u << 4         /* recorded by a dump, after it began: `called` is that time */
};

/* Description of an operation. */
struct tt_oplog_call {
    uint64_t seq;               /* index of the call on its communicator; 48 bits are kept */
    uint64_t count;             /* elements per rank, or bytes */
    uint32_t peer, tag;         /* or TT_OPLOG_NONE */
    uint16_t comm;              /* trace/comms.h; 0: none */
    uint8_t kind;               /* enum tt_oplog_kind */
    uint8_t type;               /* tutti_dtype or TT_OPLOG_NO_TYPE */
    uint8_t redop;              /* tutti_redop */
    uint8_t algo;               /* index of the algorithm, or TT_OPLOG_NO_ALGO */
    uint8_t flags;              /* enum tt_oplog_flags */
};

/* The words of a record that are equal for all calls of a repeated operation. */
struct tt_oplog_words {
    uint64_t comm;              /* in the lower 16 bits of TT_OPLOG_WORD_SEQ */
    uint64_t count, peer, kind; /* as in enum tt_oplog_word, without the note */
};

/* A record as read. */
struct tt_oplog_record {
    struct tt_oplog_call call;
    uint64_t number;            /* from 1; unique in the process */
    uint64_t called;            /* ticks; 0: unknown */
    uint64_t started, ended;    /* ticks; 0: not yet */
    tutti_status status;        /* PENDING: not ended. TUTTI_STATUS_COUNT: unknown, because the slot
                                   was reused during its end */
    uint16_t note;              /* low bits of the current annotation's number; 0: none */
};

/* ---- slots ---- */

#define TT_OPLOG_BLOCK 16u      /* slots per block */

enum tt_oplog_word {
    TT_OPLOG_WORD_CALLED,       /* tick */
    TT_OPLOG_WORD_ENDED,        /* ticks since the call << 16 | status << 11 | lap << 1 | 1; 0: not
                                   yet */
    TT_OPLOG_WORD_STARTED,      /* the same, without a status */
    TT_OPLOG_WORD_SEQ,          /* seq << 16 | comm */
    TT_OPLOG_WORD_COUNT,
    TT_OPLOG_WORD_PEER,         /* peer << 32 | tag */
    TT_OPLOG_WORD_KIND,         /* kind, type, redop, algo, flags: 8 bits each, kind lowest; note:
                                   the 16 upper bits */
    TT_OPLOG_WORDS
};

struct tt_oplog_slot {
    _Alignas(64) _Atomic uint64_t stamp;
    _Atomic uint64_t word[TT_OPLOG_WORDS];
};
_Static_assert(sizeof(struct tt_oplog_slot) == 64, "a record is a cache line");

struct tt_oplog_ring {
    struct tt_oplog_slot *slot; /* [depth] */
    _Atomic uint64_t *owned;    /* [depth / TT_OPLOG_BLOCK] first record number of the writer that
                                   owns the block; 0: none */
    uint64_t mask;              /* depth - 1 */
    uint8_t lap_shift;         /* log2(depth) */
    _Atomic uint64_t head;      /* first record number of the next block */
    _Atomic uint64_t filled;    /* records in blocks that writers have left */
};

struct tt_oplog_writer {
    uint64_t next, end;         /* remaining record numbers of its block: [next, end) */
    struct tt_oplog_slot *slot; /* of `next` */
    uint64_t lap;               /* time word of the block's records, with time and status 0 */
};

/* depth: a power of two, at least 2 * TT_OPLOG_BLOCK. The kernel allocates the memory when it is
 * first written. NOMEM. */
tutti_status tt_oplog_ring_init(struct tt_oplog_ring *r, uint32_t depth);
void tt_oplog_ring_fini(struct tt_oplog_ring *r);
/* Takes the next free block. Returns its first record number; 0: all blocks have a writer. */
uint64_t tt_oplog_ring_next_block(struct tt_oplog_ring *r, struct tt_oplog_writer *w);
/* Releases the writer's block. */
void tt_oplog_ring_leave(struct tt_oplog_ring *r, struct tt_oplog_writer *w);
/* Copies the records to out[depth], in order of their calls. Returns their number. *lost: the
 * number of earlier records, which were overwritten. Any thread. */
uint32_t tt_oplog_ring_read(const struct tt_oplog_ring *r, struct tt_oplog_record *out,
                            uint64_t *lost);
/* Reads one record. False: it was overwritten, or is being written. Any thread. */
bool tt_oplog_ring_find(const struct tt_oplog_ring *r, uint64_t number,
                        struct tt_oplog_record *out);

static inline uint64_t tt_oplog_lap(const struct tt_oplog_ring *r, uint64_t number)
{
    return number >> r->lap_shift & 0x3ff;
}

static inline uint64_t tt_oplog_time_word(const struct tt_oplog_ring *r, uint64_t number,
                                          uint64_t ticks, uint64_t status)
{
    const uint64_t most = UINT64_MAX >> 16;

    return (ticks < most ? ticks : most) << 16 | status << 11 | tt_oplog_lap(r, number) << 1 | 1;
}

static inline uint64_t tt_oplog_word_peer(uint32_t peer, uint32_t tag)
{
    return (uint64_t)peer << 32 | tag;
}

static inline struct tt_oplog_words tt_oplog_pack(const struct tt_oplog_call *c)
{
    return (struct tt_oplog_words){
        .comm = c->comm,
        .count = c->count,
        .peer = tt_oplog_word_peer(c->peer, c->tag),
        .kind = (uint64_t)c->kind | (uint64_t)c->type << 8 | (uint64_t)c->redop << 16 |
                (uint64_t)c->algo << 24 | (uint64_t)c->flags << 32,
    };
}

/* Writes the next record of the writer's block, which is not full. */
static inline uint64_t tt_oplog_block_write(struct tt_oplog_writer *w,
                                            const struct tt_oplog_words *c, uint64_t seq,
                                            bool started, uint64_t called, uint16_t note)
{
    struct tt_oplog_slot *s = w->slot++;
    const uint64_t number = w->next++;

    /* a reader that sees a new word also sees the stamp 0, which was stored before */
    atomic_store_explicit(&s->stamp, 0, memory_order_relaxed);
    atomic_store_explicit(&s->word[TT_OPLOG_WORD_CALLED], called, memory_order_release);
    atomic_store_explicit(&s->word[TT_OPLOG_WORD_ENDED], 0, memory_order_release);
    atomic_store_explicit(&s->word[TT_OPLOG_WORD_STARTED], started ? w->lap : 0,
                          memory_order_release);
    atomic_store_explicit(&s->word[TT_OPLOG_WORD_SEQ], seq << 16 | c->comm, memory_order_release);
    atomic_store_explicit(&s->word[TT_OPLOG_WORD_COUNT], c->count, memory_order_release);
    atomic_store_explicit(&s->word[TT_OPLOG_WORD_PEER], c->peer, memory_order_release);
    atomic_store_explicit(&s->word[TT_OPLOG_WORD_KIND],
                          c->kind | (uint64_t)(started ? TT_OPLOG_STARTED : 0) << 32 |
                              (uint64_t)note << 48,
                          memory_order_release);
    atomic_store_explicit(&s->stamp, number, memory_order_release);
    __builtin_prefetch(s + 1, 1);       /* probably the next one, also at the end of the block */
    return number;
}

/* Writes a record. started: as TT_OPLOG_STARTED. note: as in tt_oplog_record. Returns its number;
 * 0: none. */
static inline uint64_t tt_oplog_ring_write(struct tt_oplog_ring *r, struct tt_oplog_writer *w,
                                           const struct tt_oplog_words *c, uint64_t seq,
                                           bool started, uint64_t called, uint16_t note)
{
    if (w->next == w->end && !tt_oplog_ring_next_block(r, w))
        return 0;
    return tt_oplog_block_write(w, c, seq, started, called, note);
}

/* As tt_oplog_ring_write, for a description that is used only once. */
static inline uint64_t tt_oplog_ring_begin(struct tt_oplog_ring *r, struct tt_oplog_writer *w,
                                           const struct tt_oplog_call *c, uint64_t called,
                                           uint16_t note)
{
    const struct tt_oplog_words words = tt_oplog_pack(c);

    return tt_oplog_ring_write(r, w, &words, c->seq, c->flags & TT_OPLOG_STARTED, called, note);
}

/* Sets a word of a record, unless the record was overwritten. If a writer takes the slot at the
 * same time, the lap in a time word shows that it belongs to another record. */
static inline void tt_oplog_ring_set(struct tt_oplog_ring *r, uint64_t number,
                                     enum tt_oplog_word word, uint64_t value)
{
    struct tt_oplog_slot *s = &r->slot[number & r->mask];

    if (atomic_load_explicit(&s->stamp, memory_order_relaxed) == number)
        atomic_store_explicit(&s->word[word], value, memory_order_release);
}

static inline uint64_t tt_oplog_ring_ticks(const struct tt_oplog_ring *r, uint64_t number)
{
    return tt_tick_now() -
           atomic_load_explicit(&r->slot[number & r->mask].word[0], memory_order_relaxed);
}

static inline void tt_oplog_ring_start(struct tt_oplog_ring *r, uint64_t number)
{
    tt_oplog_ring_set(r, number, TT_OPLOG_WORD_STARTED,
                      tt_oplog_time_word(r, number, tt_oplog_ring_ticks(r, number), 0));
}

static inline void tt_oplog_ring_end(struct tt_oplog_ring *r, uint64_t number, tutti_status st)
{
    tt_oplog_ring_set(r, number, TT_OPLOG_WORD_ENDED,
                      tt_oplog_time_word(r, number, tt_oplog_ring_ticks(r, number), (uint64_t)st));
}

/* ---- the ring of the process ---- */

/* The CMake option TUTTI_TRACE: without it, nothing is recorded, and the checks of the callers are
 * compiled out. */
#ifdef TT_WITHOUT_TRACE
enum { TT_OPLOG_COMPILED = 0 };
#else
enum { TT_OPLOG_COMPILED = 1 };
#endif

enum {
    TT_OPLOG_RECORDING = 1u << 0,
    TT_OPLOG_SUBSCRIBED = 1u << 1,
    TT_OPLOG_SAMPLING = 1u << 2         /* tt_oplog_interval is not 1 */
};

/* Called after a record was written, and after its end was recorded. Any thread. Valid in the state
 * TT_OPLOG_SUBSCRIBED. */
typedef void tt_oplog_notify_fn(uint64_t number, bool ended);
extern tt_oplog_notify_fn *_Atomic tt_oplog_notify;
extern _Atomic uint32_t tt_oplog_state;     /* the bits above; 0: off, and no other data is valid */
extern struct tt_oplog_ring tt_oplog_ring;  /* valid while RECORDING */
extern uint32_t tt_oplog_interval;          /* one operation of this many is recorded */

/* Starts recording according to TUTTI_TRACE and TUTTI_TRACE_RECORDS, once per process, and once
 * more after a fork, without the parent's records. INVALID (logged): a parameter is invalid.
 * Without memory for the ring, it logs a warning and records nothing. Any thread. */
tutti_status tt_oplog_start(void);
/* Returns the capacity of the ring in records; 0: off. */
uint32_t tt_oplog_depth(void);
/* Returns the size of the ring in bytes. */
uint64_t tt_oplog_bytes(void);
/* Sets the function that returns the names of algorithms. */
void tt_oplog_set_algo_name(const char *(*name)(uint8_t algo));
/* Returns the name of an algorithm, or NULL. */
const char *tt_oplog_algo_name(uint8_t algo);
/* Like tt_oplog_ring_read, for the ring of the process. out[tt_oplog_depth()]. */
uint32_t tt_oplog_read(struct tt_oplog_record *out, uint64_t *lost);

/* Returns whether operation `seq` is recorded. */
static inline bool tt_oplog_wants(uint64_t seq)
{
    return TT_OPLOG_COMPILED && atomic_load_explicit(&tt_oplog_state, memory_order_relaxed) != 0 &&
           (__builtin_expect(tt_oplog_interval == 1, true) || seq % tt_oplog_interval == 0);
}

/* Records the call of an operation for which tt_oplog_wants is true. w: the caller's writer, or
 * NULL. Returns the number of its record; 0: none. */
uint64_t tt_oplog_begin(struct tt_oplog_writer *w, const struct tt_oplog_call *c);
/* Records an operation that began earlier, at an unknown time. */
uint64_t tt_oplog_begin_late(struct tt_oplog_writer *w, const struct tt_oplog_words *c,
                             uint64_t seq);
/* Records the start of an operation that had waited for others. number 0 is allowed here and
 * below. */
void tt_oplog_started(uint64_t number);
/* Sets the peer and seq of a receive from any rank, when its message is known. */
void tt_oplog_matched(uint64_t number, uint32_t peer, uint32_t tag, uint64_t seq, uint16_t comm);
void tt_oplog_end(uint64_t number, tutti_status st);
/* Call the subscribers at the beginning and the end of an operation. number 0 has no effect. */
void tt_oplog_notify_begin(uint64_t number);
void tt_oplog_notify_end(uint64_t number);
/* Sets the successful end of any record. number 0 has no effect. */
void tt_oplog_set_end(uint64_t number, uint64_t ticks);
/* Records the call of a repeated operation, whose constant words the caller keeps. */
static inline uint64_t tt_oplog_begin_again(struct tt_oplog_writer *w,
                                            const struct tt_oplog_words *c, uint64_t seq,
                                            bool started, uint64_t called)
{
    const uint64_t number =
        tt_oplog_ring_write(&tt_oplog_ring, w, c, seq, started, called, tt_note_current());

    if (__builtin_expect(
            atomic_load_explicit(&tt_oplog_state, memory_order_relaxed) & TT_OPLOG_SUBSCRIBED, 0))
        tt_oplog_notify_begin(number);
    return number;
}
/* Returns whether tt_oplog_block_write suffices for the next record of the writer: each operation
 * is recorded, there is no subscriber, and the block has room. */
static inline bool tt_oplog_is_simple(const struct tt_oplog_writer *w)
{
    return TT_OPLOG_COMPILED &&
           atomic_load_explicit(&tt_oplog_state, memory_order_relaxed) == TT_OPLOG_RECORDING &&
           w->next != w->end;
}
/* Ends a record successfully. ticks: since the call, less than 2^48. Cheap for the writer's newest
 * record, because the writer still owns its slot. */
static inline void tt_oplog_end_last(struct tt_oplog_writer *w, uint64_t number, uint64_t ticks)
{
    if (!TT_OPLOG_COMPILED)
        return;
    if (__builtin_expect(w->next != number + 1, 0))
        tt_oplog_set_end(number, ticks);
    else
        atomic_store_explicit(&w->slot[-1].word[TT_OPLOG_WORD_ENDED],
                              ticks << 16 | TUTTI_OK << 11 | w->lap, memory_order_release);
    if (__builtin_expect(
            atomic_load_explicit(&tt_oplog_state, memory_order_relaxed) & TT_OPLOG_SUBSCRIBED, 0))
        tt_oplog_notify_end(number);
}
/* Releases the writer's block, before the writer is freed. */
void tt_oplog_leave(struct tt_oplog_writer *w);

#endif
