/* State of an operation that its steps share: the name of the call, its timeout, and whether it is
 * in the engine. */
#include "session/run.h"

static const char of_one[] = "tutti_run_collective";
static _Thread_local const char *call_name = of_one;

const char *tt_operation_call(void)
{
    return call_name;
}

void tt_operation_enter_call(const char *name)
{
    call_name = name ? name : of_one;
}

/* After this process was suspended, each call gets the whole timeout again. */
int64_t tt_operation_left_ms(const struct tt_operation *o)
{
    if (o->deadline_ns == TT_NEVER)
        return -1;
    if (tt_run_was_stalled(o->deadline_ns, o->seen_ns))
        return o->op->timeout_ms;
    return o->deadline_ns > o->seen_ns
               ? (int64_t)((o->deadline_ns - o->seen_ns + TT_MS - 1) / TT_MS)
               : 1;
}

void tt_operation_leave_engine(tutti_run *run, const struct tt_operation *o)
{
    o->kept->inside = NULL;
    run->ninside--;
    if (run->ninside == 0 && (run->recovering || run->calling))
        pthread_cond_broadcast(&run->changed);
}

void tt_operation_leave(tutti_run *run, struct tt_operation *o)
{
    tt_operation_leave_engine(run, o);
    o->kept->in_use = false;
    run->noperations--;
    tt_run_trace_end(o->record, TUTTI_OK);  /* tentative */
}
