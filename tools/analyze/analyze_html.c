/* The diagnosis as an HTML page: words, tables, and the timeline. It loads nothing, and has no
 * scripts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/xml.h"
#include "tools/analyze/analyze.h"
#include "tools/failed.h"

#define OTHERS_MAX 31u
#define OPERATIONS_MAX 100u
#define MISSING_MAX 16u

static const char head[] =
    "<!doctype html>\n"
    "<html lang=\"en\">\n"
    "<head>\n"
    "<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src 'unsafe-inline'\">\n"
    "<style>\n"
    ":root { color-scheme: light dark; }\n"
    "body { font: 15px/1.5 sans-serif; margin: 1.5em auto; max-width: 75em; padding: 0 1em; }\n"
    "h1 { font-size: 1.4em; }\n"
    "h2 { font-size: 1.1em; margin-top: 2em; }\n"
    "section { overflow-x: auto; }\n"
    "table { border-collapse: collapse; }\n"
    "th, td { border-bottom: 1px solid #8886; padding: 0.2em 0.8em; text-align: left; }\n"
    "td.number { text-align: right; }\n"
    "tr.culprit { background: #d55e0033; font-weight: bold; }\n"
    "</style>\n";

/* ---- words ---- */

static void put_tag(FILE *to, const char *tag, const char *text)
{
    fprintf(to, "<%s>", tag);
    tt_xml_put(to, text);
    fprintf(to, "</%s>\n", tag);
}

static void put_words(FILE *to, const struct analysis *a)
{
    char words[4096], sentence[512];

    analyze_words(a, words, sizeof words);
    snprintf(sentence, sizeof sentence, "%.*s", (int)analyze_first_sentence(words), words);
    tt_diagnosis_trim(sentence);
    put_tag(to, "title", sentence);
    fputs("</head>\n<body>\n", to);
    put_tag(to, "h1", sentence);
    fputs("<section id=\"words\">\n", to);
    put_tag(to, "p", words);
    if (a->found.nall > 1)
        fprintf(to, "<p>Other chains of waits end elsewhere (%u):</p>\n<ul>\n", a->found.nall - 1);
    for (uint32_t i = 1; i < a->found.n && i <= OTHERS_MAX; i++)
        put_tag(to, "li", tt_diagnosis_words(&a->found.list[i], &a->dumps, words, sizeof words));
    if (a->found.nall > 1)
        fputs("</ul>\n", to);
    fputs("</section>\n", to);
}

/* ---- tables ---- */

static void put_cell(FILE *to, const char *text)
{
    put_tag(to, "td", text);
}

static void put_number(FILE *to, uint32_t n)
{
    fprintf(to, "<td class=\"number\">%u</td>\n", n);
}

static void put_rank(FILE *to, const struct analysis *a, uint32_t rank)
{
    const struct tt_dumps_rank *r = &a->dumps.ranks[rank];
    struct analyze_row row;

    analyze_row_of(a, rank, &row);
    fprintf(to, "<tr%s>", analyze_is_culprit(a, rank) ? " class=\"culprit\"" : "");
    put_number(to, rank);
    put_cell(to, r->has_dump ? tt_dumps_text(&a->dumps, r->host) : "-");
    put_cell(to, analyze_state(a, rank));
    put_cell(to, row.what);
    put_cell(to, row.step);
    put_cell(to, row.since);
    put_cell(to, row.waits);
    put_cell(to, r->note == TT_INTERN_EMPTY ? "" : tt_dumps_text(&a->dumps, r->note));
    fputs("</tr>\n", to);
}

static void put_ranks(FILE *to, const struct analysis *a)
{
    const struct tt_dumps *d = &a->dumps;

    fputs("<section id=\"ranks\">\n<h2>", to);
    tt_xml_put(to, d->is_elastic ? "Members" : "Ranks");
    fputs(" of job ", to);
    tt_xml_put(to, d->job);
    fprintf(to, ": %u, dumps: %u</h2>\n<table>\n", d->nmembers, d->ndumps);
    fputs("<thead><tr><th>rank</th><th>host</th><th>state</th><th>operation</th><th>step</th>"
          "<th>in it for</th><th>waits for</th><th>annotation</th></tr></thead>\n<tbody>\n",
          to);
    for (uint32_t i = 0; i < a->nrows; i++)
        put_rank(to, a, a->rows[i]);
    fputs("</tbody>\n</table>\n", to);
    if (a->nrows < d->nmembers)
        fprintf(to, "<p>%u other ranks are not shown (--rows).</p>\n", d->nmembers - a->nrows);
    fputs("</section>\n", to);
}

static void put_operation(FILE *to, const struct analysis *a, uint32_t i)
{
    const struct tt_waits *w = &a->waits;
    const struct tt_waits_instance *o = &w->instances[i];
    const struct tt_dumps_op *op = tt_waits_op(w, w->by_instance[o->first]);
    char what[128];

    fputs("<tr>", to);
    put_cell(to, tt_diagnosis_op_words(&a->dumps, op, what, sizeof what));
    put_number(to, op->class == TT_OP_P2P ? 2 : a->dumps.comms[op->comm].members.n);
    put_number(to, o->n);
    fputs("<td>", to);
    for (uint32_t k = 0; k < o->nmissing && k < MISSING_MAX; k++)
        fprintf(to, "%s%u", k ? ", " : "", w->missing[o->missing_first + k]);
    if (o->nmissing > MISSING_MAX)
        fprintf(to, " and %u others", o->nmissing - MISSING_MAX);
    fprintf(to, "%s%s</td></tr>\n", o->nmissing > 0 && !o->is_proven ? " (no complete dump)" : "",
            o->differs ? " (different arguments)" : "");
}

static bool is_diagnosed(const struct tt_waits *w, const struct tt_waits_instance *o,
                         const struct tt_diagnosis *x)
{
    for (uint32_t k = 0; k < o->n && x->op != TT_DUMPS_NONE; k++)
        if (w->records[w->by_instance[o->first + k]].op == x->op)
            return true;
    for (uint32_t k = 0; k < o->nmissing && x->op == TT_DUMPS_NONE && x->nculprits > 0; k++)
        if (w->missing[o->missing_first + k] == x->culprits[0])
            return true;
    return false;
}

/* Returns the first operation that the first diagnosis concerns; ninstances: none. */
static uint32_t diagnosed_instance(const struct analysis *a)
{
    const struct tt_waits *w = &a->waits;
    uint32_t i = a->found.n > 0 ? 0 : w->ninstances;

    while (i < w->ninstances && !is_diagnosed(w, &w->instances[i], &a->found.list[0]))
        i++;
    return i;
}

static void put_operations(FILE *to, const struct analysis *a)
{
    const uint32_t n = a->waits.ninstances, first = diagnosed_instance(a);
    uint32_t shown = first < n;

    if (n == 0)
        return;
    fputs("<section id=\"operations\">\n<h2>Incomplete operations</h2>\n<table>\n<thead><tr>"
          "<th>operation</th><th>members</th><th>in it</th><th>not called by</th></tr></thead>\n"
          "<tbody>\n",
          to);
    if (first < n)
        put_operation(to, a, first);
    for (uint32_t i = 0; i < n && shown < OPERATIONS_MAX; i++)
        if (i != first) {
            put_operation(to, a, i);
            shown++;
        }
    fputs("</tbody>\n</table>\n", to);
    if (n > OPERATIONS_MAX)
        fprintf(to, "<p>%u other incomplete operations are not shown.</p>\n", n - OPERATIONS_MAX);
    fputs("</section>\n", to);
}

/* ---- the page ---- */

static void put_page(FILE *to, const struct analysis *a)
{
    fputs(head, to);
    put_words(to, a);
    put_ranks(to, a);
    put_operations(to, a);
    fputs("<section id=\"timeline\">\n<h2>Last operations</h2>\n", to);
    analyze_put_svg(a, to);
    fputs("</section>\n</body>\n</html>\n", to);
}

bool analyze_write_html(const struct analysis *a, const char *path)
{
    FILE *to = fopen(path, "we");
    bool failed = !to;

    if (to) {
        put_page(to, a);
        failed = ferror(to) != 0;
        failed |= fclose(to) != 0;
    }
    if (failed)
        fprintf(stderr, "tutti analyze: cannot write %s: %s%s\n", path, strerror(errno),
                errno == EFBIG ? FILE_SIZE_HINT : "");
    return !failed;
}
