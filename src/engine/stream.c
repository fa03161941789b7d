/* Outputs that leave the cache before they are used are better written past it: nothing is read there first, and what is in it stays. They do where what the ranks at one cache give and get is most
 * of it. Two cores that share 8 MiB, shared memory, us, with ordinary stores and past the cache: broadcast of 2 MiB 340 and 280, of 1 MiB 103 and 110; allgather 296 and 272, 82 and 110, and in place
 * 150 and 190 (2 MiB). Four ranks there, alltoall of 1 MiB 610 and 490. */
#include "engine/stream.h"

#define LEAST_MAX (12ull << 20)     /* as far as was measured: two ranks that share 32 MiB */

uint64_t tt_stream_least(uint64_t cache_bytes, uint32_t sharing, uint32_t cores, uint32_t ranks)
{
    uint64_t sharers, least;

    if (cache_bytes == 0 || sharing == 0 || cores == 0 || ranks == 0)
        return LEAST_MAX;
    sharers = ((uint64_t)ranks * (sharing < cores ? sharing : cores) + cores - 1) / cores;
    least = cache_bytes / 4 * 3 / sharers;
    return least < LEAST_MAX ? least : LEAST_MAX;
}

/* What a rank gives and gets, once where that is the same memory: the mean of all, where a root has more. Whether a root is in place only that one knows. A reduce pays later than a broadcast: 2 MiB
 * between two cores that share 8 take 285 us with ordinary stores and 400 past the cache, 4 MiB 940 and 870. v kinds do not know what others have: theirs is what this rank gets. */
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

bool tt_stream_pays(const struct tt_coll *c, uint64_t least)
{
    return mean_bytes(c) >= least || tt_coll_dst_bytes(c) >= LEAST_MAX;     /* so much is in no cache, whatever others have */
}
