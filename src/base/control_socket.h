/* Sockets of control connections: their messages are short and rare, and must arrive in time even
 * if data fills the line. */
#ifndef TT_BASE_CONTROL_SOCKET_H
#define TT_BASE_CONTROL_SOCKET_H

#include <stdint.h>

/* Sets the options of a control connection. Those that the socket or the system does not have are
 * left out: none is required. */
void tt_control_socket(int fd);
/* Returns the round trip that the system has measured, with the queues of the line. 0: unknown,
 * e.g. no TCP socket. */
uint64_t tt_control_round_trip_ns(int fd);
/* Returns the round trip in ns, from the smoothed and the minimum one. The smoothed one contains
 * delayed acknowledgements of up to 40 ms, which are subtracted down to the minimum: a near peer
 * stays near. min_us is UINT32_MAX if unknown. */
uint64_t tt_control_round_trip_of(uint32_t smoothed_us, uint32_t min_us);

#endif
