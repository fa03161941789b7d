/* The memory of late exchanges: made by the first of a communicator, kept for those that follow. */
#ifndef TT_MOE_EXCHANGE_H
#define TT_MOE_EXCHANGE_H

#include <pthread.h>

#include "comm/comm.h"
#include "moe/pieces.h"

/* One exchange, and what it takes; kept for the next. */
struct tt_exchange {
    struct tt_exchange *next;
    struct tt_exchanges *of;
    bool busy;                      /* under of->lock */
    struct tt_pieces_shape shape;
    uint32_t rank;
    tutti_dynamic what;             /* the caller's, without its recvbuffs */
    bool packs;                     /* heads may have pieces behind them; never where they go to all alike (shape.to_all) */
    struct tt_plan gathering;       /* then, how they go */
    uint64_t slot_bytes;            /* of a head and what is packed behind it */
    uint8_t *out, *in;              /* [nranks][slot_bytes]: to each rank (or one, to all), from each */
    uint8_t *wanted;                /* [nranks][tt_pieces_wanted_bytes]: which pieces go to each */
    bool *packed;                   /* [nranks]: they went with the head */
    uint64_t *lengths;              /* [nranks][nsplits] */
    struct tt_head *heads;          /* [nranks] */
    const uint8_t **wanted_in, **pieces_in;     /* [nranks] in `in`: which pieces come from each, and where those are that are packed */
    uint8_t **recvbuffs;            /* [nranks] */
    uint64_t *send_bytes, *send_displs, *recv_bytes, *recv_displs;      /* [nranks] */
    uint64_t *send_first, *recv_first;          /* [nranks + 1] */
    struct tt_stretches stretches;
    struct tt_stretch *list;        /* [list_cap] that `stretches` points into */
    uint64_t list_cap;
    size_t bytes;                   /* all of it; under of->lock */
};

/* What was found for one kind of heads. */
struct tt_exchange_heads {
    uint32_t nsplits, width;
    bool gathered;
};

#define TT_EXCHANGE_HEADS 8u    /* kinds that are remembered */

/* Those of a communicator. */
struct tt_exchanges {
    pthread_mutex_t lock;
    struct tt_exchange *first;
    uint64_t segment_bytes;         /* as its alltoallv goes */
    uint8_t streams, depth;
    struct tt_exchange_heads heads[TT_EXCHANGE_HEADS];     /* by the thread that may call collectives */
    uint32_t nheads;                /* that were looked at so far */
};

/* What the communicator has of them, made at first use; by the thread that may call collectives. */
tutti_status tt_exchanges_of(tutti_comm *comm, struct tt_exchanges **out);
/* Chooses how heads go, the same on all ranks: each rank gets its own ("heads_direct"), or all get all by an allgather ("heads_gathered"), which sets
 * shape->to_all and *plan. Direct ones are nranks - 1 messages of a rank and one latency, gathered ones ceil(log2 nranks) of both: what takes less by the simulator
 * is taken, but direct ones where pieces may well go with them (where the most that may be sent, dealt evenly, fits behind a head), and where gathered ones
 * would take more memory. algo: one of the names, or
 * NULL. INVALID (logged) for another name. By that thread. */
tutti_status tt_exchange_choose_heads(tutti_comm *comm, struct tt_exchanges *of, const char *algo,
                                      struct tt_pieces_shape *shape, struct tt_plan *plan);
/* One of that shape that is free, which it is no more. Free ones of other shapes make room for it. NULL: no memory. By that thread. */
struct tt_exchange *tt_exchange_get(struct tt_exchanges *of, const struct tt_pieces_shape *shape, uint64_t slot_bytes);
/* It is free, also if it was before. Any thread. */
void tt_exchange_put(struct tt_exchange *x);
/* Room for n stretches in x->list. False: no memory. */
bool tt_exchange_need(struct tt_exchange *x, uint64_t n);

#endif
