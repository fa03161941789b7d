/* Options of `tutti tune`. */
#ifndef TUTTI_TOOLS_TUNE_OPTIONS_H
#define TUTTI_TOOLS_TUNE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/sched.h"

struct tune_options {
    uint32_t nranks;            /* 0: not given */
    const char *wire;           /* NULL: all usable */
    bool wanted[TT_COLL_KINDS]; /* selected collectives */
    uint32_t nwanted;           /* number of named collectives; 0: all are selected */
    size_t min_bytes, max_bytes, factor;
    uint32_t rounds;
    const char *out;            /* output file */
    const char *show, *plot;    /* the file to show; the file of the drawing; NULL: not requested */
};

#define TUNE_ROUNDS_MAX 64u

/* Parses the arguments. Invalid arguments end the process with status 2 and an error message.
 * Strings point into argv. */
void tune_options_parse(struct tune_options *o, int argc, char **argv);

#endif
