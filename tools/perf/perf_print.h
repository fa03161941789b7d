/* Output of `tutti perf`: a table in the format of nccl-tests, or one JSON object per line. Rank 0
 * only. */
#ifndef TUTTI_TOOLS_PERF_PRINT_H
#define TUTTI_TOOLS_PERF_PRINT_H

#include <stdio.h>
#include "tools/perf/perf_options.h"

/* One measurement. */
struct perf_row {
    const struct perf_case *c;
    const char *algo, *wire;
    struct perf_times times;
    long iters;
    uint64_t wrong;             /* read only if checked */
    bool measured;
    bool timed;                 /* the following fields are set */
    struct perf_where where;
};

/* Description of a rank: one line of text, gathered on rank 0. */
#define PERF_PLACE_BYTES 96

/* Prints to `out`, and progress to stderr if it is a terminal. */
struct perf_printer {
    const struct perf_options *o;
    FILE *out;
    bool progress;              /* stderr is a terminal */
    uint32_t ntotal, ndone;     /* number of measurements */
    uint32_t nmeasured;         /* completed measurements, without the skipped ones */
    double busbw_sum;
    uint32_t nbusbw;
    uint64_t wrong;
    uint32_t nchecked;          /* calls whose result was checked */
};

double perf_algbw_gbs(const struct perf_row *row);
double perf_busbw_gbs(const struct perf_row *row);

/* Prints the lines above the table. places[nranks]. */
void perf_print_start(struct perf_printer *p, uint32_t nranks, const char *wire,
                      const char (*places)[PERF_PLACE_BYTES]);
/* Prints the column names; `coll` is the operation of the following rows. */
void perf_print_columns(struct perf_printer *p, const struct perf_coll *coll);
/* Prints the current measurement to stderr. */
void perf_print_progress(struct perf_printer *p, const struct perf_case *c);
/* Prints the row of one size, out of place and in place. At least one of them was measured. */
void perf_print_rows(struct perf_printer *p, const struct perf_row rows[2]);
/* Prints why a size is missing. */
void perf_print_skipped(struct perf_printer *p, const struct perf_case *c);
/* Prints the closing lines, or why nothing was measured. */
void perf_print_end(struct perf_printer *p);

#endif
