/* A timeline of the last operations. A hang lasts far longer than the operations before it, so the
 * time axis has two linear parts: up to the last call, and from there to the dumps. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/xml.h"
#include "tools/analyze/analyze.h"
#include "tools/failed.h"

/* All in pixels. */
#define LEFT 190.0
#define TOP 70.0
#define ROW 26.0
#define BAR 18.0
#define BEFORE 620.0        /* width of the part before the hang */
#define HANG 260.0
#define RIGHT 20.0

#define COLOURS 6
static const char *const colours[COLOURS] = { "#0072b2", "#009e73", "#cc79a7",
                                              "#8a6d00", "#5b4fc9", "#56b4e9" };

struct picture {
    FILE *to;
    const struct analysis *a;
    int64_t begin, hang, end;
};

static int64_t end_of(const struct tt_dumps *d, const struct tt_dumps_op *op)
{
    return op->ended != TT_DUMPS_NEVER ? op->ended : d->ranks[op->rank].now;
}

static bool is_shown(const struct tt_waits *w, const struct tt_dumps_op *op)
{
    return op->called != TT_DUMPS_NEVER && !tt_waits_is_after(w, op->rank, op->called) &&
           end_of(w->d, op) != TT_DUMPS_NEVER;
}

/* Sets the times of the picture: the first shown call, the last call, and the last end. */
static void find_times(struct picture *p)
{
    const struct tt_dumps *d = &p->a->dumps;

    p->begin = INT64_MAX;
    p->hang = p->end = INT64_MIN;
    for (uint32_t i = 0; i < p->a->nrows; i++) {
        const struct tt_dumps_rank *r = &d->ranks[p->a->rows[i]];

        for (uint32_t k = 0; k < r->nops; k++) {
            const struct tt_dumps_op *op = &d->ops[r->ops_first + k];

            if (!is_shown(&p->a->waits, op))
                continue;
            p->begin = op->called < p->begin ? op->called : p->begin;
            p->hang = op->called > p->hang ? op->called : p->hang;
            p->end = end_of(d, op) > p->end ? end_of(d, op) : p->end;
        }
    }
    if (p->a->waits.has_failure && p->a->waits.at > p->hang && p->a->waits.at < p->end)
        p->end = p->a->waits.at;
}

static double x_of(const struct picture *p, int64_t t)
{
    const double before = (double)p->hang - (double)p->begin,
                 hang = (double)p->end - (double)p->hang;

    if (t <= p->hang)
        return LEFT + (before > 0 ? BEFORE * ((double)t - (double)p->begin) / before : 0);
    if (t >= p->end)
        return LEFT + BEFORE + HANG;
    return LEFT + BEFORE + (hang > 0 ? HANG * ((double)t - (double)p->hang) / hang : 0);
}

static void put_text(const struct picture *p, double x, double y, const char *style,
                     const char *text)
{
    fprintf(p->to, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
    tt_xml_put(p->to, text);
    fputs("</text>\n", p->to);
}

static void put_op(const struct picture *p, const struct tt_dumps_op *op, double y)
{
    const struct tt_dumps *d = &p->a->dumps;
    const double from = x_of(p, op->called), to = x_of(p, end_of(d, op));
    const double width = to - from > 1.5 ? to - from : 1.5;
    const uint32_t name = d->comms[op->comm].name ? d->comms[op->comm].name : op->comm;
    const bool hangs = op->is_open || tt_waits_is_after(&p->a->waits, op->rank, op->ended);
    char words[128];

    tt_diagnosis_op_words(d, op, words, sizeof words);
    fprintf(p->to,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" fill=\"%s\"%s><title>",
            from, y, width, BAR, hangs ? "#d55e00" : colours[name % COLOURS],
            hangs ? " class=\"hangs\" stroke=\"#7a2e00\"" : " fill-opacity=\"0.75\"");
    tt_xml_put(p->to, words);
    fprintf(p->to, ", %.3f ms", 1e-6 * ((double)end_of(d, op) - (double)op->called));
    fputs("</title></rect>\n", p->to);
    if (width > 60) {
        words[(size_t)(width / 6.2) < sizeof words ? (size_t)(width / 6.2) : sizeof words - 1] =
            '\0';
        tt_diagnosis_trim(words);
        put_text(p, from + 4, y + 13, "fill=\"#fff\"", words);
    }
}

static void put_row(const struct picture *p, uint32_t row)
{
    const uint32_t rank = p->a->rows[row];
    const struct tt_dumps_rank *r = &p->a->dumps.ranks[rank];
    const double y = TOP + ROW * row;
    const bool culprit = analyze_is_culprit(p->a, rank);
    char label[96];

    if (culprit)
        fprintf(p->to,
                "<rect class=\"culprit\" x=\"4\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" "
                "fill=\"#fbe3d6\"/>\n",
                y - 4, LEFT + BEFORE + HANG, ROW);
    snprintf(label, sizeof label, "rank %u%s%s, %s", rank, r->has_dump ? " " : "",
             r->has_dump ? tt_dumps_text(&p->a->dumps, r->host) : "", analyze_state(p->a, rank));
    label[28] = '\0';
    tt_diagnosis_trim(label);
    put_text(p, 8, y + 13, culprit ? "font-weight=\"bold\"" : "", label);
    for (uint32_t k = 0; k < r->nops; k++)
        if (is_shown(&p->a->waits, &p->a->dumps.ops[r->ops_first + k]))
            put_op(p, &p->a->dumps.ops[r->ops_first + k], y);
}

static void put_axis(const struct picture *p)
{
    const double bottom = TOP + ROW * p->a->nrows;
    char text[96];

    fprintf(p->to,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#888\" "
            "stroke-dasharray=\"4 3\"/>\n",
            LEFT + BEFORE, TOP - 14, LEFT + BEFORE, bottom);
    snprintf(text, sizeof text, "%.3f ms up to the last call",
             1e-6 * ((double)p->hang - (double)p->begin));
    put_text(p, LEFT, TOP - 10, "fill=\"#555\"", text);
    snprintf(text, sizeof text, "then %.3f s", 1e-9 * ((double)p->end - (double)p->hang));
    put_text(p, LEFT + BEFORE + 6, TOP - 10, "fill=\"#555\"", text);
}

static void put_picture(struct picture *p)
{
    const double width = LEFT + BEFORE + HANG + RIGHT, height = TOP + ROW * p->a->nrows + 16;
    char words[4096];

    fprintf(p->to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"#fff\"/>\n",
            width, height);
    if (p->a->found.n > 0)
        tt_diagnosis_words(&p->a->found.list[0], &p->a->dumps, words, sizeof words);
    else
        snprintf(words, sizeof words, "No operation is incomplete.");
    fputs("<title>", p->to);
    tt_xml_put(p->to, words);
    fputs("</title>\n", p->to);
    words[analyze_first_sentence(words)] = '\0';
    put_text(p, 8, 24, "font-size=\"15\" font-weight=\"bold\"", words);
    if (p->begin <= p->end)
        put_axis(p);
    for (uint32_t row = 0; row < p->a->nrows; row++)
        put_row(p, row);
    fputs("</svg>\n", p->to);
}

void analyze_put_svg(const struct analysis *a, FILE *to)
{
    struct picture p = { .a = a, .to = to };

    find_times(&p);
    put_picture(&p);
}

bool analyze_write_svg(const struct analysis *a, const char *path)
{
    FILE *to = fopen(path, "we");
    bool failed = !to;

    if (to) {
        analyze_put_svg(a, to);
        failed = ferror(to) != 0;
        failed |= fclose(to) != 0;
    }
    if (failed)
        fprintf(stderr, "tutti analyze: cannot write %s: %s%s\n", path, strerror(errno),
                errno == EFBIG ? FILE_SIZE_HINT : "");
    return !failed;
}
