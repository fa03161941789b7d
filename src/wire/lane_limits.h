/* Limits on outstanding bytes per lane, by the distance of the peer and, for queue pairs, by the
 * link. Pure except for tt_lane_limits_get. */
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

/* Indexed by enum tt_distance. A longer round trip needs more bytes in flight. */
struct tt_lane_limits {
    uint64_t bytes[TT_DISTANCES];
    bool user_set[TT_DISTANCES]; /* set by the user; otherwise bytes is the default for TCP
                                connections */
};

extern const struct tt_lane_limits tt_lane_limits_default;

/* Parses "8388608" (every distance) or "4194304,wan=134217728": entries from left to right override
 * the defaults. Returns false with *out unchanged and *bad_at at the error: not a number within the
 * bounds, or an unknown distance. */
bool tt_lane_limits_parse(struct tt_lane_limits *out, const char *text, size_t *bad_at);

/* Returns the table of TUTTI_LANE_BYTES, or the default. INVALID (logged), with the position of the
 * error. */
tutti_status tt_lane_limits_get(struct tt_lane_limits *out);

/* Returns the limits of `lanes` queue pairs to a peer, by its distance, its link and the number of
 * rails. Limits set by the user for that distance take precedence. links[TT_DISTANCES] as in
 * descriptions, or NULL if unknown. Traffic within the host also passes through the NIC. */
struct tt_dqplb_limits tt_lane_limits_queues(const struct tt_lane_limits *l,
                                             enum tt_distance distance, uint32_t lanes,
                                             uint32_t window, const struct tt_topo_link *links,
                                             uint32_t nrails);

#endif
