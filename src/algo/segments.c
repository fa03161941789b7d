#include "algo/segments.h"

#define REDUCED_MAX (256u << 10)        /* of a segment that arrives over TCP and is added to something: it is still in the cache then */
#define LANDING_MAX (8ull << 20)        /* of one operation, all peers together, before segments shrink */

static uint64_t floor_power(uint64_t x)
{
    uint64_t p = 1;

    while (p * 2 <= x)
        p *= 2;
    return p;
}

/* The longest put of the call, about: what segments are cut from. */
static uint64_t typical_put(const struct tt_coll *c)
{
    switch (c->kind) {
    case TT_ALLREDUCE: return c->bytes / c->nranks;
    case TT_ALLGATHERV: case TT_ALLTOALLV: case TT_GATHERV: case TT_SCATTERV: case TT_REDUCE_SCATTERV:
        return UINT64_MAX;      /* not known alike on all ranks */
    default: return c->bytes;
    }
}

/* Peers of the rank that has most: the root, where there is one. Segments must be alike on all ranks. */
static uint32_t most_peers(const struct tt_algo *algo, const struct tt_coll *c)
{
    struct tt_coll there = *c;

    there.rank = c->root;
    return algo->npeers(&there);
}

struct tt_segments tt_segments_fit(const struct tt_algo *algo, const struct tt_coll *c,
                                   const struct tt_segment_limits *limits, struct tt_segments s)
{
    const uint32_t npeers = most_peers(algo, c);

    while (s.segment_bytes > TT_SEGMENT_MIN && npeers * s.streams * s.depth * s.segment_bytes > LANDING_MAX)
        s.segment_bytes /= 2;
    while (s.segment_bytes < limits->eager_bytes)
        s.segment_bytes *= 2;
    return s;
}

struct tt_segments tt_segments_choose(const struct tt_algo *algo, const struct tt_coll *c,
                                      const struct tt_segment_limits *limits)
{
    const uint64_t part = typical_put(c) / (limits->all_local ? 4 : 2);
    uint64_t segment = floor_power(limits->segment_bytes);

    if (tt_coll_reduces(c->kind) && !limits->all_local && segment > REDUCED_MAX)
        segment = REDUCED_MAX;
    if (part < segment)
        segment = part < TT_SEGMENT_MIN ? TT_SEGMENT_MIN : floor_power(part);
    return tt_segments_fit(algo, c, limits,
                           (struct tt_segments){
                               .segment_bytes = segment,
                               .streams = most_peers(algo, c) <= 2 ? 2 : 1,
                               .depth = 4,
                           });
}
