/* Rows of a report: a type byte, a u16 length, and that many bytes. A row fits into a frame of the
 * control overlay. */
#include <string.h>
#include "base/status.h"
#include "status/report.h"
#include "tutti/tutti.h"

enum row {
    ROW_TOTALS = 1,
    ROW_COMM,
    ROW_GROUP,
    ROW_OP,
    ROW_RANKS,
    ROW_DETAIL,
    ROW_RATES,
    ROW_LANES,
    ROW_SHARES
};

/* Stages of a cursor. */
enum {
    WRITE_TOTALS,
    WRITE_COMMS,
    WRITE_OPS,
    WRITE_RANKS,
    WRITE_LANES,
    WRITE_SHARES,
    WRITE_DETAIL,
    WRITE_END
};

#define RANKS_PER_ROW 64u
#define ROW_HEADER_BYTES 3u

/* ---- write ---- */

static void write_totals(struct tt_writer *w, const struct tt_status_report *r)
{
    tt_write_u32(w, r->nreported);
    tt_write_u32(w, r->nactive);
    tt_write_u32(w, r->nuntraced);
    tt_write_u32(w, r->ndumping);
    tt_write_u32(w, r->ndumps);
    tt_write_u32(w, r->left_out);
    tt_write_u64(w, r->ops_per_s);
    tt_write_u64(w, r->bytes_per_s);
}

static void write_comm(struct tt_writer *w, const struct tt_status_comm *c)
{
    tt_write_u64(w, c->hash);
    tt_write_u32(w, c->nranks);
    tt_write_u32(w, c->nreported);
    tt_write_u32(w, c->nothers);
    tt_write_u8(w, c->of);
    tt_write_string(w, c->name);
    tt_write_string(w, c->members);
}

static void write_key(struct tt_writer *w, const struct tt_status_op_key *k)
{
    tt_write_u64(w, k->seq);
    tt_write_u64(w, k->count);
    tt_write_u32(w, k->root);
    tt_write_u8(w, k->kind);
    tt_write_u8(w, k->type);
    tt_write_u8(w, k->redop);
    tt_write_u8(w, k->state);
    tt_write_u8(w, k->status);
}

static void write_group(struct tt_writer *w, uint64_t hash, const struct tt_status_group *g)
{
    tt_write_u64(w, hash);
    write_key(w, &g->key);
    tt_write_u64(w, g->age_max_ns);
    tt_write_u64(w, g->age_min_ns);
    tt_write_u32(w, g->nranks);
    tt_write_u8(w, (uint8_t)g->nlisted);
    for (uint32_t i = 0; i < g->nlisted; i++) {
        tt_write_u32(w, g->ranks[i]);
        tt_write_u32(w, g->waits[i]);
    }
}

static void write_rates(struct tt_writer *w, const struct tt_status_comm *c)
{
    tt_write_u64(w, c->hash);
    tt_write_u64(w, c->rates.calls);
    tt_write_u64(w, c->rates.bytes);
    tt_write_u64(w, c->rates.nstaged);
    for (int i = 0; i < TT_STATUS_STAGES; i++)
        tt_write_u64(w, c->rates.staged_ns[i]);
    tt_write_u32(w, c->rates.nranks);
    tt_write_u32(w, c->rates.least_rank);
    tt_write_u32(w, c->rates.least);
    tt_write_u32(w, c->rates.most_rank);
    tt_write_u32(w, c->rates.most);
}

static void write_op(struct tt_writer *w, const struct tt_status_op *op)
{
    tt_write_u64(w, op->comm);
    tt_write_u64(w, op->age_ns);
    tt_write_u64(w, op->ended_ns);
    tt_write_u32(w, op->rank);
    tt_write_u32(w, op->peer);
    tt_write_u32(w, op->tag);
    tt_write_u32(w, op->waits);
    write_key(w, &op->key);
}

static void write_detail(struct tt_writer *w, const struct tt_status_detail *d)
{
    tt_write_u32(w, d->rank);
    tt_write_u32(w, d->pid);
    tt_write_u64(w, d->records);
    tt_write_string(w, d->host);
    tt_write_string(w, d->note);
}

static void write_lanes(struct tt_writer *w, const struct tt_status_lanes *l)
{
    tt_write_string(w, l->wire);
    tt_write_u32(w, l->nranks);
    tt_write_u32(w, l->nrated);
    tt_write_u32(w, l->lanes);
    tt_write_u32(w, l->up);
    tt_write_u32(w, l->down_rank);
    tt_write_u32(w, l->down_most);
    tt_write_u32(w, l->idle);
    tt_write_u32(w, l->depth);
    tt_write_u64(w, l->posts_per_s);
    tt_write_u64(w, l->bytes_per_s);
    tt_write_u64(w, l->outstanding);
    tt_write_u64(w, l->outstanding_bytes);
    tt_write_u32(w, l->most_rank);
    tt_write_u64(w, l->most_bytes);
}

static void write_shares(struct tt_writer *w, const struct tt_status_shares *s)
{
    tt_write_u32(w, s->nranks);
    tt_write_u32(w, s->most);
    tt_write_u8(w, (uint8_t)s->n);
    for (uint32_t i = 0; i < s->n; i++) {
        tt_write_u32(w, s->rank[i]);
        tt_write_u32(w, s->share[i]);
    }
}

/* Writes up to RANKS_PER_ROW ranks of a list. */
static void write_ranks(struct tt_writer *w, const struct tt_status_report *r, uint32_t list,
                        uint32_t first)
{
    const struct tt_status_ranks *l = &r->lists[list];
    const uint32_t left = l->n - first, n = left < RANKS_PER_ROW ? left : RANKS_PER_ROW;

    tt_write_u8(w, (uint8_t)list);
    tt_write_u8(w, l->more);
    tt_write_u8(w, (uint8_t)n);
    for (uint32_t i = first; i < first + n; i++) {
        tt_write_u32(w, l->rank[i]);
        tt_write_u8(w, l->reports[i]);
    }
}

static void next_stage(struct tt_status_cursor *at)
{
    at->stage++;
    at->at = at->group = 0;
}

/* Skips empty stages, so that the cursor is at a row, or at the end. */
static void settle_cursor(const struct tt_status_report *r, struct tt_status_cursor *at)
{
    while ((at->stage == WRITE_COMMS && at->at == r->ncomms) ||
           (at->stage == WRITE_OPS && at->at == r->nops) ||
           (at->stage == WRITE_LANES && at->at == r->nlanes) ||
           (at->stage == WRITE_SHARES && !r->shares.nranks) ||
           (at->stage == WRITE_DETAIL && !r->detail.present))
        next_stage(at);
    while (at->stage == WRITE_RANKS && at->group >= r->lists[at->at].n) {
        at->at++;
        at->group = 0;
        if (at->at == TT_STATUS_LISTS) {
            next_stage(at);
            settle_cursor(r, at);
        }
    }
}

/* Writes a row of a communicator: its own fields, a group, or its rates. */
static enum row write_comm_row(const struct tt_status_comm *c, uint32_t row, struct tt_writer *w)
{
    if (row == 0) {
        write_comm(w, c);
        return ROW_COMM;
    }
    if (row <= c->ngroups) {
        write_group(w, c->hash, &c->groups[row - 1]);
        return ROW_GROUP;
    }
    write_rates(w, c);
    return ROW_RATES;
}

/* Writes the row at the cursor. Returns its type. */
static enum row write_row(const struct tt_status_report *r, const struct tt_status_cursor *at,
                          struct tt_writer *w)
{
    switch (at->stage) {
    case WRITE_TOTALS:
        write_totals(w, r);
        return ROW_TOTALS;
    case WRITE_COMMS: return write_comm_row(&r->comms[at->at], at->group, w);
    case WRITE_OPS:
        write_op(w, &r->ops[at->at]);
        return ROW_OP;
    case WRITE_RANKS:
        write_ranks(w, r, at->at, at->group);
        return ROW_RANKS;
    case WRITE_LANES:
        write_lanes(w, &r->lanes[at->at]);
        return ROW_LANES;
    case WRITE_SHARES:
        write_shares(w, &r->shares);
        return ROW_SHARES;
    default:
        write_detail(w, &r->detail);
        return ROW_DETAIL;
    }
}

static void advance(const struct tt_status_report *r, struct tt_status_cursor *at)
{
    if (at->stage == WRITE_TOTALS || at->stage == WRITE_SHARES || at->stage == WRITE_DETAIL) {
        next_stage(at);
    } else if (at->stage == WRITE_COMMS) {
        const struct tt_status_comm *c = &r->comms[at->at];

        if (++at->group > (c->has_rates ? c->ngroups + 1u : c->ngroups)) {
            at->at++;
            at->group = 0;
        }
    } else if (at->stage == WRITE_OPS || at->stage == WRITE_LANES) {
        at->at++;
    } else {
        at->group += RANKS_PER_ROW;
    }
}

size_t tt_status_write(const struct tt_status_report *r, struct tt_status_cursor *at, void *out,
                       size_t cap)
{
    size_t used = 0;

    tt_assert(cap >= TT_STATUS_ROWS_MIN);
    for (settle_cursor(r, at); at->stage != WRITE_END; settle_cursor(r, at)) {
        struct tt_writer head, body;
        enum row row;

        if (cap - used <= ROW_HEADER_BYTES)
            break;
        tt_writer_init(&head, (uint8_t *)out + used, ROW_HEADER_BYTES);
        tt_writer_init(&body, (uint8_t *)out + used + ROW_HEADER_BYTES,
                       cap - used - ROW_HEADER_BYTES);
        row = write_row(r, at, &body);
        if (body.bad)
            break;
        tt_write_u8(&head, (uint8_t)row);
        tt_write_u16(&head, (uint16_t)tt_writer_bytes(&body));
        used += ROW_HEADER_BYTES + tt_writer_bytes(&body);
        advance(r, at);
    }
    tt_assert(used > 0 || at->stage == WRITE_END);      /* every row fits into an empty buffer */
    return used;
}

/* ---- merge ---- */

static uint64_t sum_u64(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void merge_totals(struct tt_status_report *r, struct tt_reader *in)
{
    r->nreported = tt_status_sum(r->nreported, tt_read_u32(in));
    r->nactive = tt_status_sum(r->nactive, tt_read_u32(in));
    r->nuntraced = tt_status_sum(r->nuntraced, tt_read_u32(in));
    r->ndumping = tt_status_sum(r->ndumping, tt_read_u32(in));
    r->ndumps = tt_status_sum(r->ndumps, tt_read_u32(in));
    r->left_out = tt_status_sum(r->left_out, tt_read_u32(in));
    r->ops_per_s = sum_u64(r->ops_per_s, tt_read_u64(in));
    r->bytes_per_s = sum_u64(r->bytes_per_s, tt_read_u64(in));
}

static void merge_comm(struct tt_status_report *r, struct tt_reader *in)
{
    struct tt_status_comm c = { .hash = tt_read_u64(in) };

    c.nranks = tt_read_u32(in);
    c.nreported = tt_read_u32(in);
    c.nothers = tt_read_u32(in);
    c.of = tt_read_u8(in);
    tt_read_string(in, c.name, sizeof c.name);
    tt_read_string(in, c.members, sizeof c.members);
    if (c.of > 2)
        in->bad = true;
    if (!in->bad)
        tt_status_add_comm(r, &c);
}

static void read_key(struct tt_status_op_key *k, struct tt_reader *in)
{
    k->seq = tt_read_u64(in);
    k->count = tt_read_u64(in);
    k->root = tt_read_u32(in);
    k->kind = tt_read_u8(in);
    k->type = tt_read_u8(in);
    k->redop = tt_read_u8(in);
    k->state = tt_read_u8(in);
    k->status = tt_read_u8(in);
    if (k->state > TT_STATUS_OUT || k->status > TUTTI_STATUS_COUNT)
        in->bad = true;
}

/* Merges a group. A group of a communicator that was left out is ignored. */
static void merge_group(struct tt_status_report *r, struct tt_reader *in)
{
    const uint64_t hash = tt_read_u64(in);
    struct tt_status_group g = { .nlisted = 0 };
    struct tt_status_comm *c;
    uint32_t listed;

    read_key(&g.key, in);
    g.age_max_ns = tt_read_u64(in);
    g.age_min_ns = tt_read_u64(in);
    g.nranks = tt_read_u32(in);
    listed = tt_read_u8(in);
    if (listed > TT_STATUS_LISTED_MAX || listed > g.nranks)
        in->bad = true;
    for (; g.nlisted < listed && !in->bad; g.nlisted++) {
        g.ranks[g.nlisted] = tt_read_u32(in);
        g.waits[g.nlisted] = tt_read_u32(in);
        if (g.nlisted > 0 && g.ranks[g.nlisted] < g.ranks[g.nlisted - 1])
            in->bad = true;
    }
    c = in->bad ? NULL : tt_status_find_comm(r, hash);
    if (c)
        tt_status_add_group(c, &g);
}

/* Merges rates. Shares are at most 1,000. Rates of a communicator that was left out are ignored. */
static void merge_rates(struct tt_status_report *r, struct tt_reader *in)
{
    const uint64_t hash = tt_read_u64(in);
    struct tt_status_rates rates = { .calls = tt_read_u64(in) };
    struct tt_status_comm *c;

    rates.bytes = tt_read_u64(in);
    rates.nstaged = tt_read_u64(in);
    for (int i = 0; i < TT_STATUS_STAGES; i++)
        rates.staged_ns[i] = tt_read_u64(in);
    rates.nranks = tt_read_u32(in);
    rates.least_rank = tt_read_u32(in);
    rates.least = tt_read_u32(in);
    rates.most_rank = tt_read_u32(in);
    rates.most = tt_read_u32(in);
    if (rates.least > TT_STATUS_WHOLE || rates.most > TT_STATUS_WHOLE)
        in->bad = true;
    c = in->bad ? NULL : tt_status_find_comm(r, hash);
    if (c)
        tt_status_add_rates(c, &rates);
}

static void merge_op(struct tt_status_report *r, struct tt_reader *in)
{
    struct tt_status_op op = { .comm = tt_read_u64(in) };

    op.age_ns = tt_read_u64(in);
    op.ended_ns = tt_read_u64(in);
    op.rank = tt_read_u32(in);
    op.peer = tt_read_u32(in);
    op.tag = tt_read_u32(in);
    op.waits = tt_read_u32(in);
    read_key(&op.key, in);
    if (!in->bad)
        tt_status_add_op(r, &op);
}

static void merge_ranks(struct tt_status_report *r, struct tt_reader *in)
{
    const uint8_t list = tt_read_u8(in), more = tt_read_u8(in), n = tt_read_u8(in);

    if (list >= TT_STATUS_LISTS || more > 1 || n > RANKS_PER_ROW)
        in->bad = true;
    for (uint32_t i = 0; i < n && !in->bad; i++) {
        const uint32_t rank = tt_read_u32(in);
        const uint8_t reports = tt_read_u8(in);

        if (!in->bad)
            tt_status_add_rank(r, (enum tt_status_list)list, rank, reports);
    }
    if (!in->bad)
        r->lists[list].more |= more;
}

static void merge_lanes(struct tt_status_report *r, struct tt_reader *in)
{
    struct tt_status_lanes l = { .nranks = 0 };

    tt_read_string(in, l.wire, sizeof l.wire);
    l.nranks = tt_read_u32(in);
    l.nrated = tt_read_u32(in);
    l.lanes = tt_read_u32(in);
    l.up = tt_read_u32(in);
    l.down_rank = tt_read_u32(in);
    l.down_most = tt_read_u32(in);
    l.idle = tt_read_u32(in);
    l.depth = tt_read_u32(in);
    l.posts_per_s = tt_read_u64(in);
    l.bytes_per_s = tt_read_u64(in);
    l.outstanding = tt_read_u64(in);
    l.outstanding_bytes = tt_read_u64(in);
    l.most_rank = tt_read_u32(in);
    l.most_bytes = tt_read_u64(in);
    if (l.up > l.lanes || l.idle > l.up || l.nrated > l.nranks || l.down_most > l.lanes - l.up)
        in->bad = true;
    if (!in->bad)
        tt_status_add_lanes(r, &l);
}

static void merge_shares(struct tt_status_report *r, struct tt_reader *in)
{
    struct tt_status_shares s = { .nranks = tt_read_u32(in) };
    uint32_t listed;

    s.most = tt_read_u32(in);
    listed = tt_read_u8(in);
    if (listed > TT_STATUS_SLOW_MAX || listed > s.nranks || s.most > TT_STATUS_WHOLE)
        in->bad = true;
    for (; s.n < listed && !in->bad; s.n++) {
        s.rank[s.n] = tt_read_u32(in);
        s.share[s.n] = tt_read_u32(in);
        if (s.share[s.n] > s.most)
            in->bad = true;
    }
    if (!in->bad)
        tt_status_add_shares(r, &s);
}

static void merge_detail(struct tt_status_report *r, struct tt_reader *in)
{
    struct tt_status_detail d = { .present = true, .rank = tt_read_u32(in) };

    d.pid = tt_read_u32(in);
    d.records = tt_read_u64(in);
    tt_read_string(in, d.host, sizeof d.host);
    tt_read_string(in, d.note, sizeof d.note);
    if (!in->bad)
        r->detail = d;
}

static void merge_row(struct tt_status_report *r, uint8_t row, struct tt_reader *in)
{
    switch ((enum row)row) {
    case ROW_TOTALS:
        merge_totals(r, in);
        return;
    case ROW_COMM:
        merge_comm(r, in);
        return;
    case ROW_GROUP:
        merge_group(r, in);
        return;
    case ROW_RATES:
        merge_rates(r, in);
        return;
    case ROW_OP:
        merge_op(r, in);
        return;
    case ROW_RANKS:
        merge_ranks(r, in);
        return;
    case ROW_LANES:
        merge_lanes(r, in);
        return;
    case ROW_SHARES:
        merge_shares(r, in);
        return;
    case ROW_DETAIL:
        merge_detail(r, in);
        return;
    }
    in->bad = true;
}

bool tt_status_merge(struct tt_status_report *r, const void *rows, size_t bytes)
{
    struct tt_reader in;

    tt_reader_init(&in, rows, bytes);
    while (in.at < in.end) {
        const uint8_t row = tt_read_u8(&in);
        const size_t n = tt_read_u16(&in);
        const uint8_t *at = tt_reader_take(&in, n);
        struct tt_reader body;

        if (!at)
            return false;
        tt_reader_init(&body, at, n);
        merge_row(r, row, &body);
        if (body.bad || body.at != body.end)
            return false;
    }
    return true;
}
