/* What `tutti perf` was asked for. */
#ifndef TUTTI_TOOLS_PERF_OPTIONS_H
#define TUTTI_TOOLS_PERF_OPTIONS_H

#include "perf_case.h"
#include "perf_measure.h"

struct perf_options {
    const struct perf_coll *coll;   /* NULL: all collectives */
    uint32_t nranks;                /* 0: not said */
    const char *wire, *algo;        /* NULL: the library chooses */
    size_t min_bytes, max_bytes;
    size_t factor;                  /* from one size to the next */
    tutti_dtype dtype;
    tutti_redop op;
    tutti_quant quant;              /* NONE: numbers travel as they are */
    uint32_t root;
    struct perf_effort effort;
    bool out_of_place, in_place;    /* which are measured */
    bool check, json, mem_alloc, timers;
    size_t spoil;                   /* elements to spoil before every check */
    const char *interactive;        /* directory of the pipes */
    const char *trace;              /* file for the trace of segments; NULL: none */
};

/* Reads the arguments; ends the process with status 2 and a sentence if they make no sense. Strings point into argv. */
void perf_options_parse(struct perf_options *o, int argc, char **argv);

#endif
