/* The addresses of this machine that peers may connect to. The rule is a list of interface names:
 * "eth" (prefix), "=eth0" (exact name), "^docker,lo" (all but these). NULL or "": all. */
#ifndef TT_WIRE_IFADDR_H
#define TT_WIRE_IFADDR_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include "tutti/tutti.h"

struct tt_ifaddr {
    char name[IF_NAMESIZE];
    unsigned index;                 /* of the interface; scope of a link-local address */
    int family;                     /* AF_INET or AF_INET6 */
    unsigned prefix_bits;           /* of its network */
    uint8_t ip[16];                 /* network order; 4 bytes used by AF_INET */
    bool loopback, link_local;
};

/* Returns whether the rule allows an interface of this name. NULL and "" allow every name. Pure. */
bool tt_ifaddr_allows(const char *rule, const char *name);

/* Lists the addresses of allowed interfaces that are up into out[max], best first: loopback, the
 * default route's interface, other hardware, virtual bridges, link-local addresses. *count may be
 * 0. Any thread. */
tutti_status tt_ifaddr_list(const char *rule, struct tt_ifaddr *out, size_t max, size_t *count);

/* Returns whether ip (of this family) is in the network of `a`. */
bool tt_ifaddr_near(const struct tt_ifaddr *a, int family, const uint8_t *ip);

#endif
