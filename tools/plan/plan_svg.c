#include "tools/plan/plan_svg.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "base/xml.h"

/* All in pixels. */
#define LEFT 104            /* x of the first column */
#define TOP 62              /* y of the first rank */
#define LEGEND_LINE 18
#define COLUMN_GAP 12
#define MARGIN 12

static const char *const colours[TT_DISTANCES] = {
    [TT_NEAR_SELF] = "#888888",   [TT_NEAR_SOCKET] = "#0072b2", [TT_NEAR_HOST] = "#d55e00",
    [TT_NEAR_RACK] = "#009e73",   [TT_NEAR_ZONE] = "#cc79a7",   [TT_NEAR_BUILDING] = "#8a6d00",
    [TT_NEAR_FABRIC] = "#5b4fc9", [TT_NEAR_WAN] = "#111111",
};

struct picture {
    FILE *to;
    const struct plan *p;
    const struct tt_program *program;
    const struct tt_traffic *t;
    uint32_t first, end;        /* rounds */
    double line, slot;          /* distance between ranks; between transfers of a rank in a round */
    bool labels;                /* whether arrows show the origins of their data */
    uint32_t *row;              /* [nranks] row of a rank, from the top; ranks of a host and of a
                                   socket are adjacent */
    uint32_t *rank_at;          /* [nranks] rank of a row */
    double *y;                  /* [nranks] y of a rank */
    double *x, *width;          /* [end - first] x and width of a round's column */
    double right, bottom;
};

/* ---- layout of the picture ---- */

/* Orders ranks by host, then socket, then rank. */
static const struct tt_layout *sorted_by;

static int by_seat(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const uint32_t host_x = tt_layout_host(sorted_by, x), host_y = tt_layout_host(sorted_by, y);
    const uint32_t socket_x = tt_layout_socket(sorted_by, x),
                   socket_y = tt_layout_socket(sorted_by, y);

    if (host_x != host_y)
        return host_x < host_y ? -1 : 1;
    if (socket_x != socket_y)
        return socket_x < socket_y ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void place_ranks(struct picture *d)
{
    const struct tt_layout *l = &d->p->layout;
    double y = TOP;

    for (uint32_t r = 0; r < d->p->nranks; r++)
        d->rank_at[r] = r;
    sorted_by = l;
    qsort(d->rank_at, d->p->nranks, sizeof *d->rank_at, by_seat);
    for (uint32_t i = 0; i < d->p->nranks; i++) {
        const uint32_t r = d->rank_at[i];

        if (i > 0 && tt_layout_host(l, r) != tt_layout_host(l, d->rank_at[i - 1]))
            y += 0.8 * d->line;
        else if (i > 0 && tt_layout_socket(l, r) != tt_layout_socket(l, d->rank_at[i - 1]))
            y += 0.35 * d->line;
        d->row[r] = i;
        d->y[r] = y;
        y += d->line;
    }
    d->bottom = y;
}

/* The width of a column depends on its rank with the most transfers. */
static void place_rounds(struct picture *d)
{
    double x = LEFT;

    for (uint32_t k = d->first; k < d->end; k++)
        d->width[k - d->first] = 78;
    for (uint32_t i = 0; i < d->t->ntransfers; i++) {
        const struct tt_transfer *x_fer = &d->t->transfer[i];

        if (x_fer->round >= d->first && x_fer->round < d->end) {
            double *width = &d->width[x_fer->round - d->first];
            const double wanted = 78 + d->slot * x_fer->place;

            *width = wanted > *width ? wanted : *width;
        }
    }
    for (uint32_t k = d->first; k < d->end; k++) {
        d->x[k - d->first] = x;
        x += d->width[k - d->first] + COLUMN_GAP;
    }
    d->right = x - COLUMN_GAP + MARGIN;
    if (d->right < 440)
        d->right = 440;
}

/* ---- marks ---- */

static void draw_head(const struct picture *d, double height)
{
    char title[160];

    fprintf(d->to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 "
            "0 %.0f %.0f\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n",
            d->right, height, d->right, height);
    fputs("<style>.t path{fill:none;stroke-width:1.7}.t "
          "text{font-size:9.5px;paint-order:stroke;stroke:#fff;stroke-width:3px;"
          "stroke-linejoin:round}"
          ".t:hover path{stroke-width:3.6}</style>\n<defs>\n",
          d->to);
    for (int over = TT_NEAR_SOCKET; over < TT_DISTANCES; over++)
        fprintf(d->to,
                "<marker id=\"a%d\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
                "markerHeight=\"7\" "
                "markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0.8L8 4L0 7.2z\" "
                "fill=\"%s\" "
                "stroke=\"none\"/></marker>\n",
                over, colours[over]);
    fprintf(d->to,
            "</defs>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
            "<text x=\"%d\" y=\"20\" font-size=\"14\" font-weight=\"bold\">",
            MARGIN);
    tt_xml_put(d->to, plan_title(d->p, title, sizeof title));
    fputs("</text>\n", d->to);
}

static void draw_columns(const struct picture *d)
{
    for (uint32_t k = d->first; k < d->end; k++) {
        const double x = d->x[k - d->first], width = d->width[k - d->first];

        fprintf(d->to,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"4\" "
                "fill=\"#f3f4f6\"/>\n",
                x, TOP - 0.6 * d->line, width, d->bottom - TOP + 0.2 * d->line);
        fprintf(d->to,
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#555555\">%s%u</text>\n",
                x + width / 2, TOP - 0.6 * d->line - 5, d->end - d->first <= 24 ? "round " : "", k);
    }
}

/* Draws the names of hosts (of sockets, if there is one host) beside their ranks. */
static void draw_groups(const struct picture *d)
{
    const struct tt_layout *l = &d->p->layout;
    const bool hosts = l->nhosts > 1;

    for (uint32_t i = 0, end; i < d->p->nranks; i = end) {
        const uint32_t r = d->rank_at[i];
        const uint32_t group = hosts ? tt_layout_host(l, r) : tt_layout_socket(l, r);

        for (end = i + 1; end < d->p->nranks; end++)
            if ((hosts ? tt_layout_host(l, d->rank_at[end])
                       : tt_layout_socket(l, d->rank_at[end])) != group)
                break;
        if (end - i == d->p->nranks)
            return;         /* one group: no names are needed */

        const double from = d->y[r] - 0.4 * d->line, to = d->y[d->rank_at[end - 1]] + 0.4 * d->line;

        fprintf(d->to, "<path d=\"M%d %.1fh-4V%.1fh4\" fill=\"none\" stroke=\"#999999\"/>\n", 57,
                from, to);
        fprintf(d->to,
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555555\">%s %u</text>\n", 49,
                (from + to) / 2 + 4, hosts ? "host" : "socket", group);
    }
}

static void draw_ranks(const struct picture *d)
{
    const uint32_t nrounds = d->end - d->first;
    const double right = nrounds ? d->x[nrounds - 1] + d->width[nrounds - 1] : LEFT + 78;

    for (uint32_t r = 0; r < d->p->nranks; r++) {
        fprintf(d->to, "<path d=\"M%d %.1fH%.1f\" stroke=\"#c4c8ce\" stroke-width=\"1\"/>\n", LEFT,
                d->y[r], right);
        fprintf(d->to,
                "<text class=\"r\" data-rank=\"%u\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\" "
                "font-weight=\"bold\">%u</text>\n",
                r, LEFT - 12, d->y[r] + 4, r);
    }
}

/* Draws the local steps of a rank: a square in rounds with reductions, a ring in rounds with
 * copies. */
static void draw_local(const struct picture *d, uint32_t rank)
{
    const struct tt_step *steps = d->program->steps[rank];
    const uint64_t n = d->program->nsteps[rank];

    for (uint64_t i = 0, end; i < n; i = end) {
        const uint32_t k = steps[i].round;
        uint64_t reduced = 0, copied = 0;

        for (end = i; end < n && steps[end].round == k; end++) {
            reduced += steps[end].opcode == TT_REDUCE_STEP ? steps[end].bytes : 0;
            copied += steps[end].opcode == TT_COPY ? steps[end].bytes : 0;
        }
        if (k < d->first || k >= d->end)
            continue;

        const double x = d->x[k - d->first], right = x + d->width[k - d->first], y = d->y[rank];

        if (copied)
            fprintf(d->to,
                    "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#ffffff\" "
                    "stroke=\"#444444\"><title>rank %u copies "
                    "%" PRIu64 " B</title></circle>\n",
                    x + 6, y, rank, copied);
        if (reduced)
            fprintf(d->to,
                    "<rect x=\"%.1f\" y=\"%.1f\" width=\"6\" height=\"6\" "
                    "fill=\"#444444\"><title>rank %u reduces "
                    "%" PRIu64 " B</title></rect>\n",
                    right - 8, y - 3, rank, reduced);
    }
}

static void draw_transfer(const struct picture *d, const struct tt_transfer *t)
{
    const uint32_t column = t->round - d->first;
    const double from = d->x[column] + 14 + d->slot * t->place, to = from + 50;
    const double y1 = d->y[t->from], y2 = d->y[t->to];
    char carried[128];

    plan_carried(d->t, t, carried, sizeof carried);
    fprintf(d->to,
            "<g class=\"t\" data-from=\"%u\" data-to=\"%u\"><title>round %u: %u to %u, %" PRIu64
            " B %s, tag %u, %s%s%s</title>",
            t->from, t->to, t->round, t->from, t->to, t->bytes, carried, t->tag,
            plan_link_name((enum tt_distance)t->over), t->congestion == TT_FREE ? "" : ", ",
            t->congestion == TT_FREE ? "" : tt_congestion_name((enum tt_congestion)t->congestion));
    fprintf(d->to,
            "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" stroke=\"%s\" "
            "marker-end=\"url(#a%d)\"/>",
            from, y1, from + 26, y1, to - 26, y2, to, y2, colours[t->over], t->over);
    if (d->labels) {
        bool reduced;
        char origins[12];

        tt_traffic_origins(d->t, t, origins, sizeof origins, &reduced);
        fprintf(d->to, "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\">%s%s</text>", from - 3,
                y1 + (y2 > y1 ? -4 : 11), colours[t->over], reduced ? "\xce\xa3 " : "", origins);
    }
    fputs("</g>\n", d->to);
}

enum { NOTE_LABELS, NOTE_SUMS, NOTE_COPIES, NOTE_REDUCES, NOTE_ROUNDS, NOTES };

static const char *const notes[NOTES] = {
    [NOTE_LABELS] = "Number at an arrow: the ranks whose data it carries",
    [NOTE_SUMS] = "\xce\xa3: sum of the data of these ranks",
    [NOTE_COPIES] = "Ring: the rank copies",
    [NOTE_REDUCES] = "Square: the rank reduces",
    [NOTE_ROUNDS] = "The numbers above include rounds that are not drawn",
};

static bool has_step(const struct picture *d, enum tt_opcode opcode)
{
    for (uint32_t r = 0; r < d->p->nranks; r++)
        for (uint64_t i = 0; i < d->program->nsteps[r]; i++)
            if (d->program->steps[r][i].opcode == opcode)
                return true;
    return false;
}

static bool note_holds(const struct picture *d, int note)
{
    switch (note) {
    case NOTE_LABELS: return d->labels && d->t->ntransfers > 0;
    case NOTE_SUMS: return d->labels && has_step(d, TT_REDUCE_STEP);
    case NOTE_COPIES: return has_step(d, TT_COPY);
    case NOTE_REDUCES: return has_step(d, TT_REDUCE_STEP);
    default: return d->end - d->first < d->t->nrounds;
    }
}

/* Lists the classes of links in use, with their transfers and bytes. Draws them if `draw`. Returns
 * the number of lines. */
static uint32_t legend(const struct picture *d, double y, bool draw)
{
    uint32_t n[TT_DISTANCES] = { 0 }, lines = 0;
    uint64_t bytes[TT_DISTANCES] = { 0 };

    for (uint32_t i = 0; i < d->t->ntransfers; i++) {
        n[d->t->transfer[i].over]++;
        bytes[d->t->transfer[i].over] += d->t->transfer[i].bytes;
    }
    for (int over = 0; over < TT_DISTANCES; over++) {
        const double at = y + LEGEND_LINE * lines;

        if (n[over] == 0)
            continue;
        lines++;
        if (!draw)
            continue;
        fprintf(
            d->to,
            "<g class=\"t\"><path d=\"M%d %.1fh34\" stroke=\"%s\" marker-end=\"url(#a%d)\"/></g>\n",
            LEFT, at - 4, colours[over], over);
        fprintf(d->to, "<text x=\"%d\" y=\"%.1f\">%s: %u transfers, %" PRIu64 " B</text>\n",
                LEFT + 44, at, plan_link_name((enum tt_distance)over), n[over], bytes[over]);
    }
    for (int i = 0; i < NOTES; i++) {
        if (!note_holds(d, i))
            continue;
        if (draw)
            fprintf(d->to, "<text x=\"%d\" y=\"%.1f\" fill=\"#555555\">%s</text>\n", LEFT,
                    y + LEGEND_LINE * lines, notes[i]);
        lines++;
    }
    return lines;
}

static void draw(struct picture *d)
{
    const double legend_y = d->bottom - 2;

    draw_head(d, legend_y + LEGEND_LINE * legend(d, 0, false) + MARGIN);
    draw_columns(d);
    draw_groups(d);
    draw_ranks(d);
    for (uint32_t i = 0; i < d->t->ntransfers; i++)
        if (d->t->transfer[i].round >= d->first && d->t->transfer[i].round < d->end)
            draw_transfer(d, &d->t->transfer[i]);
    for (uint32_t r = 0; r < d->p->nranks; r++)
        draw_local(d, r);
    legend(d, legend_y + LEGEND_LINE / 2.0, true);
    fputs("</svg>\n", d->to);
}

void plan_svg(FILE *to, const struct plan *p, const struct tt_program *program,
              const struct tt_traffic *traffic, uint32_t first, uint32_t end)
{
    const uint32_t n = p->nranks, nrounds = end - first;
    struct picture d = {
        .to = to, .p = p, .program = program, .t = traffic, .first = first, .end = end,
        .line = n <= 8 ? 36 : n <= 16 ? 27 : 18, .slot = n <= 8 ? 58 : 46, .labels = n <= 8,
    };

    d.row = calloc(n, sizeof *d.row);
    d.rank_at = calloc(n, sizeof *d.rank_at);
    d.y = calloc(n, sizeof *d.y);
    d.x = calloc(nrounds + 1u, sizeof *d.x);
    d.width = calloc(nrounds + 1u, sizeof *d.width);
    tt_assert(d.row && d.rank_at && d.y && d.x && d.width);
    place_ranks(&d);
    place_rounds(&d);
    draw(&d);
    free(d.row);
    free(d.rank_at);
    free(d.y);
    free(d.x);
    free(d.width);
}
