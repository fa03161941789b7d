#include "wire/lane_limits.h"

#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "reduce/float_env.h"

#define MIB (1ull << 20)

const struct tt_lane_limits tt_lane_limits_default = {
    .bytes = {
        [TT_NEAR_SELF] = 4 * MIB,
        [TT_NEAR_SOCKET] = 4 * MIB,
        [TT_NEAR_HOST] = 4 * MIB,
        [TT_NEAR_RACK] = 4 * MIB,
        [TT_NEAR_ZONE] = 4 * MIB,
        [TT_NEAR_BUILDING] = 8 * MIB,
        [TT_NEAR_FABRIC] = 16 * MIB,
        [TT_NEAR_WAN] = 64 * MIB,
    },
};

/* Parses one entry of `bytes` bytes. */
static bool parse_entry(struct tt_lane_limits *l, const char *entry, size_t bytes)
{
    const char *equals = memchr(entry, '=', bytes), *digits = equals ? equals + 1 : entry;
    enum tt_distance which = TT_NEAR_SELF;
    char name[16] = "", *end;
    unsigned long long v;

    if (equals && (size_t)(equals - entry) < sizeof name)
        memcpy(name, entry, (size_t)(equals - entry));
    if (equals && (!tt_distance_parse(name, &which) || which == TT_NEAR_SELF))
        return false;
    if (digits == entry + bytes || *digits < '0' || *digits > '9')
        return false;
    v = strtoull(digits, &end, 10);
    if (end != entry + bytes || v < TT_LANE_BYTES_MIN || v > TT_LANE_BYTES_MAX)
        return false;
    for (unsigned d = 0; d < TT_DISTANCES; d++)
        if (!equals || d == (unsigned)which) {
            l->bytes[d] = v;
            l->user_set[d] = true;
        }
    return true;
}

bool tt_lane_limits_parse(struct tt_lane_limits *out, const char *text, size_t *bad_at)
{
    struct tt_lane_limits l = tt_lane_limits_default;

    for (const char *at = text; *at;) {
        const size_t bytes = strcspn(at, ",");

        if (!parse_entry(&l, at, bytes)) {
            *bad_at = (size_t)(at - text);
            return false;
        }
        at += bytes;
        at += *at == ',';
    }
    *out = l;
    return true;
}

tutti_status tt_lane_limits_get(struct tt_lane_limits *out)
{
    const char *text = getenv("TUTTI_LANE_BYTES");
    size_t bad_at;

    *out = tt_lane_limits_default;
    if (text && !tt_lane_limits_parse(out, text, &bad_at))
        return tt_fail(TUTTI_ERR_INVALID,
                       "invalid TUTTI_LANE_BYTES \"%s\" (at \"%s\"): must be like \"8388608\" or "
                       "\"4194304,wan=134217728\", with %u to %u bytes (the distances are socket, "
                       "host, rack, zone, "
                       "building, fabric and wan)",
                       text, text + bad_at, TT_LANE_BYTES_MIN, TT_LANE_BYTES_MAX);
    return TUTTI_OK;
}

/* Bandwidth of all rails, or of the path beyond them if that is less. 0: unknown. */
static double link_rate(const struct tt_topo_link *links, enum tt_distance distance,
                        uint32_t nrails)
{
    const double rails = links[TT_NEAR_RACK].bytes_per_s * nrails,
                 way = distance > TT_NEAR_RACK ? links[distance].bytes_per_s : 0;

    return way > 0 && (rails <= 0 || way < rails) ? way : rails;
}

struct tt_dqplb_limits tt_lane_limits_queues(const struct tt_lane_limits *l,
                                             enum tt_distance distance, uint32_t lanes,
                                             uint32_t window, const struct tt_topo_link *links,
                                             uint32_t nrails)
{
    const tt_float_env kept = tt_float_env_enter();
    const enum tt_distance way = distance < TT_NEAR_RACK ? TT_NEAR_RACK : distance;
    const double bytes_per_s = links ? link_rate(links, way, nrails) : 0;
    const uint64_t rtt_ns = links ? 2 * links[way].latency_ns : 0;
    struct tt_dqplb_limits out = tt_dqplb_limits_of(distance, lanes, window, bytes_per_s, rtt_ns);

    tt_float_env_leave(kept);
    if (l->user_set[distance])
        out.lane_bytes = l->bytes[distance];
    /* a lane must accept at least one segment */
    while (l->user_set[distance] && out.segment_bytes > out.lane_bytes)
        out.segment_bytes /= 2;
    return out;
}
