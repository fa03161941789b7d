/* Reads the lines of one dump into struct tt_dumps. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/dumps.h"
#include "analyze/grow.h"
#include "analyze/line.h"
#include "analyze/p2p.h"
#include "base/prng.h"
#include "base/status.h"

#define NOTES_KEPT 64u
#define COMMS_MAX 65536u                /* per dump */
#define LANES_MAX (1u << 20)            /* per dump */
#define TEXT_BYTES 256
#define NAME_BYTES 44
#define NOTE_BYTES 104
#define OPS_MAX (1u << 30)              /* kept, of all dumps: their numbers have 32 bits */
#define NOT_GIVEN INT64_MAX
#define READ_BYTES (256u << 10)

struct reading {
    struct tt_dumps *d;
    const char *name;
    struct tt_dumps_rank *rank;         /* NULL before the head */
    uint32_t number;                    /* of the rank */
    uint64_t line;
    int64_t offset_ns;
    uint32_t ndone, nopen;              /* operations kept of this dump */
    size_t peers_first, reports_first, lanes_first;
    bool has_ended, is_broken;
    struct {
        uint64_t number;
        uint32_t text;
    } notes[NOTES_KEPT];
    uint32_t nnotes;
    tutti_status status;
};

static void record_problem(struct tt_dumps *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void record_problem(struct tt_dumps *d, const char *fmt, ...)
{
    va_list ap;

    if (d->nproblems < TT_DUMPS_PROBLEMS_MAX) {
        va_start(ap, fmt);
        vsnprintf(d->problems[d->nproblems], sizeof d->problems[0], fmt, ap);
        va_end(ap);
    }
    d->nproblems++;
}

/* Ends the dump at this line. What was read before stays. */
static void broken(struct reading *g, const char *why)
{
    g->is_broken = true;
    record_problem(g->d, "%s:%llu: %s (the rest of this dump is not used)", g->name,
                   (unsigned long long)g->line, why);
}

static void reject(struct reading *g, const char *why)
{
    g->status = TUTTI_ERR_INVALID;
    record_problem(g->d, "%s:%llu: %s", g->name, (unsigned long long)g->line, why);
}

static void no_memory(struct reading *g)
{
    g->status = TUTTI_ERR_NOMEM;
    record_problem(g->d, "%s:%llu: out of memory", g->name, (unsigned long long)g->line);
}

/* ---- values ---- */

/* Reads a text of which at most cap - 4 bytes are kept; cap is at most TEXT_BYTES. */
static uint32_t line_text_of(struct reading *g, struct tt_line *l, size_t cap)
{
    struct tt_line_text t;
    char text[TEXT_BYTES];

    if (tt_line_null(l) || !tt_line_string(l, &t))
        return TT_INTERN_EMPTY;
    return tt_intern_add(&g->d->texts, text, tt_line_copy(&t, text, cap));
}

static uint32_t line_text(struct reading *g, struct tt_line *l)
{
    return line_text_of(g, l, TEXT_BYTES);
}

/* Reads a time and converts it to job time. */
static int64_t line_time(const struct reading *g, struct tt_line *l)
{
    int64_t t;

    if (tt_line_null(l) || !tt_line_i64(l, &t) || __builtin_add_overflow(t, g->offset_ns, &t))
        return TT_DUMPS_NEVER;
    return t;
}

/* Reads a number below `end`, else TT_DUMPS_NONE. */
static uint32_t line_below(struct tt_line *l, uint32_t end)
{
    int64_t n;

    if (tt_line_null(l) || !tt_line_i64(l, &n) || n < 0 || n >= end)
        return TT_DUMPS_NONE;
    return (uint32_t)n;
}

static uint64_t line_u64(struct tt_line *l)
{
    uint64_t n;

    return tt_line_null(l) || !tt_line_u64(l, &n) ? 0 : n;
}

static uint32_t line_u32(struct tt_line *l)
{
    const uint64_t n = line_u64(l);

    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static uint64_t hash_of(const struct tt_line_text *t)
{
    uint64_t n = 0;

    if (t->bytes == 0 || t->bytes > 16)
        return tt_hash_bytes(t->text, t->bytes, 1);
    for (size_t i = 0; i < t->bytes; i++) {
        const char c = t->text[i];

        if (c >= '0' && c <= '9')
            n = n << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            n = n << 4 | (uint64_t)(c - 'a' + 10);
        else
            return tt_hash_bytes(t->text, t->bytes, 1);
    }
    return n;
}

/* ---- head ---- */

struct head {
    uint64_t version, rank, ranks, pid, lost;
    char job[64], tutti[32];
    uint32_t host, reason, message;
    int64_t now, offset_ns, error_ns;
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

static void head_member(struct reading *g, struct tt_line *l, const struct tt_line_text *key,
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
        h->host = line_text(g, l);
    else if (tt_line_is(key, "pid"))
        h->pid = line_u64(l);
    else if (tt_line_is(key, "reason"))
        h->reason = line_text(g, l);
    else if (tt_line_is(key, "message"))
        h->message = line_text(g, l);
    else if (tt_line_is(key, "now"))
        tt_line_i64(l, &h->now);
    else if (tt_line_is(key, "clock"))
        head_clock(l, h);
    else if (tt_line_is(key, "lost"))
        h->lost = line_u64(l);
    else
        tt_line_skip(l);
}

/* Returns what is wrong with the head, or NULL. */
static const char *head_wrong(const struct tt_dumps *d, const struct head *h)
{
    if (h->version != 1)
        return "not a trace dump of version 1";
    if (h->ranks == 0 || h->ranks > TT_DUMPS_RANKS_MAX)
        return "\"ranks\" must be a number from 1 to 1048576 (dumps of elastic runs are not "
               "supported)";
    if (h->rank >= h->ranks)
        return "\"rank\" must be below \"ranks\"";
    if (d->nranks > 0 && strcmp(d->job, h->job) != 0)
        return "a dump of another job than the first dump (analyze one job at a time)";
    if (d->nranks > 0 && d->nranks != h->ranks)
        return "\"ranks\" differs from the first dump";
    if (d->nranks > 0 && d->ranks[h->rank].has_dump)
        return "a second dump of this rank (it is not used)";
    return NULL;
}

static bool begin_job(struct reading *g, const struct head *h)
{
    struct tt_dumps *d = g->d;

    if (d->nranks > 0)
        return true;
    d->ranks = calloc(h->ranks, sizeof *d->ranks);
    if (!d->ranks) {
        no_memory(g);
        return false;
    }
    d->nranks = (uint32_t)h->ranks;
    d->host = h->has_clock ? TT_INTERN_EMPTY : h->host;
    memcpy(d->job, h->job, sizeof d->job);
    memcpy(d->version, h->tutti, sizeof d->version);
    for (uint32_t r = 0; r < d->nranks; r++)
        d->ranks[r].gone = d->ranks[r].heard = d->ranks[r].now = d->ranks[r].note_at =
            TT_DUMPS_NEVER;
    return true;
}

static void begin_rank(struct reading *g, const struct head *h)
{
    struct tt_dumps *d = g->d;
    struct tt_dumps_rank *r = &d->ranks[h->rank];

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
    r->ops_first = d->nops;
    r->locals_first = d->nlocals;
    g->peers_first = d->npeers;
    g->reports_first = d->nreports;
    g->lanes_first = d->nlanes;
    d->ndumps++;
}

static void read_head(struct reading *g, struct tt_line *l)
{
    struct head h = { .rank = UINT64_MAX, .now = TT_DUMPS_NEVER };
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
        reject(g, wrong);
    else if (begin_job(g, &h))
        begin_rank(g, &h);
}

/* ---- communicators ---- */

static uint32_t *comm_slot(const struct tt_dumps *d, uint64_t hash)
{
    uint64_t at = tt_mix64(hash);

    while (d->comm_slots[at & (d->cap_slots - 1)] != 0 &&
           d->comms[d->comm_slots[at & (d->cap_slots - 1)] - 1].hash != hash)
        at++;
    return &d->comm_slots[at & (d->cap_slots - 1)];
}

static bool grow_slots(struct tt_dumps *d)
{
    const size_t n = d->cap_slots ? 2 * d->cap_slots : 256;
    uint32_t *slots = calloc(n, sizeof *slots);

    if (!slots)
        return false;
    free(d->comm_slots);
    d->comm_slots = slots;
    d->cap_slots = n;
    for (uint32_t c = 0; c < d->ncomms; c++)
        *comm_slot(d, d->comms[c].hash) = c + 1;
    return true;
}

/* Returns the communicator with this hash, and adds it if it is new. NONE: out of memory. */
static uint32_t comm_of(struct reading *g, uint64_t hash)
{
    struct tt_dumps *d = g->d;
    uint32_t *slot;

    if (2 * (size_t)d->ncomms >= d->cap_slots && !grow_slots(d)) {
        no_memory(g);
        return TT_DUMPS_NONE;
    }
    slot = comm_slot(d, hash);
    if (*slot == 0) {
        if (!tt_grow(&d->comms, &d->cap_comms, d->ncomms, sizeof *d->comms)) {
            no_memory(g);
            return TT_DUMPS_NONE;
        }
        d->comms[d->ncomms] = (struct tt_dumps_comm){ .hash = hash, .marked_rank = TT_DUMPS_NONE };
        *slot = ++d->ncomms;
    }
    return *slot - 1;
}

/* Returns the entry of this rank in a communicator, and adds it if it is new. */
static struct tt_dumps_local *local_of(struct reading *g, uint32_t comm)
{
    struct tt_dumps *d = g->d;
    struct tt_dumps_comm *c = &d->comms[comm];

    if (c->marked_rank != g->number) {
        if (g->rank->nlocals == COMMS_MAX) {
            broken(g, "more than 65536 communicators");
            return NULL;
        }
        if (!tt_grow(&d->locals, &d->cap_locals, d->nlocals, sizeof *d->locals)) {
            no_memory(g);
            return NULL;
        }
        c->marked_rank = g->number;
        c->marked_local = d->nlocals++;
        d->locals[c->marked_local] = (struct tt_dumps_local){ .rank = g->number, .comm = comm };
        g->rank->nlocals++;
    }
    return &d->locals[c->marked_local];
}

static void set_members(struct reading *g, struct tt_dumps_comm *c, const struct tt_line_text *t)
{
    const uint64_t hash = tt_hash_bytes(t->text, t->bytes, 2) | 1;
    const char *wrong;

    if (c->members_hash == hash)
        return;
    if (c->members_hash != 0) {
        broken(g, "the members of a communicator differ from those in another dump");
        return;
    }
    wrong = tt_members_parse(&c->members, t->text, t->bytes, g->d->nranks);
    if (wrong)
        broken(g, wrong);
    else
        c->members_hash = hash;
}

static void read_comm(struct reading *g, struct tt_line *l)
{
    struct tt_line_text key, text = { "", 0 }, members = { "", 0 };
    uint32_t name = 0, of = 0, comm;

    if (!tt_line_string(l, &text))
        return;
    while (tt_line_key(l, &key))
        if (tt_line_is(&key, "name"))
            name = line_text_of(g, l, NAME_BYTES);
        else if (tt_line_is(&key, "of"))
            of = line_text(g, l);
        else if (tt_line_is(&key, "members") && !tt_line_null(l))
            tt_line_string(l, &members);
        else if (!tt_line_is(&key, "members"))
            tt_line_skip(l);
    if (!tt_line_end(l))
        return;
    comm = comm_of(g, hash_of(&text));
    if (comm == TT_DUMPS_NONE || !local_of(g, comm))
        return;
    if (g->d->comms[comm].name == TT_INTERN_EMPTY)
        g->d->comms[comm].name = name;
    g->d->comms[comm].of = of;
    if (members.bytes > 0)
        set_members(g, &g->d->comms[comm], &members);
}

/* ---- operations ---- */

static uint8_t class_of(const struct tt_line_text *kind)
{
    static const char *const one_sided[] = { "put",         "get",    "signal",
                                             "wait_signal", "fence",  "quiet",
                                             "put_signal",  "atomic", "flush" };

    static const char *const setup[] = { "comm_", "window_", "run_" };

    if (tt_line_is(kind, "send") || tt_line_is(kind, "recv"))
        return TT_OP_P2P;
    for (size_t i = 0; i < sizeof one_sided / sizeof *one_sided; i++)
        if (tt_line_is(kind, one_sided[i]))
            return TT_OP_ONE_SIDED;
    for (size_t i = 0; i < sizeof setup / sizeof *setup; i++)
        if (kind->bytes > strlen(setup[i]) && memcmp(kind->text, setup[i], strlen(setup[i])) == 0)
            return TT_OP_SETUP;
    return TT_OP_COLLECTIVE;
}

static uint8_t wait_of(const struct tt_line_text *t)
{
    static const char *const names[] = {
        [TT_WAIT_START] = "start",           [TT_WAIT_DATA] = "data",
        [TT_WAIT_CREDIT] = "credit",         [TT_WAIT_CTS] = "cts",
        [TT_WAIT_COMPLETION] = "completion", [TT_WAIT_MATCH] = "match"
    };

    for (uint8_t i = TT_WAIT_START; i <= TT_WAIT_MATCH; i++)
        if (tt_line_is(t, names[i]))
            return i;
    return TT_WAIT_OTHER;
}

static void read_waits(struct reading *g, struct tt_line *l, struct tt_dumps_op *op)
{
    struct tt_line_text key, text;

    if (tt_line_null(l) || !tt_line_object(l))
        return;
    while (tt_line_key(l, &key))
        if (tt_line_is(&key, "rank"))
            op->waits_rank = line_below(l, g->d->nranks);
        else if (tt_line_is(&key, "for") && !tt_line_null(l))
            op->waits_for = tt_line_string(l, &text) ? wait_of(&text) : TT_WAIT_NONE;
        else if (!tt_line_is(&key, "for"))
            tt_line_skip(l);
}

static void read_peer_bytes(struct reading *g, struct tt_line *l, struct tt_dumps_peer *p)
{
    struct tt_line_text key;

    *p = (struct tt_dumps_peer){ .rank = TT_DUMPS_NONE,
                                 .first_out = TT_DUMPS_NEVER,
                                 .last_out = TT_DUMPS_NEVER,
                                 .first_in = TT_DUMPS_NEVER,
                                 .last_in = TT_DUMPS_NEVER };
    if (!tt_line_object(l))
        return;
    while (tt_line_key(l, &key))
        if (tt_line_is(&key, "rank"))
            p->rank = line_below(l, g->d->nranks);
        else if (tt_line_is(&key, "sent"))
            p->sent = line_u64(l);
        else if (tt_line_is(&key, "received"))
            p->received = line_u64(l);
        else if (tt_line_is(&key, "first_out"))
            p->first_out = line_time(g, l);
        else if (tt_line_is(&key, "last_out"))
            p->last_out = line_time(g, l);
        else if (tt_line_is(&key, "first_in"))
            p->first_in = line_time(g, l);
        else if (tt_line_is(&key, "last_in"))
            p->last_in = line_time(g, l);
        else
            tt_line_skip(l);
}

/* Reads the peers of an operation to op->peers_first. */
static void read_peers(struct reading *g, struct tt_line *l, struct tt_dumps_op *op)
{
    struct tt_dumps *d = g->d;
    struct tt_dumps_peer p;

    d->npeers = op->peers_first;        /* the last one of duplicate keys counts */
    op->npeers = 0;
    if (tt_line_null(l) || !tt_line_array(l))
        return;
    while (tt_line_element(l)) {
        read_peer_bytes(g, l, &p);
        if (p.rank == TT_DUMPS_NONE || d->npeers - g->peers_first > 4ull * d->nranks + 4096)
            continue;
        if (!tt_grow(&d->peers, &d->cap_peers, d->npeers, sizeof *d->peers)) {
            no_memory(g);
            return;
        }
        d->peers[d->npeers++] = p;
        op->npeers++;
    }
}

static void op_times(struct reading *g, struct tt_line *l, const struct tt_line_text *key,
                     struct tt_dumps_op *op)
{
    if (tt_line_is(key, "called"))
        op->called = line_time(g, l);
    else if (tt_line_is(key, "waited"))
        op->waited = line_time(g, l);
    else if (tt_line_is(key, "started"))
        op->started = line_time(g, l);
    else if (tt_line_is(key, "ended"))
        op->ended = line_time(g, l);
    else if (tt_line_is(key, "status"))
        op->status = line_text(g, l);
    else if (tt_line_is(key, "step"))
        op->step = line_u32(l);
    else if (tt_line_is(key, "steps"))
        op->steps = line_u32(l);
    else if (tt_line_is(key, "waits"))
        read_waits(g, l, op);
    else if (tt_line_is(key, "note"))
        op->note = line_u32(l);     /* its number; finish() replaces it */
    else if (tt_line_is(key, "peers"))
        read_peers(g, l, op);
    else
        tt_line_skip(l);
}

static void op_member(struct reading *g, struct tt_line *l, const struct tt_line_text *key,
                      struct tt_dumps_op *op)
{
    struct tt_line_text text;

    if (tt_line_is(key, "comm"))
        op->comm = tt_line_null(l) || !tt_line_string(l, &text) ? TT_DUMPS_NONE
                                                                : comm_of(g, hash_of(&text));
    else if (tt_line_is(key, "seq"))
        op->seq = line_u64(l);
    else if (tt_line_is(key, "kind") && tt_line_string(l, &text)) {
        char kind[40];

        op->kind = tt_intern_add(&g->d->texts, kind, tt_line_copy(&text, kind, sizeof kind));
        op->class = class_of(&text);
        op->is_send = tt_line_is(&text, "send");
    } else if (tt_line_is(key, "algo"))
        op->algo = line_text(g, l);
    else if (tt_line_is(key, "count"))
        op->count = line_u64(l);
    else if (tt_line_is(key, "type"))
        op->type = line_text(g, l);
    else if (tt_line_is(key, "redop"))
        op->redop = line_text(g, l);
    else if (tt_line_is(key, "root"))
        op->root = line_below(l, g->d->nranks);
    else if (tt_line_is(key, "peer"))
        op->peer = line_below(l, g->d->nranks);
    else if (tt_line_is(key, "tag"))
        op->tag = (int64_t)line_u64(l);
    else if (tt_line_is(key, "bytes"))
        op->bytes = line_u64(l);
    else
        op_times(g, l, key, op);
}

/* Drops the oldest completed operations of this dump. */
static void drop_done(struct reading *g)
{
    struct tt_dumps *d = g->d;
    uint32_t drop = g->ndone - TT_DUMPS_KEPT;
    size_t to = g->rank->ops_first;

    for (size_t i = to; i < d->nops; i++) {
        if (!d->ops[i].is_open && drop > 0)
            drop--;
        else
            d->ops[to++] = d->ops[i];
    }
    d->nops = to;
    g->ndone = TT_DUMPS_KEPT;
}

static void keep_op(struct reading *g, struct tt_dumps_op *op)
{
    struct tt_dumps *d = g->d;

    /* without a status, the end of the operation was not recorded */
    op->is_open =
        op->status != TT_INTERN_EMPTY && (op->ended == TT_DUMPS_NEVER || tt_dumps_failed(d, op));
    if (!op->is_open) {
        d->npeers = op->peers_first + op->npeers == d->npeers ? op->peers_first : d->npeers;
        op->npeers = 0;
        if (++g->ndone == 2 * TT_DUMPS_KEPT)
            drop_done(g);
    } else if (++g->nopen > TT_DUMPS_OPEN_MAX) {
        broken(g, "more than 65536 incomplete operations");
        return;
    }
    if (d->nops < OPS_MAX && tt_grow(&d->ops, &d->cap_ops, d->nops, sizeof *d->ops))
        d->ops[d->nops++] = *op;
    else
        no_memory(g);
}

/* Records the number of the call on its communicator. */
static void count_call(struct reading *g, const struct tt_dumps_op *op)
{
    struct tt_dumps_local *local = local_of(g, op->comm);

    if (local && op->class == TT_OP_COLLECTIVE && op->seq >= local->ncalled)
        local->ncalled = op->seq + 1;
    if (op->class == TT_OP_P2P && op->peer != TT_DUMPS_NONE &&
        !tt_dumps_p2p_note(g->d, &(struct tt_dumps_p2p){ .rank = g->number,
                                                         .comm = op->comm,
                                                         .peer = op->peer,
                                                         .tag = op->tag,
                                                         .is_send = op->is_send,
                                                         .ncalled = op->seq + 1 }))
        no_memory(g);
}

static void read_op(struct reading *g, struct tt_line *l)
{
    struct tt_dumps_op op = {
        .called = TT_DUMPS_NEVER,
        .waited = NOT_GIVEN,
        .started = TT_DUMPS_NEVER,
        .ended = TT_DUMPS_NEVER,
        .rank = g->number,
        .comm = TT_DUMPS_NONE,
        .root = TT_DUMPS_NONE,
        .peer = TT_DUMPS_NONE,
        .waits_rank = TT_DUMPS_NONE,
        .note = TT_DUMPS_NONE,
        .peers_first = g->d->npeers,
    };
    struct tt_line_text key;

    if (!tt_line_u64(l, &op.number))
        return;
    while (tt_line_key(l, &key))
        op_member(g, l, &key, &op);
    if (op.waited == NOT_GIVEN)
        op.waited = op.called;
    if (!tt_line_end(l) || g->status)
        return;
    if (op.kind == TT_INTERN_EMPTY || op.seq == UINT64_MAX) {
        broken(g, "an operation needs \"seq\" and \"kind\"");
        return;
    }
    if (op.comm == TT_DUMPS_NONE) {     /* null: the communicator is not known */
        g->d->nskipped++;
        return;
    }
    g->d->nrecords++;
    count_call(g, &op);
    if (!g->status && !g->is_broken)
        keep_op(g, &op);
}

/* ---- other lines ---- */

static void read_note(struct reading *g, struct tt_line *l)
{
    struct tt_line_text key;
    uint64_t number;
    uint32_t text = TT_INTERN_EMPTY;
    int64_t at = TT_DUMPS_NEVER;

    if (!tt_line_u64(l, &number))
        return;
    while (tt_line_key(l, &key))
        if (tt_line_is(&key, "at"))
            at = line_time(g, l);
        else if (tt_line_is(&key, "text"))
            text = line_text_of(g, l, NOTE_BYTES);
        else
            tt_line_skip(l);
    if (!tt_line_end(l))
        return;
    g->notes[g->nnotes % NOTES_KEPT].number = number;
    g->notes[g->nnotes++ % NOTES_KEPT].text = text;
    g->rank->note = text;
    g->rank->note_at = at;
}

static uint8_t state_of(struct tt_line *l)
{
    struct tt_line_text t;

    if (tt_line_null(l) || !tt_line_string(l, &t))
        return TT_PEER_UNKNOWN;
    return tt_line_is(&t, "alive")    ? TT_PEER_ALIVE
           : tt_line_is(&t, "silent") ? TT_PEER_SILENT
           : tt_line_is(&t, "lost")   ? TT_PEER_LOST
                                      : TT_PEER_UNKNOWN;
}

/* Only reports of silent and lost peers are kept; the others are counted. */
static void keep_report(struct reading *g, const struct tt_dumps_report *p)
{
    struct tt_dumps *d = g->d;
    struct tt_dumps_rank *about = &d->ranks[p->about];

    if (g->rank->has_clock && p->last_heard != TT_DUMPS_NEVER && p->last_heard > about->heard)
        about->heard = p->last_heard;
    about->nalive += p->state == TT_PEER_ALIVE;
    if (p->state != TT_PEER_SILENT && p->state != TT_PEER_LOST)
        return;
    if (d->nreports - g->reports_first > d->nranks)
        return;
    if (tt_grow(&d->reports, &d->cap_reports, d->nreports, sizeof *d->reports))
        d->reports[d->nreports++] = *p;
    else
        no_memory(g);
}

static void read_peer(struct reading *g, struct tt_line *l)
{
    struct tt_dumps_report p = {
        .by = g->number,
        .last_heard = TT_DUMPS_NEVER,
        .last_progress = TT_DUMPS_NEVER,
        .state = TT_PEER_UNKNOWN,
    };
    struct tt_line_text key;

    p.about = line_below(l, g->d->nranks);
    while (tt_line_key(l, &key))
        if (tt_line_is(&key, "wire"))
            p.wire = line_text(g, l);
        else if (tt_line_is(&key, "state"))
            p.state = state_of(l);
        else if (tt_line_is(&key, "last_heard"))
            p.last_heard = line_time(g, l);
        else if (tt_line_is(&key, "last_progress"))
            p.last_progress = line_time(g, l);
        else
            tt_line_skip(l);
    if (tt_line_end(l) && p.about != TT_DUMPS_NONE && p.about != g->number)
        keep_report(g, &p);
}

static void lane_member(struct reading *g, struct tt_line *l, const struct tt_line_text *key,
                        struct tt_dumps_lane *p)
{
    if (tt_line_is(key, "peer"))
        p->peer = line_below(l, g->d->nranks);
    else if (tt_line_is(key, "wire"))
        p->wire = line_text(g, l);
    else if (tt_line_is(key, "state"))
        p->state = line_text(g, l);
    else if (tt_line_is(key, "posts"))
        p->posts = line_u64(l);
    else if (tt_line_is(key, "completions"))
        p->completions = line_u64(l);
    else if (tt_line_is(key, "posted_bytes"))
        p->posted_bytes = line_u64(l);
    else if (tt_line_is(key, "completed_bytes"))
        p->completed_bytes = line_u64(l);
    else if (tt_line_is(key, "last_post"))
        p->last_post = line_time(g, l);
    else if (tt_line_is(key, "last_completion"))
        p->last_completion = line_time(g, l);
    else
        tt_line_skip(l);
}

static void read_lane(struct reading *g, struct tt_line *l)
{
    struct tt_dumps *d = g->d;
    struct tt_dumps_lane p = { .rank = g->number,
                               .peer = TT_DUMPS_NONE,
                               .last_post = TT_DUMPS_NEVER,
                               .last_completion = TT_DUMPS_NEVER };
    struct tt_line_text key;

    p.lane = line_u32(l);
    while (tt_line_key(l, &key))
        lane_member(g, l, &key, &p);
    if (!tt_line_end(l) || p.peer == TT_DUMPS_NONE || p.peer == g->number ||
        (p.posts <= p.completions && strcmp(tt_dumps_text(d, p.state), "up") == 0) ||
        d->nlanes - g->lanes_first > LANES_MAX)
        return;
    if (tt_grow(&d->lanes, &d->cap_lanes, d->nlanes, sizeof *d->lanes))
        d->lanes[d->nlanes++] = p;
    else
        no_memory(g);
}

static void read_end(struct reading *g, struct tt_line *l)
{
    struct tt_line_text key;
    uint64_t lines;

    if (!tt_line_u64(l, &lines))
        return;
    while (tt_line_key(l, &key))
        tt_line_skip(l);
    g->has_ended = tt_line_end(l);
}

static void read_unknown(struct reading *g, struct tt_line *l)
{
    struct tt_line_text key;

    tt_line_skip(l);
    while (tt_line_key(l, &key))
        tt_line_skip(l);
    g->d->nskipped += tt_line_end(l);
}

/* ---- lines of a dump ---- */

static void read_line(struct reading *g, const char *text, size_t bytes)
{
    struct tt_line l;
    struct tt_line_text key;

    g->line++;
    if (g->has_ended) {
        broken(g, "data after the last line");
        return;
    }
    if (!tt_line_begin(&l, text, bytes)) {
        if (g->rank)
            broken(g, l.error);
        else
            reject(g, "not a trace dump: the first line must begin with {\"tutti_trace\":1");
        return;
    }
    if (!g->rank) {
        read_head(g, &l);
        return;
    }
    if (!tt_line_key(&l, &key))
        tt_line_end(&l);
    else if (tt_line_is(&key, "op"))
        read_op(g, &l);
    else if (tt_line_is(&key, "comm"))
        read_comm(g, &l);
    else if (tt_line_is(&key, "note"))
        read_note(g, &l);
    else if (tt_line_is(&key, "peer"))
        read_peer(g, &l);
    else if (tt_line_is(&key, "lane"))
        read_lane(g, &l);
    else if (tt_line_is(&key, "end"))
        read_end(g, &l);
    else
        read_unknown(g, &l);
    if (l.error && !g->status && !g->is_broken)
        broken(g, l.error);
}

static bool reading_goes_on(const struct reading *g)
{
    return !g->status && !g->is_broken;
}

/* Returns the text of a note; the last notes are kept. */
static uint32_t note_text(const struct reading *g, uint32_t number)
{
    const uint32_t n = g->nnotes < NOTES_KEPT ? g->nnotes : NOTES_KEPT;

    for (uint32_t i = 0; i < n; i++)
        if (g->notes[i].number == number)
            return g->notes[i].text;
    return TT_INTERN_EMPTY;
}

/* Notes follow the operations that refer to them. */
static void resolve_notes(struct reading *g)
{
    for (uint32_t i = 0; i < g->rank->nops; i++) {
        struct tt_dumps_op *op = &g->d->ops[g->rank->ops_first + i];

        op->note = op->note == TT_DUMPS_NONE ? TT_INTERN_EMPTY : note_text(g, op->note);
    }
}

static tutti_status finish(struct reading *g)
{
    struct tt_dumps *d = g->d;

    if (g->rank) {
        g->rank->nops = (uint32_t)(d->nops - g->rank->ops_first);
        resolve_notes(g);
        g->rank->is_complete = g->has_ended && !g->is_broken;
        d->ncomplete += g->rank->is_complete;
        if (!g->rank->is_complete && !g->is_broken)
            record_problem(d, "%s:%llu: the dump has no last line {\"end\":...}: it is incomplete",
                           g->name, (unsigned long long)g->line);
    } else if (!g->status) {
        g->line = 1;
        reject(g, "not a trace dump: no complete line");
    }
    d->nrejected += g->status == TUTTI_ERR_INVALID;
    return g->status;
}

/* Reads the complete lines of text[bytes] and returns their bytes. */
static size_t read_lines(struct reading *g, const char *text, size_t bytes)
{
    size_t at = 0;

    while (at < bytes && reading_goes_on(g)) {
        const char *end = memchr(text + at, '\n', bytes - at);

        if (!end)
            break;
        read_line(g, text + at, (size_t)(end - text) - at);
        at = (size_t)(end - text) + 1;
    }
    return at;
}

tutti_status tt_dumps_read_text(struct tt_dumps *d, const char *name, const char *text,
                                size_t bytes)
{
    struct reading g = { .d = d, .name = name };

    read_lines(&g, text, bytes);
    return finish(&g);
}

/* Reads the file in pieces; an incomplete line moves to the begin of the buffer. */
static void read_file(struct reading *g, int fd, char **buffer, size_t *capacity)
{
    size_t kept = 0, used;
    ssize_t n;

    while (reading_goes_on(g)) {
        if (kept == *capacity) {
            char *bigger = kept < TT_DUMPS_LINE_BYTES_MAX ? realloc(*buffer, 2 * kept) : NULL;

            if (!bigger) {
                g->line++;
                broken(g, "a line is longer than 16 MiB");
                return;
            }
            *buffer = bigger;
            *capacity = 2 * kept;
        }
        do
            n = read(fd, *buffer + kept, *capacity - kept);
        while (n < 0 && errno == EINTR);
        if (n < 0) {
            g->line++;
            broken(g, strerror(errno));
        }
        if (n <= 0)
            return;
        kept += (size_t)n;
        used = read_lines(g, *buffer, kept);
        memmove(*buffer, *buffer + used, kept - used);
        kept -= used;
    }
}

/* Opens a regular file; others (a pipe) could block. Returns -1 after recording the problem. */
static int open_dump(struct tt_dumps *d, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat info;

    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
        return fd;
    record_problem(d, "%s: cannot read the dump: %s", path,
                   fd < 0 ? strerror(errno) : "not a regular file");
    d->nrejected++;
    if (fd >= 0)
        close(fd);
    return -1;
}

tutti_status tt_dumps_read(struct tt_dumps *d, const char *path)
{
    struct reading g = { .d = d, .name = path };
    size_t capacity = READ_BYTES;
    const int fd = open_dump(d, path);
    char *buffer;

    if (fd < 0)
        return TUTTI_ERR_SYSTEM;
    buffer = malloc(capacity);
    if (buffer)
        read_file(&g, fd, &buffer, &capacity);
    else
        no_memory(&g);
    free(buffer);
    close(fd);
    return finish(&g);
}
