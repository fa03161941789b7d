/* The status as a page, in the frame of coordinator/page_frame.h. It shows only the most urgent
 * communicators, so its size does not depend on the number of ranks. */
#include <inttypes.h>
#include <stdlib.h>
#include "coordinator/page_frame.h"
#include "tools/status/status.h"
#include "trace/oplog.h"

#define TEXT_BYTES 160

/* ---- the job ---- */

static void page_summary(const struct status_answer *a, const struct status_judged *j, uint32_t n,
                         FILE *to)
{
    static const char *const texts[] = { [STATUS_MISMATCH] = "different arguments",
                                         [STATUS_FAILED] = "a failed operation",
                                         [STATUS_MISSING] = "missing ranks" };
    uint32_t count[STATUS_IDLE + 1] = { 0 };
    bool good = true;

    for (uint32_t i = 0; i < n; i++)
        count[j[i].verdict]++;
    for (uint32_t v = STATUS_MISMATCH; v <= STATUS_MISSING; v++)
        if (count[v])
            fprintf(to, "<p class=\"bad\">%u communicator%s with %s</p>\n", count[v],
                    count[v] == 1 ? "" : "s", texts[v]);
    for (uint32_t v = STATUS_MISMATCH; v <= STATUS_UNKNOWN; v++)
        good &= count[v] == 0;
    if (a->report.nreported < a->hello.nranks)
        fprintf(to, "<p class=\"wait\">%u of %u ranks report.</p>\n", a->report.nreported,
                a->hello.nranks);
    else if (good)
        fputs("<p class=\"good\">All ranks report, and no communicator misses one.</p>\n", to);
    if (a->hello.alone)
        fputs("<p class=\"soft\">Elastic run: only the processes of this host report.</p>\n", to);
}

static void begin_figure(const char *what, FILE *to)
{
    fprintf(to, "<div><dt>%s</dt><dd>", what);
}

static void put_figure(const char *what, uint64_t n, FILE *to)
{
    begin_figure(what, to);
    fprintf(to, "%" PRIu64 "</dd></div>\n", n);
}

static void page_figures(const struct status_answer *a, FILE *to)
{
    const struct tt_status_report *r = &a->report;

    fputs("<dl class=\"figures\">\n", to);
    put_figure("ranks", a->hello.nranks, to);
    put_figure("reported", r->nreported, to);
    put_figure("in an operation", r->nactive, to);
    put_figure("operations/s", r->ops_per_s, to);
    begin_figure("data", to);
    status_print_rate(r->bytes_per_s, to);
    fputs("</dd></div>\n", to);
    for (uint32_t list = 0; list < TT_STATUS_LISTS; list++)
        if (r->lists[list].n)
            put_figure(status_list_name((enum tt_status_list)list), r->lists[list].n, to);
    if (status_nunknown(a))
        put_figure("unknown", status_nunknown(a), to);
    fputs("</dl>\n", to);
}

static void page_lists(const struct status_answer *a, FILE *to)
{
    bool any = false;

    for (uint32_t list = 0; list < TT_STATUS_LISTS; list++) {
        const struct tt_status_ranks *l = &a->report.lists[list];

        if (l->n == 0)
            continue;
        if (!any)
            fputs("<section id=\"unreported\"><h2>Ranks without a report</h2>\n", to);
        any = true;
        fprintf(to, "<p><b>%s</b>: ", status_list_name((enum tt_status_list)list));
        for (uint32_t i = 0; i < l->n; i++)
            fprintf(to, "%s%u", i ? ", " : "", l->rank[i]);
        fprintf(to, "%s</p>\n", l->more ? " and more" : "");
    }
    if (any)
        fputs("</section>\n", to);
}

/* ---- communicators ---- */

static const char *class_of(enum status_verdict v)
{
    return v <= STATUS_MISSING    ? "bad"
           : v == STATUS_UNKNOWN  ? "wait"
           : v == STATUS_RUNNING  ? "good"
                                 : "soft";
}

static void page_name(const struct tt_status_comm *c, FILE *to)
{
    if (*c->name)
        tt_page_frame_text(c->name, to);
    else
        fprintf(to, "%016" PRIx64, c->hash);
}

/* Writes the ranks that have not called the operation, or have called a different one. */
static void page_others(const struct status_judged *j, FILE *to)
{
    const char *between = "";

    for (uint32_t i = 0; i < j->comm->ngroups; i++) {
        const struct tt_status_group *g = &j->comm->groups[i];

        if (!status_is_behind(j, g) &&
            (g == j->lead || g->key.state != TT_STATUS_IN || j->verdict != STATUS_MISMATCH))
            continue;
        fputs(between, to);
        status_print_ranks(g->ranks, g->nlisted, g->nranks, to);
        between = "; ";
    }
}

static void page_share(uint32_t rank, uint32_t share, FILE *to)
{
    fprintf(to, "<td class=\"n\">%u: %.1f %%</td>", rank, share / 10.0);
}

static void page_comm(const struct status_judged *j, FILE *to)
{
    const struct tt_status_comm *c = j->comm;
    const struct tt_status_rates *x = &c->rates;
    char op[TEXT_BYTES] = "";

    fprintf(to, "<tr><td class=\"%s\">%s</td><td>", class_of(j->verdict),
            status_verdict_name(j->verdict));
    page_name(c, to);
    fprintf(to, "</td><td class=\"n\">%u of %u</td><td>", j->lead ? j->nin : 0, c->nranks);
    if (j->lead) {
        status_op_text(&j->lead->key, op, sizeof op);
        fprintf(to, "%s, number %" PRIu64, op, j->lead->key.seq);
    }
    fputs("</td><td class=\"n\">", to);
    if (j->lead)
        status_print_age(j->lead->age_max_ns, to);
    fputs("</td><td>", to);
    page_others(j, to);
    fprintf(to, "</td><td class=\"n\">%" PRIu64 "</td><td class=\"n\">",
            c->has_rates ? x->calls : 0);
    status_print_rate(c->has_rates ? x->bytes : 0, to);
    fputs("</td>", to);
    if (c->has_rates && x->most > 0) {
        page_share(x->least_rank, x->least, to);
        page_share(x->most_rank, x->most, to);
    } else {
        fputs("<td></td><td></td>", to);
    }
    fputs("</tr>\n", to);
}

static void page_comms(const struct status_judged *j, uint32_t n, uint32_t rows, FILE *to)
{
    fputs("<section id=\"communicators\"><h2>Communicators <small>the most urgent first; rates of "
          "the last second</small></h2>\n",
          to);
    if (n == 0)
        fputs("<p class=\"soft\">none</p>\n", to);
    else
        fputs("<div class=\"wide tall\"><table><thead><tr><th>state</th><th>name</th><th "
              "class=\"n\">ranks in operation</th><th>operation</th><th class=\"n\">elapsed</th>"
              "<th>missing or mismatched ranks</th><th class=\"n\">calls/s</th><th "
              "class=\"n\">data</th><th class=\"n\">least time in collectives</th><th "
              "class=\"n\">most time</th></tr></thead><tbody>\n",
              to);
    for (uint32_t i = 0; i < n && i < rows; i++)
        page_comm(&j[i], to);
    if (n)
        fputs("</tbody></table></div>\n", to);
    if (n > rows)
        fprintf(to,
                "<p class=\"soft\">and %u others: <a href=\"json\">JSON</a> lists all (--rows "
                "shows more)</p>\n",
                n - rows);
    fputs("</section>\n", to);
}

/* ---- lanes ---- */

static void page_lanes(const struct tt_status_report *r, FILE *to)
{
    if (r->nlanes == 0)
        return;
    fputs("<section id=\"lanes\"><h2>Lanes</h2>\n<div class=\"wide\"><table><thead><tr>"
          "<th>transport</th><th class=\"n\">ranks</th><th class=\"n\">lanes</th><th "
          "class=\"n\">down</th><th class=\"n\">idle</th><th class=\"n\">depth</th><th "
          "class=\"n\">posts/s</th><th class=\"n\">sent</th><th class=\"n\">outstanding "
          "segments</th><th class=\"n\">bytes</th><th class=\"n\">most at rank</th></tr></thead>"
          "<tbody>\n",
          to);
    for (uint32_t i = 0; i < r->nlanes; i++) {
        const struct tt_status_lanes *l = &r->lanes[i];

        fputs("<tr><td>", to);
        tt_page_frame_text(l->wire, to);
        fprintf(to,
                "</td><td class=\"n\">%u</td><td class=\"n\">%u</td><td class=\"n %s\">%u</td><td "
                "class=\"n\">%u</td><td class=\"n\">%u</td><td class=\"n\">%" PRIu64
                "</td><td class=\"n\">",
                l->nranks, l->lanes, l->lanes > l->up ? "bad" : "", l->lanes - l->up, l->idle,
                l->depth, l->posts_per_s);
        status_print_rate(l->bytes_per_s, to);
        fprintf(to,
                "</td><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%" PRIu64
                "</td><td class=\"n\">",
                l->outstanding, l->outstanding_bytes);
        if (l->most_bytes)
            fprintf(to, "%u", l->most_rank);
        fputs("</td></tr>\n", to);
    }
    fputs("</tbody></table></div></section>\n", to);
}

/* ---- operations of one rank ---- */

static void page_op(const struct tt_status_report *r, const struct tt_status_op *op, FILE *to)
{
    const struct tt_status_comm *c = op->comm ? tt_status_find_comm(r, op->comm) : NULL;
    char text[TEXT_BYTES];

    status_op_text(&op->key, text, sizeof text);
    fprintf(to, "<tr><td class=\"n\">%u</td><td>%s</td><td class=\"n\">", op->rank, text);
    if (op->peer != TT_STATUS_NO_RANK)
        fprintf(to, "%u", op->peer);
    fputs("</td><td>", to);
    if (c)
        page_name(c, to);
    fputs("</td><td class=\"n\">", to);
    status_print_age(op->age_ns, to);
    fputs("</td></tr>\n", to);
}

static void page_ops(const struct status_answer *a, uint32_t rows, FILE *to)
{
    const struct tt_status_report *r = &a->report;

    if (r->nops == 0)
        return;
    fputs("<section id=\"operations\"><h2>Sends, receives and one-sided calls in "
          "progress</h2>\n<div class=\"wide tall\"><table><thead><tr><th class=\"n\">rank</th>"
          "<th>operation</th><th class=\"n\">peer</th><th>communicator</th><th "
          "class=\"n\">elapsed</th></tr></thead><tbody>\n",
          to);
    for (uint32_t i = 0; i < r->nops && i < rows; i++)
        page_op(r, &r->ops[i], to);
    fputs("</tbody></table></div>\n", to);
    if (r->nops > rows)
        fprintf(to, "<p class=\"soft\">and %u others</p>\n", r->nops - rows);
    fputs("</section>\n", to);
}

/* ---- the page ---- */

/* Writes the page up to its content, and returns the rest. */
static const char *page_begin(uint64_t job, FILE *to)
{
    char title[32];
    const char *rest;

    snprintf(title, sizeof title, "job %016" PRIx64, job);
    rest = tt_page_frame_begin(title, to);
    fprintf(to, "<main id=\"live\">\n<h1><small>Job</small> %016" PRIx64 "</h1>\n", job);
    return rest;
}

static void page_end(int64_t unix_ms, const char *rest, FILE *to)
{
    fputs(", as of ", to);
    tt_page_frame_time(unix_ms, to);
    fputs(" UTC. <a href=\"json\">JSON</a>, <a href=\"metrics\">metrics</a></footer>\n</main>\n",
          to);
    fputs(rest, to);
}

void status_page_write(const struct status_answer *a, uint32_t rows, int64_t unix_ms, FILE *to)
{
    const char *rest = page_begin(a->hello.job, to);
    struct status_judged *judged;
    const uint32_t n = status_judge(&a->report, &judged);

    page_summary(a, judged, n, to);
    page_figures(a, to);
    page_comms(judged, n, rows, to);
    page_lists(a, to);
    page_lanes(&a->report, to);
    page_ops(a, rows, to);
    free(judged);
    fprintf(to, "<footer>Tutti %s, answer of rank %u (", tutti_version(), a->hello.rank);
    tt_page_frame_text(a->hello.host, to);
    fprintf(to, ", pid %u) in %.2f s", a->hello.pid, a->seconds);
    page_end(unix_ms, rest, to);
}

void status_page_write_error(uint64_t job, const char *why, int64_t unix_ms, FILE *to)
{
    const char *rest = page_begin(job, to);

    fputs("<p class=\"bad\">", to);
    tt_page_frame_text(why, to);
    fprintf(to, "</p>\n<footer>Tutti %s", tutti_version());
    page_end(unix_ms, rest, to);
}
