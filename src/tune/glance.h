/* What a program is like, before it is simulated. Pure. */
#ifndef TT_TUNE_GLANCE_H
#define TT_TUNE_GLANCE_H

#include "algo/algos.h"

struct tt_glance {
    uint64_t messages;      /* that the first two ranks from the root on send in the rounds that are looked at: what simulating it takes grows with them */
    uint64_t rounds, hash;  /* of the steps of these ranks */
    bool whole;             /* all rounds were looked at */
};

/* Looks at a call that algo fits, cut into such segments. */
void tt_glance(struct tt_glance *g, const struct tt_algo *algo, const struct tt_coll *c, uint64_t segment_bytes);

/* Whether two programs are one and the same, as far as has been seen: two names for it. */
bool tt_glance_same(const struct tt_glance *a, const struct tt_glance *b);

#endif
