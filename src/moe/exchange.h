/* Memory of dynamic exchanges: created by the first call on a communicator, and reused. */
#ifndef TT_MOE_EXCHANGE_H
#define TT_MOE_EXCHANGE_H

#include <pthread.h>

#include "comm/comm.h"
#include "moe/pieces.h"

/* One exchange and its memory. */
struct tt_exchange {
    struct tt_exchange *next;
    struct tt_exchanges *of;
    bool busy;                      /* protected by of->lock */
    struct tt_pieces_shape shape;
    uint32_t rank;
    tutti_dynamic what;             /* the caller's parameters, without recvbuffs */
    bool packs;                     /* heads may include pieces; never common heads
                                       (shape.to_all) */
    struct tt_plan gathering;       /* plan of the collective that gathers common heads */
    uint64_t slot_bytes;            /* size of a head with packed pieces */
    uint8_t *out, *in;              /* [nranks][slot_bytes]: heads to each rank (or one common
                                       head), and from each rank */
    uint8_t *wanted;                /* [nranks][tt_pieces_requested_bytes]: pieces for each rank */
    bool *packed;                   /* [nranks]: the pieces are sent with the head */
    uint64_t *lengths;              /* [nranks][nsplits] */
    struct tt_head *heads;          /* [nranks] */
    const uint8_t **wanted_in, **pieces_in;     /* [nranks] pointers into `in`: pieces from each
                                                   rank, and the packed ones */
    uint8_t **recvbuffs;            /* [nranks] */
    uint64_t *send_bytes, *send_displs, *recv_bytes, *recv_displs;      /* [nranks] */
    uint64_t *send_first, *recv_first;          /* [nranks + 1] */
    struct tt_stretches stretches;
    struct tt_stretch *list;        /* [list_cap] target of `stretches` */
    uint64_t list_cap;
    size_t bytes;                   /* total size; protected by of->lock */
};

/* The cached choice for one shape of heads: whether they are gathered. */
struct tt_exchange_heads {
    uint32_t nsplits, width;
    bool gathered;
};

#define TT_EXCHANGE_HEADS 8u    /* maximum number of cached choices */

/* The exchanges of a communicator. */
struct tt_exchanges {
    pthread_mutex_t lock;
    struct tt_exchange *first;
    uint64_t segment_bytes;         /* segment length of the communicator's alltoallv */
    uint8_t streams, depth;
    struct tt_exchange_heads heads[TT_EXCHANGE_HEADS];     /* used only by the thread that calls
                                                              collectives */
    uint32_t nheads;                /* used entries */
};

/* Returns the communicator's exchanges, created on first use. Called by the thread that calls
 * collectives. */
tutti_status tt_exchanges_of(tutti_comm *comm, struct tt_exchanges **out);
/* Chooses how heads are sent, equal on all ranks. "heads_direct": each rank gets its own head.
 * "heads_gathered": all ranks get all heads by an allgather; sets shape->to_all and *plan. Direct
 * heads take nranks - 1 messages per rank and one latency; gathered heads take ceil(log2 nranks)
 * messages and latencies. The faster method by simulation is chosen. Direct heads are preferred if
 * pieces may fit with them: an even share of the maximum fits in an eager message. They are also
 * used if gathered heads would need more memory. algo: one of these names, or NULL. INVALID
 * (logged) for another name. Called by the thread that calls collectives. */
tutti_status tt_exchange_choose_heads(tutti_comm *comm, struct tt_exchanges *of, const char *algo,
                                      struct tt_pieces_shape *shape, struct tt_plan *plan);
/* Takes a free exchange with this shape; frees those with other shapes if necessary. NULL: out of
 * memory. Called by the thread that calls collectives. */
struct tt_exchange *tt_exchange_get(struct tt_exchanges *of, const struct tt_pieces_shape *shape,
                                    uint64_t slot_bytes);
/* Releases an exchange; may be called again. Any thread. */
void tt_exchange_put(struct tt_exchange *x);
/* Ensures room for n stretches in x->list. False: out of memory. */
bool tt_exchange_need(struct tt_exchange *x, uint64_t n);

#endif
