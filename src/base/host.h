/* Identification of the host. */
#ifndef TT_BASE_HOST_H
#define TT_BASE_HOST_H

#include <stdint.h>

/* Returns a hash that is equal for two processes that can connect over loopback and abstract
 * sockets. It is only a hint: it hashes the kernel's boot id and the network namespace, which are
 * equal on machines restored from one snapshot. Start-up proves that ranks share a host
 * (boot/samehost.h), and so do members of an elastic run (boot/mark.h). Code that relies on the
 * hint alone needs a fallback to the network. Without /proc it hashes the host name and the
 * namespace's cookie; without these it is random. Any thread. */
uint64_t tt_host_hash(void);

#endif
