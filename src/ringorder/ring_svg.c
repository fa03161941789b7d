#include "ringorder/ring_svg.h"

#include <math.h>
#include <string.h>
#include "base/xml.h"

#define CELL 26.0
#define SMALL_CELL 6.0
#define NAMED_MAX 48u       /* with more peers, cells are small and have no names */
#define LETTER 6.6          /* average width of a letter of size 11 */
#define LEGEND_WIDTH 300.0
#define MARGIN 12.0
#define FOOT 46.0

/* Layout of the drawing. */
struct frame {
    double left, top;       /* of the first cell */
    double size;            /* of a cell */
};

static struct frame frame_of(const struct tt_ring_picture *p)
{
    struct frame at = { MARGIN, MARGIN, p->m->n <= NAMED_MAX ? CELL : SMALL_CELL };
    size_t longest = 0;

    for (uint32_t i = 0; p->m->n <= NAMED_MAX && i < p->m->n; i++)
        longest = strlen(p->name[i]) > longest ? strlen(p->name[i]) : longest;
    at.left += LETTER * (double)longest;
    at.top += LETTER * (double)longest * 0.87;      /* names of columns are drawn at 60 degrees */
    return at;
}

static void find_range(const struct tt_ring_matrix *m, double *least, double *most)
{
    *least = INFINITY;
    *most = 1;
    for (uint32_t i = 0; i < m->n; i++)
        for (uint32_t k = 0; k < m->n; k++) {
            const double rate = (double)tt_ring_rate(m, i, k);

            if (i == k || rate <= 0)
                continue;
            *least = rate < *least ? rate : *least;
            *most = rate > *most ? rate : *most;
        }
}

static void draw_cell(const struct tt_ring_picture *p, uint32_t from, uint32_t to, double x,
                      double y, double size, double share, FILE *f)
{
    const uint64_t rate = tt_ring_rate(p->m, from, to);

    /* from faint to strong, visible on white and black */
    fprintf(f,
            "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='#1f77d0' fill-opacity='%.2f' "
            "stroke='#999' stroke-width='0.3'><title>",
            x, y, size, size, rate ? 0.06 + 0.94 * share : 0.0);
    tt_xml_put(f, p->name[from]);
    fputs(" to ", f);
    tt_xml_put(f, p->name[to]);
    if (rate)
        fprintf(f, ": %.3g Mbit/s", (double)rate / 125000);
    else
        fputs(": no link", f);
    if (rate && p->m->latency)
        fprintf(f, ", %.3g ms", (double)p->m->latency[(size_t)from * p->m->n + to] / 1e6);
    fputs("</title></rect>\n", f);
}

static void draw_names(const struct tt_ring_picture *p, const struct frame *at, FILE *f)
{
    for (uint32_t k = 0; k < p->m->n; k++) {
        const double middle = (k + 0.5) * at->size;

        fprintf(f, "<text x='%.1f' y='%.1f' font-size='11' text-anchor='end'>", at->left - 6,
                at->top + middle + 4);
        tt_xml_put(f, p->name[p->order[k]]);
        fprintf(f, "</text>\n<text font-size='11' transform='translate(%.1f %.1f) rotate(-60)'>",
                at->left + middle, at->top - 6);
        tt_xml_put(f, p->name[p->order[k]]);
        fputs("</text>\n", f);
    }
}

static void draw_legend(double x, double y, double least, double most, FILE *f)
{
    fprintf(f,
            "<text x='%.1f' y='%.1f' font-size='12'>From row to column, in the order of the ring "
            "(framed)</text>\n",
            x, y);
    if (most >= least)
        fprintf(
            f,
            "<text x='%.1f' y='%.1f' font-size='12'>%.3g (faint) to %.3g Mbit/s (strong)</text>\n",
            x, y + 16, least / 125000, most / 125000);
}

void tt_ring_svg_draw(const struct tt_ring_picture *p, FILE *f)
{
    const struct tt_ring_matrix *m = p->m;
    const uint32_t *order = p->order;
    const struct frame at = frame_of(p);
    const double side = at.size * m->n, lean = (at.top - MARGIN) / 1.7,
                 width = side + lean > LEGEND_WIDTH ? side + lean : LEGEND_WIDTH;
    double least, most;

    find_range(m, &least, &most);
    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' "
            "font-family='Helvetica,Arial,sans-serif' fill='currentColor'>\n",
            at.left + width + MARGIN, at.top + side + FOOT);
    fputs("<rect class='back' width='100%' height='100%' fill='white'/>\n", f);
    for (uint32_t i = 0; i < m->n; i++)
        for (uint32_t k = 0; k < m->n; k++) {
            const double rate = (double)tt_ring_rate(m, order[i], order[k]);

            if (i != k)
                draw_cell(p, order[i], order[k], at.left + k * at.size, at.top + i * at.size,
                          at.size,
                          most > least && rate > 0 ? log(rate / least) / log(most / least) : 1, f);
        }
    for (uint32_t k = 0; m->n > 1 && k < m->n; k++)
        fprintf(f,
                "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='none' stroke='#d55e00' "
                "stroke-width='2'/>\n",
                at.left + (k + 1 < m->n ? k + 1 : 0) * at.size, at.top + k * at.size, at.size,
                at.size);
    if (m->n <= NAMED_MAX)
        draw_names(p, &at, f);
    draw_legend(at.left, at.top + side + 20, least, most, f);
    fputs("</svg>\n", f);
}
