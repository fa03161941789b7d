/* Calls of an elastic run in the trace of operations. The collectives that a call makes are
 * recorded too, on the communicators of the view. */
#include <string.h>

#include "comm/comm_trace.h"
#include "session/run.h"
#include "trace/comms.h"
#include "trace/departures.h"
#include "trace/dump.h"

void tt_run_trace_open(tutti_run *run)
{
    struct tt_comms_info info = { .of = TT_COMMS_RUN };
    uint64_t id;

    tt_run_lock(run);
    info.hash = tt_comm_trace_job(run->m.secret);
    id = run->m.id;
    tt_run_unlock(run);
    tt_dump_set_job(info.hash, id, 0);
    run->trace = tt_comms_add(&info);
}

void tt_run_trace_close(tutti_run *run)
{
    tt_comms_close(run->trace);
}

/* Members that were not reported as lost may have announced that they leave, or be in an incomplete
 * replica group. */
static void add_departed(const tutti_run *run, uint64_t hash, const uint64_t *ids, uint32_t n)
{
    for (uint32_t r = 0; r < run->space.nranks; r++) {
        uint32_t i = 0;

        while (i < n && ids[i] != run->members[r].id)
            i++;
        if (i == n)
            tt_departure_add(hash, run->members[r].id, run->space.epoch, TT_DEPARTURE_VIEW);
    }
}

void tt_run_trace_view(tutti_run *run, const uint64_t *ids, uint32_t n, uint32_t rank)
{
    const uint64_t hash = tt_comm_trace_job(run->m.secret);

    add_departed(run, hash, ids, n);
    tt_departures_replace(hash, run->m.epoch, ids, n);
    tt_comms_set_members(run->trace, rank, n, ids);
}

void tt_run_trace_lost(const tutti_run *run, uint64_t id, enum tt_loss loss)
{
    static const enum tt_departure_why whys[TT_LOSSES] = {
        [TT_LOSS_DIED] = TT_DEPARTURE_DIED,
        [TT_LOSS_SILENT] = TT_DEPARTURE_SILENT,
        [TT_LOSS_CUT] = TT_DEPARTURE_UNREACHABLE,
        [TT_LOSS_LEFT] = TT_DEPARTURE_LEFT,
        [TT_LOSS_ILLEGAL] = TT_DEPARTURE_PROTOCOL,
        [TT_LOSS_AHEAD] = TT_DEPARTURE_STATE,
        [TT_LOSS_KEYS] = TT_DEPARTURE_STATE,
        [TT_LOSS_NOT_TAKEN] = TT_DEPARTURE_STATE,
        [TT_LOSS_FALSE] = TT_DEPARTURE_STATE,
    };

    tt_departure_add(tt_comm_trace_job(run->m.secret), id, run->m.epoch, whys[loss]);
}

uint64_t tt_run_trace_begin(const tutti_run *run, enum tt_oplog_kind kind, uint64_t seq)
{
    const struct tt_oplog_call call = {
        .seq = seq,
        .peer = TT_OPLOG_NONE,
        .tag = TT_OPLOG_NONE,
        .comm = run->trace,
        .kind = (uint8_t)kind,
        .type = TT_OPLOG_NO_TYPE,
        .algo = TT_OPLOG_NO_ALGO,
        .flags = TT_OPLOG_STARTED,
    };

    return tt_oplog_wants(0) ? tt_oplog_begin(NULL, &call) : 0;
}

/* The record's sequence number counts the operations of the tag. */
uint64_t tt_run_trace_operation(const tutti_run *run, const struct tt_operation *o)
{
    const tutti_elastic *op = o->op;
    const bool reduces = op->coll == TUTTI_ALLREDUCE || op->coll == TUTTI_REDUCE ||
                         op->coll == TUTTI_REDUCE_SCATTER || op->coll == TUTTI_REDUCE_SCATTERV;
    struct tt_oplog_call call = {
        .seq = o->kept->n,
        .count = op->count,
        .peer = TT_OPLOG_NONE,
        .tag = o->tag,
        .comm = run->trace,
        .kind = (uint8_t)(TT_OPLOG_RUN + (int)op->coll),
        .type = (uint8_t)op->type,
        .redop = (uint8_t)op->op,
        .algo = TT_OPLOG_NO_ALGO,
        .flags = TT_OPLOG_STARTED,
    };

    if (op->coll == TUTTI_BARRIER || !tutti_dtype_bytes(op->type))
        call.type = TT_OPLOG_NO_TYPE;
    if (reduces && (unsigned)op->op < TUTTI_REDOP_COUNT)
        call.flags |= TT_OPLOG_REDUCES;
    return tt_oplog_wants(call.seq) ? tt_oplog_begin(NULL, &call) : 0;
}

/* When a member is lost, the engine fails the communicators of the view, and dumps the trace with
 * what each operation waited for. An unresponsive coordinator fails no communicator. */
void tt_run_trace_end(uint64_t record, tutti_status st)
{
    struct tt_dump_state none = { .ops = NULL };

    tt_oplog_end(record, st);
    if ((st == TUTTI_ERR_TIMEOUT || st == TUTTI_ERR_ABORTED || st == TUTTI_ERR_PROTOCOL) &&
        tt_dump_is_due())
        tt_dump_post(st == TUTTI_ERR_TIMEOUT ? TT_DUMP_TIMEOUT : TT_DUMP_ABORTED,
                     tutti_last_error(), &none);
}
