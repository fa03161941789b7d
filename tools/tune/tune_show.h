/* Human-readable output of tune files: a table, a summary, a drawing. */
#ifndef TUTTI_TOOLS_TUNE_SHOW_H
#define TUTTI_TOOLS_TUNE_SHOW_H

#include <stdio.h>
#include "comm/tunefile.h"

/* Prints the header: the machine, the time and the ranks of the measurement. */
void tune_show_head(const struct tt_tunefile *f, FILE *to);
/* Prints the column names of a collective's table. */
void tune_show_columns(enum tt_coll_kind kind, FILE *to);
/* Prints one line for one size: rows[n], best first, n > 0. */
void tune_show_size(const struct tt_tune_row *rows, uint32_t n, uint32_t nranks, FILE *to);
/* Prints by how much the choices without a tune file are slower than the best: mean and maximum. */
void tune_show_summary(const struct tt_tunefile *f, FILE *to);
/* Prints all of the above. */
void tune_show(const struct tt_tunefile *f, FILE *to);

/* Draws a collective: time over size, one line per algorithm. Returns SYSTEM, or INVALID if there
 * is no data (both logged). */
tutti_status tune_plot(const struct tt_tunefile *f, enum tt_coll_kind kind, const char *path);

/* Returns the number of consecutive rows, from `row` on, with the collective and size of `row`. */
uint32_t tune_rows_alike(const struct tt_tune_row *row, const struct tt_tune_row *end);

#endif
