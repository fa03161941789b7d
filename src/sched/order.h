/* What happens before what, over the pieces of all ranks' programs. Two relations over the same pieces:
 *  - sure: holds in every execution: conflicting accesses within a rank in program order, and a put before its wait;
 *  - strict: what an execution with the least room may wait for on top of it: a put is done when its wait has run, a
 *    pair delivers one piece after the other, each when the one before it has been used, a pipe holds one piece, a
 *    step goes forward. */
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
    uint32_t *mate;         /* [npieces] of a put's piece its wait's, of a wait's its put's; else TT_NO_PIECE */
    uint32_t *sequence;     /* [npieces] an order in which the pieces can run */
    uint32_t *place;        /* [npieces] where in it a piece is */
    uint32_t *sure_first;   /* [npieces + 1] sure predecessors of piece i: sure[sure_first[i] .. sure_first[i + 1]) */
    uint32_t *sure;
};

/* Fails with a finding on deadlock, and on a step whose operands overlap. On error *out is untouched. */
tutti_status tt_order_init(struct tt_order *out, const struct tt_pieces *pieces, const struct tt_finding *f);
void tt_order_fini(struct tt_order *o);

/* Finds the waits whose bytes may not land before their turn. */
tutti_status tt_order_early(const struct tt_order *o, struct tt_early *out, const struct tt_finding *f);

/* Whether every rank's end comes after every rank's beginning. */
tutti_status tt_order_meets(const struct tt_order *o, const struct tt_finding *f);

#endif
