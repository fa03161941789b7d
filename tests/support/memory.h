/* The memory of all ranks of a case: filled with input, and compared with the definition of the collective afterwards. */
#ifndef TESTS_SUPPORT_MEMORY_H
#define TESTS_SUPPORT_MEMORY_H

#include <stddef.h>
#include "reduce/reduce.h"
#include "support/cases.h"

/* SRC and DST of a rank are two pieces of memory, also in place: tt_coll_canonical says which bytes of which one count, and nothing
 * may touch the others. */
struct case_memory {
    const struct case_spec *spec;
    const struct case_calls *calls;
    uint64_t bytes[CASE_RANKS_MAX][2];
    void *src[CASE_RANKS_MAX], *dst[CASE_RANKS_MAX];    /* exactly as long as the call says, so that a sanitizer sees what goes past */
    uint8_t *before[CASE_RANKS_MAX][2];
};

/* spec and calls stay the caller's, alive until case_memory_fini. */
void case_memory_init(struct case_memory *m, const struct case_spec *spec, const struct case_calls *calls);
void case_memory_fini(struct case_memory *m);

/* Memory of rank r is as before but for the result, which is right. Else false, and why[why_bytes] says which byte. */
bool case_memory_right(const struct case_memory *m, uint32_t r, char *why, size_t why_bytes);

/* The reduction that the definition goes by, of unsigned elements of 1, 2, 4 or 8 bytes: the lower half is a sum, the upper half is
 * the left operand's (that of rank 0 in the end, if the lower rank is always on the left); a finishing one then doubles the sum and
 * adds 1, so that it shows how often it was done. */
tt_reduce_fn *case_kernel(uint32_t elem_bytes, bool finish);

#endif
