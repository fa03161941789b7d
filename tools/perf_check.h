/* Known inputs, and whether the result is what the definition of the collective makes of them. Pure: memory only. */
#ifndef TUTTI_TOOLS_PERF_CHECK_H
#define TUTTI_TOOLS_PERF_CHECK_H

#include "perf_case.h"

/* Writes this rank's known input to src, and rubbish to dst before. The case must have been placed. */
void perf_check_fill(const struct perf_case *c);
/* How many elements of dst are not what they must be after the call. Bit by bit; but sums whose partial results a narrow float
 * cannot hold exactly may be off by the bound that tutti.h promises. */
uint64_t perf_check_wrong(const struct perf_case *c);
/* Inverts the first n elements of the result: a check that finds nothing wrong afterwards is broken. */
void perf_check_spoil(const struct perf_case *c, size_t n);

#endif
