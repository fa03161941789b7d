/* Parts of `tutti perf` with separate tests. The command is not a library, so they are compiled
 * again here. */
#include "../tools/fit.c"
#include "../tools/perf/perf_case.c"
#include "../tools/perf/perf_work.c"
#include "../tools/perf/perf_check.c"
#include "../tools/perf/perf_measure.c"
#include "../tools/perf/perf_start.c"
