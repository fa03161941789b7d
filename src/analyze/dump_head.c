/* The first line of a dump. */
#include <stdlib.h>
#include <string.h>

#include "analyze/dump_reading.h"

struct head {
    uint64_t version, rank, ranks, pid, lost;
    char job[64], tutti[32];
    uint32_t host, reason, message;
    int64_t now, failed, offset_ns, error_ns;
    bool has_clock;
};

static void head_clock(struct tt_line *l, struct head *h)
{
    struct tt_line_text key;
    bool has_offset = false, has_error = false;

    if (tt_line_null(l) || !tt_line_object(l))
        return;
    while (tt_line_key(l, &key))
        if (tt_line_is(&key, "offset_ns") && !tt_line_null(l))
            has_offset = tt_line_i64(l, &h->offset_ns);
        else if (tt_line_is(&key, "error_ns") && !tt_line_null(l))
            has_error = tt_line_i64(l, &h->error_ns);
        else if (!tt_line_is(&key, "offset_ns") && !tt_line_is(&key, "error_ns"))
            tt_line_skip(l);
    h->has_clock = has_offset && has_error && h->error_ns >= 0;
    if (!h->has_clock)
        h->offset_ns = h->error_ns = 0;
}

static void head_text(struct tt_line *l, char *out, size_t cap)
{
    struct tt_line_text t;

    if (!tt_line_null(l) && tt_line_string(l, &t))
        tt_line_copy(&t, out, cap);
}

static void head_member(struct tt_reading *g, struct tt_line *l, const struct tt_line_text *key,
                        struct head *h)
{
    if (tt_line_is(key, "tutti_trace"))
        tt_line_u64(l, &h->version);
    else if (tt_line_is(key, "version"))
        head_text(l, h->tutti, sizeof h->tutti);
    else if (tt_line_is(key, "job"))
        head_text(l, h->job, sizeof h->job);
    else if (tt_line_is(key, "rank"))
        tt_line_u64(l, &h->rank);
    else if (tt_line_is(key, "ranks"))
        tt_line_u64(l, &h->ranks);
    else if (tt_line_is(key, "host"))
        h->host = tt_reading_text(g, l);
    else if (tt_line_is(key, "pid"))
        h->pid = tt_reading_u64(l);
    else if (tt_line_is(key, "reason"))
        h->reason = tt_reading_text(g, l);
    else if (tt_line_is(key, "message"))
        h->message = tt_reading_text(g, l);
    else if (tt_line_is(key, "now"))
        tt_line_i64(l, &h->now);
    else if (tt_line_is(key, "failed") && !tt_line_null(l))
        tt_line_i64(l, &h->failed);
    else if (tt_line_is(key, "clock"))
        head_clock(l, h);
    else if (tt_line_is(key, "lost"))
        h->lost = tt_reading_u64(l);
    else if (!tt_line_is(key, "failed"))
        tt_line_skip(l);
}

/* Returns the error in the head, or NULL. */
static const char *head_wrong(const struct tt_dumps *d, const struct head *h)
{
    if (h->version != 1)
        return "not a trace dump of version 1";
    if (h->ranks > TT_DUMPS_RANKS_MAX)
        return "\"ranks\" must be a number up to 1048576 (0: an elastic run)";
    if (h->ranks > 0 && h->rank >= h->ranks)
        return "\"rank\" must be below \"ranks\"";
    if (h->rank >= TT_DUMPS_RANKS_MAX)
        return "\"rank\" must be a number below 1048576";
    if (d->nranks > 0 && strcmp(d->job, h->job) != 0)
        return "belongs to another job than the first dump (analyze one job at a time)";
    if (d->nranks > 0 && (d->is_elastic ? 0 : d->nranks) != h->ranks)
        return "\"ranks\" differs from that of the first dump";
    if (d->nranks > 0 && d->ranks[h->rank].has_dump)
        return "duplicate dump of this rank (not used)";
    return NULL;
}

static bool begin_job(struct tt_reading *g, const struct head *h)
{
    struct tt_dumps *d = g->d;

    if (d->nranks > 0)
        return true;
    d->is_elastic = h->ranks == 0;
    d->nranks = d->is_elastic ? TT_DUMPS_RANKS_MAX : (uint32_t)h->ranks;
    d->ranks = calloc(d->nranks, sizeof *d->ranks);     /* the kernel allocates only used pages */
    if (!d->ranks) {
        d->nranks = 0;
        tt_reading_no_memory(g);
        return false;
    }
    d->host = h->has_clock ? TT_INTERN_EMPTY : h->host;
    memcpy(d->job, h->job, sizeof d->job);
    memcpy(d->version, h->tutti, sizeof d->version);
    return true;
}

/* Discards times of ranks without the clock of the job: that clock is now known, and their times
 * are comparable only with each other. */
static void forget_host(struct tt_dumps *d)
{
    for (uint32_t i = 0; i < d->nmentioned; i++)
        if (d->ranks[i].is_used) {
            d->ranks[i].has_clock = false;
            d->ranks[i].heard = TT_DUMPS_NEVER;     /* from these ranks' dumps */
        }
    d->host = TT_INTERN_EMPTY;
}

static void begin_rank(struct tt_reading *g, const struct head *h)
{
    struct tt_dumps *d = g->d;
    struct tt_dumps_rank *r = tt_reading_rank(g, (uint32_t)h->rank);

    if (h->has_clock && d->host != TT_INTERN_EMPTY)
        forget_host(d);
    g->number = (uint32_t)h->rank;
    g->rank = r;
    g->offset_ns = h->offset_ns;
    r->has_dump = true;
    r->has_clock = h->has_clock || (h->host != TT_INTERN_EMPTY && h->host == d->host);
    r->error_ns = h->error_ns;
    r->host = h->host;
    r->reason = h->reason;
    r->message = h->message;
    r->path = tt_intern_add(&d->texts, g->name, strlen(g->name));
    r->pid = (uint32_t)h->pid;
    r->lost = h->lost;
    if (__builtin_add_overflow(h->now, h->offset_ns, &r->now))
        r->now = TT_DUMPS_NEVER;
    if (h->failed == TT_DUMPS_NEVER || __builtin_add_overflow(h->failed, h->offset_ns, &r->failed))
        r->failed = TT_DUMPS_NEVER;
    r->ops_first = d->nops;
    r->locals_first = d->nlocals;
    g->peers_first = d->npeers;
    g->reports_first = d->nreports;
    g->lanes_first = d->nlanes;
    d->ndumps++;
}

void tt_read_head(struct tt_reading *g, struct tt_line *l)
{
    struct head h = { .rank = UINT64_MAX, .now = TT_DUMPS_NEVER, .failed = TT_DUMPS_NEVER };
    struct tt_line_text key;
    const char *wrong = NULL;
    bool is_first = true;

    while (tt_line_key(l, &key)) {
        if (is_first && !tt_line_is(&key, "tutti_trace"))
            break;
        is_first = false;
        head_member(g, l, &key, &h);
    }
    if (h.version == 0 || is_first)
        wrong = "not a trace dump: the first line must begin with {\"tutti_trace\":1";
    else if (!tt_line_end(l))
        wrong = l->error;
    else
        wrong = head_wrong(g->d, &h);
    if (wrong)
        tt_reading_reject(g, wrong);
    else if (begin_job(g, &h))
        begin_rank(g, &h);
}
