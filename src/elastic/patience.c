#include "elastic/patience.h"

#define ROUND_TRIPS 3u
#define SPARE_ROUND_TRIPS 20u   /* time for retransmissions, at most a lease */
#define CONNECT_ROUND_TRIPS 4u
#define FALL 16u                /* a measurement lowers the round trip by at most 1 / FALL */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t tt_patience_lease_ns(uint64_t lease_ns, uint64_t round_trip_ns)
{
    const uint64_t trip_ns = least(round_trip_ns, lease_ns);
    const uint64_t spare_ns =
        trip_ns > lease_ns / SPARE_ROUND_TRIPS ? lease_ns : SPARE_ROUND_TRIPS * trip_ns;

    for (uint32_t i = 0; i < ROUND_TRIPS; i++)
        lease_ns = sum(lease_ns, trip_ns);
    return sum(lease_ns, spare_ns);
}

uint64_t tt_patience_grace_ns(uint64_t grace_ns, uint64_t lease_ns, uint64_t round_trip_ns)
{
    const uint64_t trip_ns = least(round_trip_ns, lease_ns);

    for (uint32_t i = 0; i < CONNECT_ROUND_TRIPS; i++)
        grace_ns = sum(grace_ns, trip_ns);
    return grace_ns;
}

uint64_t tt_patience_round_trip_ns(uint64_t known_ns, uint64_t measured_ns)
{
    const uint64_t fallen_ns = known_ns - known_ns / FALL;

    if (measured_ns == 0)
        return known_ns;
    return measured_ns > fallen_ns ? measured_ns : fallen_ns;
}
