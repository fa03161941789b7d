/* Selection of a lane's NIC. A rank has its rail, by the job's layout; a rank that is alone on its
 * host spreads its lanes over all rails. A lane of a rail is bound to the rail's address and
 * interface. It connects to the peer's address in the same network. If the peer has none there
 * (each NIC in its own network), it connects to the peer's rail with the same index. The initiator
 * decides for both ends.
 *
 * A rail that does not connect does not make the peer unreachable: unbound routes are tried
 * next. */
#include "wire/tcp/tcp.h"

#include <string.h>
#include <unistd.h>
#include "base/log.h"

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

/* Returns our address on the rail, or NULL if it has none that the listener serves. */
static const struct tt_ifaddr *rail_address(const struct tt_tcp *t, uint32_t rail)
{
    for (int want = AF_INET;; want = AF_INET6) {
        for (size_t i = 0; i < t->nifaddrs; i++) {
            const struct tt_ifaddr *a = &t->ifaddrs[i];

            if (a->family == want && !a->link_local &&
                strcmp(a->name, t->conf.rails->rail[rail].name) == 0 &&
                (want == AF_INET || t->listen_family == AF_INET6))
                return a;
        }
        if (want == AF_INET6)
            return NULL;
    }
}

void tt_tcp_rails_address(const struct tt_tcp *t, struct tt_tcp_address *a)
{
    for (uint32_t i = 0; t->conf.rails && i < t->conf.rails->n && a->count < TT_TCP_ENDPOINTS;
         i++) {
        const struct tt_ifaddr *from = rail_address(t, i);

        if (!from)
            break;      /* skipping one would renumber the others */
        tt_tcp_address_add(a, from->family == AF_INET ? 4 : 6, from->ip);
    }
    a->rails = a->count;
}

void tt_tcp_settle(struct tt_tcp *t)
{
    const struct tt_layout *l = t->conf.layout;
    const uint32_t nrails = t->conf.rails ? t->conf.rails->n : 0;

    if (t->settled || !l || l->nranks == 0)
        return;
    t->settled = true;
    t->rail = nrails && tt_layout_rail(l, t->conf.rank) < nrails
                  ? (uint8_t)tt_layout_rail(l, t->conf.rank)
                  : TT_TCP_NO_RAIL;
    t->alone = nrails > 1 && tt_layout_host_ranks(l, tt_layout_host(l, t->conf.rank)) == 1;
    if (t->lanes_free && t->alone)
        t->conf.lanes = nrails < TT_TCP_LANES_MAX ? nrails : TT_TCP_LANES_MAX;
    if (t->conf.lanes > 1)
        t->wire.caps &= ~(uint32_t)TT_WIRE_CAP_ORDERED;
    if (t->alone && l->nranks > 1)
        tt_log(TT_LOG_INFO, "tcp: this rank is the only one on its host: lanes use all %u rails",
               nrails);
    else if (t->rail != TT_TCP_NO_RAIL && nrails > 1)
        tt_log(TT_LOG_INFO, "tcp: lanes use rail %u, %s", t->rail,
               t->conf.rails->rail[t->rail].name);
}

uint8_t tt_tcp_rail_of(const struct tt_tcp *t, uint32_t peer, uint32_t lane)
{
    if (!t->settled || t->rail == TT_TCP_NO_RAIL || t->conf.rails->n < 2)
        return TT_TCP_NO_RAIL;
    return t->alone ? (uint8_t)((t->conf.rank + peer + lane) % t->conf.rails->n) : t->rail;
}

int tt_tcp_rail_endpoint(const struct tt_tcp *t, uint32_t peer, const struct tt_tcp_address *a,
                         uint8_t rail)
{
    const struct tt_ifaddr *from = rail_address(t, rail);
    const uint8_t family = from && from->family == AF_INET ? 4 : 6;
    int near[TT_TCP_ENDPOINTS], n = 0;

    if (!from || tt_wire_shares_host(&t->conf, peer, a->host == t->host))
        return -1;
    for (int i = 0; i < a->count; i++)
        if (a->endpoints[i].family == family &&
            tt_ifaddr_near(from, from->family, a->endpoints[i].ip) &&
            memcmp(a->endpoints[i].ip, from->ip, family == 4 ? 4 : 16) != 0)
            near[n++] = i;
    if (n > 0)
        return near[rail % n];      /* several rails may share a network */
    if (a->rails > 0 && a->endpoints[rail % a->rails].family == family)
        return rail % a->rails;
    return -1;
}

bool tt_tcp_rail_bind(const struct tt_tcp *t, int fd, uint8_t rail)
{
    const struct tt_ifaddr *from = rail_address(t, rail);
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    static const int on = 1;

    if (!from)
        return false;
    /* Before Linux 5.7 this needs privileges; then only the address selects the interface, if
     * routes follow it. */
    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, from->name, (socklen_t)strlen(from->name));
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    memcpy(&v4.sin_addr, from->ip, 4);
    memcpy(&v6.sin6_addr, from->ip, 16);
    if (from->family == AF_INET)
        return bind(fd, (const struct sockaddr *)&v4, sizeof v4) == 0;
    return bind(fd, (const struct sockaddr *)&v6, sizeof v6) == 0;
}
