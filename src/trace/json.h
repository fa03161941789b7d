/* A timeline in the Chrome trace event format. */
#ifndef TT_TRACE_JSON_H
#define TT_TRACE_JSON_H

#include <stdio.h>
#include "trace/timeline.h"

/* Writes JSON for chrome://tracing and ui.perfetto.dev ("Trace Event Format"): a process for each
 * rank. For each lane to a peer it has a row, whose segments last from post to completion. These
 * are asynchronous events "b" and "e", as several may be in flight at once, with all numbers, and
 * `arrived_us` since the post. For each lane from a peer it has a row with a mark for each arrival
 * ("i"). lost[nranks]: events that the ranks have dropped. The caller must check ferror()
 * afterwards. */
void tt_timeline_write_json(const struct tt_timeline *t, const uint64_t *lost, uint32_t nranks,
                            FILE *to);

#endif
