#include "engine/self.h"

#include <string.h>

#include "engine/op_lists.h"
#include "engine/any.h"
#include "engine/context.h"
#include "engine/mismatch.h"
#include "engine/op_end.h"
#include "engine/progress_lock.h"

bool tt_op_match_self(struct tt_op *op)
{
    struct tt_context *c = op->context;
    struct tt_op *other = tt_op_find(c, c->rank, op->seq, true, op->desc.kind);
    const struct tt_op *send = op->desc.kind == TT_SEND ? op : other,
                       *recv = op->desc.kind == TT_SEND ? other : op;

    if (!other)
        return false;
    if (!tt_same_desc(&op->desc, &other->desc)) {
        tt_op_mismatch(op, c->rank, &other->desc, "");
        return true;
    }
    if (op->desc.count)
        memmove(recv->conf.dst, send->conf.src, op->desc.count);    /* overlap is allowed */
    tt_op_end(other, TUTTI_OK, "");
    tt_op_end(op, TUTTI_OK, "");
    return true;
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
