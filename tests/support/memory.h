/* The memory of all ranks of a case: filled with input, and later compared with the expected
 * result. */
#ifndef TESTS_SUPPORT_MEMORY_H
#define TESTS_SUPPORT_MEMORY_H

#include <stddef.h>
#include "reduce/reduce.h"
#include "support/cases.h"

/* SRC and DST of a rank are separate buffers, even for in-place calls. tt_coll_canonical defines
 * the significant bytes of each. The other bytes must not be changed. */
struct case_memory {
    const struct case_spec *spec;
    const struct case_calls *calls;
    uint64_t bytes[CASE_RANKS_MAX][2];
    void *src[CASE_RANKS_MAX], *dst[CASE_RANKS_MAX];    /* exactly as long as the call requires,
                                                           so that sanitizers detect overruns */
    uint8_t *before[CASE_RANKS_MAX][2];
};

/* spec and calls remain the caller's, and must be valid until case_memory_fini. */
void case_memory_init(struct case_memory *m, const struct case_spec *spec,
                      const struct case_calls *calls);
void case_memory_fini(struct case_memory *m);

/* Returns whether the memory of rank r is unchanged except for a correct result. Otherwise
 * why[why_bytes] names the wrong byte. */
bool case_memory_right(const struct case_memory *m, uint32_t r, char *why, size_t why_bytes);

/* Returns the reduction of case_memory, for unsigned elements of 1, 2, 4 or 8 bytes. The lower half
 * is a sum. The upper half is that of the left operand: in the result, that of rank 0, if lower
 * ranks are always on the left. A finishing reduction then doubles the sum and adds 1, which shows
 * how often it ran. */
tt_reduce_fn *case_kernel(uint32_t elem_bytes, bool finish);

#endif
