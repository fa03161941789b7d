/* Derives the state of a communicator from the positions of its members. */
#include <stdlib.h>
#include <string.h>
#include "tools/status/status.h"
#include "trace/oplog.h"

const char *status_verdict_name(enum status_verdict v)
{
    static const char *const names[] = {
        [STATUS_MISMATCH] = "mismatch", [STATUS_FAILED] = "failed",
        [STATUS_MISSING] = "missing",   [STATUS_UNKNOWN] = "unknown",
        [STATUS_RUNNING] = "running",   [STATUS_IDLE] = "idle",
    };

    return names[v];
}

const char *status_list_name(enum tt_status_list list)
{
    static const char *const names[] = { [TT_STATUS_SILENT] = "silent",
                                         [TT_STATUS_LATE] = "late",
                                         [TT_STATUS_LEFT] = "left",
                                         [TT_STATUS_LOST] = "lost" };

    return names[list];
}

const char *status_stage_name(enum tt_status_stage stage)
{
    static const char *const names[] = {
        [TT_STATUS_STAGE_QUEUE] = "queue", [TT_STATUS_STAGE_PEER] = "peer",
        [TT_STATUS_STAGE_CONTROL] = "ctrl",
        [TT_STATUS_STAGE_REGISTER] = "reg", [TT_STATUS_STAGE_SEND] = "send",
        [TT_STATUS_STAGE_REDUCE] = "red",  [TT_STATUS_STAGE_COPY] = "copy",
        [TT_STATUS_STAGE_WIRE] = "wire",
    };

    return names[stage];
}

void status_op_text(const struct tt_status_op_key *k, char *out, size_t bytes)
{
    const char *type = k->type < TUTTI_DTYPE_COUNT ? tutti_dtype_name((tutti_dtype)k->type) : "";
    char count[32] = "", root[24] = "";

    if (k->seq == TT_STATUS_NO_SEQ) {
        snprintf(out, bytes, "no operation");
        return;
    }
    if (k->count)
        snprintf(count, sizeof count, " %llu", (unsigned long long)k->count);
    if (k->root != TT_STATUS_NO_RANK)
        snprintf(root, sizeof root, " root %u", k->root);
    snprintf(out, bytes, "%s%s%s%s%s%s%s", tt_oplog_kind_name(k->kind), count, *type ? " " : "",
             type, k->redop < TUTTI_REDOP_COUNT ? " " : "",
             k->redop < TUTTI_REDOP_COUNT ? tutti_redop_name((tutti_redop)k->redop) : "", root);
}

/* ---- verdicts ---- */

bool status_is_behind(const struct status_judged *j, const struct tt_status_group *g)
{
    return j->lead && g->key.state == TT_STATUS_OUT &&
           (g->key.seq == TT_STATUS_NO_SEQ || g->key.seq < j->lead->key.seq);
}

/* The last operation that a member is in. */
static const struct tt_status_group *find_lead(const struct tt_status_comm *c)
{
    const struct tt_status_group *lead = NULL;

    for (uint32_t i = 0; i < c->ngroups; i++) {
        const struct tt_status_group *g = &c->groups[i];

        if (g->key.state == TT_STATUS_IN &&
            (!lead || g->key.seq > lead->key.seq ||
             (g->key.seq == lead->key.seq && g->nranks > lead->nranks)))
            lead = g;
    }
    return lead;
}

static bool differs(const struct tt_status_op_key *a, const struct tt_status_op_key *b)
{
    return a->seq == b->seq && (a->kind != b->kind || a->count != b->count || a->type != b->type ||
                                a->redop != b->redop || a->root != b->root);
}

static void judge(const struct tt_status_comm *c, struct status_judged *out)
{
    bool mismatch = false, failed = false, behind = false;

    *out = (struct status_judged){ .comm = c, .lead = find_lead(c) };
    for (uint32_t i = 0; i < c->ngroups; i++) {
        const struct tt_status_group *g = &c->groups[i];

        mismatch |=
            g->key.status == TUTTI_ERR_MISMATCH || (out->lead && differs(&g->key, &out->lead->key));
        failed |= g->key.state == TT_STATUS_OUT && g->key.status != TUTTI_OK &&
                  g->key.status < TUTTI_STATUS_COUNT;
        behind |= status_is_behind(out, g);
        if (out->lead && g->key.state == TT_STATUS_IN && g->key.seq == out->lead->key.seq)
            out->nin += g->nranks;
    }
    out->verdict = mismatch                             ? STATUS_MISMATCH
                   : failed                             ? STATUS_FAILED
                   : behind                             ? STATUS_MISSING
                   : out->lead && c->nreported < c->nranks ? STATUS_UNKNOWN
                   : out->lead                          ? STATUS_RUNNING
                                                           : STATUS_IDLE;
}

static int compare_judged(const void *x, const void *y)
{
    const struct status_judged *a = x, *b = y;
    const uint64_t aage = a->lead ? a->lead->age_max_ns : 0,
                   bage = b->lead ? b->lead->age_max_ns : 0;

    if (a->verdict != b->verdict)
        return a->verdict < b->verdict ? -1 : 1;
    if (aage != bage)
        return aage > bage ? -1 : 1;
    return a->comm->hash < b->comm->hash ? -1 : a->comm->hash > b->comm->hash;
}

uint32_t status_judge(const struct tt_status_report *r, struct status_judged **out)
{
    *out = r->ncomms ? calloc(r->ncomms, sizeof **out) : NULL;
    if (!*out)
        return 0;
    for (uint32_t i = 0; i < r->ncomms; i++)
        judge(&r->comms[i], &(*out)[i]);
    qsort(*out, r->ncomms, sizeof **out, compare_judged);
    return r->ncomms;
}

/* ---- ranks without a report ---- */

/* Returns whether a list of members, e.g. "0-14:2,16", contains the rank. */
static bool has_member(const char *members, uint32_t rank)
{
    while (*members) {
        char *end;
        const unsigned long first = strtoul(members, &end, 10);
        unsigned long last = first, step = 1;

        if (end == members)
            return false;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        if (*end == ':')
            step = strtoul(end + 1, &end, 10);
        if (rank >= first && rank <= last && step > 0 && (rank - first) % step == 0)
            return true;
        if (*end != ',')
            return false;
        members = end + 1;
    }
    return false;
}

void status_each_unreported(const struct tt_status_report *r, const struct tt_status_comm *c,
                            void (*f)(void *arg, enum tt_status_list list, uint32_t rank),
                            void *arg)
{
    if (c->nreported >= c->nranks)
        return;
    for (uint32_t list = 0; list < TT_STATUS_LISTS; list++)
        for (uint32_t i = 0; i < r->lists[list].n; i++)
            if (has_member(c->members, r->lists[list].rank[i]))
                f(arg, (enum tt_status_list)list, r->lists[list].rank[i]);
}

uint32_t status_nunknown(const struct status_answer *a)
{
    uint32_t known = a->report.nreported;

    for (uint32_t list = 0; list < TT_STATUS_LISTS; list++)
        known += a->report.lists[list].n;
    return known < a->hello.nranks ? a->hello.nranks - known : 0;
}
