/* Operations in which some may withhold their part (TUTTI_PARTIAL). Before the data goes, the members of the scope tell each other by an all-gather whether they
 * contribute. So each knows the number before it can be COMPLETE: a verdict that the coordinator tells after a loss finds it there, and what
 * an average is divided by is known where its last sum is made. Who withholds adds zeros. */
#include <inttypes.h>

#include "session/run.h"

/* u32 whether it contributes, u64 by what it would have an average divided; 0: by the number. */
static void write_part(const tutti_elastic *op, uint8_t out[TT_PART_BYTES])
{
    struct tt_writer w;

    tt_writer_init(&w, out, TT_PART_BYTES);
    tt_write_u32(&w, !op->withholds);
    tt_write_u64(&w, op->divisor);
    tt_assert(!w.bad && tt_writer_bytes(&w) == TT_PART_BYTES);
}

tutti_status tt_partial_ask(struct tt_operation *o, tutti_request **request)
{
    const tutti_call call = { .size = sizeof call, .timeout_ms = tt_operation_left_ms(o), .request = request };
    const tutti_status st = tt_operation_room(o, TT_PART_BYTES);

    if (st)
        return st;
    write_part(o->op, o->part);
    return tutti_allgather(o->part, o->kept->gathered, TT_PART_BYTES, TUTTI_U8, o->scope, &call);
}

tutti_status tt_partial_heard(struct tt_operation *o)
{
    struct tt_reader r;

    tt_reader_init(&r, o->kept->gathered, (size_t)o->nscope * TT_PART_BYTES);
    o->contributors = 0;
    for (uint32_t rank = 0; rank < o->nscope; rank++) {
        const bool contributes = tt_read_u32(&r) != 0;
        const uint64_t divisor = tt_read_u64(&r);

        o->contributors += contributes;
        if (divisor != o->op->divisor)
            return tt_fail(TUTTI_ERR_MISMATCH,
                           "tutti_run_collective: op.divisor is %" PRIu64 " here and %" PRIu64 " at rank %u",
                           o->op->divisor, divisor, rank);
    }
    if (o->op->op == TUTTI_AVG && !o->op->divisor && o->contributors > 0 && o->contributors < o->nscope)
        o->call.divisor = o->contributors;
    return TUTTI_OK;
}
