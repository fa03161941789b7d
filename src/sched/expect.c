#include "sched/expect.h"

/* Returns the number of stretches in a result: those from other ranks, then those of the rank
 * itself. */
static uint32_t nstretches(const struct tt_coll *c)
{
    const struct tt_stretches *x = c->stretches;

    return (uint32_t)(x->recv_first[c->nranks] - x->recv_first[0] + x->send_first[c->rank + 1] -
                      x->send_first[c->rank]);
}

/* Uses the sender's length, because the receiver's may be an upper bound. */
static struct tt_expect stretch_of(const struct tt_coll *coll, uint32_t rank, uint32_t i)
{
    const struct tt_coll *c = &coll[rank];
    const struct tt_stretches *x = c->stretches;
    const uint64_t others = x->recv_first[c->nranks] - x->recv_first[0], at = x->recv_first[0] + i;
    uint64_t number = i - others;       /* index among the stretches of the pair */
    const struct tt_stretch *t;
    uint32_t from = rank;

    if (i < others) {
        for (from = 0; x->recv_first[from + 1] <= at;)
            from++;
        number = at - x->recv_first[from];
    }
    t = &coll[from].stretches->send[coll[from].stretches->send_first[rank] + number];
    return (struct tt_expect){
        .offset = c->recv_displs[from] + t->offset, .bytes = t->bytes,
        .origin_offset = coll[from].send_displs[rank] + t->offset, .origin = from,
    };
}

uint32_t tt_nexpects(const struct tt_coll *coll, uint32_t rank)
{
    const struct tt_coll *c = &coll[rank];

    if (c->stretches)
        return nstretches(c);
    switch (c->kind) {
    case TT_REDUCE:
        return rank == c->root;
    case TT_GATHER: case TT_GATHERV:
        return rank == c->root ? c->nranks : 0;
    case TT_ALLGATHER: case TT_ALLGATHERV: case TT_ALLTOALL: case TT_ALLTOALLV:
        return c->nranks;
    case TT_BARRIER: case TT_SEND: case TT_COLL_KINDS:
        return 0;
    default:
        return 1;
    }
}

struct tt_expect tt_expect_of(const struct tt_coll *coll, uint32_t rank, uint32_t i)
{
    const struct tt_coll *c = &coll[rank];

    if (c->stretches)
        return stretch_of(coll, rank, i);
    switch (c->kind) {
    case TT_REDUCE_SCATTER:
        return (struct tt_expect){ .bytes = c->bytes, .origin_offset = rank * c->bytes };
    case TT_REDUCE_SCATTERV:
        return (struct tt_expect){ .bytes = c->send_bytes[rank],
                                   .origin_offset = c->send_displs[rank] };
    case TT_ALLGATHER:
    case TT_GATHER:
        return (struct tt_expect){ .offset = i * c->bytes, .bytes = c->bytes, .origin = i };
    case TT_ALLGATHERV:
    case TT_GATHERV:
        return (struct tt_expect){ .offset = c->recv_displs[i],
                                   .bytes = c->recv_bytes[i],
                                   .origin = i };
    case TT_SCATTER:
        return (struct tt_expect){ .bytes = c->bytes,
                                   .origin_offset = rank * c->bytes,
                                   .origin = c->root };
    case TT_SCATTERV:
        return (struct tt_expect){
            .bytes = c->send_bytes[rank], .origin_offset = c->send_displs[rank], .origin = c->root,
        };
    case TT_ALLTOALL:
        return (struct tt_expect){
            .offset = i * c->bytes,
            .bytes = c->bytes,
            .origin_offset = rank * c->bytes,
            .origin = i,
        };
    case TT_ALLTOALLV:
        return (struct tt_expect){
            .offset = c->recv_displs[i],
            .bytes = c->recv_bytes[i],
            .origin_offset = coll[i].send_displs[rank],
            .origin = i,
        };
    default:
        return (struct tt_expect){ .bytes = c->bytes, .origin = c->root };
    }
}
