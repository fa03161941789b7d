#include "trace/svg.h"

#include <inttypes.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/status.h"
#include "base/xml.h"

/* Lengths in pixels. */
#define LEFT 300            /* start of the time axis */
#define WIDTH 1000          /* its length */
#define TOP 66              /* position of the first lane */
#define LINE 22
#define BAR 11
#define MARK 5              /* size of the mark of an arrival, below the bar */
#define MARGIN 12
#define TICKS 8

static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73",
                                       "#cc79a7", "#8a6d00", "#5b4fc9" };
#define NCOLOURS (sizeof colours / sizeof *colours)

struct picture {
    FILE *to;
    const struct tt_timeline *t;
    const struct tt_timeline_segment **drawn;   /* [ndrawn] */
    size_t ndrawn;
    uint64_t begin_ns, end_ns;
};

/* Returns the time of a segment's last event. */
static uint64_t last_ns(const struct tt_timeline_segment *g)
{
    uint64_t last = 0;

    if (g->posted_ns != TT_NEVER)
        last = g->posted_ns;
    if (g->completed_ns != TT_NEVER && g->completed_ns > last)
        last = g->completed_ns;
    return g->arrived_ns != TT_NEVER && g->arrived_ns > last ? g->arrived_ns : last;
}

/* Returns the time of a segment's first event. */
static uint64_t first_ns(const struct tt_timeline_segment *g)
{
    uint64_t first = g->posted_ns;      /* TT_NEVER is greater than all others */

    first = g->completed_ns < first ? g->completed_ns : first;
    return g->arrived_ns < first ? g->arrived_ns : first;
}

static int newest_first(const void *a, const void *b)
{
    const uint64_t x = last_ns(*(const struct tt_timeline_segment *const *)a);
    const uint64_t y = last_ns(*(const struct tt_timeline_segment *const *)b);

    return (x < y) - (x > y);
}

static double x_of(const struct picture *p, uint64_t ns)
{
    const double all = p->end_ns > p->begin_ns ? (double)(p->end_ns - p->begin_ns) : 1;

    return LEFT + WIDTH * ((double)ns - (double)p->begin_ns) / all;
}

/* ---- marks ---- */

static void draw_head(const struct picture *p, const char *title)
{
    const double height = TOP + (double)p->t->nrows * LINE + MARGIN,
                 width = LEFT + WIDTH + 4 * MARGIN;

    fprintf(p->to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 "
            "0 %.0f %.0f\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"#ffffff\"/>\n"
            "<text x=\"%d\" y=\"20\" font-size=\"14\" font-weight=\"bold\">",
            width, height, width, height, MARGIN);
    tt_xml_put(p->to, title);
    fprintf(p->to,
            "</text>\n<text x=\"%d\" y=\"36\" fill=\"#555555\">bars: segments from post to "
            "completion; marks below: "
            "arrivals",
            MARGIN);
    if (p->ndrawn < p->t->nsegments)
        fprintf(p->to, "; the newest %zu of %zu segments", p->ndrawn, p->t->nsegments);
    fputs("</text>\n", p->to);
}

/* Returns a step of 1, 2 or 5 times a power of ten, so that `all` contains at most TICKS steps. */
static double axis_step(double all)
{
    double power = 1e-3;

    while (10 * power * TICKS < all)
        power *= 10;
    return power * TICKS >= all       ? power
           : 2 * power * TICKS >= all ? 2 * power
           : 5 * power * TICKS >= all ? 5 * power
                                      : 10 * power;
}

static void draw_axis(const struct picture *p)
{
    const double all_us = (double)(p->end_ns - p->begin_ns) * 1e-3,
                 step = axis_step(all_us > 0 ? all_us : 1);
    const double bottom = TOP + (double)p->t->nrows * LINE;

    for (int i = 0; i * step <= all_us; i++) {
        const double x = x_of(p, p->begin_ns + (uint64_t)(i * step * 1e3));

        fprintf(p->to,
                "<path d=\"M%.1f %d V%.1f\" stroke=\"#dddddd\"/><text x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\" "
                "fill=\"#555555\">%g us</text>\n",
                x, TOP - 8, bottom, x, TOP - 12, i * step);
    }
}

static void draw_rows(const struct picture *p)
{
    char name[TT_TIMELINE_NAME_BYTES];

    for (size_t i = 0; i < p->t->nrows; i++) {
        const struct tt_timeline_row *row = &p->t->rows[i];
        const double y = TOP + (double)i * LINE;

        if (i > 0 && row->from != p->t->rows[i - 1].from)
            fprintf(p->to, "<path d=\"M%d %.1f H%d\" stroke=\"#999999\"/>\n", MARGIN, y - 4,
                    LEFT + WIDTH);
        fprintf(p->to,
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">rank %" PRIu32 ": %s</text>\n",
                LEFT - 8, y + BAR - 2, row->from, tt_timeline_name(row, name));
    }
}

static void draw_delay(const struct picture *p, const char *what, uint64_t ns, uint64_t posted_ns)
{
    if (ns != TT_NEVER && posted_ns != TT_NEVER)
        fprintf(p->to, ", %s after %.1f us", what, ((double)ns - (double)posted_ns) * 1e-3);
    else
        fprintf(p->to, ", not seen to be %s", what);
}

static void draw_bar(const struct picture *p, const struct tt_timeline_segment *g, double y)
{
    const double from = x_of(p, g->posted_ns);
    const double wide = g->completed_ns != TT_NEVER ? x_of(p, g->completed_ns) - from : 0;

    fprintf(p->to,
            "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill-opacity=\"0.5\"/>", from,
            y, wide > 0.6 ? wide : 0.6, BAR);
}

static void draw_segment(const struct picture *p, const struct tt_timeline_segment *g)
{
    const double y = TOP + (double)g->row * LINE;

    fprintf(p->to, "<g fill=\"%s\"><title>number %" PRIu32,
            colours[p->t->rows[g->row].lane % NCOLOURS], g->number);
    if (g->part)
        fprintf(p->to, ", part %" PRIu32, g->part);
    fprintf(p->to, ", %" PRIu64 " bytes", g->bytes);
    draw_delay(p, "completed", g->completed_ns, g->posted_ns);
    draw_delay(p, "arrived", g->arrived_ns, g->posted_ns);
    fputs("</title>", p->to);
    if (g->posted_ns != TT_NEVER)
        draw_bar(p, g, y);
    if (g->arrived_ns != TT_NEVER)
        fprintf(p->to, "<rect x=\"%.2f\" y=\"%.1f\" width=\"1\" height=\"%d\"/>",
                x_of(p, g->arrived_ns), y + BAR + 1, MARK);
    fputs("</g>\n", p->to);
}

tutti_status tt_timeline_write_svg(const struct tt_timeline *t, const char *title, FILE *to)
{
    struct picture p = { .to = to, .t = t, .ndrawn = t->nsegments };

    p.drawn = calloc(t->nsegments + 1, sizeof *p.drawn);
    if (!p.drawn)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the drawing of %zu segments",
                       t->nsegments);
    for (size_t i = 0; i < t->nsegments; i++)
        p.drawn[i] = &t->segments[i];
    qsort(p.drawn, t->nsegments, sizeof *p.drawn, newest_first);
    if (p.ndrawn > TT_TIMELINE_DRAWN_MAX)
        p.ndrawn = TT_TIMELINE_DRAWN_MAX;
    p.begin_ns = p.end_ns = p.ndrawn ? first_ns(p.drawn[0]) : 0;
    for (size_t i = 0; i < p.ndrawn; i++) {
        p.begin_ns = first_ns(p.drawn[i]) < p.begin_ns ? first_ns(p.drawn[i]) : p.begin_ns;
        p.end_ns = last_ns(p.drawn[i]) > p.end_ns ? last_ns(p.drawn[i]) : p.end_ns;
    }
    draw_head(&p, title);
    draw_axis(&p);
    draw_rows(&p);
    for (size_t i = p.ndrawn; i > 0; i--)
        draw_segment(&p, p.drawn[i - 1]);
    fputs("</svg>\n", to);
    free(p.drawn);
    return TUTTI_OK;
}
