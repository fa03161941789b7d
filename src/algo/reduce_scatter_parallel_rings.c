/* Parallel-rings reduce_scatter. Shapes: src[nranks][block], dst[block]; reduce_scatterv: rows of
 * any size.
 * The reverse of the parallel-rings allgather (rings.h): a row starts at the host after its own and
 * passes round the ring of its column. On each host the ranks' parts are reduced at the column's
 * carrier while the previous row crosses the network, and then added to the running value. If ranks
 * are joined by sockets, each socket reduces its part before it crosses.
 * With H hosts of g ranks: H - 1 messages and (H - 1) g / rails rows through each rail, and g
 * additions per step.
 * Values need space while they are reduced: as in the flat ring, rows are processed in slabs that
 * WORK holds. Here the next slab's own additions overlap with this one's last steps. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/rings.h"

#define SLABS_BYTES (TT_WORK_MAX + TT_SLAB_BYTES)   /* maximum bytes of all values in progress */
#define SLAB_ALIGN 64u
#define SLAB_MIN 1024u

static uint64_t reduce_scatter_parallel_rings_slab_bytes(const struct tt_rings *r, uint64_t longest)
{
    const uint64_t room = SLABS_BYTES / tt_rings_sums(r) / SLAB_ALIGN * SLAB_ALIGN;
    const uint64_t needed = (longest + SLAB_ALIGN - 1) / SLAB_ALIGN * SLAB_ALIGN;

    return needed < room ? needed : room;
}

static uint64_t reduce_scatter_parallel_rings_nslabs(const struct tt_rings *r, uint64_t longest)
{
    return longest ? (longest - 1) / reduce_scatter_parallel_rings_slab_bytes(r, longest) + 1 : 1;
}

/* Excludes hosts so unequal, or so large, that WORK would hold only tiny slabs; and calls with more
 * rounds than a 32-bit tag can number. */
static bool reduce_scatter_parallel_rings_fits(const struct tt_coll *c)
{
    const uint64_t longest = tt_blocks_longest(c);
    struct tt_rings r;

    if (c->nranks == 1)
        return true;
    tt_rings_init(&r, c, tt_rings_form(c));
    return SLABS_BYTES / tt_rings_sums(&r) >= SLAB_MIN &&
           reduce_scatter_parallel_rings_nslabs(&r, longest) <=
               UINT32_MAX / TT_RINGS_TAGS / tt_rings_reduce_rounds(&r);
}

static uint64_t reduce_scatter_parallel_rings_nrounds(const struct tt_coll *c)
{
    struct tt_rings r;

    if (c->nranks == 1)
        return 1;
    tt_rings_init(&r, c, tt_rings_form(c));
    return reduce_scatter_parallel_rings_nslabs(&r, tt_blocks_longest(c)) *
           tt_rings_reduce_rounds(&r);
}

static uint64_t reduce_scatter_parallel_rings_work_bytes(const struct tt_coll *c)
{
    struct tt_rings r;

    if (c->nranks == 1)
        return 0;
    tt_rings_init(&r, c, tt_rings_form(c));
    return tt_rings_sums(&r) * reduce_scatter_parallel_rings_slab_bytes(&r, tt_blocks_longest(c));
}

static void reduce_scatter_parallel_rings_round(struct tt_sched *s, const struct tt_coll *c,
                                                uint64_t k)
{
    struct tt_ring_sums sums = { .in_dst = false };
    struct tt_rings r;
    uint64_t rounds;

    if (c->nranks == 1) {
        tt_sched_own(s, c);
        return;
    }
    tt_rings_init(&r, c, tt_rings_form(c));
    rounds = tt_rings_reduce_rounds(&r);
    sums.slab = reduce_scatter_parallel_rings_slab_bytes(&r, tt_blocks_longest(c));
    sums.begin = k / rounds * sums.slab;
    tt_rings_reduce(s, c, &r, &sums, k % rounds, (uint32_t)k * TT_RINGS_TAGS);
}

static uint32_t reduce_scatter_parallel_rings_npeers(const struct tt_coll *c)
{
    struct tt_rings r;

    tt_rings_init(&r, c, tt_rings_form(c));
    return tt_rings_npeers(&r);
}

static struct tt_cost reduce_scatter_parallel_rings_cost(const struct tt_coll *c)
{
    const uint64_t longest = tt_blocks_longest(c);
    struct tt_rings r;
    struct tt_cost cost;

    tt_rings_init(&r, c, tt_rings_form(c));
    cost = tt_rings_cost(&r, (double)longest);
    if (c->nranks > 1)
        cost.messages +=
            tt_cost_burst((uint32_t)reduce_scatter_parallel_rings_nslabs(&r, longest)) - 1;
    cost.reduced = (double)longest * (c->nranks - 1) * r.columns;
    return cost;
}

const struct tt_algo tt_algo_reduce_scatter_parallel_rings = {
    .name = "reduce_scatter_parallel_rings", .summary = "long rows, several ranks per host",
    .needs = "at most 512 values added by a rank at once, and fewer than 2^29 rounds",
    .quantizes = TT_QUANTIZED,
    .kind = TT_REDUCE_SCATTER,
    .fits = reduce_scatter_parallel_rings_fits,
    .nrounds = reduce_scatter_parallel_rings_nrounds,
    .round = reduce_scatter_parallel_rings_round,
    .work_bytes = reduce_scatter_parallel_rings_work_bytes,
    .npeers = reduce_scatter_parallel_rings_npeers,
    .cost = reduce_scatter_parallel_rings_cost,
};

const struct tt_algo tt_algo_reduce_scatterv_parallel_rings = {
    .name = "reduce_scatterv_parallel_rings",
    .summary = "long rows of similar sizes, several ranks per host",
    .needs = "at most 512 values added by a rank at once, and fewer than 2^29 rounds",
    .kind = TT_REDUCE_SCATTERV,
    .fits = reduce_scatter_parallel_rings_fits,
    .nrounds = reduce_scatter_parallel_rings_nrounds,
    .round = reduce_scatter_parallel_rings_round,
    .work_bytes = reduce_scatter_parallel_rings_work_bytes,
    .npeers = reduce_scatter_parallel_rings_npeers,
    .cost = reduce_scatter_parallel_rings_cost,
};
