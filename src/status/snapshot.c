#include "status/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "status/busy.h"
#include "trace/comms.h"
#include "trace/dump.h"
#include "trace/notes.h"
#include "trace/oplog.h"
#include "trace/stages.h"
#include "tutti/tutti.h"

_Static_assert(TT_BUSY_MS == TT_STATUS_WHOLE, "a share is a number of milliseconds");

/* The records of one communicator. */
struct position {
    bool known;                 /* the table's entry was read */
    bool has_last, has_open;
    uint64_t since;
    struct tt_oplog_record last;        /* newest collective */
    struct tt_oplog_record open;        /* oldest collective in progress */
    uint64_t calls, bytes;              /* ended in the last second */
    uint64_t busy_ns;                   /* in collectives, in the last second */
    uint64_t nstaged, staged_ns[TT_STATUS_STAGES];      /* of long ones of these calls */
};

struct scan {
    const struct tt_collect_query *query;
    uint32_t rank;
    struct tt_status_report *report;
    struct position *position;  /* [TT_COMMS_MAX] by number of the communicator */
    struct tt_busy busy;        /* of this rank */
    struct tt_snapshot_wait waits[TT_SNAPSHOT_WAITS_MAX];
    uint32_t nwaits;
    uint64_t now_ns;
    uint32_t nopen, nended;     /* operations in progress; reported ended ones */
    bool rates;                 /* the scanned records still belong to the last second */
    uint64_t counted_ns;        /* age of the oldest counted record */
    uint64_t held_ns;           /* the trace has only this part of the last second; 0: all of it */
};

static bool is_collective(uint8_t kind)
{
    return (kind < TT_OPLOG_CALLS && kind != TT_OPLOG_SEND && kind != TT_OPLOG_RECV) ||
           kind >= TT_OPLOG_RUN;
}

static uint64_t age_of(const struct scan *s, uint64_t tick)
{
    const uint64_t ns = tick ? tt_tick_to_ns(tick) : s->now_ns;

    return ns < s->now_ns ? s->now_ns - ns : 0;
}

static void key_of(const struct tt_oplog_record *o, struct tt_status_op_key *k)
{
    const struct tt_oplog_call *c = &o->call;
    const bool open = o->status == TUTTI_PENDING;

    *k = (struct tt_status_op_key){
        .seq = c->seq,
        .count = c->flags & TT_OPLOG_IS_BYTES && is_collective(c->kind) ? 0 : c->count,
        .root = c->flags & TT_OPLOG_ROOTED ? c->peer : TT_STATUS_NO_RANK,
        .kind = c->kind,
        .type = c->type,
        .redop = c->flags & TT_OPLOG_REDUCES ? c->redop : UINT8_MAX,
        .state = open ? TT_STATUS_IN : TT_STATUS_OUT,
        .status = open ? TUTTI_PENDING : (uint8_t)o->status,
    };
}

static uint32_t waits_of(const struct scan *s, uint64_t comm, uint64_t seq)
{
    for (uint32_t i = 0; i < s->nwaits; i++)
        if (s->waits[i].comm == comm && s->waits[i].seq == seq)
            return s->waits[i].rank;
    return TT_STATUS_NO_RANK;
}

/* ---- records ---- */

static void add_single(struct scan *s, const struct tt_oplog_record *o)
{
    struct tt_status_op op = { .age_ns = age_of(s, o->called),
                               .ended_ns = o->ended ? age_of(s, o->ended) : 0,
                               .rank = s->rank,
                               .peer = o->call.flags & TT_OPLOG_ROOTED ? TT_STATUS_NO_RANK
                                                                       : o->call.peer,
                               .tag = o->call.tag };
    struct tt_comms_entry e;

    if (tt_comms_get(o->call.comm, false, &e) && e.since <= o->called)
        op.comm = e.hash;
    key_of(o, &op.key);
    op.key.count = o->call.count;
    op.waits = is_collective(o->call.kind) ? waits_of(s, op.comm, o->call.seq) : op.peer;
    tt_status_add_op(s->report, &op);
}

static uint64_t bytes_of(const struct tt_oplog_call *c)
{
    const bool in_bytes = c->flags & TT_OPLOG_IS_BYTES || c->type >= TUTTI_DTYPE_COUNT;

    return c->count * (in_bytes ? 1 : tutti_dtype_bytes((tutti_dtype)c->type));
}

static void count_rate(struct scan *s, const struct tt_oplog_record *o)
{
    const uint64_t age_ns = age_of(s, o->called);

    if (age_ns > TT_SECOND)
        s->rates = false;
    if (!s->rates || o->status == TUTTI_PENDING)
        return;
    s->counted_ns = age_ns;
    s->report->ops_per_s++;
    s->report->bytes_per_s += bytes_of(&o->call);
}

/* Returns ns, but at least 0 and at most *left, and subtracts it from *left. */
static uint64_t take(double *left, double ns)
{
    const double taken = ns < 0 ? 0 : ns < *left ? ns : *left;

    *left -= taken;
    return (uint64_t)taken;
}

/* Divides the time of an operation that has ended into stages, if they are known. The first stages
 * follow each other; the measured ones are parts of the rest. */
static void count_stages(struct position *p, const struct tt_oplog_record *o, uint64_t total_ns)
{
    static const uint8_t of[TT_STAGES] = { [TT_STAGE_REGISTER] = TT_STATUS_STAGE_REGISTER,
                                           [TT_STAGE_SEND] = TT_STATUS_STAGE_SEND,
                                           [TT_STAGE_REDUCE] = TT_STATUS_STAGE_REDUCE,
                                           [TT_STAGE_COPY] = TT_STATUS_STAGE_COPY };
    struct tt_stage_times t;
    double left = (double)total_ns, ns_per_tick, queued, message;

    if (o->ended <= o->called || !tt_stages_get(o->number, &t))
        return;
    ns_per_tick = left / (double)(o->ended - o->called);
    queued = o->started > o->called ? ns_per_tick * (double)(o->started - o->called) : 0;
    p->nstaged++;
    p->staged_ns[TT_STATUS_STAGE_QUEUE] += take(&left, queued);
    /* data sent before any message of the peer did not wait for the peer */
    message = t.first_message && t.first_message <= t.first_data
                  ? ns_per_tick * (double)t.first_message
                  : queued;
    message = message > queued ? message : queued;
    p->staged_ns[TT_STATUS_STAGE_PEER] += take(&left, message - queued);
    p->staged_ns[TT_STATUS_STAGE_CONTROL] +=
        take(&left, ns_per_tick * (double)t.first_data - message);
    for (int i = 0; i < TT_STAGES; i++)
        p->staged_ns[of[i]] += take(&left, ns_per_tick * (double)t.of[i]);
    p->staged_ns[TT_STATUS_STAGE_WIRE] += (uint64_t)left;
}

/* Counts an operation of the last second for its communicator. */
static void count_busy(struct scan *s, struct position *p, const struct tt_oplog_record *o)
{
    const bool open = o->status == TUTTI_PENDING;
    const uint64_t since = age_of(s, o->called), until = open ? 0 : age_of(s, o->ended);
    const uint64_t from = since < TT_SECOND ? since : TT_SECOND;

    if (until > TT_SECOND || (!open && !o->ended))      /* earlier, or its end is unknown */
        return;
    p->calls += !open;
    p->bytes += open ? 0 : bytes_of(&o->call);
    if (!open)
        count_stages(p, o, since > until ? since - until : 0);
    if (!is_collective(o->call.kind) || from <= until)
        return;
    p->busy_ns += from - until;
    tt_busy_add(&s->busy, from, until);
}

static void scale_rates(struct tt_status_report *r, uint64_t counted_ns)
{
    const double by = (double)TT_SECOND / (double)counted_ns;

    r->ops_per_s = (uint64_t)((double)r->ops_per_s * by);
    r->bytes_per_s = (uint64_t)((double)r->bytes_per_s * by);
}

/* Adds a record. Records are added from the newest to the oldest. */
static void see_record(struct scan *s, const struct tt_oplog_record *o)
{
    struct position *p = &s->position[o->call.comm % TT_COMMS_MAX];
    const bool open = o->status == TUTTI_PENDING;
    struct tt_comms_entry e;

    s->nopen += open;
    if (s->rates)
        count_rate(s, o);
    if (s->query->what == TT_COLLECT_RANK) {
        if (open || s->nended < TT_SNAPSHOT_ENDED_MAX)
            add_single(s, o);
        s->nended += !open;
        return;
    }
    if (!p->known) {
        p->known = true;
        p->since = tt_comms_get(o->call.comm, false, &e) ? e.since : UINT64_MAX;
    }
    if (s->query->what == TT_COLLECT_RATES && o->called >= p->since)
        count_busy(s, p, o);
    if (!is_collective(o->call.kind) || !o->call.comm) {
        if (open)
            add_single(s, o);
        return;
    }
    if (o->called < p->since)
        return;                 /* of an earlier communicator with this number */
    if (!p->has_last)
        p->last = *o;
    if (open)
        p->open = *o;
    p->has_last = true;
    p->has_open |= open;
}

static void read_records(struct scan *s)
{
    const uint32_t depth = tt_oplog_depth();
    const uint64_t head = depth ? atomic_load(&tt_oplog_ring.head) : 0,
                   first = head > depth ? head - depth : 1;
    struct tt_oplog_record o;

    for (uint64_t n = head; n-- > first;)
        if (tt_oplog_ring_find(&tt_oplog_ring, n, &o))
            see_record(s, &o);
    if (s->rates && head > depth && s->counted_ns) {    /* the ring has less than a second */
        s->held_ns = s->counted_ns;
        scale_rates(s->report, s->held_ns);
    }
}

/* ---- communicators ---- */

/* Returns the share of a time in the last second, or in that part of it that the trace contains. */
static uint32_t share_of(const struct scan *s, uint64_t busy_ns)
{
    const double by = s->held_ns ? (double)TT_SECOND / (double)s->held_ns : 1;
    const double share = by * (double)busy_ns / (double)TT_SECOND * TT_STATUS_WHOLE;

    return share < TT_STATUS_WHOLE ? (uint32_t)share : TT_STATUS_WHOLE;
}

static void add_share(struct scan *s)
{
    const uint32_t share = share_of(s, tt_busy_sum_ns(&s->busy));

    tt_status_add_shares(
        s->report,
        &(struct tt_status_shares){
            .nranks = 1, .most = share, .n = 1, .rank = { s->rank }, .share = { share } });
}

/* Adds rates. Concurrent operations may take more than the whole time. */
static void add_rates(const struct scan *s, struct tt_status_comm *c, const struct position *p)
{
    const double by = s->held_ns ? (double)TT_SECOND / (double)s->held_ns : 1;
    const uint32_t part = share_of(s, p->busy_ns);
    struct tt_status_rates rates = { .calls = (uint64_t)(by * (double)p->calls),
                                     .bytes = (uint64_t)(by * (double)p->bytes),
                                     .nstaged = (uint64_t)(by * (double)p->nstaged),
                                     .nranks = 1,
                                     .least_rank = s->rank,
                                     .least = part,
                                     .most_rank = s->rank,
                                     .most = part };

    memcpy(rates.staged_ns, p->staged_ns, sizeof rates.staged_ns);
    tt_status_add_rates(c, &rates);
}

static void add_position(struct scan *s, const struct tt_comms_entry *e, const struct position *p)
{
    const struct tt_oplog_record *o = p->has_open ? &p->open : &p->last;
    struct tt_status_comm c = {
        .hash = e->hash, .nranks = e->nranks, .nreported = 1, .of = (uint8_t)e->of
    };
    struct tt_status_group g = {
        .nranks = 1,
        .nlisted = 1,
        .ranks = { s->rank },
        .waits = { TT_STATUS_NO_RANK },
        .key = { .seq = TT_STATUS_NO_SEQ, .root = TT_STATUS_NO_RANK, .state = TT_STATUS_OUT }
    };
    struct tt_status_comm *mine;

    snprintf(c.name, sizeof c.name, "%s", e->name);
    if (e->members && strlen(e->members) < sizeof c.members)
        memcpy(c.members, e->members, strlen(e->members));
    if (p->has_last) {
        key_of(o, &g.key);
        g.age_max_ns = g.age_min_ns = age_of(s, p->has_open ? o->called : o->ended);
    }
    if (p->has_open)
        g.waits[0] = waits_of(s, e->hash, o->call.seq);
    mine = tt_status_add_comm(s->report, &c);
    if (mine)
        tt_status_add_group(mine, &g);
    if (mine && s->query->what == TT_COLLECT_RATES)
        add_rates(s, mine, p);
}

/* Adds communicators, first those with operations in progress: the number of others is limited. */
static void add_comms(struct scan *s, bool open)
{
    struct tt_comms_entry e;
    uint32_t nidle = 0;

    for (uint32_t i = 1; i < TT_COMMS_MAX && tt_comms_get((uint16_t)i, true, &e); i++) {
        const bool use = e.open && e.of != TT_COMMS_WINDOW && s->position[i].has_open == open;

        if (use && !open && ++nidle > TT_SNAPSHOT_IDLE_MAX)
            s->report->left_out++;
        else if (use)
            add_position(s, &e, &s->position[i]);
        free(e.members);
    }
}

static void add_name(struct scan *s, const struct tt_comms_entry *e)
{
    struct tt_status_comm c = {
        .hash = e->hash, .nranks = e->nranks, .nreported = 1, .of = (uint8_t)e->of
    };

    snprintf(c.name, sizeof c.name, "%s", e->name);
    if (e->members && strlen(e->members) < sizeof c.members)
        memcpy(c.members, e->members, strlen(e->members));
    tt_status_add_comm(s->report, &c);
}

static void add_detail(struct scan *s)
{
    struct tt_status_detail *d = &s->report->detail;
    struct tt_comms_entry e;
    struct tt_note note;

    d->present = true;
    d->rank = s->rank;
    d->pid = (uint32_t)getpid();
    d->records = tt_oplog_depth();
    if (gethostname(d->host, sizeof d->host - 1) != 0)
        *d->host = 0;
    if (tt_note_find(tt_note_current(), UINT64_MAX, &note))
        snprintf(d->note, sizeof d->note, "%s", note.text);
    for (uint32_t i = 1; i < TT_COMMS_MAX && tt_comms_get((uint16_t)i, true, &e); i++) {
        if (e.open)
            add_name(s, &e);
        free(e.members);
    }
}

static void snapshot_lanes(const struct scan *s, const struct tt_snapshot_source *source)
{
    struct tt_status_lanes lanes[TT_STATUS_WIRES_MAX];
    const uint32_t n = source->lanes(source->arg, lanes);

    for (uint32_t i = 0; i < n; i++) {
        lanes[i].nranks = 1;
        lanes[i].most_rank = lanes[i].down_rank = s->rank;
        lanes[i].most_bytes = lanes[i].outstanding_bytes;
        lanes[i].down_most = lanes[i].lanes - lanes[i].up;
        tt_status_add_lanes(s->report, &lanes[i]);
    }
}

static void start_dump(const struct tt_collect_query *q, struct tt_status_report *r)
{
    const enum tt_dump_answer answer = tt_dump_command(q->dir, q->number);

    r->ndumping = answer != TT_DUMP_REFUSED;
    r->ndumps = answer == TT_DUMP_STARTED;
}

void tt_status_snapshot(const struct tt_collect_query *q, uint32_t rank,
                        const struct tt_snapshot_source *source, struct tt_status_report *r)
{
    struct scan s = { .query = q, .rank = rank, .report = r, .rates = true };

    r->nuntraced = tt_oplog_depth() == 0;
    if (q->what == TT_COLLECT_DUMP)
        start_dump(q, r);
    if (q->what == TT_COLLECT_DUMP || (q->what == TT_COLLECT_RANK && q->target != rank))
        return;
    if (q->what == TT_COLLECT_RATES && source->lanes)
        snapshot_lanes(&s, source);
    s.position = calloc(TT_COMMS_MAX, sizeof *s.position);
    if (!s.position) {
        r->left_out++;
        return;
    }
    if (source->waits)
        s.nwaits = source->waits(source->arg, s.waits);
    tt_tick_refresh();
    s.now_ns = tt_now_ns();
    read_records(&s);
    r->nactive = s.nopen > 0;
    if (q->what == TT_COLLECT_RANK) {
        add_detail(&s);
    } else {
        add_comms(&s, true);
        add_comms(&s, false);
    }
    if (q->what == TT_COLLECT_RATES && !r->nuntraced)
        add_share(&s);
    free(s.position);
}
