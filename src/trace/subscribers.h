/* Subscribers to the trace: callbacks at the begin and end of operations. */
#ifndef TT_TRACE_SUBSCRIBERS_H
#define TT_TRACE_SUBSCRIBERS_H

#include <stdbool.h>
#include <stdint.h>

/* Calls the subscribers for this record, after it was written or its end was. Any thread. */
void tt_subscribers_notify(uint64_t number, bool ended);

#endif
