/* Lists of a context's active operations and of those that each progress pass runs; memory and
 * slots of operations, which are reused. */
#include "engine/op_lists.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/op.h"
#include "engine/quantized.h"

/* ---- lists ---- */

void tt_op_join_awake(struct tt_op *op)
{
    struct tt_context *c = op->context;

    if (!op->exposed || tt_op_is_over(op))
        return;
    op->next_awake = NULL;
    op->awake_at = c->awake_end;
    *op->awake_at = op;
    c->awake_end = &op->next_awake;
}

/* Leaves next_awake set, since a list traversal may be at this element. */
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

void tt_op_leave_active(struct tt_op *op)
{
    struct tt_context *c = op->context;

    leave_awake(op);
    *op->at = op->next;
    if (op->next)
        op->next->at = op->at;
    else
        c->active_end = op->at;
}

struct tt_op *tt_op_find(struct tt_context *c, uint32_t from, uint64_t opseq, bool p2p,
                         uint8_t kind)
{
    for (struct tt_op *op = c->active; op; op = op->next)
        if (op->seq == opseq && op->p2p == p2p &&
            (!p2p || (op->desc.kind != kind && op->conf.coll.root == from && !op->unmatched)))
            return op;
    return NULL;
}

/* ---- memory and slots ---- */

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

struct tt_op *tt_op_get(struct tt_engine *e, uint32_t peers_max, uint64_t work_bytes)
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

bool tt_op_take_slot(struct tt_engine *e, struct tt_op *op)
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
