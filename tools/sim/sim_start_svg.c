/* The timeline of a simulated start-up: a row for each level, with a bar for each phase, from the
 * first process to the last one. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include "base/status.h"
#include "base/xml.h"
#include "tools/sim/sim_start.h"

#define LEFT 110.0
#define WIDTH 640.0             /* of the time axis */
#define RIGHT 30.0
#define TOP 60.0
#define BAR 11.0
#define GAP 18.0                /* between levels */
#define LEVEL (TT_START_PHASES * BAR + GAP)

static const char *const colours[TT_START_PHASES] = { "#7f7f7f", "#56b4e9", "#0072b2", "#009e73",
                                                      "#e69f00" };

struct picture {
    FILE *to;
    const struct tt_start_report *r;
    double end_s, bottom;
};

static double x_of(const struct picture *p, double s)
{
    return LEFT + WIDTH * s / p->end_s;
}

static void put_text(const struct picture *p, double x, double y, const char *anchor, int points,
                     const char *text)
{
    fprintf(p->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">", x, y, anchor,
            points);
    tt_xml_put(p->to, text);
    fputs("</text>\n", p->to);
}

static void put_bar(const struct picture *p, const struct tt_start_level *l, int phase, double y)
{
    const double first_s = (double)l->first_ns[phase] / 1e9,
                 last_s = (double)l->last_ns[phase] / 1e9;

    fprintf(p->to,
            "<rect class=\"phase\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
            "fill=\"%s\"><title>%s: %u processes, %.3f to %.3f s</title></rect>\n",
            x_of(p, first_s), y, fmax(x_of(p, last_s) - x_of(p, first_s), 1.5), BAR - 2,
            colours[phase], tt_start_phase_name((enum tt_start_phase)phase), l->nreached[phase],
            first_s, last_s);
}

static void put_level(const struct picture *p, uint32_t index)
{
    const struct tt_start_level *l = &p->r->level[index];
    const double y = TOP + LEVEL * index;
    char text[48], name[24];

    sim_start_level_name(l, name);
    put_text(p, LEFT - 10, y + 22, "end", 13, name);
    snprintf(text, sizeof text, "%u process%s", l->nprocesses, l->nprocesses == 1 ? "" : "es");
    put_text(p, LEFT - 10, y + 38, "end", 11, text);
    for (int k = 0; k < TT_START_PHASES; k++)
        if (l->nreached[k])
            put_bar(p, l, k, y + BAR * k);
}

/* A step of 1, 2 or 5 times a power of ten, for about eight marks. */
static double step_of(double end_s)
{
    const double rough = end_s / 8, power = pow(10, floor(log10(rough)));

    return power * (rough / power > 5 ? 10 : rough / power > 2 ? 5 : rough / power > 1 ? 2 : 1);
}

static void put_axis(const struct picture *p)
{
    const double step = step_of(p->end_s);
    char text[24];

    for (double s = 0; s <= p->end_s * 1.0001; s += step) {
        fprintf(p->to,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
                x_of(p, s), TOP - 6, x_of(p, s), p->bottom);
        snprintf(text, sizeof text, "%g s", s);
        put_text(p, x_of(p, s), p->bottom + 16, "middle", 11, text);
    }
}

static void put_legend(const struct picture *p)
{
    for (int k = 0; k < TT_START_PHASES; k++) {
        const double x = LEFT + 110.0 * k;

        fprintf(p->to,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"9\" fill=\"%s\"/>\n", x,
                p->bottom + 28, colours[k]);
        put_text(p, x + 18, p->bottom + 37, "start", 12,
                 tt_start_phase_name((enum tt_start_phase)k));
    }
}

static void draw(FILE *f, const struct tt_start_report *r)
{
    struct picture p = { .to = f, .r = r, .bottom = TOP + LEVEL * r->nlevels };
    char title[128];

    for (uint32_t i = 0; i < r->nlevels; i++)
        for (int k = 0; k < TT_START_PHASES; k++)
            p.end_s = fmax(p.end_s, (double)r->level[i].last_ns[k] / 1e9);
    p.end_s = fmax(p.end_s, 1e-6);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" "
            "font-family=\"sans-serif\" fill=\"#222\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            LEFT + WIDTH + RIGHT, p.bottom + 54);
    snprintf(title, sizeof title, "start-up of %u ranks, simulated", r->nranks);
    put_text(&p, LEFT, 22, "start", 15, title);
    put_text(&p, LEFT, 40, "start", 11,
             "from the first to the last process of each level that reaches a phase");
    put_axis(&p);
    for (uint32_t i = 0; i < r->nlevels; i++)
        put_level(&p, i);
    put_legend(&p);
    fprintf(f, "</svg>\n");
}

tutti_status sim_start_draw(const char *path, const struct tt_start_report *r)
{
    FILE *f = fopen(path, "w");
    int failed;

    if (!f)
        return tt_fail_errno(errno, "cannot write %s", path);
    draw(f, r);
    failed = ferror(f);
    if (fclose(f) || failed)
        return tt_fail_errno(errno, "cannot write %s", path);
    return TUTTI_OK;
}
