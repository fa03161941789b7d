#include "comm/response_time.h"

void tt_response_time_add(struct tt_response_time *t, uint64_t ns)
{
    t->usual_ns = ns > t->usual_ns ? ns : t->usual_ns - (t->usual_ns - ns) / 8;
}

uint64_t tt_response_time_silence_ns(const struct tt_response_time *t, uint64_t max_ns)
{
    const uint64_t ns = t->usual_ns < max_ns ? TT_RESPONSE_SLOWER * t->usual_ns : max_ns;

    if (ns < TT_RESPONSE_SILENCE_NS)
        return TT_RESPONSE_SILENCE_NS;
    return ns < max_ns ? ns : max_ns;
}
