/* Operations in which members may withhold their input (TUTTI_PARTIAL). First, the members of the
 * scope announce by an all-gather whether they contribute. Thus the number of contributors is known
 * before any member completes the operation: an outcome after a loss can include it, and an average
 * can divide by it. A member that withholds contributes zeros. */
#include <stdlib.h>

#include "session/run.h"

tutti_status tt_partial_exchange(struct tt_operation *o, tutti_request **request)
{
    const tutti_call call = { .size = sizeof call,
                              .timeout_ms = tt_operation_left_ms(o),
                              .request = request };
    struct tt_tag *t = o->kept;

    if (o->nscope > t->parts_cap) {
        free(t->parts);
        t->parts = malloc(o->nscope);
        t->parts_cap = t->parts ? o->nscope : 0;
        if (!t->parts)
            return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the contributions of %u members",
                           o->nscope);
    }
    o->part = !o->op->withholds;
    return tutti_allgather(&o->part, t->parts, sizeof o->part, TUTTI_U8, o->scope, &call);
}

void tt_partial_apply(struct tt_operation *o)
{
    o->seen_ns = tt_now_ns();
    o->contributors = 0;
    for (uint32_t rank = 0; rank < o->nscope; rank++)
        o->contributors += o->kept->parts[rank] != 0;
    if (o->op->op == TUTTI_AVG && !o->op->divisor && o->contributors > 0 &&
        o->contributors < o->nscope)
        o->call.divisor = o->contributors;
}
