/* Algorithms that are data: plans read from JSON (docs/plan-format.md), as tt_algos for their number of ranks and any whole multiple of
 * their bytes. */
#ifndef TT_COMM_PLANFILE_H
#define TT_COMM_PLANFILE_H

#include "comm/planread.h"

/* Proves it, for calls in place and not, and adds it to the register; it is then the register's. INVALID (logged) with the
 * verifier's finding. On error it stays the caller's. From one thread. */
tutti_status tt_plan_file_add(struct tt_plan_file *p, const char *from);

/* Reads, proves and adds the plan in a file; *hash goes on over its text. */
tutti_status tt_plan_file_load(const char *path, uint64_t *hash);

#endif
