/* Output of `tutti perf putsignal` and `tutti sim putsignal`: one line per mode and case, and
 * linear fits of the times of a mode over sizes. */
#ifndef TUTTI_TOOLS_PUTSIGNAL_PRINT_H
#define TUTTI_TOOLS_PUTSIGNAL_PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PUTSIGNAL_LIST_MAX 16       /* maximum number of transfer counts, and of sizes, per run */
#define PUTSIGNAL_ROUNDS_MAX 64

/* Parameters of a case. */
struct putsignal_case {
    uint32_t nranks, nhosts, nsources, ndestinations;   /* destinations: per source */
    uint32_t transfers;                                 /* per source */
    uint32_t group;                                     /* transfers per group, a divisor of
                                                           `transfers`; 0: all transfers to one
                                                           destination */
    uint64_t bytes;
};

/* Result of one mode of a case. Counts are per source and burst. */
struct putsignal_row {
    struct putsignal_case c;
    const char *mode;
    uint32_t nblocks;                   /* per source; 0: no blocks */
    uint32_t nrounds;
    double us[PUTSIGNAL_ROUNDS_MAX];    /* time of a burst, per round */
    double only_us[PUTSIGNAL_ROUNDS_MAX];   /* the same for put-only; 0: not measured */
    double drains, fences, signals;
    bool checked;
    uint64_t wrong;                     /* number of corrupted bytes */
};

/* Returns the median of us[n]; n from 1 to PUTSIGNAL_ROUNDS_MAX. */
double putsignal_median(const double *us, uint32_t n);

/* Prints the column names. */
void putsignal_print_columns(FILE *to);
void putsignal_print_row(FILE *to, const struct putsignal_row *row, bool json);
/* Prints a fit of the medians, transfer time = alpha + beta * bytes, for each mode, number of ranks
 * and number of transfers with at least two sizes in rows[n]. */
void putsignal_print_fits(FILE *to, const struct putsignal_row *rows, uint32_t n, bool json);

#endif
