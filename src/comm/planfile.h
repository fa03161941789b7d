/* Algorithms that are data: plans read from JSON (docs/plan-format.md), as tt_algos for their number of ranks and any whole multiple of
 * their bytes. */
#ifndef TT_COMM_PLANFILE_H
#define TT_COMM_PLANFILE_H

#include <stddef.h>
#include "sched/algo.h"

#define TT_PLAN_FILE_BYTES_MAX (16u << 20)
#define TT_PLAN_RANKS_MAX 1024u
#define TT_PLAN_STEPS_MAX (1u << 20)

struct tt_plan_file;

/* Reads a plan; `from` names it in errors. INVALID (logged): what is wrong, and where in the document. The caller ends it with
 * tt_plan_file_free. Not proven yet. */
tutti_status tt_plan_file_read(struct tt_plan_file **out, const char *text, size_t bytes, const char *from);
void tt_plan_file_free(struct tt_plan_file *p);

/* Proves it, for calls in place and not, and adds it to the register; it is then the register's. INVALID (logged) with the
 * verifier's finding. On error it stays the caller's. From one thread. */
tutti_status tt_plan_file_add(struct tt_plan_file *p, const char *from);

/* Reads, proves and adds the plan in a file; *hash goes on over its text. */
tutti_status tt_plan_file_load(const char *path, uint64_t *hash);

#endif
