#include "trace/oplog.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/fork.h"
#include "base/log.h"
#include "base/names.h"
#include "base/param.h"
#include "base/status.h"
#include "trace/notes.h"
#include "trace/stages.h"

/* ---- names ---- */

static const char *const call_names[] = {
    [TT_OPLOG_PUT - TT_OPLOG_CALLS] = "put",
    [TT_OPLOG_GET - TT_OPLOG_CALLS] = "get",
    [TT_OPLOG_SIGNAL - TT_OPLOG_CALLS] = "signal",
    [TT_OPLOG_ATOMIC - TT_OPLOG_CALLS] = "atomic",
    [TT_OPLOG_WAIT_SIGNAL - TT_OPLOG_CALLS] = "wait_signal",
    [TT_OPLOG_QUIET - TT_OPLOG_CALLS] = "quiet",
    [TT_OPLOG_WINDOW_CREATE - TT_OPLOG_CALLS] = "window_create",
    [TT_OPLOG_WINDOW_FREE - TT_OPLOG_CALLS] = "window_free",
    [TT_OPLOG_COMM_CREATE - TT_OPLOG_CALLS] = "comm_create",
    [TT_OPLOG_COMM_SPLIT - TT_OPLOG_CALLS] = "comm_split",
    [TT_OPLOG_COMM_DUP - TT_OPLOG_CALLS] = "comm_dup",
    [TT_OPLOG_COMM_CREATE_GROUP - TT_OPLOG_CALLS] = "comm_create_group",
    [TT_OPLOG_COMM_DESTROY - TT_OPLOG_CALLS] = "comm_destroy",
    [TT_OPLOG_RUN_EPOCH - TT_OPLOG_CALLS] = "run_epoch",
    [TT_OPLOG_RUN_SYNC - TT_OPLOG_CALLS] = "run_sync",
    [TT_OPLOG_RUN_COMMIT - TT_OPLOG_CALLS] = "run_commit",
    [TT_OPLOG_RUN_AGREE - TT_OPLOG_CALLS] = "run_agree",
};
_Static_assert(sizeof call_names / sizeof *call_names == TT_OPLOG_CALLS_END - TT_OPLOG_CALLS,
               "each has a name");

/* In the order of enum tt_coll_kind; tests/engine compares them with tt_coll_name. */
static const char *const coll_names[] = {
    "allreduce", "reduce", "reduce_scatter", "reduce_scatterv", "allgather", "allgatherv",
    "broadcast", "gather", "gatherv", "scatter", "scatterv", "alltoall", "alltoallv", "barrier",
    "send", "recv",
};

/* In the order of tutti_coll (tutti/elastic.h). */
static const char *const run_names[] = {
    [TUTTI_ALLREDUCE] = "run_allreduce",
    [TUTTI_REDUCE] = "run_reduce",
    [TUTTI_REDUCE_SCATTER] = "run_reduce_scatter",
    [TUTTI_ALLGATHER] = "run_allgather",
    [TUTTI_BROADCAST] = "run_broadcast",
    [TUTTI_GATHER] = "run_gather",
    [TUTTI_SCATTER] = "run_scatter",
    [TUTTI_ALLTOALL] = "run_alltoall",
    [TUTTI_BARRIER] = "run_barrier",
    [TUTTI_REDUCE_SCATTERV] = "run_reduce_scatterv",
    [TUTTI_ALLGATHERV] = "run_allgatherv",
    [TUTTI_GATHERV] = "run_gatherv",
    [TUTTI_SCATTERV] = "run_scatterv",
    [TUTTI_ALLTOALLV] = "run_alltoallv",
};
_Static_assert(sizeof run_names / sizeof *run_names == TUTTI_COLL_COUNT, "each has a name");

const char *tt_oplog_kind_name(uint8_t kind)
{
    if (kind < sizeof coll_names / sizeof *coll_names)
        return coll_names[kind];
    if (kind >= TT_OPLOG_CALLS && kind < TT_OPLOG_CALLS_END)
        return call_names[kind - TT_OPLOG_CALLS];
    if (kind >= TT_OPLOG_RUN && kind < TT_OPLOG_RUN + TUTTI_COLL_COUNT)
        return run_names[kind - TT_OPLOG_RUN];
    return "?";
}

/* ---- a ring ---- */

tutti_status tt_oplog_ring_init(struct tt_oplog_ring *r, uint32_t depth)
{
    const size_t bytes = depth * sizeof(struct tt_oplog_slot);
    void *slots;

    tt_assert(depth >= 2 * TT_OPLOG_BLOCK && (depth & (depth - 1)) == 0);
    slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
    if (slots == MAP_FAILED)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a trace of %u operations (%zu bytes)",
                       depth, bytes);
    *r = (struct tt_oplog_ring){
        .slot = slots,
        .owned = calloc(depth / TT_OPLOG_BLOCK, sizeof *r->owned),
        .mask = depth - 1,
        .lap_shift = (uint8_t)__builtin_ctz(depth),
        .head = TT_OPLOG_BLOCK,     /* number 0 means none */
    };
    if (r->owned)
        return TUTTI_OK;
    munmap(slots, bytes);
    return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a trace of %u operations", depth);
}

void tt_oplog_ring_fini(struct tt_oplog_ring *r)
{
    if (r->slot)
        munmap(r->slot, (r->mask + 1) * sizeof *r->slot);
    free((void *)r->owned);
    *r = (struct tt_oplog_ring){ .slot = NULL };
}

static _Atomic uint64_t *block_owned(const struct tt_oplog_ring *r, uint64_t number)
{
    return &r->owned[(number & r->mask) / TT_OPLOG_BLOCK];
}

void tt_oplog_ring_leave(struct tt_oplog_ring *r, struct tt_oplog_writer *w)
{
    if (!w->end)
        return;
    atomic_fetch_add_explicit(&r->filled, TT_OPLOG_BLOCK - (w->end - w->next),
                              memory_order_relaxed);
    atomic_store_explicit(block_owned(r, w->end - 1), 0, memory_order_release);
    *w = (struct tt_oplog_writer){ 0 };
}

/* Acquire pairs with the release of the previous owner, whose stores are then visible. */
uint64_t tt_oplog_ring_next_block(struct tt_oplog_ring *r, struct tt_oplog_writer *w)
{
    const uint64_t nblocks = (r->mask + 1) / TT_OPLOG_BLOCK;

    tt_oplog_ring_leave(r, w);
    for (uint64_t i = 0; i < nblocks; i++) {
        const uint64_t number =
            atomic_fetch_add_explicit(&r->head, TT_OPLOG_BLOCK, memory_order_relaxed);
        uint64_t nobody = 0;

        if (!atomic_compare_exchange_strong_explicit(block_owned(r, number), &nobody, number,
                                                     memory_order_acquire, memory_order_relaxed))
            continue;
        *w = (struct tt_oplog_writer){ .next = number,
                                       .end = number + TT_OPLOG_BLOCK,
                                       .slot = &r->slot[number & r->mask],
                                       .lap = tt_oplog_time_word(r, number, 0, 0) };
        return number;
    }
    return 0;
}

/* Returns whether a time word belongs to the record. */
static bool is_of_lap(const struct tt_oplog_ring *r, uint64_t number, uint64_t word)
{
    return (word & 1) && (word >> 1 & 0x3ff) == tt_oplog_lap(r, number);
}

static void record_unpack(const struct tt_oplog_ring *r, uint64_t number,
                          const uint64_t word[TT_OPLOG_WORDS], struct tt_oplog_record *out)
{
    const uint64_t kind = word[TT_OPLOG_WORD_KIND], ended = word[TT_OPLOG_WORD_ENDED],
                   started = word[TT_OPLOG_WORD_STARTED];

    *out = (struct tt_oplog_record){
        .call = { .seq = word[TT_OPLOG_WORD_SEQ] >> 16,
                  .comm = (uint16_t)word[TT_OPLOG_WORD_SEQ],
                  .count = word[TT_OPLOG_WORD_COUNT],
                  .peer = (uint32_t)(word[TT_OPLOG_WORD_PEER] >> 32),
                  .tag = (uint32_t)word[TT_OPLOG_WORD_PEER],
                  .kind = (uint8_t)kind,
                  .type = (uint8_t)(kind >> 8),
                  .redop = (uint8_t)(kind >> 16),
                  .algo = (uint8_t)(kind >> 24),
                  .flags = (uint8_t)(kind >> 32) },
        .number = number,
        .called = word[TT_OPLOG_WORD_CALLED],
        .status = TUTTI_PENDING,
        .note = (uint16_t)(kind >> 48),
    };
    if (is_of_lap(r, number, started))
        out->started = out->called + (started >> 16);
    if (!ended)
        return;
    out->status = TUTTI_STATUS_COUNT;
    if (is_of_lap(r, number, ended)) {
        out->ended = out->called + (ended >> 16);
        out->status = (tutti_status)(ended >> 11 & 31);
    }
}

/* Returns false if the slot is empty or was written meanwhile. */
static bool oplog_slot_read(const struct tt_oplog_ring *r, uint64_t at, uint64_t *number,
                            struct tt_oplog_record *out)
{
    const struct tt_oplog_slot *s = &r->slot[at];
    uint64_t word[TT_OPLOG_WORDS];

    *number = atomic_load_explicit(&s->stamp, memory_order_acquire);
    if (!*number)
        return false;
    for (uint32_t i = 0; i < TT_OPLOG_WORDS; i++)
        word[i] = atomic_load_explicit(&s->word[i], memory_order_acquire);
    if (atomic_load_explicit(&s->stamp, memory_order_relaxed) != *number)
        return false;
    record_unpack(r, *number, word, out);
    return true;
}

static int record_compare(const void *a, const void *b)
{
    const struct tt_oplog_record *x = a, *y = b;

    if (x->called != y->called)
        return x->called < y->called ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool is_sorted(const struct tt_oplog_record *r, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (record_compare(&r[i - 1], &r[i]) > 0)
            return false;
    return true;
}

uint32_t tt_oplog_ring_read(const struct tt_oplog_ring *r, struct tt_oplog_record *out,
                            uint64_t *lost)
{
    const uint64_t filled = atomic_load_explicit(&r->filled, memory_order_acquire),
                   head = atomic_load_explicit(&r->head, memory_order_acquire);
    uint64_t number, owned, finished = 0;
    uint32_t n = 0;

    /* begins with the slot that is written next, so that the result is almost sorted */
    for (uint64_t i = 0; i <= r->mask; i++) {
        const uint64_t at = (head + i) & r->mask;

        if (!oplog_slot_read(r, at, &number, &out[n]))
            continue;
        owned = atomic_load_explicit(block_owned(r, at), memory_order_relaxed);
        finished += !owned || number < owned;
        n++;
    }
    *lost = filled > finished ? filled - finished : 0;
    if (!is_sorted(out, n))
        qsort(out, n, sizeof *out, record_compare);
    return n;
}

bool tt_oplog_ring_find(const struct tt_oplog_ring *r, uint64_t number, struct tt_oplog_record *out)
{
    uint64_t found;

    return number && oplog_slot_read(r, number & r->mask, &found, out) && found == number;
}

/* ---- the ring of the process ---- */

_Atomic uint32_t tt_oplog_state;
tt_oplog_notify_fn *_Atomic tt_oplog_notify;
struct tt_oplog_ring tt_oplog_ring;
uint32_t tt_oplog_interval = 1;

static struct {
    pthread_mutex_t lock;       /* protects `shared`, and the start */
    struct tt_oplog_writer shared;
    bool started;
    uint32_t forks;             /* tt_forks() at the start */
    const char *(*_Atomic algo_name)(uint8_t algo);
} oplog = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* In a forked child nothing is recorded until the next start. Another thread of the parent may have
 * held the lock. */
static void oplog_child_reset(void)
{
    pthread_mutex_init(&oplog.lock, NULL);
    atomic_store(&tt_oplog_state, 0);
}

/* Returns the smallest power of two that is at least n and two blocks. */
static uint32_t round_up(uint64_t n)
{
    uint32_t depth = 2 * TT_OPLOG_BLOCK;

    while (depth < n)
        depth *= 2;
    return depth;
}

static void start_here(int64_t interval, int64_t records)
{
    static bool handles_forks;
    tutti_status st;

    if (!handles_forks)
        handles_forks = pthread_atfork(NULL, NULL, oplog_child_reset) == 0;
    tt_tick_start();
    oplog.started = true;
    oplog.forks = tt_forks();
    oplog.shared = (struct tt_oplog_writer){ 0 };
    if (interval == 0 || !TT_OPLOG_COMPILED)
        return;
    tt_oplog_interval = (uint32_t)interval;
    tt_log_hush_errors(true);
    st = tt_oplog_ring_init(&tt_oplog_ring, round_up((uint64_t)records));
    tt_log_hush_errors(false);
    if (st)
        tt_log(TT_LOG_WARN, "operations are not recorded: %s", tutti_last_error());
    if (st)
        return;
    tt_stages_start((uint32_t)tt_oplog_ring.mask + 1);
    atomic_store(&tt_oplog_state, TT_OPLOG_RECORDING | (interval != 1 ? TT_OPLOG_SAMPLING : 0u));
}

/* Drops the copy of the parent's ring in a forked child. */
static void forget_parent(void)
{
    atomic_store(&tt_oplog_state, 0);
    tt_oplog_ring_fini(&tt_oplog_ring);
    tt_stages_stop();
    oplog.started = false;
}

tutti_status tt_oplog_start(void)
{
    int64_t interval = 0, records = 0;
    tutti_status st = tt_param_get(TT_PARAM_TRACE, &interval);

    if (!st)
        st = tt_param_get(TT_PARAM_TRACE_RECORDS, &records);
    if (st)
        return st;
    pthread_mutex_lock(&oplog.lock);
    if (oplog.started && oplog.forks != tt_forks())
        forget_parent();
    if (!oplog.started)
        start_here(interval, records);
    pthread_mutex_unlock(&oplog.lock);
    return TUTTI_OK;
}

uint32_t tt_oplog_depth(void)
{
    return atomic_load(&tt_oplog_state) ? (uint32_t)(tt_oplog_ring.mask + 1) : 0;
}

uint64_t tt_oplog_bytes(void)
{
    return tt_oplog_depth() * (uint64_t)sizeof(struct tt_oplog_slot);
}

void tt_oplog_set_algo_name(const char *(*name)(uint8_t algo))
{
    atomic_store_explicit(&oplog.algo_name, name, memory_order_relaxed);
}

const char *tt_oplog_algo_name(uint8_t algo)
{
    const char *(*const name)(uint8_t algo) =
        atomic_load_explicit(&oplog.algo_name, memory_order_relaxed);

    return algo == TT_OPLOG_NO_ALGO || !name ? NULL : name(algo);
}

uint32_t tt_oplog_read(struct tt_oplog_record *out, uint64_t *lost)
{
    *lost = 0;
    return atomic_load(&tt_oplog_state) ? tt_oplog_ring_read(&tt_oplog_ring, out, lost) : 0;
}

static bool is_subscribed(void)
{
    return __builtin_expect(
        atomic_load_explicit(&tt_oplog_state, memory_order_relaxed) & TT_OPLOG_SUBSCRIBED, 0);
}

static void notify(uint64_t number, bool ended)
{
    atomic_load (&tt_oplog_notify)(number, ended);
}

void tt_oplog_notify_begin(uint64_t number)
{
    if (number)
        notify(number, false);
}

void tt_oplog_notify_end(uint64_t number)
{
    if (number)
        notify(number, true);
}

void tt_oplog_set_end(uint64_t number, uint64_t ticks)
{
    if (number)
        tt_oplog_ring_set(&tt_oplog_ring, number, TT_OPLOG_WORD_ENDED,
                          tt_oplog_time_word(&tt_oplog_ring, number, ticks, TUTTI_OK));
}

static uint64_t begin_shared(const struct tt_oplog_call *c, uint64_t called)
{
    const uint16_t note = tt_note_current();
    uint64_t number;

    pthread_mutex_lock(&oplog.lock);
    number = tt_oplog_ring_begin(&tt_oplog_ring, &oplog.shared, c, called, note);
    pthread_mutex_unlock(&oplog.lock);
    return number;
}

uint64_t tt_oplog_begin(struct tt_oplog_writer *w, const struct tt_oplog_call *c)
{
    const uint64_t called = tt_tick_now(),
                   number = w ? tt_oplog_ring_begin(&tt_oplog_ring, w, c, called, tt_note_current())
                              : begin_shared(c, called);

    if (is_subscribed())
        notify(number, false);
    return number;
}

uint64_t tt_oplog_begin_late(struct tt_oplog_writer *w, const struct tt_oplog_words *c,
                             uint64_t seq)
{
    struct tt_oplog_words late = *c;

    late.kind |= (uint64_t)TT_OPLOG_LATE << 32;
    return tt_oplog_ring_write(&tt_oplog_ring, w, &late, seq, false, tt_tick_now(),
                               tt_note_current());
}

void tt_oplog_started(uint64_t number)
{
    if (number)
        tt_oplog_ring_start(&tt_oplog_ring, number);
}

void tt_oplog_matched(uint64_t number, uint32_t peer, uint32_t tag, uint64_t seq, uint16_t comm)
{
    if (!number)
        return;
    tt_oplog_ring_set(&tt_oplog_ring, number, TT_OPLOG_WORD_SEQ, seq << 16 | comm);
    tt_oplog_ring_set(&tt_oplog_ring, number, TT_OPLOG_WORD_PEER, tt_oplog_word_peer(peer, tag));
}

void tt_oplog_end(uint64_t number, tutti_status st)
{
    if (!number)
        return;
    tt_oplog_ring_end(&tt_oplog_ring, number, st);
    if (is_subscribed())
        notify(number, true);
}

void tt_oplog_leave(struct tt_oplog_writer *w)
{
    if (atomic_load(&tt_oplog_state))
        tt_oplog_ring_leave(&tt_oplog_ring, w);
}
