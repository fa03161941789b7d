/* The usual time between a query and its response, and the time without a response after which a
 * rank is silent. Pure. */
#ifndef TT_COMM_RESPONSE_TIME_H
#define TT_COMM_RESPONSE_TIME_H

#include <stdint.h>

/* A rank without a response for this time after a query is silent. On a busy machine, responses
 * take longer. The time is then TT_RESPONSE_SLOWER times the usual time of responses. */
#define TT_RESPONSE_SILENCE_NS 500000000ull
#define TT_RESPONSE_SLOWER 8u

/* Zeroed before its first use. */
struct tt_response_time {
    uint64_t usual_ns;          /* decaying maximum of the response times */
};

/* Records that a response took ns. */
void tt_response_time_add(struct tt_response_time *t, uint64_t ns);
/* Returns the time without a response after which a rank is silent: at least
 * TT_RESPONSE_SILENCE_NS, and at most max_ns. */
uint64_t tt_response_time_silence_ns(const struct tt_response_time *t, uint64_t max_ns);

#endif
