/* Pictures of a host and of a described machine. */
#include "tools/topo/topo.h"

#include <string.h>
#include "base/xml.h"

#define PAD 14.0
#define HEAD 26.0
#define FONT "font-family='Helvetica,Arial,sans-serif'"

const char *const topo_level_colours[TT_DISTANCES] = { "#ffffff", "#eef4fb", "#dfeaf6", "#e9f3e4",
                                                       "#f6efd9", "#f8e6d4", "#f3dddd", "#eeeeee" };
/* A palette for colour-blind readers (Okabe and Ito). */
static const char *const rail_colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                            "#e69f00", "#56b4e9", "#7a7a00", "#444444" };
#define NRAIL_COLOURS (sizeof rail_colours / sizeof *rail_colours)

void topo_svg_box(FILE *f, double x, double y, double w, double h, const char *fill,
                  const char *stroke)
{
    fprintf(f,
            "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' rx='5' fill='%s' stroke='%s'/>\n",
            x, y, w, h, fill, stroke);
}

void topo_svg_label(FILE *f, double x, double y, double size, const char *anchor, const char *text)
{
    fprintf(f, "<text x='%.1f' y='%.1f' font-size='%.0f' text-anchor='%s' fill='#222'>", x, y, size,
            anchor);
    tt_xml_put(f, text);
    fputs("</text>\n", f);
}

void topo_svg_begin(FILE *f, double w, double h)
{
    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' viewBox='0 0 %.0f "
            "%.0f' %s>\n",
            w, h, w, h, FONT);
    fprintf(f, "<rect width='100%%' height='100%%' fill='white'/>\n");
}

/* ---- a described machine: one open group per level, the others closed ---- */

#define CLOSED_W 132.0
#define CLOSED_H 34.0
#define CLOSED_MAX 3u
#define RANK_SIZE 30.0

static uint32_t brothers(const struct tt_topo *t, int level)
{
    const uint32_t counts[TT_DISTANCES] = { [TT_NEAR_SOCKET] = t->host_sockets,
                                            [TT_NEAR_HOST] = t->rack_hosts,
                                            [TT_NEAR_RACK] = t->zone_racks,
                                            [TT_NEAR_ZONE] = t->building_zones,
                                            [TT_NEAR_BUILDING] = t->buildings };

    return counts[level] ? counts[level] : 1;
}

struct size {
    double w, h;
};

/* Ranks of a host or socket, in rows of at most eight. */
static struct size ranks_size(uint32_t n)
{
    const uint32_t shown = n > 16 ? 16 : n, columns = shown > 8 ? 8 : shown;

    return (struct size){ columns * (RANK_SIZE + 6) - 6,
                          (double)((shown + 7) / 8) * (RANK_SIZE + 6) - 6 };
}

static bool is_shown(const struct tt_topo *t, int level)
{
    if (level == TT_NEAR_SOCKET)
        return t->host_sockets > 1;
    return level <= TT_NEAR_HOST || tt_topo_group_ranks(t, (enum tt_distance)level) >
                                        tt_topo_group_ranks(t, (enum tt_distance)(level - 1));
}

static struct size inner_size(const struct tt_topo *t, int level);

static struct size group_size(const struct tt_topo *t, int level)
{
    struct size s = inner_size(t, level);
    const double title = level == TT_NEAR_SOCKET ? 70 : 190;

    if (!is_shown(t, level))
        return s;
    if (level == TT_NEAR_HOST)
        s.h += HEAD;        /* space for its rails */
    s.w = (s.w > title ? s.w : title) + 2 * PAD;
    s.h += HEAD + PAD;
    return s;
}

/* Draws the contents of a group: ranks, or an open group of the level below with closed ones beside
 * it. All sockets are open. */
static struct size inner_size(const struct tt_topo *t, int level)
{
    struct size s;
    uint32_t n;

    if (level == TT_NEAR_SOCKET)
        return ranks_size(t->host_ranks / t->host_sockets);
    s = group_size(t, level - 1);
    n = brothers(t, level - 1);
    if (level == TT_NEAR_HOST && t->host_sockets > 1) {
        const uint32_t shown = n > 4 ? 4 : n;

        s.w = s.w * shown + PAD * (shown - 1);
    } else if (n > 1 && level > TT_NEAR_HOST) {
        const uint32_t closed = n - 1 > CLOSED_MAX ? CLOSED_MAX : n - 1;
        const double column = closed * (CLOSED_H + 8);

        s.w += PAD + CLOSED_W;
        s.h = s.h > column ? s.h : column;
    }
    return s;
}

static void draw_ranks(FILE *f, uint32_t first, uint32_t n, double x, double y)
{
    for (uint32_t i = 0; i < n && i < 16; i++) {
        const double rx = x + (i % 8) * (RANK_SIZE + 6), ry = y + i / 8 * (RANK_SIZE + 6);
        char text[16];

        snprintf(text, sizeof text, i == 15 && n > 16 ? "..." : "%u", first + i);
        topo_svg_box(f, rx, ry, RANK_SIZE, RANK_SIZE, "#ffffff", "#0072b2");
        topo_svg_label(f, rx + RANK_SIZE / 2, ry + RANK_SIZE / 2 + 4, 11, "middle", text);
    }
}

static void group_title(const struct tt_topo *t, int level, uint32_t number, char out[128])
{
    char ranks[32];

    topo_count(tt_topo_group_ranks(t, (enum tt_distance)level), ranks);
    if (level == TT_NEAR_FABRIC)
        snprintf(out, 128, "%s: %s ranks", t->name, ranks);
    else if (level == TT_NEAR_SOCKET)
        snprintf(out, 128, "socket %u", number);
    else
        snprintf(out, 128, "%s %u: %s rank%s", tt_distance_name((enum tt_distance)level), number,
                 ranks, strcmp(ranks, "1") ? "s" : "");
}

static void draw_closed(FILE *f, const struct tt_topo *t, int level, double x, double y)
{
    const uint32_t n = brothers(t, level) - 1, closed = n > CLOSED_MAX ? CLOSED_MAX : n;

    for (uint32_t i = 0; i < closed; i++) {
        char text[96], count[32];

        topo_count(n - i, count);
        if (i + 1 == CLOSED_MAX && n > CLOSED_MAX)
            snprintf(text, sizeof text, "and %s more", count);
        else
            snprintf(text, sizeof text, "%s %u", tt_distance_name((enum tt_distance)level), i + 1);
        topo_svg_box(f, x, y + i * (CLOSED_H + 8), CLOSED_W, CLOSED_H, topo_level_colours[level],
                     "#888");
        topo_svg_label(f, x + CLOSED_W / 2, y + i * (CLOSED_H + 8) + 22, 12, "middle", text);
    }
}

static void draw_group(FILE *f, const struct tt_topo *t, int level, uint32_t number, double x,
                       double y)
{
    const struct size s = group_size(t, level);
    char title[128];

    if (is_shown(t, level)) {
        group_title(t, level, number, title);
        topo_svg_box(f, x, y, s.w, s.h, topo_level_colours[level], "#888");
        topo_svg_label(f, x + PAD, y + 18, 13, "start", title);
        x += PAD;
        y += HEAD;
    }
    if (level == TT_NEAR_SOCKET) {
        draw_ranks(f, number * (t->host_ranks / t->host_sockets), t->host_ranks / t->host_sockets,
                   x, y);
        return;
    }
    if (level == TT_NEAR_HOST) {
        const struct size one = group_size(t, TT_NEAR_SOCKET);
        char rails[96], rate[32];

        for (uint32_t i = 0; i < t->host_sockets && i < 4; i++)
            draw_group(f, t, TT_NEAR_SOCKET, i, x + i * (one.w + PAD), y);
        topo_rate(t->link[TT_NEAR_RACK].bytes_per_s, rate);
        snprintf(rails, sizeof rails, "%u rail%s of %s%s", t->nrails, t->nrails == 1 ? "" : "s",
                 t->link[TT_NEAR_RACK].bytes_per_s > 0 ? "" : "rate ", rate);
        topo_svg_label(f, x, y + one.h + 18, 12, "start", rails);
        return;
    }
    draw_group(f, t, level - 1, 0, x, y);
    draw_closed(f, t, level - 1, x + group_size(t, level - 1).w + PAD, y);
}

static bool is_empty(const struct tt_topo *t)
{
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++)
        if (t->link[d].latency_ns || t->link[d].bytes_per_s > 0 || t->link[d].oversubscription > 1)
            return false;
    return true;
}

/* The table of links at the right. */
static double draw_table(FILE *f, const struct tt_topo *t, double x, double y)
{
    static const double columns[] = { 0, 130, 235, 370 };
    static const char *const heads[] = { "distance", "latency", "rate", "subgroup uplink" };

    if (is_empty(t)) {
        topo_svg_label(f, x, y, 13, "start", "latency and rate are not set");
        return y;
    }
    for (int i = 0; i < 4; i++)
        topo_svg_label(f, x + columns[i], y, 13, "start", heads[i]);
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
        const struct tt_topo_link *l = &t->link[d];
        char latency[32], rate[32], uplink[64] = "";

        if (!l->latency_ns && l->bytes_per_s <= 0 && l->oversubscription <= 1)
            continue;
        y += 24;
        topo_latency(l->latency_ns, latency);
        topo_rate(l->bytes_per_s, rate);
        if (d > TT_NEAR_RACK && t->has_shape) {
            topo_rate(tt_topo_uplink(t, (enum tt_distance)d), uplink);
            if (l->oversubscription > 1)
                snprintf(uplink + strlen(uplink), sizeof uplink - strlen(uplink), ", 1:%.4g",
                         l->oversubscription);
        }
        topo_svg_box(f, x, y - 13, 16, 16, topo_level_colours[d], "#888");
        topo_svg_label(f, x + 24, y, 13, "start", tt_distance_name((enum tt_distance)d));
        topo_svg_label(f, x + columns[1], y, 13, "start", latency);
        topo_svg_label(f, x + columns[2], y, 13, "start",
                       d > TT_NEAR_RACK && l->bytes_per_s <= 0 ? "rail rate" : rate);
        topo_svg_label(f, x + columns[3], y, 13, "start", uplink);
    }
    return y;
}

void topo_machine_draw(const struct tt_topo *t, FILE *f)
{
    struct size s = { 0, 0 };
    int top = TT_NEAR_FABRIC;

    while (top > TT_NEAR_HOST && !is_shown(t, top))
        top--;
    if (t->has_shape)
        s = group_size(t, top);
    topo_svg_begin(f, s.w + 3 * PAD + 540, (s.h > 220 ? s.h : 220) + 2 * PAD);
    if (t->has_shape)
        draw_group(f, t, top, 0, PAD, PAD);
    draw_table(f, t, s.w + 3 * PAD, PAD + 20);
    fputs("</svg>\n", f);
}

/* ---- this host ---- */

#define SOCKETS_DRAWN 8
#define SOCKET_W 330.0
#define ROW 34.0

static bool is_here(const struct topo_here *h, uint32_t rank)
{
    return tt_layout_host(&h->layout, rank) == tt_layout_host(&h->layout, 0);
}

static uint32_t rows_of(const struct topo_here *h, int socket)
{
    uint32_t rows = 0;

    for (uint32_t r = 0; r < h->nranks; r++)
        rows += is_here(h, r) && h->ranks[r].place.socket == socket;
    for (uint32_t i = 0; i < h->machine.ngpus; i++)
        rows += h->machine.gpu[i].socket == socket;
    for (uint32_t i = 0; i < h->machine.nnics; i++)
        rows += h->machine.nic[i].socket == socket && !h->machine.nic[i].loopback;
    return rows;
}

const char *topo_rail_colour(const struct topo_here *h, const char *name)
{
    for (uint32_t i = 0; i < h->rails.n; i++)
        if (strcmp(h->rails.rail[i].name, name) == 0)
            return rail_colours[i % NRAIL_COLOURS];
    return "#bbbbbb";
}

static double draw_here_ranks(FILE *f, const struct topo_here *h, int socket, double x, double y)
{
    for (uint32_t r = 0; r < h->nranks; r++) {
        const struct topo_rank *k = &h->ranks[r];
        enum tt_rail_why why;
        const char *name;
        char text[160];

        if (!is_here(h, r) || k->place.socket != socket)
            continue;
        topo_rail_of(h, r, &name, &why);
        topo_svg_box(f, x, y, SOCKET_W - 2 * PAD, ROW - 8, "#ffffff", topo_rail_colour(h, name));
        fprintf(f, "<rect x='%.1f' y='%.1f' width='8' height='%.1f' fill='%s'/>\n", x, y, ROW - 8,
                topo_rail_colour(h, name));
        snprintf(text, sizeof text, "rank %u, cpus %s, %s", r, *k->cpus ? k->cpus : "unknown",
                 why == TT_RAIL_ALL ? "all rails" : name);
        topo_svg_label(f, x + 16, y + 17, 12, "start", text);
        y += ROW;
    }
    return y;
}

/* Draws ranks, NICs and GPUs of a socket (TT_UNKNOWN: those without a known socket), from top to
 * bottom. */
static void draw_socket(FILE *f, const struct topo_here *h, int socket, double x, double y,
                        double height)
{
    const struct tt_machine *m = &h->machine;
    char text[160], rate[32];

    snprintf(text, sizeof text, socket == TT_UNKNOWN ? "socket unknown" : "socket %d", socket);
    topo_svg_box(f, x, y, SOCKET_W, height,
                 socket == TT_UNKNOWN ? "#f4f4f4" : topo_level_colours[TT_NEAR_HOST], "#888");
    topo_svg_label(f, x + PAD, y + 18, 13, "start", text);
    x += PAD;
    y = draw_here_ranks(f, h, socket, x, y + HEAD);
    for (uint32_t i = 0; i < m->ngpus; i++) {
        if (m->gpu[i].socket != socket)
            continue;
        topo_svg_box(f, x, y, SOCKET_W - 2 * PAD, ROW - 8, "#e9f3e4", "#888");
        snprintf(text, sizeof text, "GPU %s %.30s", m->gpu[i].bus, m->gpu[i].name);
        topo_svg_label(f, x + 16, y + 17, 12, "start", text);
        y += ROW;
    }
    for (uint32_t i = 0; i < m->nnics; i++) {
        const struct tt_nic *n = &m->nic[i];
        const char *colour = topo_rail_colour(h, n->name);

        if (n->socket != socket || n->loopback)
            continue;
        topo_rate((double)n->bit_s / 8, rate);
        topo_svg_box(f, x, y, SOCKET_W - 2 * PAD, ROW - 8, "#ffffff", colour);
        fprintf(f, "<rect x='%.1f' y='%.1f' width='%.1f' height='6' fill='%s'/>\n", x, y + ROW - 14,
                SOCKET_W - 2 * PAD, colour);
        snprintf(text, sizeof text, "%s, %s%s%s", n->name, n->bit_s > 0 ? "" : "rate ", rate,
                 n->up ? strcmp(colour, "#bbbbbb") ? ", rail" : ", no rail" : ", down");
        topo_svg_label(f, x + 16, y + 15, 12, "start", text);
        y += ROW;
    }
}

/* Lists the sockets with processors, at most SOCKETS_DRAWN. */
static int list_sockets(const struct tt_machine *m, int sockets[SOCKETS_DRAWN])
{
    int n = 0;

    for (int c = 0; c < TT_CPUS_MAX && n < SOCKETS_DRAWN; c++) {
        const int socket = m->cpu[c].socket;
        int at = n;

        if (socket == TT_UNKNOWN)
            continue;
        while (at > 0 && sockets[at - 1] > socket)
            at--;
        if (at > 0 && sockets[at - 1] == socket)
            continue;
        memmove(&sockets[at + 1], &sockets[at], (size_t)(n - at) * sizeof *sockets);
        sockets[at] = socket;
        n++;
    }
    return n;
}

void topo_here_draw(const struct topo_here *h, FILE *f)
{
    int sockets[SOCKETS_DRAWN];
    const int nsockets = list_sockets(&h->machine, sockets);
    const bool unknown = rows_of(h, TT_UNKNOWN) > 0;
    uint32_t rows = rows_of(h, TT_UNKNOWN);
    const double boxes = nsockets + unknown > 0 ? nsockets + unknown : 1;
    double height, w;
    char title[320], cores[32] = "unknown";

    if (h->machine.ncores)
        snprintf(cores, sizeof cores, "%u", h->machine.ncores);
    for (int s = 0; s < nsockets; s++)
        if (rows_of(h, sockets[s]) > rows)
            rows = rows_of(h, sockets[s]);
    height = HEAD + (rows ? rows : 1) * ROW + 4;
    w = boxes * (SOCKET_W + PAD) + PAD;
    topo_svg_begin(f, w + 2 * PAD, height + HEAD + PAD + 2 * PAD);
    topo_svg_box(f, PAD, PAD, w, height + HEAD + PAD, topo_level_colours[TT_NEAR_RACK], "#888");
    snprintf(title, sizeof title, "%s: cores: %s, NUMA nodes: %u", h->machine.host, cores,
             h->machine.nnuma);
    topo_svg_label(f, 2 * PAD, PAD + 18, 14, "start", title);
    for (int s = 0; s < nsockets; s++)
        draw_socket(f, h, sockets[s], 2 * PAD + s * (SOCKET_W + PAD), PAD + HEAD, height);
    if (unknown)
        draw_socket(f, h, TT_UNKNOWN, 2 * PAD + nsockets * (SOCKET_W + PAD), PAD + HEAD, height);
    fputs("</svg>\n", f);
}
