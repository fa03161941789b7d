/* How many bytes may be outstanding on a lane, by how far its peer is. Pure but for tt_lane_limits_get. */
#ifndef TT_WIRE_LANE_LIMITS_H
#define TT_WIRE_LANE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "topo/layout.h"
#include "tutti/tutti.h"

#define TT_LANE_BYTES_MIN (64u << 10)
#define TT_LANE_BYTES_MAX (1u << 30)

/* A table by enum tt_distance. What is far has more under way before it hears of anything. */
struct tt_lane_limits {
    uint64_t bytes[TT_DISTANCES];
};

extern const struct tt_lane_limits tt_lane_limits_default;

/* Reads "8388608" (for every distance), or "4194304,wan=134217728": entries from left to right, over the defaults. False, with *out
 * untouched and *bad_at where it stopped making sense: an entry is no number within the bounds, or its distance is none. */
bool tt_lane_limits_parse(struct tt_lane_limits *out, const char *text, size_t *bad_at);

/* The table that TUTTI_LANE_BYTES says, or the default. INVALID (logged) with where it is not understood. */
tutti_status tt_lane_limits_get(struct tt_lane_limits *out);

#endif
