#include "engine/self.h"

#include <string.h>

#include "engine/any.h"
#include "engine/context.h"
#include "engine/rx_dispatch.h"
#include "engine/op.h"
#include "engine/progress.h"

bool tt_op_is_self(const struct tt_context *c, const struct tt_op_conf *conf)
{
    return tt_is_p2p((uint8_t)conf->coll.kind) && conf->coll.root == c->rank;
}

void tt_op_match_self(struct tt_op *op)
{
    struct tt_context *c = op->context;
    struct tt_op *other = tt_op_find(c, c->rank, op->seq, true, op->desc.kind);
    const struct tt_op *send = op->desc.kind == TT_SEND ? op : other,
                       *recv = op->desc.kind == TT_SEND ? other : op;

    if (!other && op->desc.kind == TT_SEND && c->nunmatched)
        /* which calls this function again */
        tt_any_match(c, op->conf.tag, tt_sparse_get(&c->peers, c->ranks[c->rank]));
    if (!other)
        return;
    if (!tt_same_desc(&op->desc, &other->desc)) {
        tt_op_mismatch(op, c->rank, &other->desc);
        return;
    }
    if (op->desc.count)
        memmove(recv->conf.dst, send->conf.src, op->desc.count);    /* overlap is allowed */
    tt_op_end(other, TUTTI_OK, "");
    tt_op_end(op, TUTTI_OK, "");
}

bool tt_op_would_match_self(struct tt_context *c, enum tt_coll_kind kind, uint32_t tag)
{
    const struct tt_context_peer *cp;
    bool would = false;

    tt_progress_lock(c->engine);
    cp = tt_sparse_get(&c->peers, c->ranks[c->rank]);
    if (cp) {
        const struct tt_tag_counter *mine = tt_context_counter_find(cp, tag, kind == TT_RECV),
                                    *others = tt_context_counter_find(cp, tag, kind != TT_RECV);

        would = others && (int32_t)(others->next - (mine ? mine->next : 0)) > 0;
    }
    would |= kind == TT_SEND && tt_any_awaits(c, tag);
    tt_progress_unlock(c->engine);
    return would;
}
