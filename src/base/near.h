/* Connections within a host whose loopback interface is down. The kernel routes packets to its own
 * addresses over lo. While lo is down, it drops them, and connection attempts time out. A listener
 * opened while lo is down therefore gets a second one: an abstract Unix socket named by its address
 * and port. Connections to an address of this host use that socket. Any thread. */
#ifndef TT_BASE_NEAR_H
#define TT_BASE_NEAR_H

#include <stdbool.h>
#include <sys/socket.h>

/* Returns whether the loopback interface of this network namespace is down. */
bool tt_near_lo_is_down(void);
/* bind(2) for a TCP socket. Also works for a loopback address while lo is down. */
int tt_near_bind(int fd, const struct sockaddr *a, socklen_t bytes);
/* Opens the second listener of the TCP listener `listener`: non-blocking, close-on-exec, owned by
 * the caller. Returns -1 if lo is up, or if it cannot be opened (logged). */
int tt_near_listen(int listener);
/* Returns whether `a` (IPv4 or IPv6) is an address of this host, and lo is down. */
bool tt_near_applies(const struct sockaddr *a);
/* Connects to the second listener of that address. Returns a non-blocking stream socket, or -1 and
 * errno (ECONNREFUSED: no listener). */
int tt_near_connect(const struct sockaddr *a);

#endif
