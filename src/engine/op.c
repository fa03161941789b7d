/* Life cycle of operations, from the call to its end. */
#include "engine/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/any.h"
#include "engine/context.h"
#include "engine/rx_dispatch.h"
#include "engine/context_teardown.h"
#include "engine/group.h"
#include "engine/row_check.h"
#include "engine/self.h"
#include "engine/exec_actions.h"
#include "engine/progress.h"
#include "engine/quantized.h"
#include "engine/requests.h"
#include "engine/nontemporal.h"
#include "engine/op_trace.h"
#include "engine/profile.h"
#include "engine/failure.h"

#define PASSES_HELD 400         /* about 20 us, the time of a few segments */
#define NO_HOLD_ACTIONS 64
/* one of this many consecutive direct calls runs a full progress pass */
#define FULL_PASS_EVERY 16

/* ---- life cycle ------------------------------------------------------------------------------ */

/* Copies the input that an in-place call overwrites to its backup, or back. For an alltoallv
 * only the rows: the gaps between them do not belong to the call. */
static void copy_input(const struct tt_op *op, bool back)
{
    const struct tt_coll *c = &op->conf.coll;
    const bool rows = c->kind == TT_ALLTOALLV;
    uint8_t *kept = op->backup, *at;
    uint64_t bytes;

    for (uint32_t r = 0; r < (rows ? c->nranks : 1); r++, kept += bytes) {
        bytes = rows ? c->recv_bytes[r] : op->backup_bytes;
        at = (uint8_t *)op->backup_of + (rows ? c->recv_displs[r] : 0);
        tt_copy(back ? at : kept, NULL, back ? kept : at, bytes, false);
    }
}

static void restore_input(struct tt_op *op)
{
    if (op->backup_bytes)
        copy_input(op, true);
    op->backup_bytes = 0;
}

/* Releases the operation's resources. After a failure, memory that peers may still write to
 * stays reserved until they confirm that they post no more puts. */
static void release_resources(struct tt_op *op, bool failed)
{
    struct tt_engine *e = op->context->engine;

    tt_op_drop_regions(op, !failed);
    for (uint32_t i = 0; i < op->exec.npeers; i++) {
        struct tt_flow *f = &op->flow[i];

        if (f->cp && f->in_handle >= 0)
            f->cp->opened -= op->p2p;
        if (f->cp && f->in_handle >= 0 && failed && op->exec_peers[i].opened)
            tt_flow_abandon(op->context, f);
        else if (f->cp && f->in_handle >= 0)
            tt_flow_free(e, f->cp->peer, f->in_handle, &f->landing);
        f->cp = NULL;           /* tt_op_flow initializes it again */
    }
}

static void end_probes(struct tt_op *op)
{
    for (uint32_t i = 0; i < op->exec.npeers; i++)
        if (op->flow[i].cp && op->flow[i].probe_sent) {
            op->flow[i].cp->probes--;
            op->flow[i].probe_sent = false;
        }
}

/* Returns the region, mapped by peers, in which this operation receives, or NULL. */
static struct tt_region *mapped_target(const struct tt_op *op)
{
    for (uint32_t i = 0; i < op->exec.npeers; i++) {
        const struct tt_flow *f = &op->flow[i];

        if (f->cp && f->direct && !tt_op_is_registered(op, f->direct) &&
            f->cp->peer->state != TT_PEER_LEFT)
            return f->direct;
    }
    return NULL;
}

static bool share_a_page(const struct tt_op *a, const struct tt_op *b)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)a->conf.dst, second = (uintptr_t)b->conf.dst;

    return first / page <= (second + tt_coll_dst_bytes(&b->conf.coll) - 1) / page &&
           second / page <= (first + tt_coll_dst_bytes(&a->conf.coll) - 1) / page;
}

/* Fails the operations of other communicators that receive into the same pages, because data
 * from their peers no longer arrives there. */
static void fail_neighbours(const struct tt_op *op, const struct tt_region *r)
{
    for (struct tt_context *c = op->context->engine->contexts; c; c = c->next)
        for (const struct tt_op *other = c->active; c != op->context && other; other = other->next)
            if (mapped_target(other) == r && share_a_page(op, other)) {
                tt_context_fail_here(c, TUTTI_ERR_ABORTED,
                                     "an operation of another communicator, which receives "
                                     "into the same memory page, failed",
                                     true);
                break;
            }
}

/* Prevents writes into the caller's buffer after a failure. Wires drop late arrivals for
 * deregistered regions. A peer may store directly into mapped memory, and may be stopped at any
 * point. Against that, the pages are made private to this process. The region is never offered
 * to peers again. */
static void withdraw_target(struct tt_op *op)
{
    struct tt_region *r = mapped_target(op);

    if (!r)
        return;
    if (r->wire->ops->withdraw(r, (uint64_t)((uint8_t *)op->conf.dst - (uint8_t *)r->mem),
                               tt_coll_dst_bytes(&op->conf.coll)))
        tt_log(TT_LOG_WARN,
               "a late write of a peer may still reach the buffer of a failed operation");
    r->key.bytes = 0;
    fail_neighbours(op, r);
}

void tt_op_wake(struct tt_op *op)
{
    struct tt_context *c = op->context;

    if (op->awake_at || !op->exposed || tt_op_is_over(op))
        return;
    op->next_awake = NULL;
    op->awake_at = c->awake_end;
    *op->awake_at = op;
    c->awake_end = &op->next_awake;
}

/* Keeps next_awake, since a list traversal may be at this element. */
static void leave_awake(struct tt_op *op)
{
    if (!op->awake_at)
        return;
    *op->awake_at = op->next_awake;
    if (op->next_awake)
        op->next_awake->awake_at = op->awake_at;
    else
        op->context->awake_end = op->awake_at;
    op->awake_at = NULL;
}

/* Returns whether flow words may change without a message. */
static bool has_open_flow(const struct tt_op *op)
{
    for (uint32_t i = 0; i < op->exec.npeers; i++)
        if (op->flow[i].cp && (op->flow[i].ready || op->flow[i].in_handle >= 0))
            return true;
    return false;
}

/* Removes only sends and receives from the awake list: there may be thousands of them, but few
 * collectives. */
void tt_op_sleep(struct tt_op *op)
{
    if (op->p2p && !op->retry && !op->exec.progress && !op->exec.credit_due && !op->in_flight &&
        !has_open_flow(op))
        leave_awake(op);
}

static void leave_active(struct tt_op *op)
{
    struct tt_context *c = op->context;

    leave_awake(op);
    *op->at = op->next;
    if (op->next)
        op->next->at = op->at;
    else
        c->active_end = op->at;
}

/* Records a completed collective, for later detection of a mismatch. */
static void record_history(const struct tt_op *op)
{
    if (!op->p2p)
        op->context->history[op->seq % TT_HISTORY] =
            (struct tt_history){ .opseq = op->seq, .desc = op->desc, .used = true };
}

/* Ends an exposed or waiting operation. Its memory is kept until the application frees the
 * request. */
void tt_op_end(struct tt_op *op, tutti_status status, const char *why)
{
    struct tt_context *c = op->context;

    if (op->exposed) {
        leave_active(op);
        c->engine->nexposed--;
        c->nactive -= !op->p2p;
        c->nunmatched -= op->unmatched;
        op->unmatched = false;
        end_probes(op);
        tt_profile_end(op);
        tt_op_copy_method_end(op, !status);
        if (status) {
            withdraw_target(op);
            tt_op_take_back_puts(op);
        }
        if (!op->kept)
            release_resources(op, status != TUTTI_OK);
        if (status)
            restore_input(op);          /* from here on no peer reads the buffer */
    }
    if (!op->kept)
        c->engine->ops[op->slot] = NULL;
    tt_oplog_end(op->record, status);
    record_history(op);
    if (op->conf.parts) {
        c->engine->nunbegun -= !op->exposed;
        op->conf.parts->end(op->conf.parts_arg, status);
    }
    if (status)
        tt_op_set_why(op, why);
    else if (tt_op_is_quantized(op))
        tt_op_quantized_end(op);
    if (!status)
        tt_op_has_succeeded(op);
    if (!status && op->conf.source)
        *op->conf.source = (int)op->conf.coll.root;
    tt_request_complete(op, status);
    if (op->group)
        tt_group_member_over(op);
    tt_engine_wake(c->engine);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Called when the executor held back an action because a peer has no room. If the peer is
 * running, waiting costs less than reading again data that was just written with non-temporal
 * stores. After PASSES_HELD passes the peer is assumed not to run, and nothing is held back for
 * the next NO_HOLD_ACTIONS. Returns whether to call the executor again at once. */
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

/* Returns the bytes that an action moves in memory, not through a network. Data that was written
 * directly into the peer's slot was counted then. */
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

/* Returns whether delayed puts must be posted before this action, because it takes long and the
 * NIC would be idle meanwhile. Within one host these processors perform the puts themselves, now
 * or later. Deferred actions always follow the puts. */
static bool delays_puts(const struct tt_op *op, const struct tt_action *a)
{
    const struct tt_engine *e = op->context->engine;

    return a->idle ||
           ((a->kind == TT_ACT_COPY || a->kind == TT_ACT_REDUCE) && e->local_ranks < e->nranks);
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
            return true;        /* not idle: this ends without an event */
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

    op->stream_dst = tt_nontemporal_pays(&op->conf.coll, op->context->engine->stream_least);
    op->in_flight = 0;
    tt_op_write_lengths(op);
    tt_exec_init(&op->exec, &conf, op->exec_peers, op->peers_max);
}

/* The first part is over: starts the second, or ends the operation. */
static void begin_second_part(struct tt_op *op)
{
    tutti_status st;

    end_probes(op);
    release_resources(op, false);
    st = op->conf.parts->then(op->conf.parts_arg, &op->conf);
    if (st == TUTTI_PENDING) {
        record_history(op);
        op->second = true;
        op->seq++;
        tt_op_copy_method_end(op, false);
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
    /* arrivals first; unpack final data while there are none */
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

static bool take_slot(struct tt_engine *e, struct tt_op *op)
{
    for (uint32_t n = 0; n < e->ops_cap; n++) {
        const uint32_t i = e->next_slot++ % e->ops_cap;

        if (e->ops[i])
            continue;
        e->ops[i] = op;
        op->slot = (uint16_t)i;
        op->generation = ++e->ops_generation;
        return true;
    }
    return false;
}

/* Copies the input that this call will overwrite. */
static void back_up(struct tt_op *op)
{
    const struct tt_coll *c = &op->conf.coll;

    op->backup_bytes = 0;
    if (!op->conf.restore)
        return;
    op->backup_of = op->conf.dst;
    switch (c->kind) {
    case TT_ALLREDUCE:
        op->backup_bytes = c->bytes;
        break;
    case TT_REDUCE:
        op->backup_bytes = c->rank == c->root ? c->bytes : 0;
        break;
    case TT_REDUCE_SCATTER:
        op->backup_bytes = c->bytes;
        break;
    case TT_REDUCE_SCATTERV:
        op->backup_bytes = c->send_bytes[c->rank];
        break;
    case TT_ALLTOALL:
        op->backup_bytes = c->bytes * c->nranks;
        break;
    case TT_ALLTOALLV:
        for (uint32_t r = 0; r < c->nranks; r++)
            op->backup_bytes += c->recv_bytes[r];
        break;
    default:
        break; /* the others do not overwrite their input */
    }
    if (op->backup_bytes > op->backup_cap) {
        free(op->backup);
        op->backup = malloc(op->backup_bytes);
        op->backup_cap = op->backup ? op->backup_bytes : 0;
        if (!op->backup) {
            tt_log(
                TT_LOG_WARN,
                "out of memory for a copy of in-place input (%llu bytes): the input will not be restored after a failure",
                (unsigned long long)op->backup_bytes);
            op->backup_bytes = 0;
        }
    }
    if (op->backup_bytes)
        copy_input(op, false);
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

/* Starts the executor. The operation may end at once. */
static void op_begin(struct tt_op *op)
{
    start_executor(op);
    tt_profile_begin(op);
    if (op->oneself)
        tt_op_match_self(op);
    else
        tt_op_find_mismatch(op);
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
    tt_any_match(op->context, op->conf.tag, NULL);
}

/* Exposes an operation after all older ones. */
static void op_expose(struct tt_op *op)
{
    if (op->conf.parts) {
        op->context->engine->nunbegun--;
        op->conf.parts->begin(op->conf.parts_arg, &op->conf);
    }
    back_up(op);
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

/* Ends an operation of a failed context. After a timeout or loss, the message also states the
 * operation of this rank, unless it already does. */
static void end_failed(struct tt_op *op, tutti_status st)
{
    const struct tt_context *c = op->context;
    char why[TT_ERROR_BYTES], what[512], said[600], own[TT_RANK_TEXT_BYTES];

    tt_op_has_failed(op, st);
    if (st != TUTTI_ERR_TIMEOUT && st != TUTTI_ERR_PEER_LOST) {
        tt_op_end(op, st, tt_context_why(c));
        return;
    }
    tt_op_describe(op, what, sizeof what);
    tt_rank_text(c->engine, c->engine->rank, own);
    snprintf(said, sizeof said, "%s reached its deadline in %s", own, what);
    if (strstr(tt_context_why(c), said))
        snprintf(why, sizeof why, "%s", tt_context_why(c));
    else
        snprintf(why, sizeof why, "%.*s; %s was in %s", TT_ERROR_BYTES - 560, tt_context_why(c),
                 own, what);
    tt_op_end(op, st, why);
}

void tt_ops_fail(struct tt_context *c)
{
    const tutti_status st = (tutti_status)atomic_load(&c->status);

    while (c->active)
        end_failed(c->active, st);
    while (c->waiting) {
        struct tt_op *op = c->waiting;

        c->waiting = op->next;
        c->nwaiting--;
        end_failed(op, st);
    }
    c->waiting_end = &c->waiting;
}

void tt_op_discard(struct tt_op *op)
{
    if (op->stage)
        munmap(op->stage, op->stage_bytes);
    free(op->backup);
    tt_op_quantized_free(op);
    free(op->work);
    free(op->arrays);
    free(op->flow);
    free(op->exec_peers);
    free(op->why);
    free(op);
}

void tt_op_set_why(struct tt_op *op, const char *why)
{
    free(op->why);
    op->why = why ? strdup(why) : NULL;
}

void tt_op_recycle(struct tt_engine *e, struct tt_op *op)
{
    if (op->compact) {
        tt_op_discard(op);
        return;
    }
    op->next = e->free_ops;
    e->free_ops = op;
}

void tt_ops_free_all(struct tt_engine *e)
{
    while (e->free_ops) {
        struct tt_op *op = e->free_ops;

        e->free_ops = op->next;
        tt_op_discard(op);
    }
}

/* Returns an operation with room for its peers and work memory. Reuses a freed one if possible. */
static struct tt_op *get_op(struct tt_engine *e, uint32_t peers_max, uint64_t work_bytes)
{
    struct tt_op *op = e->free_ops;

    if (op)
        e->free_ops = op->next;
    else
        op = calloc(1, sizeof *op);
    if (!op)
        return NULL;
    if (peers_max > op->peers_cap) {
        free(op->flow);
        free(op->exec_peers);
        op->flow = calloc(peers_max, sizeof *op->flow);
        op->exec_peers = calloc(peers_max, sizeof *op->exec_peers);
        op->peers_cap = op->flow && op->exec_peers ? peers_max : 0;
        if (!op->peers_cap)
            goto put;
    }
    op->peers_max = peers_max;
    if (work_bytes > op->work_cap) {
        free(op->work);
        op->work = malloc(work_bytes);
        op->work_cap = op->work ? work_bytes : 0;
        if (!op->work)
            goto put;
    }
    return op;

put:
    tt_op_recycle(e, op);
    return NULL;
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

static tutti_status assign_key(struct tt_op *op)
{
    struct tt_context *c = op->context;

    op->p2p = tt_is_p2p((uint8_t)op->conf.coll.kind);
    if (!op->p2p) {
        op->seq = c->next_seq;
        c->next_seq += op->conf.parts ? 2 : 1;
        return TUTTI_OK;
    }
    op->unmatched = tt_any_defers(c, &op->conf);
    if (!op->unmatched)
        return assign_tag_key(op);
    op->seq = 0;
    return op->conf.coll.root == TT_ROOT_ANY ? tt_any_begin(c) : TUTTI_OK;
}

void tt_op_matched(struct tt_op *op, uint32_t from)
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
    op = get_op(c->engine, peers_max_of(conf), work_bytes);
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
    if (!take_slot(c->engine, op)) {
        st = tt_fail(TUTTI_ERR_NOMEM, "too many running or waiting operations: the maximum is %u",
                     c->engine->ops_cap);
        goto put;
    }
    /* nothing may fail after this, since peers expect an operation with this key */
    st = assign_key(op);
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
    struct tt_op *op = get_op(c->engine, 0, 0);

    if (!op)
        return NULL;
    op->context = c;
    op->conf = (struct tt_op_conf){ .owned = NULL };
    op->guarded = c->guarded;
    op->loan = TT_LOAN_NONE;
    op->kept = op->exposed = op->oneself = op->unmatched = op->unannounced = op->chooses_stores =
        false;
    op->group = NULL;
    op->record = 0;
    tt_op_set_why(op, NULL);
    atomic_store_explicit(&op->status, TUTTI_PENDING, memory_order_relaxed);
    tt_request_hold(op);
    return op;
}

/* Prepares a kept operation for the next call. Returns false, without effect, if that is not
 * possible. */
static bool reuse_kept(struct tt_op *op, const void *src, void *dst, uint32_t tag,
                       int64_t timeout_ms)
{
    op->conf.tag = tag;
    if (assign_key(op))
        return false;
    op->record = 0;
    op->desc.mode = op->context->mode;
    op->conf.src = src;
    op->conf.dst = dst;
    op->conf.timeout_ms = timeout_ms;
    op->deadline_ns = op->probe_ns = 0;
    op->now = NULL;
    back_up(op);
    tt_exec_restart(&op->exec);
    if (op->chooses_stores)
        tt_op_stores_begin(op);
    return true;
}

/* Adds a kept operation to the active ones, if it could not complete at once. The application
 * already holds it. */
static void join_after_reuse(struct tt_op *op)
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

/* Returns whether nothing but this call needs progress. Returns false at intervals in any case,
 * so that a full pass runs. */
static bool is_only_work(const struct tt_context *c)
{
    struct tt_engine *e = c->engine;

    return !e->nexposed && !e->credit_due && ++e->ndirect % FULL_PASS_EVERY &&
           atomic_load_explicit(&e->ntrouble, memory_order_relaxed) == e->trouble_seen;
}

/* Returns whether all unexpected messages for this call are eager messages of a matching call. */
static bool only_matching_eager(const struct tt_op *op)
{
    const struct tt_context *c = op->context;

    if (!c->nunexpected || op->p2p)
        return !c->nunexpected;
    for (const struct tt_peer *p = c->engine->up; p; p = p->next_up) {
        const struct tt_context_peer *cp = tt_sparse_get(&c->peers, p->rank);

        for (uint64_t left = cp ? cp->kept : 0; left; left &= left - 1) {
            const struct tt_unexpected *m = tt_unexpected_at(cp, (uint32_t)__builtin_ctzll(left));

            if (m->opseq == op->seq && !tt_is_p2p(m->desc.kind) &&
                (m->type != TT_CELL_EAGER || !tt_same_desc(&m->desc, &op->desc)))
                return false;
        }
    }
    return true;
}

void tt_op_choose_nontemporal(struct tt_op *op)
{
    if (op->kept && !take_slot(op->context->engine, op)) {
        tt_context_fail_here(op->context, TUTTI_ERR_NOMEM,
                             "cannot stream a message: too many operations are in progress", true);
        return;
    }
    op->kept = op->chooses_stores = false;
    tt_exec_stream(&op->exec);
    op->retry = true;
    tt_op_wake(op);
}

/* Frees a kept operation. */
static void drop_kept(struct tt_op *op)
{
    struct tt_engine *e = op->context->engine;

    for (uint32_t i = 0; i < op->exec.npeers; i++)
        op->flow[i].cp = NULL;
    op->kept = false;
    op->loan = TT_LOAN_NONE;
    tt_op_recycle(e, op);
}

void tt_op_drop_lapsed(struct tt_op **kept)
{
    if (*kept && (*kept)->loan == TT_LOAN_LAPSED) {
        drop_kept(*kept);
        *kept = NULL;
    }
}

/* Copies the memory that the next calls of a completed straight operation read. */
static bool copy_reused(struct tt_op *copy, const struct tt_op *op)
{
    const uint32_t n = op->exec.npeers ? op->exec.npeers : 1;
    const uint64_t work_bytes = op->conf.algo->work_bytes(&op->conf.coll);

    copy->flow = malloc(n * sizeof *copy->flow);
    copy->exec_peers = malloc(n * sizeof *copy->exec_peers);
    copy->work = work_bytes ? malloc(work_bytes) : NULL;
    copy->work_cap = work_bytes;
    if (!copy->flow || !copy->exec_peers || (work_bytes && !copy->work))
        return false;
    if (op->exec.npeers) {
        memcpy(copy->flow, op->flow, op->exec.npeers * sizeof *copy->flow);
        memcpy(copy->exec_peers, op->exec_peers, op->exec.npeers * sizeof *copy->exec_peers);
    }
    if (work_bytes)
        memcpy(copy->work, op->work, work_bytes);
    copy->peers_cap = copy->peers_max = copy->exec.peers_max = op->exec.npeers;
    copy->exec.peer = copy->exec_peers;
    copy->exec.conf.coll = &copy->conf.coll;
    return true;
}

/* Returns a copy of a completed straight operation, which is in no list, that takes a fifth of its
 * memory. Many communicators may keep operations, e.g. those of a mesh of process groups. NULL: out
 * of memory. */
static struct tt_op *compact_op(const struct tt_op *op)
{
    const size_t bytes = offsetof(struct tt_op, exec) + tt_exec_straight_bytes(&op->exec);
    struct tt_op *copy = malloc(bytes);

    if (!copy)
        return NULL;
    memcpy(copy, op, bytes);
    copy->compact = true;
    copy->stage = copy->backup = NULL;
    copy->stage_bytes = copy->backup_cap = 0;
    copy->arrays = NULL;
    copy->arrays_cap = 0;
    copy->rooms = NULL;
    copy->why = NULL;
    if (copy_reused(copy, op))
        return copy;
    tt_op_discard(copy);
    return NULL;
}

/* Keeps a completed operation, which is in no list, for the next call. *kept becomes the operation,
 * or a copy of it. A send or receive may use streams later, for which a copy is too short. */
static void keep(struct tt_op *op, struct tt_op **kept)
{
    struct tt_op *copy;

    op->kept = true;
    tt_op_stores_settle(op);
    copy = op->p2p ? NULL : compact_op(op);
    *kept = copy ? copy : op;
    if (copy)
        drop_kept(op);
}

void tt_op_keep_or_free(struct tt_op *op, struct tt_op **kept, tutti_status st)
{
    if (kept && *kept == op && !op->kept)
        *kept = NULL;           /* it used streams instead */
    if (op->kept || (kept && !*kept && !st && op->exec.straight && !op->conf.owned)) {
        tt_request_release(op);
        if (!op->kept)
            keep(op, kept);
        else if (op->chooses_stores && !st)
            tt_op_stores_record(op);
        return;
    }
    tt_op_free_here(op);
}

/* Waits for an operation that was started under the progress lock, and releases the lock. */
static tutti_status op_finish(struct tt_op *op, struct tt_op **kept)
{
    struct tt_engine *e = op->context->engine;
    tutti_status st;

    if (tt_op_is_over(op))
        tt_engine_progress(e);  /* for other operations, which would starve if calls never waited */
    atomic_store_explicit(&op->waited, TT_OP_BLOCKING, memory_order_relaxed);
    if (!tt_engine_work(e, tt_request_is_over, op)) {
        tt_progress_unlock(e);
        tt_engine_wait(e, tt_request_is_over, op);
        tt_progress_lock(e);
    }
    atomic_store_explicit(&op->waited, TT_OP_UNWAITED, memory_order_relaxed);
    st = tt_op_status(op);
    tt_op_keep_or_free(op, kept, st);
    tt_progress_unlock(e);
    if (st && !e->members)
        tt_dump_await();        /* the caller may end the process now */
    return st;
}

tutti_status tt_op_blocking(struct tt_context *c, const struct tt_op_conf *conf)
{
    struct tt_op *op;
    tutti_status st;

    tt_progress_lock(c->engine);
    st = tt_op_start_here(c, conf, &op);
    if (!st)
        return op_finish(op, conf->kept);
    free(conf->owned);
    tt_progress_unlock(c->engine);
    return st;
}

/* Returns whether the kept operation can be the next one of its communicator now. */
static bool may_begin_again(const struct tt_op *op)
{
    const struct tt_context *c = op->context;

    return op->loan == TT_LOAN_NONE && !atomic_load_explicit(&c->status, memory_order_relaxed) &&
           (op->p2p ? op->desc.kind == TT_SEND || !c->nunmatched
                    : c->nactive < TT_OPS_EXPOSED && !c->waiting);
}

/* Runs a kept operation that was started again, if it can complete without a long wait. only_work:
 * the communicator has no other operation. */
static bool run_again_at_once(struct tt_op *op, bool only_work)
{
    if (!only_work || !only_matching_eager(op) || !tt_op_run_unexposed(op))
        return false;
    if (!op->record)
        tt_op_trace_begin(op, true);
    tt_oplog_end_at(op->record, op->called_tick, op->last_tick, TUTTI_OK);
    record_history(op);
    if (op->chooses_stores)
        tt_op_stores_record(op);
    return true;
}

/* Returns the configuration of a call like the kept operation, which is in use or not reusable. The
 * new operation may be kept in its place. */
static struct tt_op_conf conf_again(struct tt_op **kept, const void *src, void *dst, uint32_t tag,
                                    int64_t timeout_ms)
{
    struct tt_op_conf conf = (*kept)->conf;

    tt_op_drop_lapsed(kept);
    conf.src = src;
    conf.dst = dst;
    conf.tag = tag;
    conf.timeout_ms = timeout_ms;
    conf.kept = kept;
    return conf;
}

bool tt_op_begin_again(struct tt_op *op, const void *src, void *dst, uint32_t tag,
                       int64_t timeout_ms, enum tt_loan loan, bool *done)
{
    struct tt_engine *e = op->context->engine;
    const uint32_t ndirect = e->ndirect;
    bool only_work;

    if (!may_begin_again(op))
        return false;
    only_work = is_only_work(op->context);
    if (!reuse_kept(op, src, dst, tag, timeout_ms))
        return false;
    op->loan = loan;
    if (loan == TT_LOAN_OUT)
        tt_request_hold(op);
    *done = run_again_at_once(op, only_work);
    if (*done)
        return true;
    e->failed_ndirect += e->ndirect - ndirect;      /* this call has not succeeded */
    if (loan != TT_LOAN_OUT)
        tt_request_hold(op);
    join_after_reuse(op);
    return true;
}

tutti_status tt_op_again(struct tt_op **kept, const void *src, void *dst, uint32_t tag,
                         int64_t timeout_ms)
{
    struct tt_op *op = *kept;
    struct tt_context *c = op->context;
    struct tt_op_conf conf;
    bool done;

    tt_progress_lock(c->engine);
    if (tt_op_begin_again(op, src, dst, tag, timeout_ms, TT_LOAN_NONE, &done)) {
        if (!done)
            return op_finish(op, kept);
        tt_progress_unlock(c->engine);
        return TUTTI_OK;
    }
    conf = conf_again(kept, src, dst, tag, timeout_ms);
    tt_progress_unlock(c->engine);
    return tt_op_blocking(c, &conf);
}

tutti_status tt_op_start_again(struct tt_op **kept, const void *src, void *dst, int64_t timeout_ms,
                               struct tt_op **out)
{
    struct tt_op *op = *kept;
    struct tt_context *c = op->context;
    struct tt_op_conf conf;
    bool done;

    tt_progress_lock(c->engine);
    if (tt_op_begin_again(op, src, dst, 0, timeout_ms, TT_LOAN_OUT, &done)) {
        *out = op;
        tt_progress_unlock(c->engine);
        return TUTTI_OK;
    }
    conf = conf_again(kept, src, dst, 0, timeout_ms);
    tt_progress_unlock(c->engine);
    return tt_op_start(c, &conf, out);
}

bool tt_op_give_back(struct tt_op *op)
{
    const bool succeeded = atomic_load_explicit(&op->status, memory_order_relaxed) == TUTTI_OK;

    if (op->loan != TT_LOAN_OUT) {
        for (uint32_t i = 0; i < op->exec.npeers && op->kept; i++)
            op->flow[i].cp = NULL;      /* dropped meanwhile */
        op->kept = false;
        return false;
    }
    op->loan = op->kept ? TT_LOAN_NONE : TT_LOAN_LAPSED;
    if (!op->kept && succeeded && op->exec.straight && !op->conf.owned) {
        op->loan = TT_LOAN_NONE;
        keep(op, op->conf.kept);
    }
    return true;
}

void tt_op_drop(struct tt_op *op)
{
    struct tt_engine *e;

    if (!op)
        return;
    e = op->context->engine;
    tt_progress_lock(e);
    if (op->loan == TT_LOAN_OUT)
        op->loan = TT_LOAN_NONE;
    else
        drop_kept(op);
    tt_progress_unlock(e);
}

tutti_status tt_op_start(struct tt_context *c, const struct tt_op_conf *conf, struct tt_op **out)
{
    tutti_status st;

    tt_progress_lock(c->engine);
    st = tt_op_start_here(c, conf, out);
    if (st) {
        free(conf->owned);
    } else if (conf->kept && !*conf->kept) {
        (*out)->loan = TT_LOAN_OUT;
        *conf->kept = *out;
    }
    tt_progress_unlock(c->engine);
    return st;
}
