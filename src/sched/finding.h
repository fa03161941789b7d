/* What the verifier finds, as a sentence that says where. */
#ifndef TT_SCHED_FINDING_H
#define TT_SCHED_FINDING_H

#include <stddef.h>
#include "sched/verify.h"

struct tt_finding {
    const struct tt_program *program;
    char *text;         /* [bytes], the caller's */
    size_t bytes;
};

/* "rank 3, step 17 (put ...): <sentence>"; returns TUTTI_ERR_INVALID. */
tutti_status tt_finding_step(const struct tt_finding *f, uint32_t rank, uint64_t step, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* "rank 3: <sentence>"; returns TUTTI_ERR_INVALID. */
tutti_status tt_finding_rank(const struct tt_finding *f, uint32_t rank, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The finding that there is no memory to find anything; returns TUTTI_ERR_NOMEM. */
tutti_status tt_finding_nomem(const struct tt_finding *f);

#endif
