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

/* Returns an error in the round of `rank`, or NULL. rounds[nranks]: the same round of each rank.
 * Errors: a put without its wait or a wait without its put, a pipe that is not read in the round,
 * and with puts_first a put after a wait. */
const char *round_flaw(const struct round_steps *rounds, uint32_t rank, bool puts_first);

#endif
