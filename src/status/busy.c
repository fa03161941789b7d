#include "status/busy.h"

#include "base/status.h"

void tt_busy_add(struct tt_busy *b, uint64_t from_ns, uint64_t until_ns)
{
    const uint64_t first = until_ns / TT_MS, last = from_ns / TT_MS;

    tt_assert(until_ns < from_ns && from_ns <= TT_BUSY_MS * TT_MS);
    if (first == last) {
        b->part_ns[first] += from_ns - until_ns;
        return;
    }
    b->part_ns[first] += (first + 1) * TT_MS - until_ns;
    b->whole[first + 1]++;
    b->whole[last]--;
    if (last < TT_BUSY_MS)
        b->part_ns[last] += from_ns - last * TT_MS;
}

uint64_t tt_busy_sum_ns(const struct tt_busy *b)
{
    uint64_t sum_ns = 0;
    int64_t n = 0;

    for (uint32_t i = 0; i < TT_BUSY_MS; i++) {
        n += b->whole[i];
        sum_ns += n > 0 || b->part_ns[i] > TT_MS ? TT_MS : b->part_ns[i];
    }
    return sum_ns;
}
