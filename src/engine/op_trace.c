#include "engine/op_trace.h"

#include <stdlib.h>
#include <string.h>

#include "algo/algos.h"
#include "base/prng.h"
#include "engine/describe.h"
#include "trace/comms.h"

_Static_assert((int)TT_OPLOG_SEND == (int)TT_SEND && (int)TT_OPLOG_RECV == (int)TT_RECV &&
                   (int)TT_COLL_KINDS <= (int)TT_OPLOG_CALLS,
               "the trace uses the same numbers");

/* ---- records --------------------------------------------------------------------------------- */

uint32_t tt_engine_trace_rank(const struct tt_engine *e, uint32_t rank)
{
    return e->members && rank < e->nranks ? (uint32_t)e->members[rank] : rank;
}

/* Returns the bytes that this rank sends in a variable collective, or else those that it
 * receives. */
static uint64_t variable_bytes(const struct tt_coll *c)
{
    uint64_t bytes = 0;

    for (uint32_t r = 0; r < c->nranks; r++) {
        if (c->kind == TT_ALLTOALLV)
            bytes += c->send_bytes[r];
        else if (c->send_bytes &&
                 (c->rank == r || c->kind == TT_REDUCE_SCATTERV || c->rank == c->root))
            bytes += c->send_bytes[r];
        else if (c->recv_bytes && (c->rank == r || (c->kind == TT_GATHERV && c->rank == c->root)))
            bytes += c->recv_bytes[r];
    }
    return bytes;
}

static bool trace_is_rooted(uint8_t kind)
{
    return kind == TT_REDUCE || kind == TT_BROADCAST || kind == TT_GATHER || kind == TT_GATHERV ||
           kind == TT_SCATTER || kind == TT_SCATTERV;
}

/* Returns the job rank at the other end of a send or receive. */
static uint32_t trace_peer(const struct tt_op *op)
{
    const struct tt_context *c = op->context;
    const uint32_t root = op->conf.coll.root;

    return root == TT_ROOT_ANY ? TT_OPLOG_NONE : tt_engine_trace_rank(c->engine, c->ranks[root]);
}

void tt_op_trace_describe(struct tt_op *op)
{
    const struct tt_coll *c = &op->conf.coll;
    const uint8_t kind = (uint8_t)op->desc.kind;
    struct tt_oplog_call t = {
        .count = op->conf.count,
        .peer = TT_OPLOG_NONE,
        .tag = TT_OPLOG_NONE,
        .comm = op->context->trace,
        .kind = kind,
        .type = kind == TT_BARRIER ? TT_OPLOG_NO_TYPE : (uint8_t)op->conf.dtype,
        .redop = (uint8_t)op->conf.redop,
        .algo = op->conf.algo_id,
        .flags = tt_coll_reduces((enum tt_coll_kind)kind) ? TT_OPLOG_REDUCES : 0,
    };
    if (op->p2p) {
        t.peer = trace_peer(op);
        t.tag = op->conf.tag;
        t.flags |= TT_OPLOG_IS_BYTES;
    } else if (trace_is_rooted(kind)) {
        t.peer = c->root;
        t.flags |= TT_OPLOG_ROOTED;
    }
    if (c->send_bytes || c->recv_bytes) {
        /* in two parts, the lengths are determined later */
        t.count = op->conf.parts ? 0 : variable_bytes(c);
        t.flags |= TT_OPLOG_IS_BYTES;
    }
    op->trace = tt_oplog_pack(&t);
}

static __attribute__((noinline)) void trace_write_any(struct tt_op *op, bool started)
{
    if (op->p2p)                /* the tag may differ between calls */
        op->trace.peer = tt_oplog_word_peer((uint32_t)(op->trace.peer >> 32), op->conf.tag);
    op->called_tick = op->last_tick = tt_tick_now();
    op->record = tt_oplog_begin_again(&op->context->engine->oplog, &op->trace, tt_op_trace_seq(op),
                                      started, op->called_tick);
}

/* The usual case makes no calls, so that no registers are saved. */
void tt_op_trace_write(struct tt_op *op, bool started)
{
    struct tt_oplog_writer *w = &op->context->engine->oplog;
    uint64_t now;

    if (__builtin_expect(op->p2p || !started || !tt_tick_is_counter || !tt_oplog_is_simple(w), 0)) {
        trace_write_any(op, started);
        return;
    }
    now = tt_tick_read_counter();
    op->called_tick = op->last_tick = now;
    op->record = tt_oplog_block_write(w, &op->trace, op->seq, true, now, tt_note_current());
}

void tt_op_trace_matched(struct tt_op *op)
{
    tt_oplog_matched(op->record, trace_peer(op), op->conf.tag, tt_op_trace_seq(op),
                     op->context->trace);
}

static const char *trace_algo_name(uint8_t algo)
{
    return algo < tt_nalgos ? tt_algos[algo]->name : NULL;
}

/* ---- communicators --------------------------------------------------------------------------- */

uint64_t tt_engine_trace_hash(const struct tt_engine *e, uint32_t context)
{
    const uint64_t hash = tt_mix64(e->trace_id + context);

    return hash ? hash : 1;
}

void tt_context_trace_open(struct tt_context *c)
{
    const struct tt_engine *e = c->engine;
    struct tt_comms_info info = { .hash = tt_engine_trace_hash(e, c->id),
                                  .of = TT_COMMS_COMM,
                                  .rank = c->rank,
                                  .nranks = c->nranks,
                                  .ranks = c->ranks };
    uint64_t *ids = e->members ? malloc(c->nranks * sizeof *ids) : NULL;

    tt_oplog_set_algo_name(trace_algo_name);
    if (e->members) {
        info.ranks = NULL;
        info.ids = ids;
    }
    for (uint32_t i = 0; ids && i < c->nranks; i++)
        ids[i] = e->members[c->ranks[i]];
    c->trace = tt_comms_add(&info);
    free(ids);
}

/* ---- progress of operations ------------------------------------------------------------------ */

static void mark_time(uint64_t *first, uint64_t *last)
{
    *last = tt_tick_now();
    if (!*first)
        *first = *last;
}

void tt_op_trace_sent(struct tt_flow *f, uint64_t bytes)
{
    if (!TT_OPLOG_COMPILED)
        return;
    f->trace.sent += bytes;
    mark_time(&f->trace.first_out, &f->trace.last_out);
}

void tt_op_trace_received(struct tt_flow *f, uint64_t bytes)
{
    if (!TT_OPLOG_COMPILED)
        return;
    f->trace.received += bytes;
    mark_time(&f->trace.first_in, &f->trace.last_in);
    if (!f->trace.first_message)
        f->trace.first_message = f->trace.first_in;
}

void tt_op_trace_message(struct tt_flow *f)
{
    if (TT_OPLOG_COMPILED && !f->trace.first_message)
        f->trace.first_message = tt_tick_now();
}

/* Adds the data that a straight-line program has transferred, which only its steps show. */
static void add_straight_steps(const struct tt_op *op, uint16_t peer, struct tt_dump_flow *w)
{
    const struct tt_exec *x = &op->exec;

    for (uint32_t n = 0; n != x->tail && n < TT_EXEC_STEPS; n++) {
        const struct tt_exec_step *t = &x->step[n];
        const bool done = n < x->head || t->over;

        if (t->peer != peer)
            continue;
        if (t->s.opcode == TT_PUT && done)
            w->sent += t->s.bytes;
        else if (t->s.opcode == TT_WAIT && (done || t->arrived))
            w->received += t->s.bytes;
    }
}

/* Programs of only eager messages record no times per message. The time of the call stands for the
 * first send, and the executor's last progress for the last message. */
static void add_straight_times(const struct tt_op *op, struct tt_dump_flow *w)
{
    if (w->sent && op->record)
        w->first_out = op->called_tick;
    w->moved = op->probe_ns ? op->moved_ns : 0;
}

static void add_flows(struct tt_dump_state *s, const struct tt_op *op)
{
    const struct tt_engine *e = op->context->engine;

    for (uint32_t i = 0; i < op->exec.npeers; i++) {
        const struct tt_flow *f = &op->flow[i];
        struct tt_dump_flow w = { 0 };

        if (f->cp)
            w = f->trace;
        if (op->exec.straight) {
            add_straight_steps(op, (uint16_t)i, &w);
            add_straight_times(op, &w);
        }
        w.rank = tt_engine_trace_rank(e, op->context->ranks[op->exec_peers[i].rank]);
        tt_dump_add_flow(s, &w);
    }
}

/* Returns whether a message of the operation has arrived from a peer, i.e. the peer has started
 * it. */
static bool has_message_of(const struct tt_op *op, int peer)
{
    const struct tt_exec *x = &op->exec;
    const struct tt_flow *f = &op->flow[peer];

    if (f->cp && (f->ready || f->probe_received || (!x->straight && f->trace.received)))
        return true;
    for (uint32_t n = x->straight ? 0 : x->head; n != x->tail; n++) {
        const struct tt_exec_step *t = &x->step[n % TT_EXEC_STEPS];

        if (t->peer == peer && t->s.opcode == TT_WAIT &&
            (t->arrived || (x->straight && (n < x->head || t->over))))
            return true;
    }
    return false;
}

static bool is_connected(const struct tt_op *op, uint32_t rank)
{
    const struct tt_peer *p = tt_peer_get(op->context->engine, op->context->ranks[rank]);

    return p && p->state != TT_PEER_NONE && p->state != TT_PEER_CONNECTING;
}

/* Returns what the executor's current step waits for. */
static enum tt_dump_waits waits_for(const struct tt_op *op)
{
    const struct tt_step *t = tt_exec_at(&op->exec);
    const uint32_t r = tt_exec_waits_for(&op->exec);
    const int i = r == UINT32_MAX ? -1 : tt_exec_peer_of(&op->exec, r);

    if (tt_exec_finished(&op->exec) || i < 0)
        return op->in_flight ? TT_DUMP_WAITS_COMPLETION : TT_DUMP_WAITS_NONE;
    if (!is_connected(op, r))
        return TT_DUMP_WAITS_START;
    if (!t || t->opcode != TT_PUT)
        return has_message_of(op, i) ? TT_DUMP_WAITS_DATA : TT_DUMP_WAITS_START;
    return op->exec.straight || op->exec_peers[i].ready ? TT_DUMP_WAITS_CREDIT : TT_DUMP_WAITS_CTS;
}

/* The application waits for the members of a group if it waits for the group. */
static void add_waited(const struct tt_op *op, struct tt_dump_op *d)
{
    const struct tt_op *held = op->group ? op->group : op;
    const unsigned waited = atomic_load_explicit(&held->waited, memory_order_relaxed);

    /* the default is the time of the call, for a call that blocks or was not checked yet */
    if (waited != TT_OP_UNWAITED && waited != TT_OP_BLOCKING && op->probe_ns)
        d->waited = op->waited_ns;
    d->waits_known = waited == TT_OP_UNWAITED || d->waited > 0;
}

static void add_op(struct tt_dump_state *s, struct tt_op *op)
{
    const uint32_t rank = tt_op_waits_for(op);
    struct tt_dump_op d = { .waits_rank = TT_DUMP_NOBODY };

    if (!op->record) {          /* not sampled */
        op->record =
            tt_oplog_begin_late(&op->context->engine->oplog, &op->trace, tt_op_trace_seq(op));
        op->called_tick = 0;
    }
    if (!op->record)
        return;
    d.record = op->record;
    add_waited(op, &d);
    if (rank != UINT32_MAX)
        d.waits_rank = tt_engine_trace_rank(op->context->engine, rank);
    if (op->unmatched || op->oneself) {
        d.waits = TT_DUMP_WAITS_MATCH;
    } else if (op->exposed) {
        d.step = tt_exec_round_at(&op->exec);
        d.steps = op->exec.nrounds;
        d.waits = waits_for(op);
    }
    if (tt_dump_add_op(s, &d) && op->exposed && !op->unmatched && !op->oneself)
        add_flows(s, op);
}

static void add_ops(struct tt_dump_state *s, const struct tt_context *c)
{
    for (struct tt_op *op = c->active; op; op = op->next)
        add_op(s, op);
    for (struct tt_op *op = c->waiting; op; op = op->next)
        add_op(s, op);
}

static void add_peers(struct tt_dump_state *s, const struct tt_engine *e)
{
    static const char *const states[] = { [TT_PEER_NONE] = "unknown",
                                          [TT_PEER_CONNECTING] = "unknown",
                                          [TT_PEER_UP] = "connected",
                                          [TT_PEER_LEFT] = "left",
                                          [TT_PEER_LOST] = "lost" };
    const struct tt_peer *p;
    uint32_t at = 0;

    while ((p = tt_sparse_next(&e->peers, &at))) {
        struct tt_dump_peer d = { .rank = tt_engine_trace_rank(e, p->rank),
                                  .state = states[p->state],
                                  .last_heard = p->heard_ns,
                                  .last_progress = p->progress_ns };

        if (p->wire)
            strncpy(d.wire, p->wire->ops->name, sizeof d.wire - 1);
        tt_dump_add_peer(s, &d);
    }
}

struct lanes_arg {
    const struct tt_engine *engine;
    const struct tt_wire *wire;
    struct tt_dump_state *state;
};

static void add_lane(void *arg, const struct tt_wire_lane *l)
{
    const struct lanes_arg *a = arg;
    struct tt_dump_lane d = {
        .rank = tt_engine_trace_rank(a->engine, l->peer),
        .lane = l->lane,
        .is_up = l->is_up,
        .posts = l->posts,
        .completions = l->completions,
        .posted_bytes = l->posted_bytes,
        .completed_bytes = l->completed_bytes,
        .last_post = l->last_post_ns,
        .last_completion = l->last_completion_ns,
    };

    strncpy(d.wire, a->wire->ops->name, sizeof d.wire - 1);
    tt_dump_add_lane(a->state, &d);
}

static void add_lanes(struct tt_dump_state *s, const struct tt_engine *e)
{
    for (uint32_t i = 0; i < e->nwires; i++) {
        struct lanes_arg arg = { .engine = e, .wire = e->wire[i], .state = s };

        if (e->wire[i]->ops->lanes)
            e->wire[i]->ops->lanes(e->wire[i], false, add_lane, &arg);
    }
}

void tt_engine_dump(struct tt_engine *e, struct tt_dump_state *s)
{
    if (!tt_oplog_depth())
        return;
    for (const struct tt_context *c = e->contexts; c; c = c->next)
        add_ops(s, c);
    add_peers(s, e);
    add_lanes(s, e);
}

/* ---- failures -------------------------------------------------------------------------------- */

static enum tt_dump_reason reason_of(tutti_status st)
{
    return st == TUTTI_ERR_TIMEOUT     ? TT_DUMP_TIMEOUT
           : st == TUTTI_ERR_PEER_LOST ? TT_DUMP_PEER_LOST
                                       : TT_DUMP_ABORTED;
}

void tt_context_trace_failure(struct tt_context *c, tutti_status st, const char *sentence)
{
    struct tt_dump_state s = { .ops = NULL };

    if (!tt_dump_is_due())
        return;
    tt_engine_dump(c->engine, &s);
    tt_dump_post(reason_of(st), sentence, &s);
}
