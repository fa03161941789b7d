/* Errors of the verifier, with their position. */
#ifndef TT_SCHED_FINDING_H
#define TT_SCHED_FINDING_H

#include <stddef.h>
#include "sched/verify.h"

struct tt_finding {
    const struct tt_program *program;
    char *text;         /* [bytes], owned by the caller */
    size_t bytes;
};

/* Writes "rank 3, step 17 (put ...): <message>"; returns TUTTI_ERR_INVALID. */
tutti_status tt_finding_step(const struct tt_finding *f, uint32_t rank, uint64_t step,
                             const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Writes "rank 3: <message>"; returns TUTTI_ERR_INVALID. */
tutti_status tt_finding_rank(const struct tt_finding *f, uint32_t rank, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Reports that the verifier is out of memory; returns TUTTI_ERR_NOMEM. */
tutti_status tt_finding_nomem(const struct tt_finding *f);

#endif
