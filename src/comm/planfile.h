/* Algorithms as data: plans in JSON (docs/plan-format.md). A plan is valid for its number of ranks
 * and any multiple of its size. */
#ifndef TT_COMM_PLANFILE_H
#define TT_COMM_PLANFILE_H

#include "comm/planread.h"

/* Verifies the plan, in place and not, and adds it to the registry, which then owns it. INVALID
 * (logged) with the verifier's finding. On error it still belongs to the caller.
 * Single-threaded. */
tutti_status tt_plan_file_add(struct tt_plan_file *p, const char *from);

/* Reads, verifies and adds the plan in a file. *hash is updated with its text. */
tutti_status tt_plan_file_load(const char *path, uint64_t *hash);

#endif
