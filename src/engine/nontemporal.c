/* Chooses non-temporal stores for outputs that would leave the cache before they are used. They
 * avoid the read of each line, and keep other data in the cache. They pay if the inputs and
 * outputs of the ranks that share a cache fill most of it. Measured between two cores that share
 * 8 MiB, in us, ordinary and non-temporal: broadcast 340 and 280 (2 MiB), 103 and 110 (1 MiB);
 * allgather 296 and 272, 82 and 110, and in place 150 and 190 (2 MiB). Four ranks, alltoall of 1
 * MiB: 610 and 490. */
#include "engine/nontemporal.h"

#define LEAST_MAX (12ull << 20)     /* largest measured value: two ranks that share 32 MiB */

uint64_t tt_nontemporal_least(uint64_t cache_bytes, uint32_t sharing, uint32_t cores,
                              uint32_t ranks)
{
    uint64_t sharers, least;

    if (cache_bytes == 0 || sharing == 0 || cores == 0 || ranks == 0)
        return LEAST_MAX;
    sharers = ((uint64_t)ranks * (sharing < cores ? sharing : cores) + cores - 1) / cores;
    least = cache_bytes / 4 * 3 / sharers;
    return least < LEAST_MAX ? least : LEAST_MAX;
}

/* Returns the mean size of a rank's input and output; counted once in place. A root's larger
 * buffer is averaged over all ranks, and its in-place call is ignored, because other ranks have
 * no information about it. A reduce pays later than a broadcast: between two cores that share 8
 * MiB, 2 MiB take 285 us (ordinary) and 400 us (non-temporal), and 4 MiB 940 and 870 us. For v
 * kinds, the size is this rank's output, since the others' sizes are unknown. */
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

bool tt_nontemporal_pays(const struct tt_coll *c, uint64_t least)
{
    /* exceeds any cache, whatever the other ranks have */
    return mean_bytes(c) >= least || tt_coll_dst_bytes(c) >= LEAST_MAX;
}
