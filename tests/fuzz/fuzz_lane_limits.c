/* Arbitrary TUTTI_LANE_BYTES. Accepted values are within the limits at every distance, and equal
 * when formatted and parsed again; otherwise the error has the position, and the table is
 * unchanged. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "base/status.h"
#include "wire/lane_limits.h"

#define TEXT_BYTES_MAX 512

/* All distances except self, which has no word. */
static void check_again(const struct tt_lane_limits *l)
{
    char text[TEXT_BYTES_MAX];
    struct tt_lane_limits again;
    size_t bad_at, n;

    n = (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)l->bytes[TT_NEAR_SELF]);
    for (unsigned d = TT_NEAR_SELF + 1; d < TT_DISTANCES; d++)
        n += (size_t)snprintf(text + n, sizeof text - n, ",%s=%llu",
                              tt_distance_name((enum tt_distance)d),
                              (unsigned long long)l->bytes[d]);
    tt_assert(n < sizeof text && tt_lane_limits_parse(&again, text, &bad_at));
    tt_assert(memcmp(again.bytes, l->bytes, sizeof again.bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tt_lane_limits limits, before;
    char text[TEXT_BYTES_MAX + 1];
    size_t bad_at = SIZE_MAX;

    if (bytes > TEXT_BYTES_MAX)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = 0;
    memset(&limits, 0xa5, sizeof limits);
    before = limits;
    if (!tt_lane_limits_parse(&limits, text, &bad_at)) {
        tt_assert(bad_at < strlen(text) && (bad_at == 0 || text[bad_at - 1] == ','));
        tt_assert(memcmp(&limits, &before, sizeof limits) == 0);
        return 0;
    }
    for (unsigned d = 0; d < TT_DISTANCES; d++)
        tt_assert(limits.bytes[d] >= TT_LANE_BYTES_MIN && limits.bytes[d] <= TT_LANE_BYTES_MAX &&
                  (limits.user_set[d] || limits.bytes[d] == tt_lane_limits_default.bytes[d]));
    check_again(&limits);
    return 0;
}
