/* The status of a job on one screen, and of one rank in depth. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "tools/status/status.h"
#include "trace/comms.h"
#include "trace/oplog.h"

#define TEXT_BYTES 160
#define LISTED_MAX 16u          /* ranks of a list that are printed */
#define SLOWEST_MAX 4u
#define SHARE_LEAST 50u         /* thousandths; no rank is slow if all shares are smaller */

void status_print_age(uint64_t ns, FILE *to)
{
    const double s = (double)ns / 1e9;

    if (s < 1)
        fprintf(to, "%.0f ms", s * 1e3);
    else if (s < 600)
        fprintf(to, "%.1f s", s);
    else if (s < 36000)
        fprintf(to, "%.0f min", s / 60);
    else
        fprintf(to, "%.1f h", s / 3600);
}

void status_print_rate(uint64_t bytes, FILE *to)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    double value = (double)bytes;
    size_t i = 0;

    for (; value >= 1000 && i + 1 < sizeof units / sizeof *units; i++)
        value /= 1000;
    fprintf(to, "%.3g %s/s", value, units[i]);
}

void status_print_ranks(const uint32_t *rank, uint32_t listed, uint32_t all, FILE *to)
{
    fprintf(to, "rank%s ", all == 1 ? "" : "s");
    for (uint32_t i = 0; i < listed; i++)
        fprintf(to, "%s%u", i ? ", " : "", rank[i]);
    if (all > listed)
        fprintf(to, " and %u other%s", all - listed, all - listed == 1 ? "" : "s");
}

/* ---- the job ---- */

static void print_head(const struct status_answer *a, FILE *to)
{
    const struct tt_talk_hello *h = &a->hello;

    fprintf(to, "job %016" PRIx64 ": %u rank%s", h->job, h->nranks, h->nranks == 1 ? "" : "s");
    if (h->nhosts)
        fprintf(to, " on %u host%s", h->nhosts, h->nhosts == 1 ? "" : "s");
    fprintf(to, ", queried rank %u (%s, pid %u) in %.2f s\n", h->rank, h->host, h->pid, a->seconds);
    if (h->alone)
        fprintf(to, "elastic run: only the processes of this host report\n");
}

static void print_totals(const struct status_answer *a, FILE *to)
{
    const struct tt_status_report *r = &a->report;

    fprintf(to, "%u rank%s report%s: %u in an operation, %u in none; %" PRIu64 " operations/s, ",
            r->nreported, r->nreported == 1 ? "" : "s", r->nreported == 1 ? "s" : "", r->nactive,
            r->nreported - r->nactive, r->ops_per_s);
    status_print_rate(r->bytes_per_s, to);
    fprintf(to, "\n");
    if (r->nuntraced)
        fprintf(to, "%u rank%s no trace of operations (TUTTI_TRACE=0)\n", r->nuntraced,
                r->nuntraced == 1 ? " has" : "s have");
}

void status_print_lists(const struct status_answer *a, FILE *to)
{
    static const char *const texts[] = {
        [TT_STATUS_SILENT] = "no message received (stopped, or the host does not respond)",
        [TT_STATUS_LATE] = "no complete report in time",
        [TT_STATUS_LEFT] = "left the job",
        [TT_STATUS_LOST] = "process ended",
    };
    const uint32_t unknown = a->hello.alone ? 0 : status_nunknown(a);

    for (uint32_t list = 0; list < TT_STATUS_LISTS; list++) {
        const struct tt_status_ranks *l = &a->report.lists[list];

        if (l->n == 0)
            continue;
        fprintf(to, "%s: ", status_list_name((enum tt_status_list)list));
        status_print_ranks(l->rank, l->n < LISTED_MAX ? l->n : LISTED_MAX, l->n, to);
        fprintf(to, "%s: %s\n", l->more ? " (and more)" : "", texts[list]);
    }
    if (unknown)
        fprintf(to, "%u rank%s did not report, because the ranks between did not respond\n",
                unknown, unknown == 1 ? "" : "s");
}

/* Also shows lanes that are down: their traffic fails over to other lanes, so that they have no
 * other symptom. */
static void print_lanes(const struct status_answer *a, FILE *to)
{
    const struct tt_status_report *r = &a->report;

    for (uint32_t i = 0; i < r->nlanes; i++) {
        const struct tt_status_lanes *l = &r->lanes[i];
        const uint32_t down = l->lanes - l->up;

        fprintf(to, "lanes of %s: %u on %u rank%s, %u down", l->wire, l->lanes, l->nranks,
                l->nranks == 1 ? "" : "s", down);
        if (down)
            fprintf(to, " (most at rank %u: %u)", l->down_rank, l->down_most);
        if (l->nrated) {
            fprintf(to, ", ");
            status_print_rate(l->bytes_per_s, to);
        }
        fprintf(to, "\n");
    }
}

/* Prints the ranks with the smallest shares, if at most half of the largest one. */
static void print_slowest(const struct status_answer *a, FILE *to)
{
    const struct tt_status_shares *s = &a->report.shares;
    uint32_t n = 0;

    while (n < s->n && n < SLOWEST_MAX && 2 * s->share[n] <= s->most)
        n++;
    if (s->most < SHARE_LEAST || s->nranks < 2)
        return;
    if (n == 0) {
        fprintf(to,
                "slowest ranks: none (all were in collectives for %.0f to %.0f %% of the last "
                "second)\n",
                s->share[0] / 10.0, s->most / 10.0);
        return;
    }
    fprintf(to, "slowest rank%s: ", n == 1 ? "" : "s");
    for (uint32_t i = 0; i < n; i++)
        fprintf(to, "%s%u (%.1f %%)", i ? ", " : "", s->rank[i], s->share[i] / 10.0);
    fprintf(to, " of the last second in collectives; others up to %.1f %%\n", s->most / 10.0);
}

struct unreported {
    FILE *to;
    uint32_t n;
};

static void print_unreported(void *arg, enum tt_status_list list, uint32_t rank)
{
    struct unreported *u = arg;

    if (u->n++ < LISTED_MAX)
        fprintf(u->to, "%srank %u (%s)", u->n == 1 ? "    no report: " : ", ", rank,
                status_list_name(list));
}

/* Prints one line for members of a communicator that are not at the position of most. */
static void print_group(const struct status_judged *j, const struct tt_status_group *g, FILE *to)
{
    char op[TEXT_BYTES];

    status_op_text(&g->key, op, sizeof op);
    fprintf(to, "    ");
    status_print_ranks(g->ranks, g->nlisted, g->nranks, to);
    if (g->key.seq == TT_STATUS_NO_SEQ) {
        fprintf(to, ": no operation yet\n");
        return;
    }
    if (g->key.state == TT_STATUS_IN)
        fprintf(to, ": in %s, number %" PRIu64 ", since ", op, g->key.seq);
    else if (g->key.status == TUTTI_OK || g->key.status >= TUTTI_STATUS_COUNT)
        fprintf(to, ": %s %s, number %" PRIu64 ", ended ",
                status_is_behind(j, g) ? "has not called it; last:" : "has completed", op,
                g->key.seq);
    else
        fprintf(to, ": %s, number %" PRIu64 ", failed (%s) ", op, g->key.seq,
                tutti_status_name((tutti_status)g->key.status));
    status_print_age(g->age_max_ns, to);
    if (g->key.state == TT_STATUS_OUT)
        fprintf(to, " ago");
    if (g->nlisted == 1 && g->waits[0] != TT_STATUS_NO_RANK)
        fprintf(to, ", waits for rank %u", g->waits[0]);
    fprintf(to, "\n");
}

static void print_comm(const struct status_answer *a, const struct status_judged *j, FILE *to)
{
    const struct tt_status_comm *c = j->comm;
    struct unreported u = { .to = to };
    char op[TEXT_BYTES] = "";

    fprintf(to, "%-9s %s%s%016" PRIx64 "  %u of %u rank%s", status_verdict_name(j->verdict),
            c->name, *c->name ? "  " : "", c->hash, j->lead ? j->nin : 0, c->nranks,
            c->nranks == 1 ? "" : "s");
    if (j->lead) {
        status_op_text(&j->lead->key, op, sizeof op);
        fprintf(to, " in %s, number %" PRIu64 ", since ", op, j->lead->key.seq);
        status_print_age(j->lead->age_max_ns, to);
    }
    if (c->has_rates && c->rates.calls) {
        fprintf(to, "; %" PRIu64 " calls/s, ", c->rates.calls);
        status_print_rate(c->rates.bytes, to);
    }
    fprintf(to, "\n");
    for (uint32_t i = 0; i < c->ngroups && j->verdict != STATUS_IDLE; i++)
        if (&c->groups[i] != j->lead || j->verdict == STATUS_MISMATCH)
            print_group(j, &c->groups[i], to);
    if (c->nothers)
        fprintf(to, "    %u other member%s elsewhere\n", c->nothers, c->nothers == 1 ? "" : "s");
    if (j->verdict != STATUS_IDLE)
        status_each_unreported(&a->report, c, print_unreported, &u);
    if (u.n)
        fprintf(to, "\n");
}

int status_compare_ops(const void *x, const void *y)
{
    const struct tt_status_op *a = x, *b = y;

    return a->age_ns > b->age_ns ? -1 : a->age_ns < b->age_ns;
}

static void print_op(const struct tt_status_report *r, const struct tt_status_op *op, FILE *to)
{
    const struct tt_status_comm *c = op->comm ? tt_status_find_comm(r, op->comm) : NULL;
    char text[TEXT_BYTES];

    status_op_text(&op->key, text, sizeof text);
    fprintf(to, "    rank %u: %s, number %" PRIu64, op->rank, text, op->key.seq);
    if (op->peer != TT_STATUS_NO_RANK)
        fprintf(to, ", peer rank %u", op->peer);
    if (op->tag != TT_STATUS_NO_RANK)
        fprintf(to, ", tag %u", op->tag);
    if (c && *c->name)
        fprintf(to, ", on %s", c->name);
    else if (op->comm)
        fprintf(to, ", on %016" PRIx64, op->comm);
    if (op->key.state == TT_STATUS_IN) {
        fprintf(to, ", since ");
        status_print_age(op->age_ns, to);
        if (op->waits != TT_STATUS_NO_RANK)
            fprintf(to, ", waits for rank %u", op->waits);
    } else {
        fprintf(to, ", %s, ended ",
                op->key.status < TUTTI_STATUS_COUNT
                    ? tutti_status_name((tutti_status)op->key.status)
                    : "?");
        status_print_age(op->ended_ns, to);
        fprintf(to, " ago");
    }
    fprintf(to, "\n");
}

static void print_ops(const struct tt_status_report *r, uint32_t rows, FILE *to)
{
    if (r->nops == 0)
        return;
    fprintf(to, "operations in progress on one rank, oldest first:\n");
    for (uint32_t i = 0; i < r->nops && i < rows; i++)
        print_op(r, &r->ops[i], to);
    if (r->nops > rows)
        fprintf(to, "    and %u others (--rows shows more)\n", r->nops - rows);
}

void status_print(const struct status_answer *a, uint32_t rows, FILE *to)
{
    struct status_judged *judged;
    const uint32_t n = status_judge(&a->report, &judged);
    uint32_t shown = 0;

    print_head(a, to);
    print_totals(a, to);
    status_print_lists(a, to);
    print_lanes(a, to);
    print_slowest(a, to);
    for (; shown < n && shown < rows; shown++)
        print_comm(a, &judged[shown], to);
    if (n > shown)
        fprintf(to, "and %u other communicators (--rows shows more)\n", n - shown);
    free(judged);
    print_ops(&a->report, rows, to);
    if (a->report.left_out)
        fprintf(to, "%u rows left out: more than a report holds\n", a->report.left_out);
}

void status_print_dumps(const struct status_answer *a, FILE *to)
{
    const struct tt_status_report *r = &a->report;
    const uint32_t none = r->nreported - (r->ndumping < r->nreported ? r->ndumping : r->nreported);

    print_head(a, to);
    if (r->ndumps == r->ndumping)
        fprintf(to, "%u rank%s a trace dump to TUTTI_TRACE_DIR\n", r->ndumps,
                r->ndumps == 1 ? " writes" : "s write");
    else
        fprintf(to, "%u process%s of %u ranks a trace dump to TUTTI_TRACE_DIR\n", r->ndumps,
                r->ndumps == 1 ? " writes" : "es write", r->ndumping);
    if (none)
        fprintf(to,
                "%u rank%s none: TUTTI_TRACE_DIR is not set, or earlier dumps are not "
                "complete\n",
                none, none == 1 ? " writes" : "s write");
    status_print_lists(a, to);
}

/* ---- one rank ---- */

static int compare_states(const void *x, const void *y)
{
    const struct tt_status_op *a = x, *b = y;

    if (a->key.state != b->key.state)
        return a->key.state < b->key.state ? -1 : 1;
    if (a->key.state == TT_STATUS_IN)
        return status_compare_ops(x, y);
    return a->ended_ns < b->ended_ns ? -1 : a->ended_ns > b->ended_ns;
}

static void print_own_comms(const struct tt_status_report *r, uint32_t rows, FILE *to)
{
    static const char *const of[] = {
        [TT_COMMS_COMM] = "communicator", [TT_COMMS_WINDOW] = "window", [TT_COMMS_RUN] = "run"
    };

    fprintf(to, "member of %u:\n", r->ncomms);
    for (uint32_t i = 0; i < r->ncomms && i < rows; i++) {
        const struct tt_status_comm *c = &r->comms[i];

        fprintf(to, "    %s %016" PRIx64 " %s, %u rank%s%s%s\n", of[c->of], c->hash, c->name,
                c->nranks, c->nranks == 1 ? "" : "s", *c->members ? ": " : "", c->members);
    }
    if (r->ncomms > rows)
        fprintf(to, "    and %u others (--rows shows more)\n", r->ncomms - rows);
}

void status_print_rank(const struct status_answer *a, uint32_t rows, FILE *to)
{
    struct tt_status_report *r = (struct tt_status_report *)&a->report;
    const struct tt_status_detail *d = &r->detail;
    uint32_t nopen = 0;

    print_head(a, to);
    if (!d->present) {
        fprintf(to, "rank %u did not report", a->query.target);
        for (uint32_t list = 0; list < TT_STATUS_LISTS; list++)
            if (tt_status_has_rank(r, (enum tt_status_list)list, a->query.target))
                fprintf(to, " (%s)", status_list_name((enum tt_status_list)list));
        fprintf(to, "\n");
        return;
    }
    fprintf(to, "rank %u: %s, pid %u, a trace of %" PRIu64 " operations\n", d->rank, d->host,
            d->pid, d->records);
    if (*d->note)
        fprintf(to, "annotation: %s\n", d->note);
    print_own_comms(r, rows, to);
    qsort(r->ops, r->nops, sizeof *r->ops, compare_states);
    while (nopen < r->nops && r->ops[nopen].key.state == TT_STATUS_IN)
        nopen++;
    fprintf(to, nopen ? "in progress:\n" : "no operation in progress\n");
    for (uint32_t i = 0; i < r->nops && i < rows + nopen; i++) {
        if (i == nopen)
            fprintf(to, "ended operations, newest first:\n");
        print_op(r, &r->ops[i], to);
    }
}
