#include "elastic/mismatch.h"

#include <inttypes.h>
#include <stdio.h>
#include "base/names.h"
#include "elastic/message.h"

const char *tt_call_name(uint64_t call_kind)
{
    static const char *const names[TT_CALL_KINDS] = { [TT_CALL_EPOCH] = "epoch",
                                                      [TT_CALL_AGREE] = "agree",
                                                      [TT_CALL_COMMIT] = "commit",
                                                      [TT_CALL_OPTIMIZE] = "optimize",
                                                      [TT_CALL_SYNC] = "sync" };

    return call_kind < TT_CALL_KINDS && names[call_kind] ? names[call_kind] : "?";
}

static const char *strategy_name(uint64_t strategy)
{
    return strategy == TT_SYNC_POPULAR   ? "popular"
           : strategy == TT_SYNC_RECEIVE ? "receive"
           : strategy == TT_SYNC_SEND    ? "send"
                                         : "?";
}

/* Prints one member's value: the text after "called". */
static void put_value(char *out, size_t bytes, uint8_t differs, uint64_t value)
{
    static const char *const numbers[TT_DIFFERENCES] = { [TT_DIFFERS_LEAST] = "least",
                                                         [TT_DIFFERS_MOST] = "most",
                                                         [TT_DIFFERS_BYTES] = "bytes",
                                                         [TT_DIFFERS_GAIN] = "gain_percent" };

    if (numbers[differs])
        snprintf(out, bytes, "%s %" PRIu64, numbers[differs], value);
    else if (differs == TT_DIFFERS_CALL)
        snprintf(out, bytes, "%s", tt_call_name(value));
    else if (differs == TT_DIFFERS_FLAGS)
        snprintf(out, bytes, "flags %#" PRIx64, value);
    else if (differs == TT_DIFFERS_STRATEGY)
        snprintf(out, bytes, "strategy %s", strategy_name(value));
    else if (value == 0)
        snprintf(out, bytes, "the scope of all");
    else
        snprintf(out, bytes, "the scope of role %" PRIu64, value - 1);
}

static const char *call_of(uint8_t differs)
{
    return differs == TT_DIFFERS_BYTES || differs == TT_DIFFERS_GAIN       ? "optimize"
           : differs == TT_DIFFERS_STRATEGY || differs == TT_DIFFERS_SCOPE ? "sync"
                                                                           : "epoch";
}

/* Prints "operation 17 of tag 0, allreduce(count 7, type f32)". */
static void put_operation(char *out, size_t bytes, const struct tt_op_name *op)
{
    const char *coll = tt_collective_name((tutti_coll)op->coll),
               *type = tutti_dtype_name((tutti_dtype)op->type);

    if (op->count)
        snprintf(out, bytes, "operation %" PRIu64 " of tag %u, %s(count %" PRIu64 ", type %s)",
                 op->n, op->tag, coll, op->count, type);
    else
        snprintf(out, bytes, "operation %" PRIu64 " of tag %u, %s", op->n, op->tag, coll);
}

const char *tt_mismatch_text(char out[TT_MISMATCH_BYTES], const struct tt_mismatch *m)
{
    const uint8_t differs = m->differs & (uint8_t) ~(TT_DIFFERS_OVER | TT_DIFFERS_BACK);
    char value[40], also[40], operation[120];

    if (differs == TT_DIFFERS_OPERATIONS) {
        snprintf(out, TT_MISMATCH_BYTES,
                 "members %" PRIu64 " and %" PRIu64 " called commit after different operations",
                 m->id, m->other);
        return out;
    }
    if (differs == TT_DIFFERS_INSIDE) {
        put_operation(operation, sizeof operation, &m->op);
        snprintf(out, TT_MISMATCH_BYTES,
                 "member %" PRIu64 " called %s where member %" PRIu64 " is in %s", m->id,
                 tt_call_name(m->value), m->other, operation);
        return out;
    }
    if (differs == TT_DIFFERS_NOT || differs >= TT_DIFFERENCES) {
        snprintf(out, TT_MISMATCH_BYTES,
                 "members %" PRIu64 " and %" PRIu64 " called different operations", m->id,
                 m->other);
        return out;
    }
    put_value(value, sizeof value, differs, m->value);
    put_value(also, sizeof also, differs, m->also);
    if (differs == TT_DIFFERS_CALL)
        snprintf(out, TT_MISMATCH_BYTES,
                 "member %" PRIu64 " called %s where member %" PRIu64 " called %s", m->id, value,
                 m->other, also);
    else
        snprintf(out, TT_MISMATCH_BYTES,
                 "member %" PRIu64 " called %s with %s where member %" PRIu64 " called it with %s",
                 m->id, call_of(differs), value, m->other, also);
    return out;
}
