#include "tools/sim/sim_plot.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "base/status.h"
#include "base/xml.h"

#define WIDTH 760.0
#define HEIGHT 440.0
#define LEFT 74.0
#define RIGHT 220.0     /* space for the legend */
#define TOP 60.0
#define BOTTOM 46.0

static const char *const colours[] = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9",
    "#e69f00", "#000000", "#999933", "#882255", "#117733",
};
#define NCOLOURS (sizeof colours / sizeof *colours)

/* A logarithmic axis. */
struct axis {
    double low, high, from, to;
};

static double at(const struct axis *a, double value)
{
    return a->from + (log2(value) - a->low) / (a->high - a->low) * (a->to - a->from);
}

static void label(FILE *f, double x, double y, const char *anchor, int points, const char *text)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">", x, y, anchor,
            points);
    tt_xml_put(f, text);
    fprintf(f, "</text>\n");
}

static void line(FILE *f, double x1, double y1, double x2, double y2, const char *colour,
                 double width)
{
    fprintf(f,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-width=\"%.1f\"/>\n",
            x1, y1, x2, y2, colour, width);
}

static void size_text(char out[24], double bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    int u = 0;

    for (; bytes >= 1024 && u < 4; u++)
        bytes /= 1024;
    snprintf(out, 24, "%g %s", bytes, units[u]);
}

static void time_text(char out[24], double us)
{
    if (us < 1)
        snprintf(out, 24, "%g ns", us * 1000);
    else if (us < 1000)
        snprintf(out, 24, "%g us", us);
    else if (us < 1e6)
        snprintf(out, 24, "%g ms", us / 1000);
    else
        snprintf(out, 24, "%g s", us / 1e6);
}

static void draw_axes(FILE *f, const struct axis *x, const struct axis *y)
{
    const int step = x->high - x->low > 16 ? 4 : 2;
    char text[24];

    for (int k = (int)ceil(x->low); k <= (int)floor(x->high); k++) {
        if (k % step)
            continue;
        size_text(text, exp2(k));
        line(f, at(x, exp2(k)), y->from, at(x, exp2(k)), y->to, "#eee", 1);
        label(f, at(x, exp2(k)), y->from + 18, "middle", 11, text);
    }
    for (int e = -4; e < 13; e++)
        for (int m = 1; m < 10; m++) {
            const double us = m * pow(10, e);
            const bool named = m == 1 || (m == 3 && y->high - y->low < 12);

            if (log2(us) < y->low || log2(us) > y->high)
                continue;
            line(f, x->from, at(y, us), x->to, at(y, us), named ? "#ccc" : "#f2f2f2", 1);
            if (!named)
                continue;
            time_text(text, us);
            label(f, x->from - 6, at(y, us) + 4, "end", 11, text);
        }
    line(f, x->from, y->from, x->to, y->from, "#444", 1);
    line(f, x->from, y->from, x->from, y->to, "#444", 1);
}

static void draw_series(FILE *f, const struct axis *x, const struct axis *y,
                        const struct sim_point *p, uint32_t n, uint32_t number)
{
    const char *colour = colours[number % NCOLOURS];
    const char *dash = number < NCOLOURS ? "none" : "5 3";
    const double legend_y = TOP + 12 + 18 * number;

    fprintf(f,
            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" stroke-dasharray=\"%s\" "
            "points=\"",
            colour, dash);
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, "%.1f,%.1f ", at(x, (double)p[i].bytes), at(y, p[i].time_us));
    fprintf(f, "\"/>\n");
    for (uint32_t i = 0; i < n; i++)
        fprintf(f,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" fill=\"%s\"><title>%.3f "
                "us</title></circle>\n",
                at(x, (double)p[i].bytes), at(y, p[i].time_us), colour, p[i].time_us);
    line(f, x->to + 14, legend_y, x->to + 34, legend_y, colour, 2.5);
    label(f, x->to + 40, legend_y + 4, "start", 12, p->series);
}

static void draw(FILE *f, const char *title, const char *subtitle, const struct sim_point *p,
                 uint32_t n)
{
    struct axis x = { .low = 1e9, .high = -1e9, .from = LEFT, .to = WIDTH - RIGHT };
    struct axis y = { .low = 1e9, .high = -1e9, .from = HEIGHT - BOTTOM, .to = TOP };
    uint32_t number = 0, last;

    for (uint32_t i = 0; i < n; i++) {
        x.low = fmin(x.low, log2((double)p[i].bytes));
        x.high = fmax(x.high, log2((double)p[i].bytes));
        y.low = fmin(y.low, log2(p[i].time_us));
        y.high = fmax(y.high, log2(p[i].time_us));
    }
    x.low -= 0.4;
    x.high += 0.4;
    y.low -= 0.5;
    y.high += 0.5;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %g "
            "%g\" font-family=\"sans-serif\" "
            "fill=\"#222\">\n<rect width=\"%g\" height=\"%g\" fill=\"white\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    label(f, LEFT, 22, "start", 15, title);
    label(f, LEFT, 42, "start", 11, subtitle);
    draw_axes(f, &x, &y);
    for (uint32_t first = 0; first < n; first = last) {
        for (last = first + 1; last < n && strcmp(p[last].series, p[first].series) == 0;)
            last++;
        draw_series(f, &x, &y, p + first, last - first, number++);
    }
    fprintf(f, "</svg>\n");
}

tutti_status sim_plot(const char *path, const char *title, const char *subtitle,
                      const struct sim_point *points, uint32_t n)
{
    FILE *f = fopen(path, "w");
    int failed;

    if (!f)
        return tt_fail_errno(errno, "cannot write %s", path);
    draw(f, title, subtitle, points, n);
    failed = ferror(f);
    if (fclose(f) || failed)
        return tt_fail_errno(errno, "cannot write %s", path);
    return TUTTI_OK;
}
