#include "comm/enter.h"

#include "base/status.h"
#include "comm/comm.h"

tutti_status tt_comm_check(const tutti_comm *comm, const char *call)
{
    if (!comm)
        return tt_fail(TUTTI_ERR_INVALID, "%s: the communicator is NULL", call);
    if (tt_engine_is_inherited(comm->world->engine))
        return tt_fail(TUTTI_ERR_FORKED,
                       "%s: this process is a forked child; the communicator belongs to its parent",
                       call);
    return TUTTI_OK;
}

void tt_comm_guard(tutti_comm *comm)
{
    comm->guarded = true;
    tt_context_guard(comm->context);
}

/* In the child of a fork, a thread of the parent process may seem to be in a call; the error then
 * reports the fork. */
static tutti_status refuse_second(const tutti_comm *comm, const char *call, const char *other)
{
    const tutti_status st = tt_comm_check(comm, call);

    return st ? st
              : tt_fail(TUTTI_ERR_INVALID,
                        "%s: another thread is in %s on this communicator: only one thread can use "
                        "it at a time (duplicate it with tutti_comm_dup)",
                        call, other);
}

tutti_status tt_comm_hold(tutti_comm *comm, const char *call)
{
    return comm && comm->guarded ? tt_context_enter(comm->context, call) : TUTTI_OK;
}

void tt_comm_unhold(tutti_comm *comm)
{
    if (comm && comm->guarded)
        tt_context_leave(comm->context);
}

tutti_status tt_comm_enter(tutti_comm *comm, const char *call)
{
    const char *other;
    tutti_status st;

    if (!comm)
        return TUTTI_OK;
    st = tt_comm_hold(comm, call);
    if (st)
        return st;
    other = tt_thread_guard_take(&comm->entry, call);
    if (!other)
        return TUTTI_OK;
    st = refuse_second(comm, call, other);
    tt_comm_unhold(comm);
    return st;
}

void tt_comm_leave(tutti_comm *comm)
{
    if (!comm)
        return;
    tt_thread_guard_leave(&comm->entry);
    tt_comm_unhold(comm);
}
