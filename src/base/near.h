/* Connections within a host whose loopback interface is down. The kernel delivers packets to its own addresses over lo; while lo
 * is down they are dropped, and a connection attempt has no answer. So a listener that is opened while lo is down has a second one, an
 * abstract Unix socket named by its address and port, and a connection to an address of this host goes there. Any thread. */
#ifndef TT_BASE_NEAR_H
#define TT_BASE_NEAR_H

#include <stdbool.h>
#include <sys/socket.h>

/* Whether the loopback interface of this network namespace is down. */
bool tt_near_lo_is_down(void);
/* bind(2) of a TCP socket, also to a loopback address that lo does not have while it is down. */
int tt_near_bind(int fd, const struct sockaddr *a, socklen_t bytes);
/* The second listener of `listener`, which listens over TCP; it does not block, and is closed on exec. The caller owns it. -1: lo is
 * up, or there can be none (logged). */
int tt_near_listen(int listener);
/* Whether a connection to `a` (IPv4 or IPv6) is within this host, and lo is down. */
bool tt_near_applies(const struct sockaddr *a);
/* Connects to the second listener of that address: a stream that does not block, or -1 and errno (ECONNREFUSED: there is none). */
int tt_near_connect(const struct sockaddr *a);

#endif
