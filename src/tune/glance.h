/* Properties of a program, examined before it is simulated. Pure. */
#ifndef TT_TUNE_GLANCE_H
#define TT_TUNE_GLANCE_H

#include "algo/algos.h"

struct tt_glance {
    uint64_t messages;      /* sent by the root and the next rank in the examined rounds: the
                               cost of a simulation grows with them */
    uint64_t rounds, hash;  /* of the steps of these ranks */
    bool whole;             /* all rounds were examined */
};

/* Examines a call that algo fits, with such segments. */
void tt_glance(struct tt_glance *g, const struct tt_algo *algo, const struct tt_coll *c, uint64_t segment_bytes);

/* Returns whether two programs are equal as far as examined: two names for one program. */
bool tt_glance_same(const struct tt_glance *a, const struct tt_glance *b);

#endif
