/* Sockets of control connections: their messages are short and rare, and must arrive in time even
 * if data congests the link. */
#ifndef TT_BASE_CONTROL_SOCKET_H
#define TT_BASE_CONTROL_SOCKET_H

#include <stdint.h>

/* Sets the options of a control connection. Options that the socket or the kernel does not support
 * are skipped: none is required. */
void tt_control_socket(int fd);
/* Returns the round trip that the kernel has measured, including queueing delays. 0: unknown, e.g.
 * not a TCP socket. */
uint64_t tt_control_round_trip_ns(int fd);
/* Returns the round trip in ns, from the smoothed and the minimum one. The smoothed one contains
 * delayed acknowledgements of up to 40 ms, which are subtracted, but not below the minimum, so that
 * a near peer is not considered distant. min_us is UINT32_MAX if unknown. */
uint64_t tt_control_round_trip_of(uint32_t smoothed_us, uint32_t min_us);

#endif
