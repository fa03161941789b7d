/* The executors of all ranks under an adversary, which chooses the rank that runs, and when each
 * message, arrival and credit is delivered. No bytes are transferred; the search is for a
 * deadlock. */
#ifndef TESTS_ENGINE_ADVERSARY_H
#define TESTS_ENGINE_ADVERSARY_H

#include <stddef.h>
#include "engine/exec.h"

#define ADVERSARY_RANKS_MAX 9

struct adversary_conf {
    const struct tt_algo *algo;
    const struct tt_coll *coll;         /* [nranks], owned by the caller */
    uint32_t nranks;
    uint64_t segment_bytes, eager_bytes;
    uint8_t streams, depth;
    uint64_t seed;                      /* determines the behaviour: see adversary_text */
};

/* Runs to the end. Each action of a rank and each delivery counts as one state. Returns
 * TUTTI_ERR_TIMEOUT on a deadlock, TUTTI_ERR_INVALID if an executor violates an invariant;
 * why[why_bytes] has the details. */
tutti_status adversary_run(const struct adversary_conf *conf, uint64_t *states, char *why,
                           size_t why_bytes);

/* Describes the behaviour drawn from the seed. Static storage. */
const char *adversary_text(const struct adversary_conf *conf);

#endif
