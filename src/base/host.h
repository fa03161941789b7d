/* Which host this is. */
#ifndef TT_BASE_HOST_H
#define TT_BASE_HOST_H

#include <stdint.h>

/* The same for two processes that reach each other over loopback and abstract sockets: a hash of the kernel's boot id and
 * of the network namespace. Where these cannot be read it is random: nobody is on our host. Any thread. */
uint64_t tt_host_hash(void);

#endif
