/* Sockets of control connections: their messages are short and rare, and must arrive in time even
 * if data fills the line. */
#ifndef TT_BASE_CONTROL_SOCKET_H
#define TT_BASE_CONTROL_SOCKET_H

#include <stdint.h>

/* Sets the options of a control connection. Those that the socket or the system does not have are
 * left out: none is required. */
void tt_control_socket(int fd);
/* Returns the smoothed round trip that the system has measured, with the queues of the line. 0:
 * unknown, e.g. no TCP socket. */
uint64_t tt_control_round_trip_ns(int fd);

#endif
