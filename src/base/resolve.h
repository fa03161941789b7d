/* Name resolution with a deadline.
 *
 * getaddrinfo blocks while name servers do not respond: 56 s with three of them and common
 * settings. A detached helper thread calls it, on its own memory. The caller waits for the result
 * or leaves at its deadline. Literal addresses need no thread. While a query is unanswered, further
 * helpers repeat it at growing intervals. The name may have appeared in /etc/hosts while the first
 * one still waits for a name server.
 *
 * Helpers use the C library rather than another resolver (such as c-ares). Only the C library
 * follows /etc/nsswitch.conf, and with it mDNS, LDAP and other configured services. getaddrinfo_a
 * has the same blocking threads, and its requests cannot be abandoned once they run. */
#ifndef TT_BASE_RESOLVE_H
#define TT_BASE_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* threads of this process, including abandoned ones; further queries wait for a free one */
#define TT_LOOKUP_HELPERS_MAX 16u

struct tt_lookup;

/* Starts resolving `host` for stream sockets; flags are those of getaddrinfo. host NULL: addresses
 * of this host. `port` is decimal. Blocks only if no thread can be started. NULL: out of memory. */
struct tt_lookup *tt_lookup_begin(const char *host, const char *port, int flags, uint64_t now_ns);
/* Returns whether there is a result. Call it when the descriptor is readable, and at
 * tt_lookup_wake_ns. */
bool tt_lookup_step(struct tt_lookup *l, uint64_t now_ns);
/* Returns the latest time of the next tt_lookup_step. */
uint64_t tt_lookup_wake_ns(const struct tt_lookup *l);
/* Returns a descriptor that becomes readable with the result, or -1 if none was free. Owned by the
 * lookup. */
int tt_lookup_fd(const struct tt_lookup *l);
/* Blocks until there is a result. Returns false at deadline_ns; then it may be called again. */
bool tt_lookup_await(struct tt_lookup *l, uint64_t deadline_ns);
/* Returns the result after tt_lookup_step or tt_lookup_await returned true. 0: *list is the
 * caller's, for freeaddrinfo. Otherwise getaddrinfo's error, and *why is a static text. */
int tt_lookup_take(struct tt_lookup *l, struct addrinfo **list, const char **why);
/* Frees the lookup, finished or not; running helpers end on their own. NULL is allowed. */
void tt_lookup_end(struct tt_lookup *l);

/* Resolves, and blocks until the deadline. If `retry`, repeats the query after temporary failures.
 * On OK, *list is the caller's, for freeaddrinfo. Otherwise *why is a static text, nothing is
 * logged, and the status is
 *   TIMEOUT  no result before the deadline, or only temporary failures
 *   SYSTEM   a temporary failure, or a local error
 *   INVALID  the name or address does not exist */
tutti_status tt_resolve(const char *host, const char *port, int flags, bool retry,
                        uint64_t deadline_ns, struct addrinfo **list, const char **why);

#endif
