/* Memory use of the engine by purpose. */
#include "base/memory.h"

#include "engine/progress_lock.h"
#include "engine/state.h"

static uint64_t op_bytes(const struct tt_op *op)
{
    return (op->compact ? offsetof(struct tt_op, exec) + tt_exec_straight_bytes(&op->exec)
                        : sizeof *op) +
           op->peers_cap * (sizeof *op->flow + sizeof *op->exec_peers) + op->work_cap +
           op->backup_cap + 4 * op->arrays_cap * sizeof *op->arrays + op->stage_bytes;
}

uint64_t tt_op_kept_bytes(struct tt_context *c, struct tt_op *const *kept)
{
    uint64_t bytes;

    if (!tt_op_is_kept(kept))
        return 0;
    tt_progress_lock(c->engine);
    bytes = op_bytes(*kept);
    tt_progress_unlock(c->engine);
    return bytes;
}

/* Returns the memory of free operations; those in progress are not counted. */
static uint64_t free_ops_bytes(const struct tt_engine *e)
{
    uint64_t bytes = 0;

    for (const struct tt_op *op = e->free_ops; op; op = op->next)
        bytes += op_bytes(op);
    return bytes;
}

static uint64_t peers_bytes(const struct tt_engine *e)
{
    uint64_t bytes =
        tt_sparse_bytes(&e->peers) + (uint64_t)e->peer_slab.npages * TT_SLAB_PAGE_BYTES;
    const struct tt_peer *p;
    uint32_t at = 0;

    while ((p = tt_sparse_next(&e->peers, &at))) {
        bytes += p->handles ? sizeof *p->handles : 0;
        bytes += p->abandoned ? TT_HANDLES * sizeof *p->abandoned : 0;
        bytes += p->endings_cap * sizeof *p->endings;
    }
    return bytes;
}

/* Returns the memory of a block of unexpected messages. */
static uint64_t block_bytes(const struct tt_unexpected_block *block)
{
    uint64_t bytes = sizeof *block;

    for (uint32_t i = 0; i < TT_UNEXPECTED_BLOCK; i++)
        bytes += block->record[i].payload_cap;
    return bytes;
}

static uint64_t context_peers_bytes(const struct tt_context *c)
{
    uint64_t bytes = tt_sparse_bytes(&c->peers);
    const struct tt_context_peer *cp;
    uint32_t at = 0;

    while ((cp = tt_sparse_next(&c->peers, &at))) {
        bytes += sizeof *cp + cp->tags_cap * sizeof *cp->tags;
        for (const struct tt_unexpected_block *b = cp->early; b; b = b->next)
            bytes += block_bytes(b);
    }
    return bytes;
}

void tt_engine_memory(struct tt_engine *e, const struct tt_context *c, tutti_memory *m)
{
    tutti_memory_part parts[] = {
        { .purpose = "communicator: ranks, matching",
          .fixed_bytes = sizeof *c,
          .rank_bytes = c->nranks * sizeof *c->ranks },
        { .purpose = "engine",
          .shared = 1,
          .fixed_bytes = sizeof *e + e->ops_cap * sizeof(struct tt_op *) },
        { .purpose = "engine: peers", .shared = 1 },
        { .purpose = "engine: operations that are kept", .shared = 1 },
        { .purpose = "engine: landing memory", .shared = 1 },
    };

    tt_progress_lock(e);
    parts[0].fixed_bytes += c->history_cap * sizeof *c->history;
    parts[0].peer_bytes = context_peers_bytes(c);
    parts[2].peer_bytes = peers_bytes(e);
    parts[3].fixed_bytes = free_ops_bytes(e);
    for (const struct tt_unexpected_block *b = e->free_unexpected; b; b = b->next)
        parts[2].fixed_bytes += block_bytes(b);
    for (uint32_t i = 0; i < e->nwires; i++)
        parts[4].fixed_bytes += tt_bounce_pool_bytes(e->pool[i]);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        tt_memory_add(m, &parts[i]);
    for (uint32_t i = 0; i < e->nwires; i++)
        e->wire[i]->ops->memory(e->wire[i], m);
    for (const struct tt_peer *p = e->up; p; p = p->next_up)
        m->connected += p->state == TT_PEER_UP;
    tt_progress_unlock(e);
}
