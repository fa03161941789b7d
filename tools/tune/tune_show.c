#include "tools/tune/tune_show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "tools/sim/sim_plot.h"

static uint32_t nhosts_of(const struct tt_tunefile *f)
{
    uint32_t most = 0;

    for (uint32_t r = 0; r < f->nranks; r++)
        most = f->host_of[r] > most ? f->host_of[r] : most;
    return most + 1;
}

/* The size of the larger buffer, which contains a block per rank in some collectives. */
static uint64_t larger_bytes(const struct tt_tune_row *row, uint32_t nranks)
{
    switch (row->kind) {
    case TT_ALLREDUCE: case TT_REDUCE: case TT_BROADCAST: return row->bytes;
    default: return row->bytes * nranks;
    }
}

/* The algorithm's name without the prefix of its collective. */
static const char *idea_of(const struct tt_tune_row *row)
{
    const size_t n = strlen(tt_coll_name(row->kind));

    return strncmp(row->name, tt_coll_name(row->kind), n) == 0 && row->name[n] == '_'
               ? row->name + n + 1
               : row->name;
}

static const struct tt_tune_row *untuned_of(const struct tt_tune_row *rows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (rows[i].untuned)
            return &rows[i];
    return NULL;
}

/* Time of the choice without a tune file, divided by the best time. 0: unknown. */
static double ratio_of(const struct tt_tune_row *rows, uint32_t n)
{
    const struct tt_tune_row *untuned = untuned_of(rows, n);

    return untuned && rows[0].median_us > 0 ? untuned->median_us / rows[0].median_us : 0;
}

uint32_t tune_rows_alike(const struct tt_tune_row *row, const struct tt_tune_row *end)
{
    uint32_t n = 0;

    while (row + n < end && row[n].kind == row->kind && row[n].bytes == row->bytes)
        n++;
    return n;
}

void tune_show_head(const struct tt_tunefile *f, FILE *to)
{
    const uint32_t nhosts = nhosts_of(f);

    fprintf(to, "# tutti %s tune: %u ranks on %u host%s, transport %s, measured on %s at %s%s\n",
            f->tutti, f->nranks, nhosts, nhosts == 1 ? "" : "s", f->wires, f->host, f->date,
            f->complete ? "" : "; INCOMPLETE");
}

void tune_show_columns(enum tt_coll_kind kind, FILE *to)
{
    fprintf(to, "#\n# %s\n#%11s %11s  %-24s %9s %7s %5s %11s   %-24s %11s %6s   %-24s %11s\n",
            tt_coll_name(kind), "size (B)", "count (B)", "best", "segment", "streams", "lanes",
            "time (us)", "untuned", "time (us)", "ratio", "next", "time (us)");
}

void tune_show_size(const struct tt_tune_row *rows, uint32_t n, uint32_t nranks, FILE *to)
{
    const struct tt_tune_row *untuned = untuned_of(rows, n);
    char lanes[8] = "-";        /* all lanes */
    uint32_t next = 1;

    if (rows->segments.lanes)
        snprintf(lanes, sizeof lanes, "%u", rows->segments.lanes);
    fprintf(to, " %11llu %11llu  %-24s %9llu %7u %5s %11.2f",
            (unsigned long long)larger_bytes(rows, nranks), (unsigned long long)rows->bytes,
            idea_of(rows), (unsigned long long)rows->segments.segment_bytes, rows->segments.streams,
            lanes, rows->median_us);
    if (untuned)
        fprintf(to, "   %-24s %11.2f %6.2f", idea_of(untuned), untuned->median_us,
                ratio_of(rows, n));
    else
        fprintf(to, "   %-24s %11s %6s", "-", "-", "-");
    while (next < n && strcmp(rows[next].name, rows[0].name) == 0)
        next++;
    if (next < n)
        fprintf(to, "   %-24s %11.2f", idea_of(&rows[next]), rows[next].median_us);
    fputc('\n', to);
    fflush(to);
}

void tune_show_summary(const struct tt_tunefile *f, FILE *to)
{
    const struct tt_tune_row *end = f->row + f->nrows, *worst = NULL;
    double logs = 0, highest = 0;
    uint32_t n = 0, alike;

    for (const struct tt_tune_row *row = f->row; row < end; row += alike) {
        double ratio;

        alike = tune_rows_alike(row, end);
        ratio = ratio_of(row, alike);
        if (ratio <= 0)
            continue;
        logs += log(ratio);
        n++;
        if (ratio > highest) {
            highest = ratio;
            worst = row;
        }
    }
    fputs("#\n", to);
    if (n)
        fprintf(to,
                "# untuned time / best time: geometric mean %.3f over %u calls, maximum %.2f (%s "
                "of %llu bytes)\n",
                exp(logs / n), n, highest, tt_coll_name(worst->kind),
                (unsigned long long)larger_bytes(worst, f->nranks));
}

void tune_show(const struct tt_tunefile *f, FILE *to)
{
    const struct tt_tune_row *end = f->row + f->nrows;
    uint32_t alike;

    tune_show_head(f, to);
    for (const struct tt_tune_row *row = f->row; row < end; row += alike) {
        if (row == f->row || row[-1].kind != row->kind)
            tune_show_columns(row->kind, to);
        alike = tune_rows_alike(row, end);
        tune_show_size(row, alike, f->nranks, to);
    }
    tune_show_summary(f, to);
}

/* ---- the drawing ---- */

/* Adds the fastest row of each size for the algorithm of row `of`. */
static uint32_t add_series(const struct tt_tunefile *f, const struct tt_tune_row *of,
                           struct sim_point *points)
{
    uint64_t last = 0;
    uint32_t n = 0;

    for (const struct tt_tune_row *row = of; row < f->row + f->nrows && row->kind == of->kind;
         row++) {
        if (row->bytes == last || strcmp(row->name, of->name) != 0)
            continue;
        points[n++] = (struct sim_point){ .series = of->name,
                                          .bytes = larger_bytes(row, f->nranks),
                                          .time_us = fmax(row->median_us, 0.001) };
        last = row->bytes;
    }
    return n;
}

static bool is_first_of_its_name(const struct tt_tunefile *f, const struct tt_tune_row *row)
{
    for (const struct tt_tune_row *other = f->row; other < row; other++)
        if (other->kind == row->kind && strcmp(other->name, row->name) == 0)
            return false;
    return true;
}

tutti_status tune_plot(const struct tt_tunefile *f, enum tt_coll_kind kind, const char *path)
{
    struct sim_point *points = calloc(f->nrows ? f->nrows : 1, sizeof *points);
    char title[160], subtitle[240];
    uint32_t n = 0;
    tutti_status st;

    if (!points)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u points", f->nrows);
    for (const struct tt_tune_row *row = f->row; row < f->row + f->nrows; row++)
        if (row->kind == kind && is_first_of_its_name(f, row))
            n += add_series(f, row, points + n);
    snprintf(title, sizeof title, "%s on %u ranks over %s, measured", tt_coll_name(kind), f->nranks,
             f->wires);
    snprintf(subtitle, sizeof subtitle, "time by size of the larger buffer; %s, %s", f->host,
             f->date);
    st = n ? sim_plot(path, title, subtitle, points, n)
           : tt_fail(TUTTI_ERR_INVALID, "cannot draw tune file %s: it contains no rows of %s",
                     f->path, tt_coll_name(kind));
    free(points);
    return st;
}
