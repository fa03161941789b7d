/* Operations of a dump. */
#include <string.h>

#include "analyze/dump_reading.h"
#include "analyze/grow.h"
#include "analyze/p2p.h"

#define OPS_MAX (1u << 30)              /* kept, of all dumps: indices have 32 bits */
#define NOT_GIVEN INT64_MAX

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

static void read_waits(struct tt_reading *g, struct tt_line *l, struct tt_dumps_op *op)
{
    struct tt_line_text key, text;

    if (tt_line_null(l) || !tt_line_object(l))
        return;
    while (tt_line_key(l, &key))
        if (tt_line_is(&key, "rank"))
            op->waits_rank = tt_reading_rank_number(g, l);
        else if (tt_line_is(&key, "for") && !tt_line_null(l))
            op->waits_for = tt_line_string(l, &text) ? wait_of(&text) : TT_WAIT_NONE;
        else if (!tt_line_is(&key, "for"))
            tt_line_skip(l);
}

static void read_peer_bytes(struct tt_reading *g, struct tt_line *l, struct tt_dumps_peer *p)
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
            p->rank = tt_reading_rank_number(g, l);
        else if (tt_line_is(&key, "sent"))
            p->sent = tt_reading_u64(l);
        else if (tt_line_is(&key, "received"))
            p->received = tt_reading_u64(l);
        else if (tt_line_is(&key, "first_out"))
            p->first_out = tt_reading_time(g, l);
        else if (tt_line_is(&key, "last_out"))
            p->last_out = tt_reading_time(g, l);
        else if (tt_line_is(&key, "first_in"))
            p->first_in = tt_reading_time(g, l);
        else if (tt_line_is(&key, "last_in"))
            p->last_in = tt_reading_time(g, l);
        else
            tt_line_skip(l);
}

/* Reads the peers of an operation to op->peers_first. */
static void read_peers(struct tt_reading *g, struct tt_line *l, struct tt_dumps_op *op)
{
    struct tt_dumps *d = g->d;
    struct tt_dumps_peer p;

    d->npeers = op->peers_first;        /* of duplicate keys, the last one is used */
    op->npeers = 0;
    if (tt_line_null(l) || !tt_line_array(l))
        return;
    while (tt_line_element(l)) {
        read_peer_bytes(g, l, &p);
        if (p.rank == TT_DUMPS_NONE || d->npeers - g->peers_first > 4ull * d->nranks + 4096)
            continue;
        if (!tt_grow(&d->peers, &d->cap_peers, d->npeers, sizeof *d->peers)) {
            tt_reading_no_memory(g);
            return;
        }
        d->peers[d->npeers++] = p;
        op->npeers++;
    }
}

/* Reads the time that the rank of the operation spent in each stage. */
static void read_stages(struct tt_reading *g, struct tt_line *l, struct tt_dumps_op *op)
{
    static const char *const names[] = { [TT_OP_REGISTER] = "register",
                                         [TT_OP_SENDING] = "send",
                                         [TT_OP_REDUCE] = "reduce",
                                         [TT_OP_COPY] = "copy" };
    struct tt_line_text key;

    if (tt_line_null(l) || !tt_line_object(l))
        return;
    for (int i = 0; i < TT_OP_STAGES; i++)
        op->stages[i] = 0;
    while (tt_line_key(l, &key)) {
        int i = 0;

        while (i < TT_OP_STAGES && !tt_line_is(&key, names[i]))
            i++;
        if (i < TT_OP_STAGES)
            op->stages[i] = (float)tt_reading_u64(l);
        else if (tt_line_is(&key, "first_data"))
            op->first_data = tt_reading_time(g, l);
        else
            tt_line_skip(l);
    }
}

static void op_times(struct tt_reading *g, struct tt_line *l, const struct tt_line_text *key,
                     struct tt_dumps_op *op)
{
    if (tt_line_is(key, "called"))
        op->called = tt_reading_time(g, l);
    else if (tt_line_is(key, "waited"))
        op->waited = tt_reading_time(g, l);
    else if (tt_line_is(key, "started"))
        op->started = tt_reading_time(g, l);
    else if (tt_line_is(key, "ended"))
        op->ended = tt_reading_time(g, l);
    else if (tt_line_is(key, "status"))
        op->status = tt_reading_text(g, l);
    else if (tt_line_is(key, "step"))
        op->step = tt_reading_u32(l);
    else if (tt_line_is(key, "steps"))
        op->steps = tt_reading_u32(l);
    else if (tt_line_is(key, "waits"))
        read_waits(g, l, op);
    else if (tt_line_is(key, "note"))
        op->note = tt_reading_u32(l);     /* note number; finish() replaces it by the text */
    else if (tt_line_is(key, "peers"))
        read_peers(g, l, op);
    else if (tt_line_is(key, "stages"))
        read_stages(g, l, op);
    else
        tt_line_skip(l);
}

static void op_member(struct tt_reading *g, struct tt_line *l, const struct tt_line_text *key,
                      struct tt_dumps_op *op)
{
    struct tt_line_text text;

    if (tt_line_is(key, "comm"))
        op->comm = tt_line_null(l) || !tt_line_string(l, &text)
                       ? TT_DUMPS_NONE
                       : tt_reading_comm_of(g, tt_reading_hash_of(&text));
    else if (tt_line_is(key, "seq"))
        op->seq = tt_reading_u64(l);
    else if (tt_line_is(key, "kind") && tt_line_string(l, &text)) {
        char kind[40];

        op->kind = tt_intern_add(&g->d->texts, kind, tt_line_copy(&text, kind, sizeof kind));
        op->class = class_of(&text);
        op->is_send = tt_line_is(&text, "send");
    } else if (tt_line_is(key, "algo"))
        op->algo = tt_reading_text(g, l);
    else if (tt_line_is(key, "count"))
        op->count = tt_reading_u64(l);
    else if (tt_line_is(key, "type"))
        op->type = tt_reading_text(g, l);
    else if (tt_line_is(key, "redop"))
        op->redop = tt_reading_text(g, l);
    else if (tt_line_is(key, "root"))
        op->root = tt_reading_below(l, g->d->nranks);
    else if (tt_line_is(key, "peer"))
        op->peer = tt_reading_rank_number(g, l);
    else if (tt_line_is(key, "tag"))
        op->tag = (int64_t)tt_reading_u64(l);
    else if (tt_line_is(key, "bytes"))
        op->bytes = tt_reading_u64(l);
    else
        op_times(g, l, key, op);
}

/* Drops the oldest completed operations of this dump. */
static void drop_done(struct tt_reading *g)
{
    struct tt_dumps *d = g->d;
    uint32_t drop = g->ndone - d->kept_max;
    size_t to = g->rank->ops_first;

    for (size_t i = to; i < d->nops; i++) {
        if (!d->ops[i].is_open && drop > 0)
            drop--;
        else
            d->ops[to++] = d->ops[i];
    }
    d->nops = to;
    g->ndone = d->kept_max;
}

static void keep_op(struct tt_reading *g, struct tt_dumps_op *op)
{
    struct tt_dumps *d = g->d;

    /* without a status, the end of the operation was not recorded */
    op->is_open =
        op->status != TT_INTERN_EMPTY && (op->ended == TT_DUMPS_NEVER || tt_dumps_failed(d, op));
    if (!op->is_open) {
        d->npeers = op->peers_first + op->npeers == d->npeers ? op->peers_first : d->npeers;
        op->npeers = 0;
        if (++g->ndone == 2 * d->kept_max)
            drop_done(g);
    } else if (++g->nopen > TT_DUMPS_OPEN_MAX) {
        tt_reading_broken(g, "more than 65536 incomplete operations");
        return;
    }
    if (d->nops < OPS_MAX && tt_grow(&d->ops, &d->cap_ops, d->nops, sizeof *d->ops))
        d->ops[d->nops++] = *op;
    else
        tt_reading_no_memory(g);
}

/* Records the sequence number of the call on its communicator, or to its peer. */
static void count_call(struct tt_reading *g, const struct tt_dumps_op *op)
{
    struct tt_dumps_local *local = tt_reading_local_of(g, op->comm);

    if (local && op->class == TT_OP_COLLECTIVE && op->seq >= local->ncalled)
        local->ncalled = op->seq + 1;
    if (op->class == TT_OP_P2P && op->peer != TT_DUMPS_NONE &&
        !tt_dumps_p2p_note(g->d, &(struct tt_dumps_p2p){ .rank = g->number,
                                                         .comm = op->comm,
                                                         .peer = op->peer,
                                                         .tag = op->tag,
                                                         .is_send = op->is_send,
                                                         .ncalled = op->seq + 1 }))
        tt_reading_no_memory(g);
}

void tt_read_op(struct tt_reading *g, struct tt_line *l)
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
        .first_data = TT_DUMPS_NEVER,
        .stages = { -1, -1, -1, -1 },
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
        tt_reading_broken(g, "an operation needs \"seq\" and \"kind\"");
        return;
    }
    if (op.comm == TT_DUMPS_NONE) {     /* null: the communicator is unknown */
        g->d->nskipped++;
        return;
    }
    g->d->nrecords++;
    count_call(g, &op);
    if (!g->status && !g->is_broken)
        keep_op(g, &op);
}
