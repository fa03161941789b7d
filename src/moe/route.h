/* Routing of tokens: the placement of experts, errors in a rank's routing, and the resulting
 * rows. Pure.
 *
 * A *slot* is an expert on a rank that holds it. Slots are numbered rank by rank, in the order
 * of each rank's list. An expert has one slot on each rank that holds it. A *row* is a token
 * sent to one of its experts. */
#ifndef TT_MOE_ROUTE_H
#define TT_MOE_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/moe.h"

#define TT_EXPERTS_MAX 65535u
#define TT_TOP_MAX 64u

/* ---- placement of experts, equal on all ranks ------------------------------------------------ */

struct tt_holding {
    uint32_t nranks, nexperts, nslots, most;    /* most: maximum slots of a rank */
    uint32_t *first;            /* [nranks + 1]: slots of rank r are first[r] to first[r + 1] */
    uint32_t *expert;           /* [nslots] */
    uint32_t *rank;             /* [nslots] */
    uint32_t *of_first;         /* [nexperts + 1], in: */
    uint32_t *of;               /* [nslots]: slots of each expert, ascending */
};

/* Returns the default placement: the experts of rank r are [first, end). */
uint32_t tt_holding_default(uint32_t nranks, uint32_t nexperts, uint32_t rank);
/* Initializes the placement. Rank r holds nheld[r] experts, which follow those of rank r - 1 in
 * held. INVALID (logged, with the name of the call): an expert is on no rank, twice on one rank,
 * or out of range. The caller frees *h with tt_holding_fini, also after an error. */
tutti_status tt_holding_init(struct tt_holding *h, uint32_t nranks, uint32_t nexperts,
                             const uint32_t *nheld, const uint32_t *held, const char *call);
void tt_holding_fini(struct tt_holding *h);

/* ---- errors in a routing --------------------------------------------------------------------- */

enum tt_route_flaw_kind {
    TT_ROUTE_GOOD,
    TT_ROUTE_MANY,              /* value: number of tokens, which exceeds the maximum */
    TT_ROUTE_NULL,              /* token: number of tokens; value: which array is NULL: tokens
                                   (0), experts (1), weights (2) */
    TT_ROUTE_EXPERT,            /* token, choice, value: invalid expert */
    TT_ROUTE_TWICE,             /* token, choice, value: duplicate expert of the token */
    TT_ROUTE_WEIGHT,            /* token, choice, value: bits of a weight that is not finite */
    TT_ROUTE_FLAWS
};

struct tt_route_flaw {
    uint32_t kind, token, choice, value;
};

/* Returns the first error in a routing; kind 0: none. */
struct tt_route_flaw tt_route_check(const tutti_moe_routing *routing, uint32_t nexperts,
                                    uint32_t top_k, uint32_t max_tokens);
/* Returns whether the values are permitted in a message of a peer. */
bool tt_route_flaw_sound(const struct tt_route_flaw *f);
/* Returns INVALID, logged. */
tutti_status tt_route_flaw_status(const struct tt_route_flaw *f, uint32_t nexperts,
                                  uint32_t max_tokens, uint32_t rank, const char *call);

/* ---- rows of a run --------------------------------------------------------------------------- */

/* Memory for rows; nrows is at most nrows_max. */
struct tt_route {
    uint32_t nrows, nrows_max;
    uint32_t *counts;           /* [nslots]: rows of each slot */
    uint32_t *first;            /* [nranks + 1]: rows for rank r are first[r] to first[r + 1] */
    uint32_t *next;             /* [nslots], during construction */
};

/* False: out of memory. Free with tt_route_fini in any case. */
bool tt_route_init(struct tt_route *t, const struct tt_holding *h, uint32_t nrows_max);
void tt_route_fini(struct tt_route *t);
/* Sorts a valid routing by slot, then by token. rows[i] is token * top_k + choice of row i, and
 * experts[i] its expert. places[token * top_k + choice] is stride * rank + index among the rows
 * for that rank, or TUTTI_MOE_NONE. The caller's arrays have room for nrows_max. */
void tt_route_make(struct tt_route *t, const struct tt_holding *h, const tutti_moe_routing *routing,
                   uint32_t top_k, uint32_t rank, uint32_t stride, uint32_t *rows,
                   uint32_t *experts, uint32_t *places);

#endif
