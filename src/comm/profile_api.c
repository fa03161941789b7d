/* Time spent in operations. */
#include "base/status.h"
#include "comm/comm.h"

tutti_status tutti_comm_time(tutti_comm *comm, int on)
{
    const tutti_status st = tt_comm_check(comm, "tutti_comm_time");

    if (!st)
        tt_engine_time(comm->world->engine, on);
    return st;
}

tutti_status tutti_comm_times(tutti_comm *comm, tutti_times *out)
{
    const tutti_status st = tt_comm_check(comm, "tutti_comm_times");
    struct tt_profile t;

    if (st)
        return st;
    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_comm_times: out is NULL");
    if (out->size != sizeof *out)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_comm_times: out.size is %zu, not %zu: set it to sizeof(tutti_times)",
                       out->size, sizeof *out);
    tt_engine_profile(comm->world->engine, &t);
    *out = (tutti_times){ .size = sizeof *out,
                          .calls = t.calls,
                          .call_ns = t.call_ns,
                          .send_ns = t.send_ns,
                          .forward_ns = t.forward_ns,
                          .reduce_ns = t.reduce_ns,
                          .copy_ns = t.copy_ns,
                          .wire_ns = t.wire_ns,
                          .most_in_flight = t.most_in_flight };
    return TUTTI_OK;
}
