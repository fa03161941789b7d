/* A timeline in the Chrome trace event format. */
#ifndef TT_TRACE_JSON_H
#define TT_TRACE_JSON_H

#include <stdio.h>
#include "trace/timeline.h"

/* JSON as chrome://tracing and ui.perfetto.dev read it ("Trace Event Format"): a process for each rank; in it a row for each lane to a peer, whose segments
 * last from post to completion (asynchronous events "b" and "e", as several may be under way at once, with all numbers, and `arrived_us` since the
 * post), and one for each lane from a peer, with a mark for each arrival ("i"). lost[nranks]: events that the ranks had and have not kept. Who calls looks at
 * ferror when all is written. */
void tt_timeline_write_json(const struct tt_timeline *t, const uint64_t *lost, uint32_t nranks, FILE *to);

#endif
