/* The calls of include/tutti/trace.h that read and annotate. */
#include <stdlib.h>

#include "base/status.h"
#include "trace/dump.h"
#include "trace/notes.h"
#include "trace/oplog.h"
#include "trace/view.h"

tutti_status tutti_trace_read(tutti_trace_visit *visit, void *arg, uint64_t *lost)
{
    const uint32_t depth = tt_oplog_depth();
    struct tt_oplog_record *records;
    uint64_t missing;
    uint32_t n;

    if (!visit)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_trace_read: visit is NULL");
    if (!depth)
        return tt_fail(TUTTI_ERR_UNSUPPORTED, "tutti_trace_read: no operations are recorded "
                                              "(TUTTI_TRACE is 0, or there is no communicator)");
    records = malloc(depth * sizeof *records);
    if (!records)
        return tt_fail(TUTTI_ERR_NOMEM, "tutti_trace_read: out of memory for %u records", depth);
    tt_tick_refresh();
    n = tt_oplog_read(records, &missing);
    for (uint32_t i = 0; i < n; i++) {
        struct tt_view view;

        tt_view_fill(&records[i], &view);
        if (visit(arg, &view.op))
            break;
    }
    free(records);
    if (lost)
        *lost = missing;
    return TUTTI_OK;
}

tutti_status tutti_trace_annotate(const char *text)
{
    if (!text)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_trace_annotate: text is NULL");
    tt_note_set(text);
    return TUTTI_OK;
}

tutti_status tutti_trace_dump(const char *path, const char *message)
{
    return tt_dump_call(path, message);
}
