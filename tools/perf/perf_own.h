/* Memory that the library uses for a measured call, in addition to its buffers. */
#ifndef TUTTI_TOOLS_PERF_OWN_H
#define TUTTI_TOOLS_PERF_OWN_H

#include "tools/perf/perf_case.h"

/* Returns an upper bound of the library's memory per rank, in bytes, that does not depend on the
 * call: regions for received segments, and a link to each peer. */
uint64_t perf_own_base(uint32_t nranks);
/* Returns the bytes that the call allocates on this rank: the scaled copy of its input, packed
 * values of a quantized call, and the work buffer of the selected algorithm. The case is
 * initialized; *refused as in perf_case_algo. UINT64_MAX on overflow. */
uint64_t perf_own_call(const struct perf_case *c, tutti_comm *comm, bool *refused);

#endif
