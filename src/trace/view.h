/* Records in the form of the public interface. */
#ifndef TT_TRACE_VIEW_H
#define TT_TRACE_VIEW_H

#include "trace/comms.h"
#include "trace/notes.h"
#include "trace/oplog.h"
#include "tutti/trace.h"

/* A record with the strings that its public form refers to. */
struct tt_view {
    tutti_trace_op op;
    struct tt_comms_entry comm;
    bool has_comm;
    struct tt_note note;
    bool has_note;
};

/* Fills *out, which must not move while its strings are in use. Any thread. */
void tt_view_fill(const struct tt_oplog_record *r, struct tt_view *out);

#endif
