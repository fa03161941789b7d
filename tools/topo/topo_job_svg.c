/* A picture of a job's hosts: their nested groups, their ranks with the rail of each, and the
 * latencies and rates between them. */
#include "tools/topo/topo.h"

#include <stdlib.h>
#include <string.h>

#define PAD 12.0
#define HEAD 24.0
#define ROW 20.0
#define HOST_W 190.0
#define ROWS_MAX 16u        /* maximum of ranks drawn per host */
#define HOSTS_MAX 256u      /* maximum of hosts drawn */
#define WIDTH_MAX 1300.0    /* wider rows continue below */

struct drawing {
    FILE *f;                /* NULL: only compute the size */
    const struct topo_here *h;
    const uint32_t *hosts;  /* sorted: hosts of a group are adjacent */
};

struct size {
    double w, h;
};

static uint32_t rows_of(const struct topo_here *h, uint32_t host)
{
    const uint32_t n = tt_layout_host_ranks(&h->layout, host);

    return n > ROWS_MAX ? ROWS_MAX : n;
}

static struct size draw_host(const struct drawing *d, uint32_t host, double x, double y)
{
    const struct size s = { HOST_W, HEAD + ROW * rows_of(d->h, host) + PAD / 2 };
    const uint32_t n = tt_layout_host_ranks(&d->h->layout, host);

    if (!d->f)
        return s;
    topo_svg_box(d->f, x, y, s.w, s.h, topo_level_colours[TT_NEAR_HOST], "#888");
    topo_svg_label(d->f, x + PAD / 2, y + 16, 13, "start", topo_host_first(d->h, host)->host);
    for (uint32_t i = 0; i < rows_of(d->h, host); i++) {
        const uint32_t rank = tt_layout_rank(&d->h->layout, host, i);
        const double top = y + HEAD + i * ROW;
        enum tt_rail_why why;
        const char *rail;
        char text[64];

        topo_rail_of(d->h, rank, &rail, &why);
        snprintf(text, sizeof text, "rank %u, %s", rank, why == TT_RAIL_ALL ? "all rails" : rail);
        if (i + 1 == ROWS_MAX && n > ROWS_MAX)
            snprintf(text, sizeof text, "and %u more", n - i);
        topo_svg_box(d->f, x + PAD / 2, top, s.w - PAD, ROW - 3, "#ffffff",
                     topo_rail_colour(d->h, rail));
        topo_svg_label(d->f, x + PAD, top + 13, 11, "start", text);
    }
    return s;
}

static struct size draw_groups(const struct drawing *d, uint32_t first, uint32_t end, int level,
                               double x, double y);

/* Draws a group of `level`, which consists of hosts[first .. end). */
static struct size draw_group(const struct drawing *d, uint32_t first, uint32_t end, int level,
                              double x, double y)
{
    struct size s;
    char name[96];

    if (level == TT_NEAR_HOST)
        return draw_host(d, d->hosts[first], x, y);
    if (!topo_level_joins(d->h, level))
        return draw_groups(d, first, end, level - 1, x, y);
    s = draw_groups(&(struct drawing){ NULL, d->h, d->hosts }, first, end, level - 1, 0, 0);
    s.w += 2 * PAD;
    s.h += HEAD + PAD;
    if (!d->f)
        return s;
    topo_group_name(d->h, d->hosts[first], level, name);
    topo_svg_box(d->f, x, y, s.w, s.h, topo_level_colours[level], "#888");
    topo_svg_label(d->f, x + PAD, y + 17, 13, "start", name);
    draw_groups(d, first, end, level - 1, x + PAD, y + HEAD);
    return s;
}

/* Draws the groups of `level` that contain hosts[first .. end), side by side. */
static struct size draw_groups(const struct drawing *d, uint32_t first, uint32_t end, int level,
                               double x, double y)
{
    struct size all = { 0, 0 };
    double row_x = 0, row_y = 0, row_h = 0;

    while (first < end) {
        uint32_t after = first + 1;
        struct size s;

        while (after < end && topo_same_group(d->h, d->hosts[first], d->hosts[after], level))
            after++;
        s = draw_group(&(struct drawing){ NULL, d->h, d->hosts }, first, after, level, 0, 0);
        if (row_x > 0 && row_x + s.w > WIDTH_MAX) {
            row_y += row_h + PAD;
            row_x = row_h = 0;
        }
        if (d->f)
            draw_group(d, first, after, level, x + row_x, y + row_y);
        row_h = s.h > row_h ? s.h : row_h;
        all.w = row_x + s.w > all.w ? row_x + s.w : all.w;
        all.h = row_y + row_h;
        row_x += s.w + PAD;
        first = after;
    }
    return all;
}

/* Draws a table of distance, latency and rate. Returns its height. */
static double draw_links(FILE *f, const struct topo_here *h, double x, double y)
{
    static const char *const heads[] = { "distance", "latency", "rate" };
    const double top = y;
    bool any = false;

    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
        const struct tt_topo_link *l = &h->links[d];
        char latency[32], rate[32];

        if (!l->latency_ns && l->bytes_per_s <= 0)
            continue;
        for (int i = 0; f && !any && i < 3; i++)
            topo_svg_label(f, x + 130.0 * i, y + 14, 13, "start", heads[i]);
        y += any ? ROW : ROW + 4;
        any = true;
        topo_latency(l->latency_ns, latency);
        topo_rate(l->bytes_per_s, rate);
        if (!f)
            continue;
        topo_svg_box(f, x, y, 14, 14, topo_level_colours[d], "#888");
        topo_svg_label(f, x + 22, y + 12, 13, "start", tt_distance_name((enum tt_distance)d));
        topo_svg_label(f, x + 130, y + 12, 13, "start", latency);
        topo_svg_label(f, x + 260, y + 12, 13, "start",
                       d > TT_NEAR_RACK && l->bytes_per_s <= 0 ? "rail rate" : rate);
    }
    return any ? y + ROW - top : 0;
}

void topo_job_draw(const struct topo_here *h, FILE *f)
{
    uint32_t *hosts = topo_hosts_sorted(h),
             shown = h->layout.nhosts > HOSTS_MAX ? HOSTS_MAX : h->layout.nhosts;
    const struct drawing none = { NULL, h, hosts }, real = { f, h, hosts };
    const struct size s = draw_groups(&none, 0, shown, TT_NEAR_WAN - 1, 0, 0);
    const double table = draw_links(NULL, h, 0, 0), w = s.w > 420 ? s.w : 420;
    char text[256];

    tt_layout_describe(&h->layout, text, sizeof text);
    if (shown < h->layout.nhosts)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "; only the first %u hosts are drawn", shown);
    topo_svg_begin(f, w + 2 * PAD, HEAD + s.h + table + 4 * PAD);
    topo_svg_label(f, PAD, PAD + 10, 14, "start", text);
    draw_groups(&real, 0, shown, TT_NEAR_WAN - 1, PAD, PAD + HEAD);
    draw_links(f, h, PAD, 2 * PAD + HEAD + s.h);
    fputs("</svg>\n", f);
    free(hosts);
}
