/* Which host this is. */
#ifndef TT_BASE_HOST_H
#define TT_BASE_HOST_H

#include <stdint.h>

/* A hint: the same for two processes that reach each other over loopback and abstract sockets. It is a hash of the kernel's boot
 * id and of the network namespace, which are also the same on machines that were restored from one snapshot. Start-up proves who
 * shares a host (boot/samehost.h), and so do members of an elastic run (boot/mark.h). Whoever relies on the hint alone must fall
 * back to the network. Without /proc it is one of the host's name and the namespace's cookie; without that it is random. Any
 * thread. */
uint64_t tt_host_hash(void);

#endif
