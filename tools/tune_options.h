/* What `tutti tune` was asked for. */
#ifndef TUTTI_TOOLS_TUNE_OPTIONS_H
#define TUTTI_TOOLS_TUNE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/sched.h"

struct tune_options {
    uint32_t nranks;            /* 0: not said */
    const char *wire;           /* NULL: all usable */
    bool wanted[TT_COLL_KINDS]; /* collectives */
    uint32_t nwanted;           /* that were named; 0: none was, and all are wanted */
    size_t min_bytes, max_bytes, factor;
    uint32_t rounds;
    const char *out;            /* the file to write */
    const char *show, *plot;    /* the file to show; where to draw it; NULL: not asked for */
};

#define TUNE_ROUNDS_MAX 64u

/* Reads the arguments; ends the process with status 2 and a sentence if they make no sense. Strings point into argv. */
void tune_options_parse(struct tune_options *o, int argc, char **argv);

#endif
