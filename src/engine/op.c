/* Life cycle of operations, from the call to its end. */
#include "engine/op.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "engine/any.h"
#include "engine/context_end.h"
#include "engine/cores.h"
#include "engine/exec_actions.h"
#include "engine/input_backup.h"
#include "engine/op_end.h"
#include "engine/op_lists.h"
#include "engine/op_trace.h"
#include "engine/profile.h"
#include "engine/quantized.h"
#include "engine/receive.h"
#include "engine/requests.h"
#include "engine/self.h"
#include "engine/wait_report.h"

#define PASSES_HELD 400         /* about 20 us, the time of a few segments */
#define NO_HOLD_ACTIONS 64

/* ---- running --------------------------------------------------------------------------------- */

/* Called when the executor held back an action because a peer has no room. If the peer is running,
 * waiting costs less than reading back data that was just written with non-temporal stores. After
 * PASSES_HELD passes the peer is assumed not to run, and nothing is held back for the next
 * NO_HOLD_ACTIONS. Returns whether to call the executor again at once. */
static bool stop_holding_back(struct tt_op *op)
{
    if (++op->held_passes < PASSES_HELD) {
        op->retry = true;
        return false;
    }
    op->held_passes = 0;
    op->no_hold_actions = NO_HOLD_ACTIONS;
    return true;
}

/* Returns the bytes that an action copies or reduces in memory. Excludes data that was already
 * written to the peer's slot, because it was counted then. */
static uint64_t bytes_moved(const struct tt_op *op, const struct tt_action *a)
{
    switch (a->kind) {
    case TT_ACT_COPY:
    case TT_ACT_REDUCE:
        return a->bytes;
    case TT_ACT_PUT:
        if (a->a.kind == TT_AT_REMOTE)
            return 0;
        return op->flow[a->peer].cp->peer->wire->caps & TT_WIRE_CAP_INSTANT ? a->bytes : 0;
    default:
        return 0;
    }
}

/* Returns whether delayed puts must be posted before this action, because it takes long and the NIC
 * would be idle meanwhile. Within one host early posting gains nothing, because these processors
 * perform the puts themselves. Deferred actions always follow the puts. */
static bool delays_puts(const struct tt_op *op, const struct tt_action *a)
{
    const struct tt_engine *e = op->context->engine;

    return a->idle ||
           ((a->kind == TT_ACT_COPY || a->kind == TT_ACT_REDUCE) && e->cards.nlocal < e->nranks);
}

/* Performs the executor's actions until there are none, or until other operations must run. */
static bool run_actions(struct tt_op *op)
{
    const bool cores_suffice = op->context->engine->spins > 0;
    struct tt_exec *x = &op->exec;
    struct tt_action a;
    bool any = false;

    for (;;) {
        if (op->scanned != x->loaded)
            tt_op_take_unexpected(op);
        if (tt_op_is_over(op))
            return any;
        x->patient = cores_suffice && op->no_hold_actions == 0;
        if (!tt_exec_next(x, &a)) {
            if (!x->patient || !x->held)
                return any;
            if (stop_holding_back(op))
                continue;
            return true;        /* not idle: the wait for room is bounded */
        }
        op->held_passes = 0;
        op->no_hold_actions -= op->no_hold_actions > 0;
        if (delays_puts(op, &a))
            tt_ops_send_off(op->context->engine);
        if (tt_profile_perform(op, &a)) {
            any = true;
            if (tt_engine_count_work(op->context->engine, bytes_moved(op, &a)) || a.idle) {
                op->retry = true;
                return true;
            }
        } else {
            tt_exec_left(x, &a);
            op->retry = true;
        }
    }
}

/* Resets the state of received data. */
static void reset_received(struct tt_op *op)
{
    op->scanned = UINT32_MAX;
    op->now = NULL;
    op->retry = true;
    op->held_passes = op->no_hold_actions = 0;
}

/* Starts an executor for op->conf. */
static void start_executor(struct tt_op *op)
{
    const struct tt_exec_conf conf = {
        .algo = op->conf.algo, .coll = &op->conf.coll, .segment_bytes = op->conf.segment_bytes,
        .eager_bytes = op->conf.eager_bytes, .streams = op->conf.streams, .depth = op->conf.depth,
    };

    op->beyond_cache = tt_copy_exceeds_cache(&op->conf.coll, op->context->engine->cache_share);
    op->in_flight = 0;
    tt_op_write_lengths(op);
    tt_exec_init(&op->exec, &conf, op->exec_peers, op->peers_max);
}

/* Called when the first part is over: starts the second, or ends the operation. */
static void begin_second_part(struct tt_op *op)
{
    tutti_status st;

    tt_op_end_probes(op);
    tt_op_release_resources(op, false);
    st = op->conf.parts->then(op->conf.parts_arg, &op->conf);
    if (st == TUTTI_PENDING) {
        tt_op_record_history(op);
        op->second = true;
        op->seq++;
        tt_copy_trial_end(&op->copies, false);
        reset_received(op);
        start_executor(op);
        tt_op_find_mismatch(op);
    } else if (st == TUTTI_OK || st == TUTTI_ERR_RANGE || st == TUTTI_ERR_INVALID) {
        tt_op_end(op, st, st ? tutti_last_error() : "");
    } else {
        tt_context_fail_here(op->context, st, tutti_last_error(), true);
    }
}

bool tt_op_run(struct tt_op *op)
{
    struct tt_engine *e = op->context->engine;
    struct tt_exec *x = &op->exec;
    bool any;

    if (op->oneself || op->unmatched)
        return false;           /* its counterpart, or the matching message, completes it */
    tt_op_wake(op);
    if (!x->straight)
        tt_op_read_flows(op);
    if (!x->progress && !x->credit_due && !op->retry)
        return false;
    op->retry = false;
    if (x->straight && op->scanned != x->loaded)
        tt_op_take_unexpected(op);   /* an unexpected probe makes it use streams */
    if (x->straight)
        any = !tt_op_is_over(op) && tt_op_run_in_order(op);
    else
        any = run_actions(op);
    tt_ops_send_off(e);
    if (tt_op_is_over(op) || !tt_op_check_lengths(op))
        return true;
    /* final data is unpacked while there are no arrivals */
    if (tt_op_is_quantized(op) && !tt_exec_finished(x)) {
        any = any || tt_op_quantized_ahead(op);
        op->retry |= any;
    }
    if (tt_exec_finished(x) && !op->in_flight) {
        struct tt_context *c = op->context;

        if (op->conf.parts && !op->second)
            begin_second_part(op);
        else
            tt_op_end(op, TUTTI_OK, "");
        if (tt_op_is_over(op))
            tt_ops_expose(c);
        return true;
    }
    return any;
}

/* Makes the operation visible to peers. */
static void join_active(struct tt_op *op)
{
    struct tt_context *c = op->context;

    op->exposed = true;
    reset_received(op);
    op->next = NULL;
    op->at = c->active_end;
    *op->at = op;
    c->active_end = &op->next;
    op->awake_at = NULL;
    tt_op_wake(op);
    c->nactive += !op->p2p;
    c->engine->nexposed++;
}

/* Starts the executor. The operation may fail or complete at once. */
static void op_begin(struct tt_op *op)
{
    start_executor(op);
    tt_profile_begin(op);
    if (!op->oneself)
        tt_op_find_mismatch(op);
    else if (!tt_op_match_self(op) && op->desc.kind == TT_SEND && op->context->nunmatched)
        /* starts this rank's receive that matches the send */
        tt_op_match_any(op->context, op->conf.tag,
                        tt_sparse_get(&op->context->peers, op->context->ranks[op->context->rank]));
}

/* Adds a receive that has no number yet, and therefore no steps to run. */
static void join_unmatched(struct tt_op *op)
{
    op->exec.npeers = 0;
    op->in_flight = 0;
    op->began_ns = 0;
    op->context->nunmatched++;
    join_active(op);
    op->retry = false;
    tt_op_match_any(op->context, op->conf.tag, NULL);
}

/* Exposes an operation after all older ones. */
static void op_expose(struct tt_op *op)
{
    if (op->conf.parts) {
        op->context->engine->nunbegun--;
        op->conf.parts->begin(op->conf.parts_arg, &op->conf);
    }
    tt_op_back_up(op);
    if (op->unmatched) {
        join_unmatched(op);
        return;
    }
    join_active(op);
    op_begin(op);
}

static bool may_begin(const struct tt_op *op)
{
    return !op->conf.parts || op->conf.parts->may_begin(op->conf.parts_arg);
}

void tt_ops_expose(struct tt_context *c)
{
    while (c->waiting && c->nactive < TT_OPS_EXPOSED && may_begin(c->waiting)) {
        struct tt_op *op = c->waiting;

        tt_oplog_started(op->record);

        c->waiting = op->next;
        if (!c->waiting)
            c->waiting_end = &c->waiting;
        c->nwaiting--;
        op_expose(op);
    }
}

/* Copies the v arrays, which belong to the caller. */
static bool copy_arrays(struct tt_op *op)
{
    struct tt_coll *c = &op->conf.coll;
    const uint64_t **all[] = { &c->send_bytes, &c->send_displs, &c->recv_bytes, &c->recv_displs };
    const size_t n = c->nranks;

    if ((!c->send_bytes && !c->recv_bytes) || op->conf.parts)
        return true;
    if (n > op->arrays_cap) {
        free(op->arrays);
        op->arrays = malloc(4 * n * sizeof *op->arrays);
        op->arrays_cap = op->arrays ? n : 0;
        if (!op->arrays)
            return false;
    }
    for (size_t i = 0; i < 4; i++)
        if (*all[i]) {
            memcpy(op->arrays + i * n, *all[i], n * sizeof **all[i]);
            *all[i] = op->arrays + i * n;
        }
    return true;
}

/* Assigns the key of a send or receive, from the counter of its tag. */
static tutti_status assign_tag_key(struct tt_op *op)
{
    struct tt_context *c = op->context;
    struct tt_context_peer *cp = tt_context_peer_of(c, c->ranks[op->conf.coll.root]);
    struct tt_tag_counter *counter;

    if (!cp)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the state of a peer");
    counter = tt_context_counter(cp, op->conf.tag, op->conf.coll.kind == TT_RECV);
    if (!counter)
        return TUTTI_ERR_NOMEM;
    op->seq = tt_tag_key(counter);
    counter->next++;
    counter->untaken -= counter->untaken > 0;
    return TUTTI_OK;
}

tutti_status tt_op_assign_p2p_key(struct tt_op *op)
{
    struct tt_context *c = op->context;

    op->unmatched = tt_any_defers(c, &op->conf);
    if (!op->unmatched)
        return assign_tag_key(op);
    op->seq = 0;
    return op->conf.coll.root == TT_ROOT_ANY ? tt_any_begin(c) : TUTTI_OK;
}

/* Assigns the next message of rank `from` of the context to an unmatched receive, and starts it.
 * The context may have failed afterwards. */
static void op_matched(struct tt_op *op, uint32_t from)
{
    struct tt_context *c = op->context;

    op->unmatched = false;
    c->nunmatched--;
    op->conf.coll.root = from;
    op->desc.root = from & 0xffffff;
    op->oneself = from == c->rank;
    if (assign_tag_key(op)) {
        tt_context_fail_here(c, TUTTI_ERR_NOMEM, tutti_last_error(), true);
        return;
    }
    tt_op_trace_matched(op);
    reset_received(op);
    op_begin(op);
    if (!tt_op_is_over(op))
        tt_op_run(op);
}

void tt_op_match_any(struct tt_context *c, uint32_t tag, struct tt_context_peer *from)
{
    struct tt_op *op;
    uint32_t rank;

    while ((op = tt_any_next(c, tag, from, &rank)))
        op_matched(op, rank);
}

_Static_assert(TT_COLL_KINDS <= 32 && TUTTI_DTYPE_COUNT <= 16 && TT_MODES <= 8,
               "all values fit in a descriptor");

static uint32_t peers_max_of(const struct tt_op_conf *conf)
{
    const uint32_t n = conf->algo->npeers(&conf->coll),
                   second = conf->parts ? conf->parts->second->npeers(&conf->coll) : 0;

    return n > second ? n : second;
}

/* Runs an operation that has just begun. */
static void run_first(struct tt_op *op)
{
    if (!tt_op_is_over(op))
        tt_op_run(op);
    if (!tt_op_is_over(op) && op->desc.kind == TT_SEND)
        tt_any_announce(op);
}

tutti_status tt_op_start_here(struct tt_context *c, const struct tt_op_conf *conf,
                              struct tt_op **out)
{
    uint64_t work_bytes;
    struct tt_op *op;
    tutti_status st = (tutti_status)atomic_load(&c->status);

    if (st) {
        tt_context_has_refused(c);
        return tt_fail_again(st, tt_context_why(c));
    }
    if (c->nwaiting >= TT_OPS_WAITING)
        return tt_fail(TUTTI_ERR_NOMEM,
                       "too many waiting operations on a communicator: the maximum is %u",
                       TT_OPS_WAITING);
    work_bytes = conf->algo->work_bytes(&conf->coll);
    op = tt_op_get(c->engine, peers_max_of(conf), work_bytes);
    if (!op)
        return tt_fail(TUTTI_ERR_NOMEM,
                       "out of memory for an operation with %llu bytes of working memory",
                       (unsigned long long)work_bytes);
    if (conf->coll.kind == TT_BARRIER && work_bytes)
        memset(op->work, 0, work_bytes);    /* all other ranks read flags from it */
    op->context = c;
    op->conf = *conf;
    op->guarded = c->guarded;
    op->kept = false;
    op->loan = TT_LOAN_NONE;
    op->exposed = false;
    op->group = NULL;
    op->oneself = tt_op_is_self(c, conf);
    op->unmatched = op->unannounced = false;
    if (!copy_arrays(op)) {
        st = tt_fail(TUTTI_ERR_NOMEM, "out of memory for the counts of an operation");
        goto put;
    }
    if (tt_op_is_quantized(op) && !tt_op_quantized_begin(op)) {
        st = tt_fail(TUTTI_ERR_NOMEM,
                     "out of memory for the packed buffers of a quantized operation");
        goto put;
    }
    if (!tt_op_take_slot(c->engine, op)) {
        st = tt_fail(TUTTI_ERR_NOMEM, "too many running or waiting operations: the maximum is %u",
                     c->engine->ops_cap);
        goto put;
    }
    /* nothing may fail after this, since peers expect an operation with this key */
    st = tt_op_assign_key(op);
    if (st) {
        c->engine->ops[op->slot] = NULL;
        goto put;
    }
    op->desc = (struct tt_opdesc){
        .count = conf->count & TT_DESC_COUNT_MAX,
        .algo = conf->algo_id,
        .kind = (conf->parts ? conf->parts->kind : conf->coll.kind) & 31,
        .dtype = conf->dtype & 15,
        .mode = c->mode & 7,
        .root = conf->coll.root & 0xffffff,
        .redop = (uint8_t)(conf->redop | conf->quant.quant << 4 | (conf->quant.residual ? 128 : 0)),
        .divisor = conf->divisor,
    };
    op->elem_shift = (uint8_t)__builtin_ctz(conf->coll.elem_bytes);
    op->kernel = tt_reduce_kernel(conf->dtype, conf->redop, false);
    op->kernel_finish = tt_reduce_kernel(conf->dtype, conf->redop, true);
    op->second = false;
    c->engine->nunbegun += conf->parts != NULL;
    tt_op_set_why(op, NULL);
    op->deadline_ns = op->probe_ns = 0;
    op->started = ++c->engine->starts;
    atomic_store_explicit(&op->status, TUTTI_PENDING, memory_order_relaxed);
    tt_request_hold(op);
    *out = op;
    tt_op_trace_describe(op);
    if (op->p2p || (c->nactive < TT_OPS_EXPOSED && !c->waiting && may_begin(op))) {
        tt_op_trace_begin(op, true);
        op_expose(op);
        run_first(op);
        return TUTTI_OK;
    }
    tt_op_trace_begin(op, false);
    op->next = NULL;
    *c->waiting_end = op;
    c->waiting_end = &op->next;
    c->nwaiting++;
    return TUTTI_OK;

put:
    op->conf.owned = NULL;      /* belongs to the caller again */
    tt_op_recycle(c->engine, op);
    return st;
}

struct tt_op *tt_op_blank(struct tt_context *c)
{
    struct tt_op *op = tt_op_get(c->engine, 0, 0);

    if (!op)
        return NULL;
    op->context = c;
    op->conf = (struct tt_op_conf){ .owned = NULL };
    op->guarded = c->guarded;
    op->loan = TT_LOAN_NONE;
    op->kept = op->exposed = op->oneself = op->unmatched = op->unannounced = op->eager.tried =
        false;
    op->group = NULL;
    op->record = 0;
    tt_op_set_why(op, NULL);
    atomic_store_explicit(&op->status, TUTTI_PENDING, memory_order_relaxed);
    tt_request_hold(op);
    return op;
}

void tt_op_join_again(struct tt_op *op)
{
    op->started = ++op->context->engine->starts;
    if (!op->record)
        tt_op_trace_begin(op, true);
    atomic_store_explicit(&op->status, TUTTI_PENDING, memory_order_relaxed);
    for (uint32_t i = 0; i < op->exec.npeers; i++)
        op->flow[i].probe_received = false;      /* from an earlier call */
    join_active(op);
    if (atomic_load(&op->context->status))
        tt_ops_fail(op->context);
    else if (!tt_op_find_mismatch(op))
        run_first(op);
}
