/* What `tutti perf putsignal` and `tutti sim putsignal` print: a line for each mode of each case, and lines through the times of a mode over sizes. */
#ifndef TUTTI_TOOLS_PUTSIGNAL_PRINT_H
#define TUTTI_TOOLS_PUTSIGNAL_PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PUTSIGNAL_LIST_MAX 16       /* numbers of transfers, and sizes, of a run */
#define PUTSIGNAL_ROUNDS_MAX 64

/* What is done at once. */
struct putsignal_case {
    uint32_t nranks, nhosts, nsources, ndestinations;   /* destinations: of one source */
    uint32_t transfers;                                 /* of one source */
    uint32_t group;                                     /* transfers of one, a divisor of them; 0: those to one destination */
    uint64_t bytes;
};

/* One mode of it. Counts are of one source and burst. */
struct putsignal_row {
    struct putsignal_case c;
    const char *mode;
    uint32_t nblocks;                   /* of a source; 0: there are none */
    uint32_t nrounds;
    double us[PUTSIGNAL_ROUNDS_MAX];    /* of a burst, round by round */
    double only_us[PUTSIGNAL_ROUNDS_MAX];   /* the same of put-only; 0: it was not measured */
    double drains, fences, signals;
    bool checked;
    uint64_t wrong;                     /* bytes */
};

/* The median of us[n]; n from 1 to PUTSIGNAL_ROUNDS_MAX. */
double putsignal_median(const double *us, uint32_t n);

/* The columns' names. */
void putsignal_print_columns(FILE *to);
void putsignal_print_row(FILE *to, const struct putsignal_row *row, bool json);
/* For each mode, number of ranks and number of transfers of rows[n] that has two sizes or more: time of a transfer = alpha + beta * bytes, fitted to the medians. */
void putsignal_print_fits(FILE *to, const struct putsignal_row *rows, uint32_t n, bool json);

#endif
