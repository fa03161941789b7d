/* The executors of all ranks under an adversary: he decides which rank goes on, and when each message, arrival and credit is seen.
 * No bytes move; what is looked for is a state in which nobody can go on. */
#ifndef TESTS_ENGINE_ADVERSARY_H
#define TESTS_ENGINE_ADVERSARY_H

#include <stddef.h>
#include "engine/exec.h"

#define ADVERSARY_RANKS_MAX 9

struct adversary_conf {
    const struct tt_algo *algo;
    const struct tt_coll *coll;         /* [nranks], the caller's */
    uint32_t nranks;
    uint64_t segment_bytes, eager_bytes;
    uint8_t streams, depth;
    uint64_t seed;                      /* draws what follows from it: see adversary_text */
};

/* Runs it to its end. Each action of a rank and each message that is seen counts as one state. TUTTI_ERR_TIMEOUT if ranks are stuck,
 * TUTTI_ERR_INVALID if an executor does what it must not; why[why_bytes] then says where. */
tutti_status adversary_run(const struct adversary_conf *conf, uint64_t *states, char *why, size_t why_bytes);

/* What the seed stands for. Static storage. */
const char *adversary_text(const struct adversary_conf *conf);

#endif
