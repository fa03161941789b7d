/* How many bytes may be outstanding on a lane, by how far its peer is, and for queue pairs by what lies between. Pure but for tt_lane_limits_get. */
#ifndef TT_WIRE_LANE_LIMITS_H
#define TT_WIRE_LANE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "topo/topo.h"
#include "tutti/tutti.h"
#include "wire/dqplb.h"

#define TT_LANE_BYTES_MIN (64u << 10)
#define TT_LANE_BYTES_MAX (1u << 30)

/* A table by enum tt_distance. What is far has more under way before it hears of anything. */
struct tt_lane_limits {
    uint64_t bytes[TT_DISTANCES];
    bool told[TT_DISTANCES]; /* by the user; else bytes are what suits TCP connections */
};

extern const struct tt_lane_limits tt_lane_limits_default;

/* Reads "8388608" (for every distance), or "4194304,wan=134217728": entries from left to right, over the defaults. False, with *out
 * untouched and *bad_at where it stopped making sense: an entry is no number within the bounds, or its distance is none. */
bool tt_lane_limits_parse(struct tt_lane_limits *out, const char *text, size_t *bad_at);

/* The table that TUTTI_LANE_BYTES says, or the default. INVALID (logged) with where it is not understood. */
tutti_status tt_lane_limits_get(struct tt_lane_limits *out);

/* The limits of `lanes` queue pairs to a peer: by its distance and the link there, over nrails rails, with the bytes that the user told for that distance, if
 * any. links[TT_DISTANCES] as descriptions have them, or NULL: nothing is known. What stays on the host goes through its NIC, too. */
struct tt_dqplb_limits tt_lane_limits_queues(const struct tt_lane_limits *l, enum tt_distance distance, uint32_t lanes,
                                             uint32_t window, const struct tt_topo_link *links, uint32_t nrails);

#endif
