/* What ranks print, line by line with "[rank] " before it, so that lines of different ranks do not mix. */
#ifndef TUTTI_TOOLS_RUN_OUTPUT_H
#define TUTTI_TOOLS_RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stream from a rank that goes to our descriptor `to`. */
struct output {
    int from;               /* non-blocking; -1: closed */
    int to;
    uint32_t rank;
    bool prefixed;          /* the line under way has its prefix already: it was longer than the buffer */
    size_t bytes;
    char line[8192];
};

/* Reads what is there and passes whole lines on. Closes at the end of the stream (an unfinished line is finished). */
void output_pump(struct output *o);
/* Passes on what is still there and closes, also if some process keeps the other end open. */
void output_finish(struct output *o);

#endif
