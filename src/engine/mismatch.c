/* Error messages for calls of ranks that do not match. */
#include "engine/mismatch.h"

#include <stdio.h>
#include <string.h>

#include "engine/context_end.h"
#include "engine/describe.h"

/* Prints a rank of the context; in an elastic run, as a member. */
static const char *rank_text(const struct tt_context *c, uint32_t rank,
                             char out[TT_RANK_TEXT_BYTES])
{
    if (c->engine->members)
        return tt_rank_text(c->engine, c->ranks[rank], out);
    snprintf(out, TT_RANK_TEXT_BYTES, "rank %u", rank);
    return out;
}

/* Prints the operation's number, and "of the communicator" outside of elastic runs. */
static const char *operation_text(const struct tt_op *op, char out[TT_OP_NUMBER_BYTES])
{
    tt_op_number(op, out);
    if (op->desc.mode == TT_MODE_NONE)
        snprintf(out + strlen(out), TT_OP_NUMBER_BYTES - strlen(out), " of the communicator");
    return out;
}

void tt_context_mismatch(struct tt_context *c, uint32_t peer, const struct tt_opdesc *theirs,
                         const struct tt_opdesc *ours, const char *which, const char *more)
{
    char a[240], b[240], why[TT_ERROR_BYTES], other[TT_RANK_TEXT_BYTES], own[TT_RANK_TEXT_BYTES];

    tt_opdesc_print(theirs, a, sizeof a);
    tt_opdesc_print(ours, b, sizeof b);
    snprintf(why, sizeof why, "%s called %s where %s called %s%s (%s)%s", rank_text(c, peer, other),
             a, rank_text(c, c->rank, own), b, tt_opdesc_differ_in(theirs, ours), which, more);
    tt_context_fail_here(c, TUTTI_ERR_MISMATCH, why, true);
}

void tt_op_mismatch(struct tt_op *op, uint32_t peer, const struct tt_opdesc *theirs,
                    const char *more)
{
    char which[TT_OP_NUMBER_BYTES];

    tt_context_mismatch(op->context, peer, theirs, &op->desc, operation_text(op, which), more);
}

void tt_op_sizes_differ(struct tt_op *op, uint32_t peer, bool sends, uint64_t theirs, uint64_t ours)
{
    struct tt_context *c = op->context;
    char why[TT_ERROR_BYTES], from[TT_RANK_TEXT_BYTES], to[TT_RANK_TEXT_BYTES],
        which[TT_OP_NUMBER_BYTES];

    snprintf(why, sizeof why, "%s: %s sends %llu bytes to %s, which expects %llu (%s)",
             tt_coll_name((enum tt_coll_kind)op->desc.kind),
             rank_text(c, sends ? peer : c->rank, from),
             (unsigned long long)(sends ? theirs : ours), rank_text(c, sends ? c->rank : peer, to),
             (unsigned long long)(sends ? ours : theirs), operation_text(op, which));
    tt_context_fail_here(c, TUTTI_ERR_MISMATCH, why, true);
}

