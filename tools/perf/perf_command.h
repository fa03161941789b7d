/* Commands of a `tutti perf --interactive` driver, one per line. */
#ifndef TOOLS_PERF_COMMAND_H
#define TOOLS_PERF_COMMAND_H

#include "tools/perf/perf_case.h"
#include "tools/perf/perf_measure.h"

#define PERF_COMMAND_ITERS_MAX 10000000
#define PERF_COMMAND_WORK_DIGITS 9

struct perf_command {
    const struct perf_coll *coll;
    char algo[64];              /* "": the library selects */
    unsigned long work;         /* of overlap and compute, in place of an algorithm */
    size_t bytes;
    struct perf_effort effort;
    bool mem_alloc, in_place;
};

/* Parses "coll[/algo] bytes iters warmup loops memory" for nranks ranks. Returns NULL, or the error
 * message; then *out is undefined. */
const char *perf_command_parse(const char *line, int nranks, struct perf_command *out);

#endif
