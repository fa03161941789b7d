/* Descriptions of operations for error messages. */
#include "engine/describe.h"

#include <stdio.h>
#include <string.h>

#include "algo/algos.h"
#include "base/names.h"
#include "base/status.h"
#include "engine/any.h"
#include "engine/context.h"

const char *tt_rank_text(const struct tt_engine *e, uint32_t rank, char out[TT_RANK_TEXT_BYTES])
{
    if (e->members && rank < e->nranks)
        snprintf(out, TT_RANK_TEXT_BYTES, "member %llu", (unsigned long long)e->members[rank]);
    else
        snprintf(out, TT_RANK_TEXT_BYTES, "rank %u", rank);
    return out;
}

const char *tt_op_number(const struct tt_op *op, char out[TT_OP_NUMBER_BYTES])
{
    const struct tt_context *c = op->context;
    const uint64_t seq = tt_is_p2p(op->desc.kind) ? op->seq & 0xffffffff : op->seq;

    if (op->desc.mode == TT_MODE_NONE)
        snprintf(out, TT_OP_NUMBER_BYTES, "operation %llu", (unsigned long long)seq);
    else
        snprintf(out, TT_OP_NUMBER_BYTES, "operation %llu of tag %u", (unsigned long long)c->n,
                 c->tag);
    return out;
}

uint32_t tt_op_waits_for(const struct tt_op *op)
{
    uint32_t r = UINT32_MAX;

    if (op->unmatched && !op->oneself)
        r = op->conf.coll.root;
    else if (op->exposed && !op->oneself)
        r = tt_exec_waits_for(&op->exec);
    return r == UINT32_MAX ? r : op->context->ranks[r];
}

static bool has_root(uint8_t kind)
{
    return kind == TT_REDUCE || kind == TT_BROADCAST || kind == TT_GATHER || kind == TT_GATHERV ||
           kind == TT_SCATTER || kind == TT_SCATTERV;
}

static bool has_op(uint8_t kind)
{
    return kind == TT_ALLREDUCE || kind == TT_REDUCE || kind == TT_REDUCE_SCATTER ||
           kind == TT_REDUCE_SCATTERV;
}

/* Returns whether the count is a hash, which is not printed. */
static bool is_uneven(uint8_t kind)
{
    return kind == TT_REDUCE_SCATTERV || kind == TT_ALLGATHERV || kind == TT_GATHERV ||
           kind == TT_SCATTERV || kind == TT_ALLTOALLV;
}

/* Returns whether this is a dynamic exchange. Its count, divisor and redop contain declared
 * maxima (engine.h). */
static bool is_dynamic(const struct tt_opdesc *d)
{
    return d->algo < tt_nalgos && tt_algos[d->algo] == &tt_algo_alltoallv_stretches;
}

/* Returns ", mode retry", or "" outside of elastic runs. */
static const char *mode_text(const struct tt_opdesc *d)
{
    static const char *const of[TT_MODES] = { [TT_MODE_NONE] = "",
                                              [TT_MODE_ABORT] = ", mode abort",
                                              [TT_MODE_RETRY] = ", mode retry",
                                              [TT_MODE_PARTIAL] = ", mode partial",
                                              [TT_MODE_TENTATIVE] = ", tentative",
                                              [TT_MODE_OUTCOME] = ", outcome" };

    return d->mode < TT_MODES ? of[d->mode] : ", unknown mode";
}

_Static_assert(TT_DYNAMIC_TOTAL_BITS <= TT_DESC_COUNT_BITS, "a descriptor has room for it");

/* Prints a declared maximum. One that is too large for its bits is hashed, and has the top bit
 * set. */
static const char *declared_text(uint64_t value, uint32_t bits, char out[24])
{
    if (value >> (bits - 1))
        snprintf(out, 24, "2^%u or more", bits - 1);
    else
        snprintf(out, 24, "%llu", (unsigned long long)value);
    return out;
}

static void print_dynamic(const struct tt_opdesc *d, char *out, size_t cap)
{
    char length[24], total[24];

    snprintf(out, cap,
             "alltoallv_dynamic(%u piece%s, max_length %s, max_total %s, type %s, heads %s)",
             d->root, TT_PLURAL(d->root), declared_text(d->divisor, TT_DYNAMIC_LENGTH_BITS, length),
             declared_text(d->count, TT_DYNAMIC_TOTAL_BITS, total),
             tutti_dtype_name((tutti_dtype)d->dtype), d->redop ? "gathered" : "direct");
}

void tt_opdesc_print(const struct tt_opdesc *d, char *out, size_t cap)
{
    const char *name = tt_coll_name((enum tt_coll_kind)d->kind),
               *algo = d->algo < tt_nalgos ? tt_algos[d->algo]->name : "?";
    const unsigned quant = d->redop >> 4 & 7;
    char count[32] = "", op[48] = "", root[24] = "", travels[64] = "";

    if (is_dynamic(d)) {
        print_dynamic(d, out, cap);
        return;
    }
    /* the exchange that precedes the application's all-reduce */
    if (d->mode == TT_MODE_PARTIAL && d->kind == TT_ALLGATHER) {
        snprintf(out, cap, "allreduce(mode partial, contributors)");
        return;
    }
    if (d->mode == TT_MODE_OUTCOME) { /* the exchange that follows an operation */
        snprintf(out, cap, "the outcome exchange of a completed operation");
        return;
    }
    if (tt_is_p2p(d->kind) || d->kind == TT_BARRIER) {
        if (d->kind == TT_BARRIER)
            snprintf(out, cap, "barrier(%s)", d->mode ? mode_text(d) + 2 : "");
        else
            snprintf(out, cap, "%s(%llu byte%s, type %s)", name, (unsigned long long)d->count,
                     TT_PLURAL(d->count), tutti_dtype_name((tutti_dtype)d->dtype));
        return;
    }
    if (!is_uneven(d->kind))
        snprintf(count, sizeof count, "count %llu, ", (unsigned long long)d->count);
    if (has_op(d->kind))
        snprintf(op, sizeof op, ", op %s", tutti_redop_name((tutti_redop)(d->redop & 15)));
    if (d->divisor)
        snprintf(op + strlen(op), sizeof op - strlen(op), ", divisor %u", (unsigned)d->divisor);
    else if (has_op(d->kind) && (d->redop & 15) == TUTTI_AVG)
        snprintf(op + strlen(op), sizeof op - strlen(op), ", no divisor");
    if (has_root(d->kind))
        snprintf(root, sizeof root, ", root %u", d->root);
    if (quant)
        snprintf(travels, sizeof travels, ", quantized as %s%s",
                 tutti_quant_name((tutti_quant)quant),
                 d->redop & 128 ? " with error feedback" : "");
    snprintf(out, cap, "%s(%stype %s%s%s%s, algorithm %s%s)", name, count,
             tutti_dtype_name((tutti_dtype)d->dtype), op, travels, root, algo, mode_text(d));
}

const char *tt_opdesc_differ_in(const struct tt_opdesc *a, const struct tt_opdesc *b)
{
    if (a->kind != b->kind || !is_uneven(a->kind) || a->count == b->count || is_dynamic(a) ||
        is_dynamic(b))
        return "";
    return ": their arrays of counts differ";
}

/* Describes an unmatched receive. call: "recv(4 bytes, type u32)". */
static void describe_unmatched(const struct tt_op *op, const char *call, char *out, size_t cap)
{
    char name[TT_RANK_TEXT_BYTES];

    if (tt_op_is_from_any(op))
        snprintf(out, cap, "%s from any rank, tag %u: no rank has sent a message with this tag",
                 call, op->conf.tag);
    else
        snprintf(out, cap, "%s from %s, tag %u, behind a receive from any rank with this tag", call,
                 tt_rank_text(op->context->engine, op->context->ranks[op->conf.coll.root], name),
                 op->conf.tag);
}

void tt_op_describe(const struct tt_op *op, char *out, size_t cap)
{
    const struct tt_step *t = op->exposed && !op->unmatched ? tt_exec_at(&op->exec) : NULL;
    const uint32_t peer = tt_op_waits_for(op);
    char what[240], step[96] = "completion", whom[48] = "no rank", name[TT_RANK_TEXT_BYTES],
                    number[TT_OP_NUMBER_BYTES];

    tt_opdesc_print(&op->desc, what, sizeof what);
    if (op->unmatched) {
        describe_unmatched(op, what, out, cap);
        return;
    }
    if (!op->exposed) {
        snprintf(out, cap, "%s, %s, not started", what, tt_op_number(op, number));
        return;
    }
    if (t)
        snprintf(step, sizeof step, "%s of %llu byte%s, round %llu of %llu",
                 t->opcode == TT_PUT    ? "put"
                 : t->opcode == TT_WAIT ? "wait"
                                        : "local work",
                 (unsigned long long)t->bytes, TT_PLURAL(t->bytes),
                 (unsigned long long)tt_exec_round_at(&op->exec),
                 (unsigned long long)op->exec.nrounds);
    if (op->oneself)
        snprintf(whom, sizeof whom, "its own %s", op->desc.kind == TT_SEND ? "recv" : "send");
    else if (peer != UINT32_MAX)
        snprintf(whom, sizeof whom, "%s", tt_rank_text(op->context->engine, peer, name));
    snprintf(out, cap, "%s, %s, in %s, waiting for %s", what, tt_op_number(op, number), step, whom);
}

