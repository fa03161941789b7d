/* How long a silent or disconnected peer of a control connection may still be alive.
 *
 * After the lease, a live peer's last message may still be in flight: retransmitted after a loss,
 * or queued on a congested link. This adds three round trips, and some retransmission timeouts of
 * the kernel (at least 0.2 s for a distant peer). The result is at most five leases. A new
 * coordinator, which has not measured round trips yet, grants all members this maximum.
 *
 *   round trip   lease of 1 s
 *   0.1 ms       1.002 s
 *   10 ms        1.23 s
 *   100 ms       2.3 s: three round trips and 2 s */
#ifndef TT_ELASTIC_PATIENCE_H
#define TT_ELASTIC_PATIENCE_H

#include <stdint.h>

/* Returns the time without a message after which a peer is lost. */
uint64_t tt_patience_lease_ns(uint64_t lease_ns, uint64_t round_trip_ns);
/* Returns the time in which a disconnected peer may reconnect. A secure connection takes four round
 * trips. */
uint64_t tt_patience_grace_ns(uint64_t grace_ns, uint64_t lease_ns, uint64_t round_trip_ns);
/* Returns the round trip to assume after a measurement. It decreases slowly, since queues may fill
 * again. measured_ns 0: unknown, nothing changes. */
uint64_t tt_patience_round_trip_ns(uint64_t known_ns, uint64_t measured_ns);

#endif
