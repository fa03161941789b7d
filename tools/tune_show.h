/* Tune files for people: a table, a summary, a drawing. */
#ifndef TUTTI_TOOLS_TUNE_SHOW_H
#define TUTTI_TOOLS_TUNE_SHOW_H

#include <stdio.h>
#include "comm/tunefile.h"

/* The lines above everything: who measured, when, where. */
void tune_show_head(const struct tt_tunefile *f, FILE *to);
/* The names of the columns of a collective's table. */
void tune_show_columns(enum tt_coll_kind kind, FILE *to);
/* One line: rows[n] of one size, best first, n > 0. */
void tune_show_size(const struct tt_tune_row *rows, uint32_t n, uint32_t nranks, FILE *to);
/* How far what is chosen untuned is behind the best: in the mean, and where it is worst. */
void tune_show_summary(const struct tt_tunefile *f, FILE *to);
/* All of it. */
void tune_show(const struct tt_tunefile *f, FILE *to);

/* Draws a collective: time over size, a line for each algorithm. SYSTEM, or INVALID where there is nothing to draw (both logged). */
tutti_status tune_plot(const struct tt_tunefile *f, enum tt_coll_kind kind, const char *path);

/* The rows of the first row's collective and size, from it on: how many. */
uint32_t tune_rows_alike(const struct tt_tune_row *row, const struct tt_tune_row *end);

#endif
