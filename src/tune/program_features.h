/* Properties of a program, examined before it is simulated. Pure. */
#ifndef TT_TUNE_PROGRAM_FEATURES_H
#define TT_TUNE_PROGRAM_FEATURES_H

#include "algo/algos.h"

struct tt_program_features {
    uint64_t messages;      /* sent by the root and the next rank in the examined rounds: the
                               cost of a simulation grows with them */
    uint64_t rounds, hash;  /* of the steps of these ranks */
    bool whole;             /* all rounds were examined */
};

/* Examines a call that algo fits, with such segments. */
void tt_program_features(struct tt_program_features *g, const struct tt_algo *algo,
                         const struct tt_coll *c, uint64_t segment_bytes);

/* Returns whether two programs are equal as far as examined: two names for one program. */
bool tt_program_features_same(const struct tt_program_features *a,
                              const struct tt_program_features *b);

#endif
