#include "comm/comm_trace.h"

#include <string.h>

#include "base/status.h"
#include "boot/auth.h"
#include "trace/comms.h"
#include "tutti/trace.h"

uint64_t tt_comm_trace_begin(enum tt_oplog_kind kind, const tutti_comm *comm, uint64_t seq)
{
    const struct tt_oplog_call call = {
        .seq = seq,
        .peer = TT_OPLOG_NONE,
        .tag = TT_OPLOG_NONE,
        .comm = comm ? tt_context_trace(comm->context) : 0,
        .kind = (uint8_t)kind,
        .type = TT_OPLOG_NO_TYPE,
        .algo = TT_OPLOG_NO_ALGO,
        .flags = TT_OPLOG_STARTED,
    };

    return tt_oplog_wants(0) ? tt_oplog_begin(NULL, &call) : 0;
}

uint64_t tt_comm_trace_creation(tutti_comm *parent, enum tt_comm_creation how)
{
    static const enum tt_oplog_kind kinds[] = {
        [TT_COMM_SPLIT] = TT_OPLOG_COMM_SPLIT,
        [TT_COMM_DUP] = TT_OPLOG_COMM_DUP,
    };

    return parent ? tt_comm_trace_begin(kinds[how], parent, parent->ncreations[how]++) : 0;
}

void tt_comm_trace_created(uint64_t record, const tutti_comm *comm, tutti_status st)
{
    if (comm)
        tt_oplog_matched(record, TT_OPLOG_NONE, TT_OPLOG_NONE, 0, tt_context_trace(comm->context));
    tt_oplog_end(record, st);
}

uint64_t tt_comm_trace_job(const uint8_t *secret)
{
    uint8_t mac[TT_MAC_BYTES];
    uint64_t job;

    tt_mac(mac, secret, 16, "tutti trace", "", 0);
    memcpy(&job, mac, sizeof job);
    return job ? job : 1;
}

tutti_status tutti_comm_set_name(tutti_comm *comm, const char *name)
{
    const tutti_status st = tt_comm_check(comm, "tutti_comm_set_name");

    if (st)
        return st;
    if (!name)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_comm_set_name: name is NULL");
    tt_comms_set_name(tt_context_trace(comm->context), name);
    return TUTTI_OK;
}
