/* A history as a drawing: one column per process, time downwards, one arrow per message. Time is
 * stretched where many events occur. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "base/xml.h"
#include "run_state.h"

#define COLUMN 150
#define LEFT 90
#define TOP 60
#define ROW 11
#define PAUSE_NS (5 * MS) /* longer intervals without events are drawn as a gap */
#define TEXT_BYTES 96

struct entry {
    bool is_message, arrived;
    uint8_t kind; /* of a mark: enum picture_mark */
    int from, to;
    uint64_t at_ns, to_ns, order;
    char text[TEXT_BYTES];
};

struct picture {
    const char *path;
    struct entry *entries;
    size_t n, cap;
    uint64_t *times; /* [ntimes], ascending, without duplicates */
    double *rows;    /* [ntimes] */
    size_t ntimes;
};

static const struct {
    const char *color;
    bool loud;
} marks[] = {
    [PICTURE_UP] = { "#2a7", false },      [PICTURE_DOWN] = { "#c22", true },
    [PICTURE_FAULT] = { "#c22", true },    [PICTURE_VIEW] = { "#06c", true },
    [PICTURE_CALL] = { "#555", false },    [PICTURE_FINAL] = { "#2a7", false },
    [PICTURE_RESTORED] = { "#d70", true },
};

void picture_begin(struct run *r, uint64_t seed)
{
    const char *path = getenv("TUTTI_TEST_PICTURE"), *wanted = getenv("TUTTI_TEST_SEED");

    if (!path || !wanted || strtoull(wanted, NULL, 10) != seed)
        return;
    r->picture = calloc(1, sizeof *r->picture);
    tt_assert(r->picture);
    r->picture->path = path;
}

static struct entry *add(struct picture *p)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 1024;
        p->entries = realloc(p->entries, p->cap * sizeof *p->entries);
        tt_assert(p->entries);
    }
    p->entries[p->n] = (struct entry){ 0 };
    return &p->entries[p->n++];
}

void picture_message(struct run *r, int from, int to, uint64_t at_ns, const char *what)
{
    struct entry *e;

    if (!r->picture)
        return;
    e = add(r->picture);
    e->is_message = true;
    e->from = from;
    e->to = to;
    e->at_ns = r->w.now_ns;
    e->to_ns = at_ns;
    e->order = r->w.order - 1;
    snprintf(e->text, sizeof e->text, "%s", what);
}

/* Returns the entry of an arriving message, or NULL. Searches backwards, because such messages are
 * recent. */
static struct entry *message_of(struct picture *p, const struct happening *h)
{
    for (size_t i = p ? p->n : 0; i > 0; i--)
        if (p->entries[i - 1].is_message && p->entries[i - 1].order == h->order)
            return &p->entries[i - 1];
    return NULL;
}

void picture_arrived(struct run *r, const struct happening *h)
{
    struct entry *e = message_of(r->picture, h);

    if (!e)
        return;
    e->arrived = true;
    e->to_ns = r->w.now_ns;
}

void picture_later(struct run *r, const struct happening *h)
{
    struct entry *e = message_of(r->picture, h);

    if (e)
        e->order = r->w.order - 1;
}

void picture_mark(struct run *r, int lane, enum picture_mark kind, const char *fmt, ...)
{
    struct entry *e;
    va_list args;

    if (!r->picture)
        return;
    e = add(r->picture);
    e->kind = (uint8_t)kind;
    e->from = e->to = lane;
    e->at_ns = e->to_ns = r->w.now_ns;
    va_start(args, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, args);
    va_end(args);
}

/* ---- drawing ---- */

static int by_time(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Messages in flight at the end of the history are drawn up to its end. */
static uint64_t end_of(const struct run *r, const struct entry *e)
{
    return e->to_ns < r->w.now_ns ? e->to_ns : r->w.now_ns;
}

static void lay_out(struct run *r)
{
    struct picture *p = r->picture;
    double y = TOP;

    p->times = malloc((2 * p->n + 1) * sizeof *p->times);
    p->rows = malloc((2 * p->n + 1) * sizeof *p->rows);
    tt_assert(p->times && p->rows);
    for (size_t i = 0; i < p->n; i++) {
        p->times[2 * i] = p->entries[i].at_ns;
        p->times[2 * i + 1] = end_of(r, &p->entries[i]);
    }
    p->times[2 * p->n] = r->w.now_ns;
    qsort(p->times, 2 * p->n + 1, sizeof *p->times, by_time);
    for (size_t i = 0; i < 2 * p->n + 1; i++) {
        if (p->ntimes > 0 && p->times[i] == p->times[p->ntimes - 1])
            continue;
        if (p->ntimes > 0)
            y += p->times[i] - p->times[p->ntimes - 1] > PAUSE_NS ? 3 * ROW : ROW;
        p->times[p->ntimes] = p->times[i];
        p->rows[p->ntimes++] = y;
    }
}

static double row_of(const struct picture *p, uint64_t at_ns)
{
    const uint64_t *at = bsearch(&at_ns, p->times, p->ntimes, sizeof *p->times, by_time);

    tt_assert(at);
    return p->rows[at - p->times];
}

static int column_of(int lane)
{
    return LEFT + (lane + 1) * COLUMN; /* the coordinator has the first column */
}

static void draw_text(FILE *f, double x, double y, const char *color, bool bold, const char *text)
{
    fprintf(f, "<text x='%.0f' y='%.1f' fill='%s'%s>", x, y, color,
            bold ? " font-weight='bold'" : "");
    tt_xml_put(f, text);
    fputs("</text>\n", f);
}

static void draw_message(const struct run *r, const struct entry *e, FILE *f)
{
    const struct picture *p = r->picture;
    const double y1 = row_of(p, e->at_ns), y2 = row_of(p, end_of(r, e));
    const bool beat = strcmp(e->text, "HEARTBEAT") == 0 || strcmp(e->text, "ALIVE") == 0;
    const bool peers = e->from != COORDINATOR && e->to != COORDINATOR;
    const char *color = beat ? "#bbb" : peers ? "#7a5" : "#48c";

    fprintf(f,
            "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='%s'%s marker-end='url(#%s)'><title>",
            column_of(e->from), y1, column_of(e->to), y2, color,
            e->arrived ? "" : " stroke-dasharray='4 3'", e->arrived ? "arrow" : "lost");
    tt_xml_put(f, e->text);
    fprintf(f, ", %.3f to %.3f ms%s</title></line>\n", (double)e->at_ns / 1e6,
            (double)e->to_ns / 1e6, e->arrived ? "" : ": nobody took it");
    if (!beat && !peers)
        draw_text(f, (3 * column_of(e->from) + column_of(e->to)) / 4.0, (3 * y1 + y2) / 4, color,
                  false, e->text);
}

/* Draws a mark below other marks of the same time. */
static void draw_mark(const struct picture *p, size_t at, FILE *f)
{
    const struct entry *e = &p->entries[at];
    int before = 0;

    for (size_t i = at; i > 0 && p->entries[i - 1].at_ns == e->at_ns; i--)
        before += !p->entries[i - 1].is_message && p->entries[i - 1].from == e->from;
    draw_text(f, column_of(e->from) + 4, row_of(p, e->at_ns) + 3 + 9 * before, marks[e->kind].color,
              marks[e->kind].loud, e->text);
}

/* Draws the lifetime of each process. */
static void draw_lives(const struct run *r, FILE *f)
{
    const struct picture *p = r->picture;

    for (int lane = COORDINATOR; lane < (int)r->npeers; lane++) {
        double since = -1;

        for (size_t i = 0; i <= p->n; i++) {
            const struct entry *e = i < p->n ? &p->entries[i] : NULL;
            const bool begins = e && !e->is_message && e->from == lane && e->kind == PICTURE_UP;
            const bool ends = !e || (!e->is_message && e->from == lane && e->kind == PICTURE_DOWN);
            const double y = e ? row_of(p, e->at_ns) : p->rows[p->ntimes - 1];

            if (ends && since >= 0)
                fprintf(
                    f,
                    "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#888' stroke-width='3'/>\n",
                    column_of(lane), since, column_of(lane), y);
            if (begins || ends)
                since = begins ? y : -1;
        }
    }
}

static void draw_times(const struct picture *p, FILE *f)
{
    double last = -ROW;
    char text[32];

    for (size_t i = 0; i < p->ntimes; i++)
        if (p->rows[i] - last >= 3 * ROW) {
            snprintf(text, sizeof text, "%.3f ms", (double)p->times[i] / 1e6);
            draw_text(f, 6, p->rows[i] + 3, "#555", false, text);
            last = p->rows[i];
        }
}

static void draw(const struct run *r, uint64_t seed, FILE *f)
{
    const struct picture *p = r->picture;
    const int width = column_of((int)r->npeers), height = (int)p->rows[p->ntimes - 1] + 3 * ROW;

    fprintf(
        f,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' "
        "font-size='9'>\n"
        "<rect width='100%%' height='100%%' fill='white'/>\n<defs>"
        "<marker id='arrow' viewBox='0 0 8 8' refX='8' refY='4' markerWidth='7' markerHeight='7' "
        "orient='auto'>"
        "<path d='M0 0L8 4L0 8z' fill='#555'/></marker>"
        "<marker id='lost' viewBox='0 0 8 8' refX='4' refY='4' markerWidth='8' markerHeight='8'>"
        "<path d='M0 0L8 8M8 0L0 8' stroke='#c22'/></marker></defs>\n"
        "<text x='6' y='16' font-size='13'>Seed %llu: %llu events, %llu faults. ",
        width, height, (unsigned long long)seed, (unsigned long long)r->events,
        (unsigned long long)r->faults);
    tt_xml_put(f, r->failed ? r->why : "All held.");
    fputs("</text>\n", f);
    for (int lane = COORDINATOR; lane < (int)r->npeers; lane++) {
        char name[48] = "coordinator";

        if (lane != COORDINATOR)
            snprintf(name, sizeof name, "member %llu%s", (unsigned long long)r->peers[lane].m.id,
                     r->peers[lane].liar ? " (lies)" : "");
        draw_text(f, column_of(lane) - 30, 40, "#000", true, name);
    }
    draw_times(p, f);
    draw_lives(r, f);
    for (size_t i = 0; i < p->n; i++)
        if (p->entries[i].is_message)
            draw_message(r, &p->entries[i], f);
    for (size_t i = 0; i < p->n; i++)
        if (!p->entries[i].is_message)
            draw_mark(p, i, f);
    fputs("</svg>\n", f);
}

void picture_end(struct run *r, uint64_t seed)
{
    struct picture *p = r->picture;
    FILE *f;

    if (!p)
        return;
    f = fopen(p->path, "w");
    if (f) {
        lay_out(r);
        draw(r, seed, f);
    }
    if (!f || fclose(f) != 0)
        broken(r, "the picture %s cannot be written", p->path);
    free(p->entries);
    free(p->times);
    free(p->rows);
    free(p);
    r->picture = NULL;
}
