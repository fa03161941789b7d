/* Two-level alltoall. Shapes: src[nranks][block], dst[nranks][block].
 * The ranks of all hosts are divided among the ranks of each host: local rank m of n serves those
 * whose local rank is m mod n. First the ranks of a host exchange blocks. WORK then holds, from
 * every rank of the host, a block for each rank that this one serves. Then it sends each of these
 * one message, with the blocks of the whole host.
 * With H hosts of g ranks: H - 1 messages between hosts per rank instead of (H - 1) g, for one more
 * copy within the host: for short blocks. If all hosts have equally many, consecutive ranks, the
 * data for one mate is read from src with a stride; otherwise it is packed first. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/levels.h"
#include "algo/phases.h"

#define PACKED 15       /* blocks packed by one of the first rounds; the first also copies */
#define MEETS 5         /* mates with which a rank exchanges in a round */
#define RUNS 5          /* messages of a round between hosts: put, wait, copy each */

/* WORK: for each rank of the host, in order, a block for each rank that this one serves; then the
 * packed blocks for its mates. */
static uint64_t brought_at(const struct tt_levels *v, uint32_t from)
{
    return (uint64_t)from * tt_levels_served(v, v->me) * v->c->bytes;
}

static uint64_t packed_at(const struct tt_levels *v, uint32_t m)
{
    uint64_t before = (uint64_t)v->n * tt_levels_served(v, v->me);

    for (uint32_t i = 0; i < m; i++)
        before += i == v->me ? 0 : tt_levels_served(v, i);
    return before * v->c->bytes;
}

/* ---- rounds ---- */

static uint64_t pack_rounds(const struct tt_levels *v)
{
    return v->even ? 0 : tt_phase_rounds(v->c->nranks, PACKED);
}

static uint64_t meet_rounds(const struct tt_levels *v)
{
    return tt_phase_rounds(v->widest - 1, MEETS);
}

static uint64_t run_rounds(const struct tt_levels *v)
{
    return v->fills ? 1 : tt_phase_rounds((v->widest + 1) / 2, RUNS);
}

static uint64_t alltoall_two_level_nrounds(const struct tt_coll *c)
{
    struct tt_levels v;

    tt_levels_init(&v, c);
    return pack_rounds(&v) + meet_rounds(&v) + v.hosts * tt_levels_served_max(&v) * run_rounds(&v);
}

/* Packs blocks for the mate that serves their target; blocks for ranks that this rank serves are
 * copied to their place in WORK. Its own block is not packed. */
static void alltoall_two_level_pack(struct tt_sched *s, const struct tt_levels *v, uint64_t k)
{
    const uint64_t block = v->c->bytes;

    for (uint32_t rank = (uint32_t)k * PACKED; rank < v->c->nranks && rank < (k + 1) * PACKED;
         rank++) {
        const uint32_t host = tt_layout_host(v->layout, rank),
                       local = tt_layout_local(v->layout, rank);
        const uint32_t m = local % v->n, place = tt_levels_served_before(v, host, m) + local / v->n;
        const uint64_t at = m == v->me ? brought_at(v, m) : packed_at(v, m);

        if (rank == v->c->rank)
            continue;
        tt_sched_copy(s, tt_work(at + place * block), tt_src(rank * block), block);
    }
}

/* The blocks for the ranks that local rank m serves, from the ranks of `host` on, if all hosts are
 * alike. */
static struct tt_ref in_src(const struct tt_levels *v, uint32_t m, uint32_t host)
{
    return tt_strided(tt_src((host * v->n + m) * v->c->bytes), v->c->bytes, v->n * v->c->bytes);
}

/* Copies this rank's own blocks for the ranks of other hosts that it serves to WORK. */
static void bring_own(struct tt_sched *s, const struct tt_levels *v)
{
    const uint64_t at = brought_at(v, v->me), block = v->c->bytes;
    const uint32_t after = v->host + 1;

    tt_sched_copy(s, tt_work(at), in_src(v, v->me, 0), v->host * block);
    if (after < v->hosts)
        tt_sched_copy(s, tt_work(at + after * block), in_src(v, v->me, after),
                      (v->hosts - after) * block);
}

static void alltoall_two_level_meet(struct tt_sched *s, const struct tt_levels *v, uint64_t k)
{
    const uint64_t block = v->c->bytes;
    const uint32_t first = (uint32_t)k * MEETS + 1;

    for (uint32_t i = first; i < v->n && i < first + MEETS; i++) {
        const uint32_t m = (v->me + i) % v->n, to = tt_layout_rank(v->layout, v->host, m);
        const struct tt_ref from = v->even ? in_src(v, m, 0) : tt_work(packed_at(v, m));
        const uint64_t at = (uint64_t)v->me * tt_levels_served(v, m) * block;

        tt_sched_put(s, to, from, tt_work(at), tt_levels_served(v, m) * block, 0);
    }
    for (uint32_t i = first; i < v->n && i < first + MEETS; i++) {
        const uint32_t m = (v->me + v->n - i) % v->n;

        tt_sched_wait(s, tt_layout_rank(v->layout, v->host, m), tt_work(brought_at(v, m)),
                      tt_levels_served(v, v->me) * block, 0);
    }
    if (k == 0 && v->even)
        bring_own(s, v);
}

/* Ranks of a host at equal distances, from local rank `first` on: one message, received with one
 * stride. */
struct run {
    uint32_t first, count, step;
};

static struct run run_from(const struct tt_levels *v, uint32_t host, uint32_t first)
{
    const uint32_t n = tt_layout_host_ranks(v->layout, host);
    struct run run = { .first = first, .count = 1, .step = 1 };

    if (v->fills) {
        run.count = n - first;
        return run;
    }
    if (first + 1 < n)
        run.step =
            tt_layout_rank(v->layout, host, first + 1) - tt_layout_rank(v->layout, host, first);
    while (first + run.count < n &&
           tt_layout_rank(v->layout, host, first + run.count) ==
               tt_layout_rank(v->layout, host, first + run.count - 1) + run.step)
        run.count++;
    return run;
}

/* Run i of a host. Returns false if the host has fewer. */
static bool alltoall_two_level_run_at(const struct tt_levels *v, uint32_t host, uint64_t i,
                                      struct run *out)
{
    const uint32_t n = tt_layout_host_ranks(v->layout, host);
    uint32_t first = 0;

    for (;; i--) {
        if (first >= n)
            return false;
        *out = run_from(v, host, first);
        if (i == 0)
            return true;
        first += out->count;
    }
}

/* The blocks of the ranks of `run` for the served rank at `place`. */
static struct tt_ref brought_by(const struct tt_levels *v, const struct run *run, uint32_t place)
{
    return tt_strided(tt_work(brought_at(v, run->first) + place * v->c->bytes), v->c->bytes,
                      tt_levels_served(v, v->me) * v->c->bytes);
}

/* The destination of the blocks of a run of `host`. */
static struct tt_ref rows_of(const struct tt_levels *v, uint32_t host, const struct run *run)
{
    return tt_strided(tt_dst(tt_layout_rank(v->layout, host, run->first) * v->c->bytes),
                      v->c->bytes, run->step * v->c->bytes);
}

/* Copies the blocks of this host's other ranks for this rank, which are already here. */
static void alltoall_two_level_keep(struct tt_sched *s, const struct tt_levels *v, uint64_t part)
{
    const uint32_t place = tt_levels_served_before(v, v->host, v->me);
    struct run run;

    for (uint32_t i = 0; i < RUNS && alltoall_two_level_run_at(v, v->host, part * RUNS + i, &run);
         i++) {
        const uint32_t end = run.first + run.count;
        struct run before = run, after = run;

        if (v->me >= run.first && v->me < end) {
            before.count = v->me - run.first;
            after.first = v->me + 1;
            after.count = end - after.first;
        } else {
            after.count = 0;
        }
        if (before.count > 0)
            tt_sched_copy(s, rows_of(v, v->host, &before), brought_by(v, &before, place),
                          before.count * v->c->bytes);
        if (after.count > 0)
            tt_sched_copy(s, rows_of(v, v->host, &after), brought_by(v, &after, place),
                          after.count * v->c->bytes);
    }
}

/* Sends to the z-th rank that this one serves on the host `far` higher, and receives from the rank
 * that serves this one on the host `far` lower; runs from index `part` * RUNS on. */
static void alltoall_two_level_exchange(struct tt_sched *s, const struct tt_levels *v, uint32_t far,
                                        uint32_t z, uint64_t part)
{
    const uint32_t to = (v->host + far) % v->hosts, from = (v->host + v->hosts - far) % v->hosts;
    const uint32_t local = z * v->n + v->me, server = v->me % tt_layout_host_ranks(v->layout, from);
    const bool serves = local < tt_layout_host_ranks(v->layout, to);
    const bool is_served = v->me / tt_layout_host_ranks(v->layout, from) == z;
    const uint32_t place = tt_levels_served_before(v, to, v->me) + z, tag = (uint32_t)(part * RUNS);
    struct run run;

    for (uint32_t i = 0; i < RUNS && serves && alltoall_two_level_run_at(v, v->host, tag + i, &run);
         i++)
        tt_sched_put(s, tt_layout_rank(v->layout, to, local), brought_by(v, &run, place),
                     tt_pipe(v->host * (uint64_t)v->widest + tag + i), run.count * v->c->bytes,
                     1 + tag + i);
    for (uint32_t i = 0; i < RUNS && is_served && alltoall_two_level_run_at(v, from, tag + i, &run);
         i++) {
        const struct tt_ref pipe = tt_pipe(from * (uint64_t)v->widest + tag + i);
        const uint64_t bytes = run.count * v->c->bytes;

        tt_sched_wait(s, tt_layout_rank(v->layout, from, server), pipe, bytes, 1 + tag + i);
        tt_sched_copy(s, rows_of(v, from, &run), pipe, bytes);
    }
}

static void alltoall_two_level_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    struct tt_levels v;
    uint64_t each;

    tt_levels_init(&v, c);
    if (k == 0)
        tt_sched_own(s, c);
    if (k < pack_rounds(&v)) {
        alltoall_two_level_pack(s, &v, k);
        return;
    }
    k -= pack_rounds(&v);
    if (k < meet_rounds(&v)) {
        alltoall_two_level_meet(s, &v, k);
        return;
    }
    k -= meet_rounds(&v);
    each = tt_levels_served_max(&v) * run_rounds(&v);
    if (k >= each)
        alltoall_two_level_exchange(s, &v, (uint32_t)(k / each),
                                    (uint32_t)(k % each / run_rounds(&v)), k % run_rounds(&v));
    else if (k < run_rounds(&v))
        alltoall_two_level_keep(s, &v, k);
}

/* ---- requirements and cost ---- */

/* Maximum number of WORK blocks of any rank: the n ranks of a host together send a rank up to
 * nranks + n * hosts blocks, and at most nranks blocks are packed. */
static uint64_t work_max(const struct tt_levels *v)
{
    const uint64_t n = v->c->nranks;

    return v->even ? n : 2 * n + (uint64_t)v->widest * v->hosts;
}

static bool alltoall_two_level_fits(const struct tt_coll *c)
{
    struct tt_levels v;

    tt_levels_init(&v, c);
    return v.hosts > 1 && c->bytes <= TT_WORK_MAX / work_max(&v);
}

static uint64_t alltoall_two_level_work_bytes(const struct tt_coll *c)
{
    struct tt_levels v;

    tt_levels_init(&v, c);
    return v.even ? brought_at(&v, v.n) : packed_at(&v, v.n);
}

static uint32_t alltoall_two_level_npeers(const struct tt_coll *c)
{
    struct tt_levels v;

    tt_levels_init(&v, c);
    if (v.widest == v.narrowest)
        return v.n - 1 + v.hosts - 1;
    return v.n - 1 + (v.hosts - 1) * ((v.widest + v.n - 1) / v.n + 1);
}

static struct tt_cost alltoall_two_level_cost(const struct tt_coll *c)
{
    struct tt_levels v;
    double all, rails;

    tt_levels_init(&v, c);
    all = (double)c->bytes * c->nranks;
    rails = v.layout->nrails < v.narrowest ? v.layout->nrails : v.narrowest;
    if (v.hosts == 1)
        return (struct tt_cost){ .messages = tt_cost_burst(v.widest - 1),
                                 .bytes = all,
                                 .copied = 2 * all };
    return (struct tt_cost){
        .messages = tt_cost_burst((uint32_t)tt_levels_served_max(&v) * (v.hosts - 1)),
        .bytes = (double)c->bytes * (c->nranks - v.narrowest) * v.widest / rails,
        .copied = (v.even ? 2 : 3) * all,
        .near_messages = tt_cost_burst(v.widest - 1), .near_bytes = all,
    };
}

const struct tt_algo tt_algo_alltoall_two_level = {
    .name = "alltoall_two_level", .summary = "short blocks, several ranks per host",
    .needs = "several hosts, and all blocks within 256 KiB of WORK (stored twice if hosts differ)",
    .kind = TT_ALLTOALL,
    .fits = alltoall_two_level_fits,
    .fits_named = tt_fits_always,
    .nrounds = alltoall_two_level_nrounds,
    .round = alltoall_two_level_round,
    .work_bytes = alltoall_two_level_work_bytes,
    .npeers = alltoall_two_level_npeers,
    .cost = alltoall_two_level_cost,
};
