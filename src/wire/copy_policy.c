#include "wire/copy_policy.h"

#include <stdlib.h>

#include "base/clock.h"

/* Thresholds, measured between two cores of an AMD EPYC on the given dates; bench/NOTES.md has the
 * times. Within the thresholds, methods are compared at run time, except for oversubscribed ranks,
 * whose times depend on the scheduler. */

/* minimum message that is fetched under TUTTI_CMA=2 (2026-11-21) */
#define SINGLE_ONLY_MIN (256u << 10)
/* from this size on, caches need several operations to warm up after a change of method
 * (2026-11-28): an all-reduce of 16 MiB took 3.2, 2.9, 2.6, 2.3 and finally 1.8 ms. RUN: operations
 * per trial */
#define LONG_MESSAGE_MIN (1u << 20)
#define LONG_MESSAGE_RUN 4u
/* maximum message for which both kinds of stores are tried (2026-11-28). Longer trials take too
 * long, and data outside of the slots comes from memory anyway */
#define STORES_MESSAGE_MAX (4u << 20)
/* minimum copy into mapped memory whose stores are measured (2026-11-21) */
#define PEER_COPY_MIN (16u << 10)
/* minimum put to its destination that bypasses the cache if the buffers exceed the cache
 * (2026-11-21) */
#define PUT_BYPASS_MIN (64u << 10)
/* largest measured share of a cache (2026-11-28): two ranks that share 32 MiB */
#define CACHE_SHARE_MAX (12ull << 20)

/* picoseconds per byte (2026-11-27): if ordinary stores take longer, the peer shares no cache */
#define SLOW_PS_BYTE 200
/* the same on AMD, where non-temporal stores are cheap and their data is read fast
 * (TT_FROM_OTHER_CORE) */
#define SLOW_PS_BYTE_AMD 60

/* ---- messages -------------------------------------------------------------------------------- */

/* Returns whether all ranks wait for data from each other, so that the operation's time covers both
 * ends of each copy. */
static bool is_mutual(const struct tt_coll *c)
{
    return c->kind == TT_ALLREDUCE || c->kind == TT_REDUCE_SCATTER || c->kind == TT_ALLGATHER ||
           c->kind == TT_ALLTOALL;
}

static uint32_t size_class(uint64_t bytes)
{
    const uint32_t c = 63 - (uint32_t)__builtin_clzll(bytes / TT_COPY_MESSAGE_MIN);

    return c < TT_COPY_CLASSES ? c : TT_COPY_CLASSES - 1;
}

/* Returns the measurements for this kind of operation and size class, or NULL if out of memory. */
static struct tt_copy_tuner *tuner_of(const struct tt_copy_case *c)
{
    if (!*c->tuners)
        *c->tuners = calloc(1, sizeof **c->tuners);
    return *c->tuners ? &(*c->tuners)->of[c->coll->kind][size_class(c->bytes)] : NULL;
}

/* Chooses one method for all long messages of an operation, so that its time measures this method.
 * Slots are filled with ordinary or non-temporal stores; both are tried if the operation's time
 * covers both ends. Example: an all-to-all of 1 MiB on a first-generation AMD EPYC. If the cores
 * share a cache, it takes 76 us with ordinary stores, 102 us with non-temporal stores, and 100 us
 * with a single copy; otherwise 180, 105 and 98 us. */
static void trial_begin(const struct tt_copy_case *c, struct tt_copy_tuner *tuner)
{
    const bool stores = is_mutual(c->coll) && c->bytes < STORES_MESSAGE_MAX;
    struct tt_copy_trial *t = c->trial;

    t->tuner = tuner;
    t->bytes = c->bytes;
    t->begin_ns = tt_now_ns();
    t->way = TT_COPY_ORDINARY +
             tt_autotune_runs_next(&tuner->runs, stores ? TT_COPY_WAYS : TT_COPY_WAYS - 1,
                                   c->bytes < LONG_MESSAGE_MIN ? 1 : LONG_MESSAGE_RUN,
                                   tuner->in_use, &t->timed);
    t->announced = (uint8_t)(size_class(c->bytes) * TT_COPY_WAYS + TT_COPY_ORDINARY +
                             (tuner->follows ? tuner->in_use : tuner->runs.chooser.best));
    if (stores && t->way != TT_COPY_SINGLE)
        t->stores = t->way;
}

/* Slots stay in the cache, and both ends work at the same time; a single copy is less work. For 1
 * MiB, 2 cores of an AMD EPYC take 80 us through slots and 170 us with a single copy; those of an
 * Intel Xeon take 130 and 95 us. */
static enum tt_copy_way way_of_message(const struct tt_copy_case *c)
{
    const enum tt_copy_way single = tt_copy_is_hot(c->coll) ? TT_COPY_PUSH : TT_COPY_SINGLE;
    struct tt_copy_tuner *tuner;

    if (!c->fetchable)
        return TT_COPY_UNDECIDED;
    if (c->single_only)
        return c->bytes >= SINGLE_ONLY_MIN ? single : TT_COPY_UNDECIDED;
    if (c->crowded)
        return !tt_coll_reduces(c->coll->kind) && c->bytes >= TT_COPY_CROWDED_MIN
                   ? single
                   : TT_COPY_UNDECIDED;
    if (c->bytes < TT_COPY_MESSAGE_MIN)
        return TT_COPY_UNDECIDED;
    if (!c->trial->tuner) {
        tuner = tuner_of(c);
        if (!tuner)
            return TT_COPY_UNDECIDED;
        trial_begin(c, tuner);
    }
    return c->trial->way == TT_COPY_SINGLE ? single : (enum tt_copy_way)c->trial->stores;
}

void tt_copy_trial_receive(struct tt_copy_trial *t, uint32_t self, uint32_t rank, uint8_t announced)
{
    if (announced == 0 || rank > self || (t->received != 0 && rank > t->received_from))
        return;
    t->received = announced;
    t->received_from = rank;
}

void tt_copy_trial_end(struct tt_copy_trial *t, bool well)
{
    static const uint8_t margins[TT_COPY_WAYS] = { 1, 1, 1 };
    struct tt_copy_tuner *tuner = t->tuner;

    if (tuner && well) {
        tuner->follows =
            t->received != 0 && (t->received - 1u) / TT_COPY_WAYS == size_class(t->bytes);
        tuner->in_use = ((tuner->follows ? t->received : t->announced) - 1) % TT_COPY_WAYS;
        if (t->timed)
            tt_autotune_learn(&tuner->runs.chooser, t->way - TT_COPY_ORDINARY,
                              (tt_now_ns() - t->begin_ns) * 1000 / t->bytes, margins);
    }
    *t = (struct tt_copy_trial){ .tuner = NULL };
}

/* ---- caches ---------------------------------------------------------------------------------- */

/* Non-temporal stores avoid the read of each cache line, and do not evict other data. They are
 * faster if the inputs and outputs of the ranks that share a cache fill most of it. Measured
 * between two cores that share 8 MiB, in us, ordinary and non-temporal: broadcast 340 and 280 (2
 * MiB), 103 and 110 (1 MiB); allgather 296 and 272, 82 and 110, and in place 150 and 190 (2 MiB).
 * Four ranks, alltoall of 1 MiB: 610 and 490. */
uint64_t tt_copy_cache_share(uint64_t cache_bytes, uint32_t sharing, uint32_t cores, uint32_t ranks)
{
    uint64_t sharers, share;

    if (cache_bytes == 0 || sharing == 0 || cores == 0 || ranks == 0)
        return CACHE_SHARE_MAX;
    sharers = ((uint64_t)ranks * (sharing < cores ? sharing : cores) + cores - 1) / cores;
    share = cache_bytes / 4 * 3 / sharers;
    return share < CACHE_SHARE_MAX ? share : CACHE_SHARE_MAX;
}

/* Returns the mean size of a rank's input and output, or of its single buffer in place. A root's
 * larger buffer is averaged over all ranks, and its in-place call is ignored, because other ranks
 * have no information about it. Non-temporal stores need larger sizes for a reduce than for a
 * broadcast: between two cores that share 8 MiB, 2 MiB take 285 us (ordinary) and 400 us
 * (non-temporal), and 4 MiB 940 and 870 us. For v kinds, the size is this rank's output, since the
 * others' sizes are unknown. */
static uint64_t mean_bytes(const struct tt_coll *c)
{
    const uint64_t all = c->bytes * c->nranks;

    switch (c->kind) {
    case TT_ALLREDUCE:
        return c->in_place ? c->bytes : 2 * c->bytes;
    case TT_ALLTOALL:
        return c->in_place ? all : 2 * all;
    case TT_ALLGATHER: case TT_REDUCE_SCATTER:
        return c->in_place ? all : all + c->bytes;
    case TT_BROADCAST:
        return c->bytes + c->bytes / c->nranks;
    case TT_GATHER: case TT_SCATTER:
        return 2 * c->bytes;
    case TT_REDUCE: case TT_SEND:
        return c->bytes;
    case TT_GATHERV:
        return 2 * tt_coll_dst_bytes(c) / c->nranks;
    default:
        return tt_coll_dst_bytes(c);
    }
}

bool tt_copy_exceeds_cache(const struct tt_coll *c, uint64_t share)
{
    /* an output of CACHE_SHARE_MAX exceeds any cache, whatever the sizes on other ranks */
    return mean_bytes(c) >= share || tt_coll_dst_bytes(c) >= CACHE_SHARE_MAX;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* The last step of a sum may write into a slot, where its stores cannot be timed. It uses the kind
 * of stores that was faster for puts to the same peer. */
static enum tt_copy_way way_of_fused(const struct tt_copy_case *c)
{
    if (c->trial->stores)
        return c->trial->stores;
    return c->past_cache && *c->past_cache == 1 ? TT_COPY_NONTEMPORAL : TT_COPY_ORDINARY;
}

/* A sum that single copies forward is read from this rank's cache, so it must stay there. */
static enum tt_copy_way way_of_output(const struct tt_copy_case *c)
{
    const bool single = c->single_only || c->trial->way == TT_COPY_SINGLE;

    return c->beyond_cache && !(single && tt_copy_is_hot(c->coll)) ? TT_COPY_NONTEMPORAL
                                                                   : TT_COPY_ORDINARY;
}

static enum tt_copy_way way_of_put(const struct tt_copy_case *c)
{
    if (tt_copy_is_hot(c->coll) && !c->mapped)
        return TT_COPY_PUSH;
    return c->beyond_cache && c->bytes >= PUT_BYPASS_MIN ? TT_COPY_NONTEMPORAL : TT_COPY_UNDECIDED;
}

enum tt_copy_way tt_copy_choose(const struct tt_copy_case *c)
{
    switch (c->what) {
    case TT_COPY_MESSAGE: return way_of_message(c);
    case TT_COPY_SEGMENT: return c->trial->stores;
    case TT_COPY_FUSED: return way_of_fused(c);
    case TT_COPY_PUT: return way_of_put(c);
    case TT_COPY_OUTPUT: return way_of_output(c);
    default: return TT_COPY_UNDECIDED;
    }
}

/* ---- eager messages and puts, measured ------------------------------------------------------- */

/* An ordinary store waits for each line that the reader has cached, but the reader then fetches the
 * data fast. After a non-temporal store, the read takes longer. Example: an all-to-all of 64 KiB on
 * a first-generation AMD EPYC takes 5.3 us with ordinary and 6.9 us with non-temporal stores. If
 * the two processors share no cache, it takes 11.5 and 7 us. If ranks are oversubscribed, the time
 * is dominated by the scheduler; if a mailbox is not mapped, by the network. */
void tt_copy_eager_settle(struct tt_copy_eager *e, const struct tt_copy_case *c)
{
    e->tried = !c->crowded && is_mutual(c->coll) && c->bytes >= TT_COPY_EAGER_MIN && c->mapped;
    e->stores = TT_COPY_UNDECIDED;
    e->tuner = (struct tt_autotune){ .uses = 0 };
}

void tt_copy_eager_begin(struct tt_copy_eager *e)
{
    e->stores = tt_autotune_next(&e->tuner, 2) ? TT_COPY_NONTEMPORAL : TT_COPY_ORDINARY;
    e->begin_ns = tt_now_ns();
}

void tt_copy_eager_record(struct tt_copy_eager *e)
{
    static const uint8_t margins[2] = { 1, 1 };

    tt_autotune_learn(&e->tuner, e->stores == TT_COPY_NONTEMPORAL, tt_now_ns() - e->begin_ns,
                      margins);
}

/* If the two processes share a cache, ordinary stores are best: the reader finds the bytes there.
 * Otherwise the writer first fetches each line from the reader's cache, and the reader later
 * fetches it back; then non-temporal stores are twice as fast for both. The hardware does not
 * report which case applies, and in a virtual machine it changes within a second. Non-temporal
 * stores must be faster by a fifth, since the reader then reads from memory. */
void tt_copy_to_peer(struct tt_autotune *stores, enum tt_copy_way way, void *dst, const void *src,
                     uint64_t bytes)
{
    static const uint8_t margins[2] = { 0, 3 };
    uint8_t past_cache;
    uint64_t begin_ns;

    if (bytes < PEER_COPY_MIN || way != TT_COPY_UNDECIDED) {
        tt_copy(dst, NULL, src, bytes, tt_copy_flag(way));
        return;
    }
    past_cache = tt_autotune_next(stores, 2);
    begin_ns = tt_now_ns();
    tt_copy(dst, NULL, src, bytes, past_cache ? TT_STREAM_DST : 0);
    tt_autotune_learn(stores, past_cache, (tt_now_ns() - begin_ns) * 1000 / (bytes / 1024),
                      margins);
}

static uint64_t slow_ps_byte(void)
{
#ifdef __x86_64__
    return __builtin_cpu_is("amd") ? SLOW_PS_BYTE_AMD : SLOW_PS_BYTE;
#else
    return SLOW_PS_BYTE;
#endif
}

/* If the two processes share no cache, an ordinary store must first fetch each line from the
 * peer's cache: 17 us for 32 KiB on an AMD EPYC with separate L3 caches. Non-temporal stores take
 * 1 us, and the reader 2 us more. With a shared cache they gain nothing, or cost time at the
 * reader, which the writer cannot measure. Therefore only ordinary stores are timed. */
void tt_copy_to_mailbox(struct tt_autotune_limit *stores, enum tt_copy_way way, void *dst,
                        const void *src, uint32_t bytes)
{
    bool timed = false;
    uint64_t begin_ns;

    if (way == TT_COPY_UNDECIDED)
        way = tt_autotune_limit_next(stores, &timed) ? TT_COPY_NONTEMPORAL : TT_COPY_ORDINARY;
    begin_ns = timed ? tt_now_ns() : 0;
    tt_copy(dst, NULL, src, bytes, tt_copy_flag(way));
    if (timed)
        tt_autotune_limit_learn(stores,
                                (tt_now_ns() - begin_ns) * 1000 > (uint64_t)bytes * slow_ps_byte());
}
