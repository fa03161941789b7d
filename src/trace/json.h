/* A timeline in the Chrome trace event format. */
#ifndef TT_TRACE_JSON_H
#define TT_TRACE_JSON_H

#include <stdio.h>
#include "trace/timeline.h"

/* Writes JSON for chrome://tracing and ui.perfetto.dev ("Trace Event Format"): a process for each
 * rank. Each lane to a peer has a row, whose segments last from post to completion. These are
 * asynchronous events "b" and "e", because several may be in flight at once. They contain all
 * fields of a segment, and `arrived_us` since the post. Each lane from a peer has a row with a mark
 * for each arrival ("i"). lost[nranks]: number of events that each rank has dropped. The caller
 * must check ferror() afterwards. */
void tt_timeline_write_json(const struct tt_timeline *t, const uint64_t *lost, uint32_t nranks,
                            FILE *to);

#endif
