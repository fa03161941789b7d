/* A round of an algorithm, for tests of the guarantees of rounds (src/algo/README.md). */
#ifndef TESTS_ALGO_ROUNDS_H
#define TESTS_ALGO_ROUNDS_H

#include "sched/algo.h"

struct round_steps {
    struct tt_step step[TT_ROUND_STEPS_MAX];
    struct tt_sched s;
};

void round_emit(struct round_steps *out, const struct tt_algo *algo, const struct tt_coll *c,
                uint64_t k);

/* Returns an error in rank's round, compared with those of all ranks with the same number: a put
 * without its wait or a wait without its put, a pipe that is not read in it, and with puts_first a
 * put after a wait. NULL: no error. */
const char *round_flaw(const struct round_steps *rounds, uint32_t rank, bool puts_first);

#endif
