#include "trace/view.h"

static const char *const of_names[] = {
    [TT_COMMS_COMM] = "comm", [TT_COMMS_WINDOW] = "window", [TT_COMMS_RUN] = "run"
};

static int64_t optional(uint32_t value) { return value == TT_OPLOG_NONE ? -1 : (int64_t)value; }

void tt_view_fill(const struct tt_oplog_record *r, struct tt_view *out)
{
    const struct tt_oplog_call *c = &r->call;
    const bool in_bytes = c->flags & TT_OPLOG_IS_BYTES || c->type >= TUTTI_DTYPE_COUNT;
    const size_t element = in_bytes ? 1 : tutti_dtype_bytes((tutti_dtype)c->type);

    /* a newer entry may have reused the number */
    out->has_comm = tt_comms_get(c->comm, false, &out->comm) && out->comm.since <= r->called;
    out->has_note = tt_note_find(r->note, r->called, &out->note);
    out->op = (tutti_trace_op){
        .size = sizeof out->op,
        .number = r->number,
        .comm = out->has_comm ? out->comm.hash : 0,
        .comm_name = out->has_comm ? out->comm.name : "",
        .of = out->has_comm ? of_names[out->comm.of] : "",
        .seq = c->seq,
        .kind = tt_oplog_kind_name(c->kind),
        .algo = tt_oplog_algo_name(c->algo),
        .count = c->count,
        .bytes = c->count * element,
        .type = c->type < TUTTI_DTYPE_COUNT ? (int)c->type : -1,
        .redop = c->flags & TT_OPLOG_REDUCES ? (int)c->redop : -1,
        .root = c->flags & TT_OPLOG_ROOTED ? optional(c->peer) : -1,
        .peer = c->flags & TT_OPLOG_ROOTED ? -1 : optional(c->peer),
        .tag = optional(c->tag),
        .called_ns = tt_tick_to_ns(r->called),
        .started_ns = r->started ? tt_tick_to_ns(r->started) : 0,
        .ended_ns = r->ended ? tt_tick_to_ns(r->ended) : 0,
        .status = r->status,
        .note = out->has_note ? out->note.text : NULL,
    };
    if (c->flags & TT_OPLOG_IS_BYTES && out->op.type >= 0)
        out->op.count = c->count / tutti_dtype_bytes((tutti_dtype)c->type);
}
