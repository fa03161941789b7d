/* --trace FILE: what became of each segment of each lane while something was measured, of all ranks, in one file. */
#ifndef TUTTI_TOOLS_PERF_TRACE_H
#define TUTTI_TOOLS_PERF_TRACE_H

#include <stdbool.h>
#include <stdio.h>
#include "tutti/tutti.h"

#define PERF_TRACE_DEPTH (1u << 17)     /* events that a rank keeps: the newest */

struct perf_trace {
    tutti_comm *comm;
    const char *file;           /* NULL: nobody wants it */
    FILE *to;                   /* rank 0's */
};

/* Begins, on all ranks; rank 0 creates the file. file: NULL, or a name that ends in .svg for a picture, in anything else for JSON; the same on all ranks, alive
 * until the end. False: it was said why. */
bool perf_trace_begin(struct perf_trace *t, tutti_comm *comm, const char *file);
/* Ends, on all ranks: brings the events to rank 0, which writes the file. what: a sentence on what was measured. False: it was said why. */
bool perf_trace_end(struct perf_trace *t, const char *what);
/* Ends it on this rank alone, after an error. */
void perf_trace_leave(struct perf_trace *t);

#endif
