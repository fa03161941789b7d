/* Name resolution that a caller can leave at a deadline.
 *
 * getaddrinfo blocks for as long as name servers are silent: 56 s with three of them and common settings. So a
 * detached helper thread calls it, on memory of its own, and the caller waits for the answer or leaves. Literal
 * addresses need no thread. While a query is unanswered, further helpers ask again, at growing intervals: the
 * first one may wait for a silent name server while the name has appeared in /etc/hosts.
 *
 * Helpers use the C library, and no resolver of our own (such as c-ares): only the C library follows
 * /etc/nsswitch.conf, and with it mDNS, LDAP and whatever else a site has configured. getaddrinfo_a has the
 * same blocking threads, but its requests cannot be left once they run. */
#ifndef TT_BASE_RESOLVE_H
#define TT_BASE_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

#define TT_LOOKUP_HELPERS_MAX 16u   /* threads of this process, abandoned ones too; further queries wait for one */

struct tt_lookup;

/* Begins to resolve `host` for stream sockets; flags are getaddrinfo's. host NULL: this host's own addresses.
 * `port` is decimal digits. Blocks only where no thread can be started. NULL: no memory. */
struct tt_lookup *tt_lookup_begin(const char *host, const char *port, int flags, uint64_t now_ns);
/* Whether there is an answer. Call it when the descriptor is readable, and at tt_lookup_wake_ns. */
bool tt_lookup_step(struct tt_lookup *l, uint64_t now_ns);
/* When tt_lookup_step is due, at the latest. */
uint64_t tt_lookup_wake_ns(const struct tt_lookup *l);
/* A descriptor that becomes readable with the answer; -1 if there was none left. Owned by the lookup. */
int tt_lookup_fd(const struct tt_lookup *l);
/* The answer, once tt_lookup_step returned true: 0 and *list, the caller's for freeaddrinfo; else getaddrinfo's
 * error, and *why, a static text. */
int tt_lookup_take(struct tt_lookup *l, struct addrinfo **list, const char **why);
/* Ends it, answered or not; helpers that still run end by themselves. NULL is fine. */
void tt_lookup_end(struct tt_lookup *l);

/* Resolves, and blocks until the deadline. A temporary failure is tried again until then if `retry`. OK and *list,
 * the caller's for freeaddrinfo; else *why is a static text, nothing is logged, and the status is
 *   TIMEOUT   there was no answer before the deadline, or only temporary failures
 *   SYSTEM    a temporary failure, or one of this machine
 *   INVALID   there is no such name or address */
tutti_status tt_resolve(const char *host, const char *port, int flags, bool retry, uint64_t deadline_ns,
                        struct addrinfo **list, const char **why);

#endif
