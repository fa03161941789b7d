/* Communicators in the trace of operations: their names, and the calls that create and destroy
 * them. */
#ifndef TT_COMM_COMM_TRACE_H
#define TT_COMM_COMM_TRACE_H

#include "comm/comm.h"
#include "trace/oplog.h"

/* Records a call on a communicator, by the kind of the call. Returns the ID of its record, for
 * tt_oplog_end. comm NULL: there is no communicator yet. */
uint64_t tt_comm_trace_begin(enum tt_oplog_kind kind, const tutti_comm *comm, uint64_t seq);
/* As tt_comm_trace_begin, for a call that creates a communicator from `parent`. */
uint64_t tt_comm_trace_creation(tutti_comm *parent, enum tt_comm_creation how);
/* Ends the record of a tutti_comm_create. comm NULL: it failed. */
void tt_comm_trace_created(uint64_t record, const tutti_comm *comm, tutti_status st);
/* Derives the ID of this job for traces from its secret[16], without disclosing it. */
uint64_t tt_comm_trace_job(const uint8_t *secret);

#endif
