/* --trace FILE: records the events of every segment on every lane of all ranks during a
 * measurement, in one file. */
#ifndef TUTTI_TOOLS_PERF_TRACE_H
#define TUTTI_TOOLS_PERF_TRACE_H

#include <stdbool.h>
#include <stdio.h>
#include "tutti/tutti.h"

#define PERF_TRACE_DEPTH (1u << 17)     /* maximum number of events per rank; the newest are kept */

struct perf_trace {
    tutti_comm *comm;
    const char *file;           /* NULL: no trace */
    FILE *to;                   /* on rank 0 only */
};

/* Starts the trace on all ranks; rank 0 creates the file. `file` must be equal on all ranks and
 * remain valid until the end. NULL: no trace; a name that ends in .svg selects a drawing, any other
 * name JSON. Returns false after an error message. */
bool perf_trace_begin(struct perf_trace *t, tutti_comm *comm, const char *file);
/* Ends the trace on all ranks: gathers the events on rank 0, which writes the file. `what`
 * describes the measurement. Returns false after an error message. */
bool perf_trace_end(struct perf_trace *t, const char *what);
/* Ends the trace on this rank only, after an error. */
void perf_trace_leave(struct perf_trace *t);

#endif
