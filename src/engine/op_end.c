/* End of operations: completion, failure, and release of their resources. */
#include "engine/op_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/context_end.h"
#include "engine/describe.h"
#include "engine/exec_actions.h"
#include "engine/input_backup.h"
#include "engine/op_lists.h"
#include "engine/profile.h"
#include "engine/progress_lock.h"
#include "engine/quantized.h"
#include "engine/requests.h"
#include "engine/wait_report.h"

/* Most communicators of a large program run few collectives. */
#define HISTORY_FIRST 2u
_Static_assert(!(TT_HISTORY & (TT_HISTORY - 1)), "the index is a mask");

void tt_op_release_resources(struct tt_op *op, bool failed)
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

void tt_context_grow_history(struct tt_context *c, uint64_t seq)
{
    const uint32_t cap = seq < HISTORY_FIRST ? HISTORY_FIRST : TT_HISTORY;
    struct tt_history *more;

    if (cap <= c->history_cap)
        return;
    more = calloc(cap, sizeof *more);
    if (!more)
        return;
    for (uint32_t i = 0; i < c->history_cap; i++)
        if (c->history[i].used)
            more[c->history[i].opseq & (cap - 1)] = c->history[i];
    free(c->history);
    c->history = more;
    c->history_cap = cap;
}

void tt_op_end_probes(struct tt_op *op)
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
 * point. Therefore the pages are made private to this process. The region is never offered to peers
 * again. */
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

void tt_op_end(struct tt_op *op, tutti_status status, const char *why)
{
    struct tt_context *c = op->context;

    if (op->exposed) {
        tt_op_leave_active(op);
        c->engine->nexposed--;
        c->nactive -= !op->p2p;
        c->nunmatched -= op->unmatched;
        op->unmatched = false;
        tt_op_end_probes(op);
        tt_profile_end(op);
        if (!status)
            tt_profile_trace_stages(op);
        tt_copy_trial_end(&op->copies, !status);
        if (status) {
            withdraw_target(op);
            tt_op_take_back_puts(op);
        }
        if (!op->kept)
            tt_op_release_resources(op, status != TUTTI_OK);
        if (status)
            tt_op_restore_input(op);          /* no peer reads the buffer any more */
    }
    if (!op->kept)
        c->engine->ops[op->slot] = NULL;
    tt_oplog_end(op->record, status);
    tt_op_record_history(op);
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

/* Ends an operation of a failed context. After a timeout or loss, the operation of this rank is
 * added to the message, unless it is already there. */
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
