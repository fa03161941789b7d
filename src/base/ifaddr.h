/* The network interfaces of this host, and the rule by which a user chooses among them:
 *   "eth,ib"      names that begin so
 *   "=eth0,=eth1" exactly these
 *   "^docker,lo"  all but those that begin so ("^=docker0": all but exactly that one)
 *   "" or NULL    all but loopback */
#ifndef TT_BASE_IFADDR_H
#define TT_BASE_IFADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include "tutti/tutti.h"

struct tt_ifaddr {
    char name[16];
    struct sockaddr_storage addr;   /* AF_INET or AF_INET6; port 0 */
    uint8_t prefix_bits;            /* of its subnet */
};

/* Whether `rule` admits the interface `name`. Pure. */
bool tt_ifaddr_allowed(const char *rule, const char *name);

/* Fills out[max] with the addresses of the interfaces that are up and that `rule` admits, IPv4 before IPv6 and virtual bridges
 * (docker, virbr) last; *n is how many. Link-local IPv6 is left out. Without a rule, loopback comes only if there is
 * nothing else. INVALID, naming the interfaces there are, if a rule admits none. */
tutti_status tt_ifaddr_list(const char *rule, struct tt_ifaddr *out, size_t max, size_t *n);

/* Whether both addresses are of one family and agree in their first `bits` bits. Ports do not matter. */
bool tt_ifaddr_same_net(const struct sockaddr *a, const struct sockaddr *b, unsigned bits);

#endif
