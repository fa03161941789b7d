/* Happens-before relations over the pieces of all ranks' programs. There are two:
 *  - sure: holds in every execution: conflicting accesses within a rank in program order, and a put
 *    before its wait;
 *  - strict: additional dependencies of an execution with minimal buffering. A put completes when
 *    its wait has run. A pair delivers one piece at a time, each after the previous one was used. A
 *    pipe holds one piece, and a step advances in order. */
#ifndef TT_SCHED_ORDER_H
#define TT_SCHED_ORDER_H

#include "sched/pieces.h"

struct tt_edge {
    uint32_t from, to;
    bool sure, strict;
    bool lands;             /* `to` is a wait that overwrites what `from` read or wrote */
};

struct tt_order {
    const struct tt_pieces *pieces;
    struct tt_edge *edge;
    uint32_t nedges;
    uint32_t *mate;         /* [npieces], the wait's piece of a put, and the put's of a wait;
                               else TT_NO_PIECE */
    uint32_t *sequence;     /* [npieces], a valid execution order of the pieces */
    uint32_t *place;        /* [npieces], position of a piece in the sequence */
    uint32_t *sure_first;   /* [npieces + 1], sure predecessors of piece i: sure[sure_first[i] ..
                               sure_first[i + 1]) */
    uint32_t *sure;
};

/* Fails with a finding on a deadlock, or on a step with overlapping operands. On error *out is
 * unchanged. */
tutti_status tt_order_init(struct tt_order *out, const struct tt_pieces *pieces,
                           const struct tt_finding *f);
void tt_order_fini(struct tt_order *o);

/* Finds the waits whose data must not arrive before the wait is executed. */
tutti_status tt_order_early(const struct tt_order *o, struct tt_early *out,
                            const struct tt_finding *f);

/* Checks that no rank completes before all ranks have begun. */
tutti_status tt_order_synchronizes(const struct tt_order *o, const struct tt_finding *f);

#endif
