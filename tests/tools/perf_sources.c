/* The parts of `tutti perf` that are tested by themselves. The command is no library, so they are compiled here once more. */
#include "../tools/fit.c"
#include "../tools/perf_case.c"
#include "../tools/perf_check.c"
#include "../tools/perf_measure.c"
#include "../tools/perf_start.c"
