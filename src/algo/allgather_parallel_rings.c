/* Parallel-rings allgather. Shapes: src[block], dst[nranks][block]; allgatherv: blocks of any
 * size, anywhere in dst.
 * One ring over the hosts for each local rank, each on its own rail (rings.h). In step i a host
 * forwards the blocks received in step i - 1. While a step crosses the network, blocks of
 * earlier steps are distributed inside the hosts (local_fanout.h). If each pair of ranks has its
 * own link, this is a linear exchange. If ranks are joined by sockets, it has three phases: two
 * follow the arrival by one step, the third by two. A rank's own block counts as the arrival
 * before the first step; at the end the last arrival is distributed. All blocks are received in
 * their final place.
 * With H hosts of g ranks: H - 1 messages and (H - 1) g / rails blocks through each rail (a flat
 * ring: H g - 1 of both), and g - 1 blocks inside the host at the end. On hosts with fewer
 * ranks, a rank carries several rings. One host is a linear exchange; hosts of one rank are a
 * flat ring.
 * Variants distribute blocks inside the hosts in the form that their name states, on any hosts.
 * "Scalable, Topology- and Multi-HCA-Aware Hierarchical GPU Allgather Using Parallel Rings",
 * 2026. */
#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/rings.h"

static uint64_t rounds_by(const struct tt_coll *c, enum tt_form form)
{
    struct tt_rings r;

    tt_rings_init(&r, c, form);
    return c->nranks > 1 ? tt_rings_gather_rounds(&r) : 1;
}

static void round_by(struct tt_sched *s, const struct tt_coll *c, uint64_t k, enum tt_form form)
{
    struct tt_rings r;

    tt_rings_init(&r, c, form);
    if (c->nranks > 1)
        tt_rings_gather(s, c, &r, k, (uint32_t)k * TT_RINGS_TAGS, tt_src(0));
    if (k == 0)
        tt_sched_own(s, c);
}

static struct tt_cost cost_by(const struct tt_coll *c, enum tt_form form)
{
    const double longest = (double)tt_blocks_longest(c);
    struct tt_rings r;
    struct tt_cost cost;

    tt_rings_init(&r, c, form);
    cost = tt_rings_cost(&r, longest);
    cost.copied = longest;
    return cost;
}

static uint32_t allgather_parallel_rings_npeers(const struct tt_coll *c)
{
    struct tt_rings r;

    tt_rings_init(&r, c, TT_FORM_LINEAR);   /* no form has more */
    return tt_rings_npeers(&r);
}

/* Tags hold round numbers in 32 bits. */
static bool allgather_parallel_rings_fits(const struct tt_coll *c)
{
    return rounds_by(c, TT_FORM_DOUBLING) <= UINT32_MAX / TT_RINGS_TAGS;     /* no form has more */
}

static uint64_t allgather_parallel_rings_nrounds(const struct tt_coll *c)
{
    return rounds_by(c, tt_rings_form(c));
}

static void allgather_parallel_rings_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    round_by(s, c, k, tt_rings_form(c));
}

static struct tt_cost allgather_parallel_rings_cost(const struct tt_coll *c)
{
    return cost_by(c, tt_rings_form(c));
}

const struct tt_algo tt_algo_allgather_parallel_rings = {
    .name = "allgather_parallel_rings", .summary = "long blocks, several ranks per host",
    .needs = "fewer than 2^29 rounds",
    .kind = TT_ALLGATHER,
    .fits = allgather_parallel_rings_fits,
    .nrounds = allgather_parallel_rings_nrounds,
    .round = allgather_parallel_rings_round,
    .work_bytes = tt_work_none,
    .npeers = allgather_parallel_rings_npeers,
    .cost = allgather_parallel_rings_cost,
};

const struct tt_algo tt_algo_allgatherv_parallel_rings = {
    .name = "allgatherv_parallel_rings",
    .summary = "long blocks of similar sizes, several ranks per host",
    .needs = "fewer than 2^29 rounds",
    .kind = TT_ALLGATHERV,
    .fits = allgather_parallel_rings_fits,
    .nrounds = allgather_parallel_rings_nrounds,
    .round = allgather_parallel_rings_round,
    .work_bytes = tt_work_none,
    .npeers = allgather_parallel_rings_npeers,
    .cost = allgather_parallel_rings_cost,
};

/* ---- variants -------------------------------------------------------------------------------- */

#define VARIANT(form_name, form, text)                                                             \
    static uint64_t form_name##_nrounds(const struct tt_coll *c)                                   \
    {                                                                                              \
        return rounds_by(c, form);                                                                 \
    }                                                                                              \
    static void form_name##_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)         \
    {                                                                                              \
        round_by(s, c, k, form);                                                                   \
    }                                                                                              \
    static struct tt_cost form_name##_cost(const struct tt_coll *c)                                \
    {                                                                                              \
        return cost_by(c, form);                                                                   \
    }                                                                                              \
    const struct tt_algo tt_algo_allgather_parallel_rings_##form_name = {                          \
        .name = "allgather_parallel_rings_" #form_name,                                            \
        .summary = text,                                                                           \
        .needs = "fewer than 2^29 rounds",                                                         \
        .kind = TT_ALLGATHER,                                                                      \
        .fits = allgather_parallel_rings_fits,                                                     \
        .nrounds = form_name##_nrounds,                                                            \
        .round = form_name##_round,                                                                \
        .work_bytes = tt_work_none,                                                                \
        .npeers = allgather_parallel_rings_npeers,                                                 \
        .cost = form_name##_cost,                                                                  \
    }

VARIANT(linear, TT_FORM_LINEAR, "parallel rings between hosts, direct exchange within hosts");
VARIANT(doubling, TT_FORM_DOUBLING,
        "parallel rings between hosts, binomial trees within hosts (near ranks first)");
VARIANT(halving, TT_FORM_HALVING,
        "parallel rings between hosts, binomial trees within hosts (far ranks first)");
VARIANT(knomial, TT_FORM_KNOMIAL, "parallel rings between hosts, 4-ary trees within hosts");
VARIANT(sockets, TT_FORM_SOCKETS,
        "parallel rings; each block crosses the link between sockets once");
