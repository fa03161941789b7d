/* Known input data, and checks of the result against the definition of the collective. Pure: no
 * communication. */
#ifndef TUTTI_TOOLS_PERF_CHECK_H
#define TUTTI_TOOLS_PERF_CHECK_H

#include "tools/perf/perf_case.h"

/* Writes this rank's known input to src, after filling dst with invalid data. The case must have
 * been placed. */
void perf_check_fill(const struct perf_case *c);
/* Returns the number of wrong elements of dst after the call. The comparison is bitwise. Sums
 * whose partial results a narrow float cannot represent exactly may differ by the error bound of
 * tutti.h. */
uint64_t perf_check_wrong(const struct perf_case *c);
/* Inverts the first n elements of the result, to verify that the check finds errors. */
void perf_check_spoil(const struct perf_case *c, size_t n);

#endif
