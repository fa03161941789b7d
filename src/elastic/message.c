/* Format of messages: u8 version, u8 kind, the kind's fields in the order of read_fields, then
 * u32 n and the list. Little-endian. */
#include "elastic/message.h"

#include <stdio.h>
#include <string.h>
#include "base/status.h"

enum field {
    WHAT = 1 << 0,
    FLAGS = 1 << 1,
    ID = 1 << 2,
    OTHER = 1 << 3,
    EPOCH = 1 << 4,
    NUMBER = 1 << 5,
    VALUE = 1 << 6,
    SIZES = 1 << 7,
    SEAT = 1 << 8,
    COOKIE = 1 << 9,
    NEWS = 1 << 10,
    CARD = 1 << 11,
    TEXT = 1 << 12,
    SEATS = 1 << 13,
    IDS = 1 << 14,
    OPS = 1 << 15, /* lists */
    SCOPE = 1 << 16,
    KEYS = 1 << 17,
    HASH = 1 << 18,
    LINKS = 1 << 19, /* a list */
    ALSO = 1 << 20,
    OP = 1 << 21,
    CALLS = 1 << 22, /* lists */
    LOSSES = 1 << 23
};
#define LISTS (SEATS | IDS | OPS | LINKS | CALLS | LOSSES)
#define BEFORE_SHIFT 4 /* position of the previous operation's state, above the operation's own */

struct shape {
    const char *name;
    uint32_t fields;
    uint8_t what_end;       /* limit of `what` */
};

static const struct shape shapes[TT_ELMSG_KINDS] = {
    [TT_ELMSG_JOIN] = { "JOIN", WHAT | EPOCH | NUMBER | SEAT | COOKIE | CARD | TEXT,
                        TT_CALL_KINDS },
    [TT_ELMSG_HEARTBEAT] = { "HEARTBEAT", 0, 0 },
    [TT_ELMSG_LEAVE] = { "LEAVE", WHAT | EPOCH | OPS, TT_LEAVE_NOW + 1 },
    [TT_ELMSG_CALL] = { "CALL", WHAT | FLAGS | OTHER | EPOCH | NUMBER | VALUE | ALSO | SIZES,
                        TT_CALL_SYNC },
    [TT_ELMSG_CANCEL] = { "CANCEL", NUMBER, 0 },
    [TT_ELMSG_READY] = { "READY", NUMBER | IDS, 0 },
    [TT_ELMSG_ANSWER] = { "ANSWER", NUMBER | EPOCH | OPS, 0 },
    [TT_ELMSG_SUSPECT] = { "SUSPECT", WHAT | ID | EPOCH, TT_SUSPECT_GONE + 1 },
    [TT_ELMSG_REVOKE] = { "REVOKE", WHAT | ID | EPOCH, TT_REVOKED_APART },
    [TT_ELMSG_OFFER] = { "OFFER",
                         WHAT | FLAGS | EPOCH | NUMBER | VALUE | ALSO | SCOPE | KEYS | HASH,
                         TT_SYNC_STRATEGIES },
    [TT_ELMSG_WITHDRAW] = { "WITHDRAW", EPOCH | NUMBER | SCOPE, 0 },
    [TT_ELMSG_VOTE] = { "VOTE", WHAT | OTHER | EPOCH | NUMBER | SCOPE, TT_SYNC_VOTES },
    [TT_ELMSG_LINKS] = { "LINKS", OTHER | EPOCH | NUMBER | VALUE | SIZES | LINKS, 0 },
    [TT_ELMSG_WELCOME] = { "WELCOME", ID | EPOCH | NUMBER | VALUE | COOKIE | NEWS, 0 },
    [TT_ELMSG_REFUSED] = { "REFUSED", WHAT | TEXT, UINT8_MAX },
    [TT_ELMSG_ALIVE] = { "ALIVE", NUMBER, 0 },
    [TT_ELMSG_UPDATE] = { "NEWS", NEWS, 0 },
    [TT_ELMSG_PROPOSE] = { "PROPOSE", EPOCH | NUMBER | SEATS, 0 },
    [TT_ELMSG_VIEW] = { "VIEW", WHAT | EPOCH | NUMBER | NEWS | SEATS, TT_RING_PLANS },
    [TT_ELMSG_DROPPED] = { "DROPPED", EPOCH, 0 },
    [TT_ELMSG_RESULT] = { "RESULT", WHAT | FLAGS | ID | OTHER | EPOCH | NUMBER | VALUE | ALSO | OP,
                          TT_ROUND_STATUSES },
    [TT_ELMSG_LOST] = { "LOST", WHAT | ID | OTHER | EPOCH | NUMBER | VALUE | OP | LOSSES,
                        TT_REVOCATIONS },
    [TT_ELMSG_OUTCOMES] = { "OUTCOMES", EPOCH | NUMBER | OPS, 0 },
    [TT_ELMSG_PLAN] = { "PLAN", WHAT | OTHER | EPOCH | NUMBER | VALUE | SCOPE | HASH | IDS,
                        TT_SYNC_PARTS },
    [TT_ELMSG_SYNCED] = { "SYNCED",
                          WHAT | FLAGS | ID | OTHER | EPOCH | NUMBER | VALUE | ALSO | SCOPE | OP,
                          TT_ROUND_STATUSES },
    [TT_ELMSG_INSIDE] = { "INSIDE", EPOCH | OP, 0 },
    [TT_ELMSG_BEGUN] = { "BEGUN", ID | EPOCH | OP, 0 },
    [TT_ELMSG_NOT_BEGUN] = { "NOT_BEGUN", ID | EPOCH | OP, 0 },
    [TT_ELMSG_LOG_START] = { "LOG_START", ID | EPOCH | NUMBER | COOKIE | TEXT, 0 },
    [TT_ELMSG_LOG_MEMBER] = { "LOG_MEMBER", ID | SEAT | COOKIE | CARD, 0 },
    [TT_ELMSG_LOG_GONE] = { "LOG_GONE", ID, 0 },
    [TT_ELMSG_LOG_LOST] = { "LOG_LOST", WHAT | ID | OPS, TT_LOSSES },
    [TT_ELMSG_LOG_VIEW] = { "LOG_VIEW", WHAT | EPOCH | NUMBER | IDS, TT_RING_PLANS },
    [TT_ELMSG_LOG_RESULT] = { "LOG_RESULT",
                              WHAT | FLAGS | ID | OTHER | EPOCH | NUMBER | VALUE | ALSO,
                              TT_ROUND_STATUSES },
    [TT_ELMSG_LOG_PLAN] = { "LOG_PLAN", EPOCH | NUMBER | VALUE | SIZES | SCOPE | KEYS | HASH | IDS,
                            0 },
    [TT_ELMSG_LOG_SYNC] = { "LOG_SYNC",
                            WHAT | FLAGS | ID | OTHER | EPOCH | NUMBER | VALUE | SCOPE | KEYS |
                                HASH | IDS,
                            TT_ROUND_STATUSES },
    [TT_ELMSG_LOG_BACK] = { "LOG_BACK", FLAGS | ID | OTHER | VALUE | ALSO | OP | CALLS, 0 },
};

const char *tt_elmsg_name(uint8_t kind)
{
    return kind < TT_ELMSG_KINDS && shapes[kind].name ? shapes[kind].name : "?";
}

/* ---- reading ---- */

static void read_blob(struct tt_reader *r, struct tt_blob *b)
{
    b->bytes = tt_read_u16(r);
    if (b->bytes > TT_BLOB_BYTES) {
        b->bytes = 0;
        r->bad = true;
    }
    tt_read_bytes(r, b->data, b->bytes);
}

static void read_hash(struct tt_reader *r, struct tt_hash *h)
{
    for (int i = 0; i < 4; i++)
        h->word[i] = tt_read_u32(r);
}

static void read_news(struct tt_reader *r, struct tt_membership *n)
{
    n->number = tt_read_u64(r);
    n->newcomers = tt_read_u32(r);
    n->lost = tt_read_u32(r);
    n->leaving = tt_read_u32(r);
    n->revoked = tt_read_u32(r);
    n->better = tt_read_u32(r);
}

static void read_seat(struct tt_reader *r, struct tt_surroundings_seat *s)
{
    s->id = tt_read_u64(r);
    s->group = tt_read_u32(r);
    s->role = tt_read_u32(r);
    read_blob(r, &s->card);
}

static void read_op(struct tt_reader *r, struct tt_op_entry *e)
{
    const uint8_t state = tt_read_u8(r);

    *e = (struct tt_op_entry){ .state = state & ((1u << BEFORE_SHIFT) - 1),
                               .before = state >> BEFORE_SHIFT };
    e->tag = tt_read_u16(r);
    e->n = tt_read_u64(r);
    read_news(r, &e->news);
    if (e->state == TT_OP_NONE || e->state >= TT_OP_STATES || e->before >= TT_BEFORES ||
        e->tag >= TT_ELASTIC_TAGS || e->n == 0)
        r->bad = true;
    if (e->before && (e->n == 1 || e->state == TT_OP_FINAL || e->state == TT_OP_SETTLED))
        r->bad = true;
    if (r->bad || !tt_op_settled(e))
        return;
    e->nresult = tt_read_u16(r);
    r->bad |= e->nresult == 0 || e->nresult > TT_SETTLED_BYTES;
    e->result = tt_reader_take(r, e->nresult);
}

static void read_op_name(struct tt_reader *r, struct tt_op_name *op)
{
    op->tag = tt_read_u16(r);
    op->n = tt_read_u64(r);
    op->needs = tt_read_u8(r);
    op->coll = tt_read_u8(r);
    op->type = tt_read_u8(r);
    op->count = tt_read_u64(r);
    r->bad |= op->tag >= TT_ELASTIC_TAGS || op->needs >= TT_OP_NEEDS;
}

static void read_link(struct tt_reader *r, struct tt_ring_link *l)
{
    l->rate = tt_read_u64(r);
    l->latency = tt_read_u64(r);
    if (l->rate > TT_RING_RATE_MAX || l->latency > TT_RING_LATENCY_MAX)
        r->bad = true;
}

static void read_call(struct tt_reader *r, struct tt_call_name *call)
{
    call->id = tt_read_u64(r);
    call->attempt = tt_read_u64(r);
}

static void read_loss(struct tt_reader *r, struct tt_loss_name *loss)
{
    loss->id = tt_read_u64(r);
    loss->why = tt_read_u8(r);
    r->bad |= loss->why >= TT_LOSSES;
}

static void read_fields(struct tt_elmsg *m, struct tt_reader *r, uint32_t fields)
{
    m->what = fields & WHAT ? tt_read_u8(r) : 0;
    m->flags = fields & FLAGS ? tt_read_u8(r) : 0;
    m->id = fields & ID ? tt_read_u64(r) : 0;
    m->other = fields & OTHER ? tt_read_u64(r) : 0;
    m->epoch = fields & EPOCH ? tt_read_u64(r) : 0;
    m->number = fields & NUMBER ? tt_read_u64(r) : 0;
    m->value = fields & VALUE ? tt_read_u64(r) : 0;
    m->also = fields & ALSO ? tt_read_u64(r) : 0;
    if (fields & SIZES) {
        m->least = tt_read_u32(r);
        m->most = tt_read_u32(r);
    }
    if (fields & SEAT) {
        m->group = tt_read_u32(r);
        m->role = tt_read_u32(r);
        m->nroles = tt_read_u32(r);
        if (m->nroles == 0 || m->nroles > TT_ELASTIC_MEMBERS_MAX || m->role >= m->nroles)
            r->bad = true;
    }
    if (fields & SCOPE) {
        m->scope = tt_read_u16(r);
        r->bad |= m->scope >= TT_SYNC_SCOPES;
    }
    if (fields & KEYS)
        read_hash(r, &m->keys);
    if (fields & HASH)
        read_hash(r, &m->hash);
    if (fields & COOKIE)
        tt_read_bytes(r, m->cookie, TT_COOKIE_BYTES);
    if (fields & NEWS)
        read_news(r, &m->news);
    if (fields & OP)
        read_op_name(r, &m->op);
    if (fields & CARD)
        read_blob(r, &m->card);
    if (fields & TEXT)
        tt_read_string(r, m->text, sizeof m->text);
}

/* Checks the complete list once; the message keeps a reader at its beginning. */
static void check_list(struct tt_elmsg *m, struct tt_reader *r, uint32_t fields)
{
    const uint32_t most = fields & OPS     ? TT_ELASTIC_TAGS
                          : fields & LINKS ? TT_RING_PEERS_MAX
                                           : TT_ELASTIC_MEMBERS_MAX;
    struct tt_call_name call;
    struct tt_loss_name loss;
    struct tt_ring_link link;
    struct tt_op_entry op;
    struct tt_surroundings_seat seat;

    m->nlist = tt_read_u32(r);
    if (m->nlist > most)
        r->bad = true;
    m->list = *r;
    for (uint32_t i = 0; i < m->nlist && !r->bad; i++)
        if (fields & SEATS)
            read_seat(r, &seat);
        else if (fields & IDS)
            tt_read_u64(r);
        else if (fields & OPS)
            read_op(r, &op);
        else if (fields & LINKS)
            read_link(r, &link);
        else if (fields & LOSSES)
            read_loss(r, &loss);
        else
            read_call(r, &call);
}

/* Returns whether a message of this kind must not have a `what` of 0. */
static bool is_from_one(uint8_t kind)
{
    return kind == TT_ELMSG_CALL || kind == TT_ELMSG_OFFER || kind == TT_ELMSG_VOTE ||
           kind == TT_ELMSG_PLAN;
}

/* Reads everything after the version. */
static bool read_rest(struct tt_elmsg *m, struct tt_reader r)
{
    uint32_t fields;

    m->kind = tt_read_u8(&r);
    if (r.bad || m->kind >= TT_ELMSG_KINDS || !shapes[m->kind].name)
        return false;
    fields = shapes[m->kind].fields;
    read_fields(m, &r, fields);
    if (fields & WHAT &&
        (m->what >= shapes[m->kind].what_end || (is_from_one(m->kind) && m->what == 0)))
        return false;
    if (fields & LISTS)
        check_list(m, &r, fields);
    return !r.bad && r.at == r.end;
}

bool tt_elmsg_read(struct tt_elmsg *m, const void *data, size_t bytes)
{
    struct tt_reader r;

    memset(m, 0, sizeof *m);
    tt_reader_init(&r, data, bytes);
    return tt_read_u8(&r) == TT_ELASTIC_VERSION && read_rest(m, r);
}

static struct tt_reader *list_of(struct tt_elmsg *m, uint32_t lists)
{
    tt_assert(shapes[m->kind].fields & lists);
    return &m->list;
}

void tt_elmsg_next_seat(struct tt_elmsg *m, struct tt_surroundings_seat *out)
{
    read_seat(list_of(m, SEATS), out);
}

uint64_t tt_elmsg_next_id(struct tt_elmsg *m)
{
    return tt_read_u64(list_of(m, IDS));
}

void tt_elmsg_next_op(struct tt_elmsg *m, struct tt_op_entry *out)
{
    read_op(list_of(m, OPS), out);
}

void tt_elmsg_next_link(struct tt_elmsg *m, struct tt_ring_link *out)
{
    read_link(list_of(m, LINKS), out);
}

void tt_elmsg_next_call(struct tt_elmsg *m, struct tt_call_name *out)
{
    read_call(list_of(m, CALLS), out);
}

void tt_elmsg_next_loss(struct tt_elmsg *m, struct tt_loss_name *out)
{
    read_loss(list_of(m, LOSSES), out);
}

/* ---- writing ---- */

static void write_blob(struct tt_writer *w, const struct tt_blob *b)
{
    tt_write_u16(w, b->bytes);
    tt_write_bytes(w, b->data, b->bytes);
}

static void write_hash(struct tt_writer *w, const struct tt_hash *h)
{
    for (int i = 0; i < 4; i++)
        tt_write_u32(w, h->word[i]);
}

static void write_news(struct tt_writer *w, const struct tt_membership *n)
{
    tt_write_u64(w, n->number);
    tt_write_u32(w, n->newcomers);
    tt_write_u32(w, n->lost);
    tt_write_u32(w, n->leaving);
    tt_write_u32(w, n->revoked);
    tt_write_u32(w, n->better);
}

static void write_op_name(struct tt_writer *w, const struct tt_op_name *op)
{
    tt_write_u16(w, op->tag);
    tt_write_u64(w, op->n);
    tt_write_u8(w, op->needs);
    tt_write_u8(w, op->coll);
    tt_write_u8(w, op->type);
    tt_write_u64(w, op->count);
}

static void write_fields(struct tt_writer *w, const struct tt_elmsg *m, uint32_t fields)
{
    if (fields & WHAT)
        tt_write_u8(w, m->what);
    if (fields & FLAGS)
        tt_write_u8(w, m->flags);
    if (fields & ID)
        tt_write_u64(w, m->id);
    if (fields & OTHER)
        tt_write_u64(w, m->other);
    if (fields & EPOCH)
        tt_write_u64(w, m->epoch);
    if (fields & NUMBER)
        tt_write_u64(w, m->number);
    if (fields & VALUE)
        tt_write_u64(w, m->value);
    if (fields & ALSO)
        tt_write_u64(w, m->also);
    if (fields & SIZES) {
        tt_write_u32(w, m->least);
        tt_write_u32(w, m->most);
    }
    if (fields & SEAT) {
        tt_write_u32(w, m->group);
        tt_write_u32(w, m->role);
        tt_write_u32(w, m->nroles);
    }
    if (fields & SCOPE)
        tt_write_u16(w, m->scope);
    if (fields & KEYS)
        write_hash(w, &m->keys);
    if (fields & HASH)
        write_hash(w, &m->hash);
    if (fields & COOKIE)
        tt_write_bytes(w, m->cookie, TT_COOKIE_BYTES);
    if (fields & NEWS)
        write_news(w, &m->news);
    if (fields & OP)
        write_op_name(w, &m->op);
    if (fields & CARD)
        write_blob(w, &m->card);
    if (fields & TEXT)
        tt_write_string(w, m->text);
}

void tt_elmsg_begin(struct tt_elmsg_writer *w, void *data, size_t cap, const struct tt_elmsg *m)
{
    tt_assert(m->kind < TT_ELMSG_KINDS && shapes[m->kind].name);
    tt_writer_init(&w->w, data, cap);
    tt_write_u8(&w->w, TT_ELASTIC_VERSION);
    tt_write_u8(&w->w, m->kind);
    write_fields(&w->w, m, shapes[m->kind].fields);
    w->n = 0;
    w->count_at = NULL;
    if (shapes[m->kind].fields & LISTS) {
        w->count_at = w->w.at;
        tt_write_u32(&w->w, 0);
    }
}

void tt_elmsg_add_seat(struct tt_elmsg_writer *w, const struct tt_surroundings_seat *seat)
{
    tt_write_u64(&w->w, seat->id);
    tt_write_u32(&w->w, seat->group);
    tt_write_u32(&w->w, seat->role);
    write_blob(&w->w, &seat->card);
    w->n++;
}

void tt_elmsg_add_id(struct tt_elmsg_writer *w, uint64_t id)
{
    tt_write_u64(&w->w, id);
    w->n++;
}

void tt_elmsg_add_op(struct tt_elmsg_writer *w, const struct tt_op_entry *op)
{
    tt_write_u8(&w->w, (uint8_t)(op->state | op->before << BEFORE_SHIFT));
    tt_write_u16(&w->w, op->tag);
    tt_write_u64(&w->w, op->n);
    write_news(&w->w, &op->news);
    if (tt_op_settled(op)) {
        tt_write_u16(&w->w, op->nresult);
        tt_write_bytes(&w->w, op->result, op->nresult);
    }
    w->n++;
}

void tt_elmsg_add_link(struct tt_elmsg_writer *w, const struct tt_ring_link *link)
{
    tt_write_u64(&w->w, link->rate);
    tt_write_u64(&w->w, link->latency);
    w->n++;
}

void tt_elmsg_add_call(struct tt_elmsg_writer *w, const struct tt_call_name *call)
{
    tt_write_u64(&w->w, call->id);
    tt_write_u64(&w->w, call->attempt);
    w->n++;
}

void tt_elmsg_add_loss(struct tt_elmsg_writer *w, const struct tt_loss_name *loss)
{
    tt_write_u64(&w->w, loss->id);
    tt_write_u8(&w->w, loss->why);
    w->n++;
}

size_t tt_elmsg_end(struct tt_elmsg_writer *w)
{
    struct tt_writer count;

    if (w->w.bad)
        return 0;
    tt_assert(w->count_at || w->n == 0);
    if (w->count_at) {
        tt_writer_init(&count, w->count_at, 4);
        tt_write_u32(&count, w->n);
    }
    return tt_writer_bytes(&w->w);
}

size_t tt_elmsg_write(void *data, size_t cap, const struct tt_elmsg *m)
{
    struct tt_elmsg_writer w;

    tt_elmsg_begin(&w, data, cap, m);
    return tt_elmsg_end(&w);
}

/* ---- other versions ---- */

uint8_t tt_elmsg_version(const void *data, size_t bytes)
{
    return bytes > 0 ? *(const uint8_t *)data : 0;
}

size_t tt_elmsg_write_refusal(void *data, size_t cap, uint8_t version, uint8_t status,
                              const char *text)
{
    struct tt_elmsg msg = { .kind = TT_ELMSG_REFUSED, .what = status };
    size_t bytes;

    snprintf(msg.text, sizeof msg.text, "%s", text);
    bytes = tt_elmsg_write(data, cap, &msg);
    if (bytes > 0)
        *(uint8_t *)data = version;
    return bytes;
}

bool tt_elmsg_read_refusal(struct tt_elmsg *m, const void *data, size_t bytes)
{
    struct tt_reader r;

    memset(m, 0, sizeof *m);
    tt_reader_init(&r, data, bytes);
    tt_read_u8(&r);
    return read_rest(m, r) && m->kind == TT_ELMSG_REFUSED;
}
