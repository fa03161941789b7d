/* What `tutti perf` prints: a table in the shape of nccl-tests', or a JSON object per line. Rank 0 only. */
#ifndef TUTTI_TOOLS_PERF_PRINT_H
#define TUTTI_TOOLS_PERF_PRINT_H

#include <stdio.h>
#include "perf_options.h"

/* One measurement. */
struct perf_row {
    const struct perf_case *c;
    const char *algo, *wire;
    struct perf_times times;
    long iters;
    uint64_t wrong;             /* read only if checked */
    bool measured;
    bool timed;                 /* what follows is set */
    struct perf_where where;
};

/* Who takes part: a line of text per rank, gathered on rank 0. */
#define PERF_PLACE_BYTES 96

/* Prints to `out`, and progress to stderr if that is a terminal. */
struct perf_printer {
    const struct perf_options *o;
    FILE *out;
    bool progress;              /* stderr is a terminal */
    uint32_t ntotal, ndone;     /* measurements */
    uint32_t nmeasured;         /* of them; the others could not be */
    double busbw_sum;
    uint32_t nbusbw;
    uint64_t wrong;
    uint32_t nchecked;          /* calls whose result was compared */
};

double perf_algbw_gbs(const struct perf_row *row);
double perf_busbw_gbs(const struct perf_row *row);

/* The lines above everything. places[nranks]. */
void perf_print_start(struct perf_printer *p, uint32_t nranks, const char *wire,
                      const char (*places)[PERF_PLACE_BYTES]);
/* The columns' names; `coll` is what the rows below are. */
void perf_print_columns(struct perf_printer *p, const struct perf_coll *coll);
/* What is measured now, on stderr. */
void perf_print_progress(struct perf_printer *p, const struct perf_case *c);
/* One size, out of place and in place; at least one of them was measured. */
void perf_print_rows(struct perf_printer *p, const struct perf_row rows[2]);
/* Why a size is missing. */
void perf_print_skipped(struct perf_printer *p, const struct perf_case *c);
/* The closing lines, and why nothing was measured, where that is so. */
void perf_print_end(struct perf_printer *p);

#endif
