/* Options of `tutti perf`. */
#ifndef TUTTI_TOOLS_PERF_OPTIONS_H
#define TUTTI_TOOLS_PERF_OPTIONS_H

#include "tools/perf/perf_case.h"
#include "tools/perf/perf_measure.h"

struct perf_options {
    const struct perf_coll *coll;   /* NULL: all collectives */
    uint32_t nranks;                /* 0: not given */
    const char *wire, *algo;        /* NULL: the library selects */
    size_t min_bytes, max_bytes;
    size_t factor;                  /* between successive sizes */
    tutti_dtype dtype;
    tutti_redop op;
    tutti_quant quant;              /* NONE: values are sent unchanged */
    uint32_t root;
    struct perf_effort effort;
    bool out_of_place, in_place;    /* forms to measure */
    bool check, json, mem_alloc, timers;
    size_t spoil;                   /* number of elements to spoil before every check */
    const char *interactive;        /* directory of the command pipes */
    const char *trace;              /* output file of the segment trace; NULL: none */
};

/* Parses the arguments. Invalid arguments end the process with status 2 and an error message.
 * Strings point into argv. */
void perf_options_parse(struct perf_options *o, int argc, char **argv);

#endif
