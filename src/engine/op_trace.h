/* Operations in the trace of the process (trace/oplog.h), and their state in its dumps. Unless
 * stated otherwise, the caller holds the progress lock. */
#ifndef TT_ENGINE_OP_TRACE_H
#define TT_ENGINE_OP_TRACE_H

#include "engine/state.h"
#include "trace/dump.h"

/* Describes a new operation for its records. Call it when its descriptor is complete. */
void tt_op_trace_describe(struct tt_op *op);
/* Records the call of an operation that tt_oplog_wants. started: it is exposed at once. */
void tt_op_trace_write(struct tt_op *op, bool started);

/* Returns the number in its records: sends and receives count per peer, tag and direction. */
static inline uint64_t tt_op_trace_seq(const struct tt_op *op)
{
    return op->p2p ? op->seq & 0xffffffff : op->seq;
}

/* Records the call of an operation. Call it when its number is assigned. */
static inline void tt_op_trace_begin(struct tt_op *op, bool started)
{
    if (!TT_OPLOG_COMPILED)
        return;                 /* the field is 0 */
    op->record = 0;
    if (tt_oplog_wants(tt_op_trace_seq(op)))
        tt_op_trace_write(op, started);
}

/* Records the sender of a receive from any rank, which has been matched. */
void tt_op_trace_matched(struct tt_op *op);

/* Adds the unfinished operations and the peers to a dump. */
void tt_engine_dump(struct tt_engine *e, struct tt_dump_state *s);
/* Returns the number of a rank of the job in traces: in an elastic run, the member id. */
uint32_t tt_engine_trace_rank(const struct tt_engine *e, uint32_t rank);
/* Adds the context to the table of communicators. */
void tt_context_trace_open(struct tt_context *c);
/* Dumps the trace because a context fails, if a dump is due. Call before its operations end. */
void tt_context_trace_failure(struct tt_context *c, tutti_status st, const char *sentence);
/* Records that data was sent to a peer of the operation. */
void tt_op_trace_sent(struct tt_flow *f, uint64_t bytes);
/* Records that data of a peer has arrived. */
void tt_op_trace_received(struct tt_flow *f, uint64_t bytes);
/* Records that a control message of a peer has arrived. Not for straight-line programs. */
void tt_op_trace_message(struct tt_flow *f);

#endif
