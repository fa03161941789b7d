#include "boot/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/host.h"
#include "base/near.h"
#include "base/status.h"
#include "wire/ifaddr.h"

#define BACKLOG \
    4096 /* thousands of ranks may connect at once; the kernel limits it to
                           somaxconn */

#define IFADDRS_MAX 32
#define CANDIDATES_MAX (1 + TT_ENDPOINT_ADDRS)

/* Adds the addresses of one scope. */
static void add_addresses(struct tt_endpoint *e, const struct tt_ifaddr *found, size_t n,
                          bool link_local, bool loopback)
{
    for (size_t i = 0; i < n && e->naddrs < TT_ENDPOINT_ADDRS; i++) {
        if (found[i].link_local != link_local || found[i].loopback != loopback)
            continue;
        e->addrs[e->naddrs].family = found[i].family == AF_INET ? 4 : 6;
        e->addrs[e->naddrs].prefix_bits = (uint8_t)found[i].prefix_bits;
        memcpy(e->addrs[e->naddrs].bytes, found[i].ip, sizeof found[i].ip);
        e->naddrs++;
    }
}

tutti_status tt_endpoint_init(struct tt_endpoint *out, uint16_t port, const char *rule)
{
    struct tt_ifaddr found[IFADDRS_MAX];
    struct tt_endpoint e = { .host = tt_host_hash(), .port = port };
    size_t n = 0;
    tutti_status st;

    st = tt_ifaddr_list(rule, found, IFADDRS_MAX, &n);
    if (st)
        return st;
    add_addresses(&e, found, n, false, false);
    if (e.naddrs == 0)
        add_addresses(&e, found, n, true, false);       /* peers try each of their own interfaces */
    if (e.naddrs == 0)
        add_addresses(&e, found, n, false, true);       /* only for ranks of this host */
    if (e.naddrs == 0 && rule && *rule)
        return tt_fail(TUTTI_ERR_INVALID,
                       "cannot select a network interface: no interface that matches \"%s\" is up "
                       "and has an address (set conf.interfaces or TUTTI_INTERFACES)",
                       rule);
    *out = e;
    return TUTTI_OK;
}

void tt_endpoint_write(struct tt_writer *w, const struct tt_endpoint *e)
{
    tt_write_u64(w, e->host);
    tt_write_u16(w, e->port);
    tt_write_u8(w, e->naddrs);
    for (size_t i = 0; i < e->naddrs; i++) {
        tt_write_u8(w, e->addrs[i].family);
        tt_write_u8(w, e->addrs[i].prefix_bits);
        tt_write_bytes(w, e->addrs[i].bytes, sizeof e->addrs[i].bytes);
    }
}

void tt_endpoint_read(struct tt_reader *r, struct tt_endpoint *out)
{
    memset(out, 0, sizeof *out);
    out->host = tt_read_u64(r);
    out->port = tt_read_u16(r);
    out->naddrs = tt_read_u8(r);
    if (out->naddrs > TT_ENDPOINT_ADDRS)
        r->bad = true;
    for (size_t i = 0; !r->bad && i < out->naddrs; i++) {
        out->addrs[i].family = tt_read_u8(r);
        out->addrs[i].prefix_bits = tt_read_u8(r);
        tt_read_bytes(r, out->addrs[i].bytes, sizeof out->addrs[i].bytes);
        if ((out->addrs[i].family != 4 && out->addrs[i].family != 6) ||
            out->addrs[i].prefix_bits > 128)
            r->bad = true;
    }
    if (r->bad)
        memset(out, 0, sizeof *out);
}

static struct tt_address make_address(int family, const void *bytes, uint16_t port)
{
    struct tt_address a;

    memset(&a, 0, sizeof a);
    if (family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)&a.storage;

        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, bytes, 4);
        a.bytes = sizeof *in;
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a.storage;

        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        memcpy(&in6->sin6_addr, bytes, 16);
        a.bytes = sizeof *in6;
    }
    return a;
}

/* Returns whether address i of `peer` is in a subnet of one of `own`'s addresses. */
static bool endpoint_is_near(const struct tt_endpoint *own, const struct tt_endpoint *peer,
                             size_t i)
{
    for (size_t k = 0; k < own->naddrs; k++) {
        struct tt_ifaddr ours = { .family = own->addrs[k].family,
                                  .prefix_bits = own->addrs[k].prefix_bits };

        memcpy(ours.ip, own->addrs[k].bytes, sizeof ours.ip);
        if (tt_ifaddr_near(&ours, peer->addrs[i].family, peer->addrs[i].bytes))
            return true;
    }
    return false;
}

static bool endpoint_is_loopback(const struct tt_endpoint *e, size_t i)
{
    static const uint8_t one[16] = { [15] = 1 };

    return e->addrs[i].family == 4 ? e->addrs[i].bytes[0] == 127
                                   : memcmp(e->addrs[i].bytes, one, sizeof one) == 0;
}

void tt_endpoint_without_loopback(struct tt_endpoint *e)
{
    size_t n = 0;

    for (size_t i = 0; i < e->naddrs; i++)
        if (!endpoint_is_loopback(e, i))
            e->addrs[n++] = e->addrs[i];
    e->naddrs = (uint8_t)n;
}

static bool is_link_local(const struct tt_endpoint *e, size_t i)
{
    return e->addrs[i].family == 6 && e->addrs[i].bytes[0] == 0xfe &&
           (e->addrs[i].bytes[1] & 0xc0) == 0x80;
}

/* Adds the link-local address i of `peer` to out[n..CANDIDATES_MAX), once for each interface of
 * this host, since it is valid only with an interface. Returns the new n. */
static size_t add_links(const struct tt_endpoint *peer, size_t i, struct tt_address *out, size_t n)
{
    struct tt_ifaddr found[IFADDRS_MAX];
    size_t nfound = 0;

    if (tt_ifaddr_list(NULL, found, IFADDRS_MAX, &nfound))
        return n;
    for (size_t k = 0; k < nfound && n < CANDIDATES_MAX; k++)
        if (found[k].link_local) {
            out[n] = make_address(6, peer->addrs[i].bytes, peer->port);
            ((struct sockaddr_in6 *)&out[n++].storage)->sin6_scope_id = found[k].index;
        }
    return n;
}

size_t tt_endpoint_candidates(const struct tt_endpoint *own, const struct tt_endpoint *peer,
                              struct tt_address *out)
{
    static const uint8_t loopback[4] = { 127, 0, 0, 1 };
    size_t n = 0;

    if (own->host == peer->host)
        out[n++] = make_address(4, loopback, peer->port);
    for (int near = 1; near >= 0; near--)
        for (size_t i = 0; i < peer->naddrs && n < CANDIDATES_MAX; i++) {
            if (endpoint_is_near(own, peer, i) != near)
                continue;
            if (is_link_local(peer, i))
                n = add_links(peer, i, out, n);
            else
                out[n++] = make_address(peer->addrs[i].family, peer->addrs[i].bytes, peer->port);
        }
    return n;
}

size_t tt_endpoint_near(const struct tt_endpoint *own, const struct tt_endpoint *peer)
{
    size_t n = 0;

    if (own->host == peer->host)
        return 1;
    for (size_t i = 0; i < peer->naddrs; i++)
        n += endpoint_is_near(own, peer, i);
    return n;
}

void tt_address_text(const struct tt_address *a, char out[TT_ADDRESS_TEXT_BYTES])
{
    char text[INET6_ADDRSTRLEN] = "?";

    if (a->storage.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&a->storage;

        inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
        snprintf(out, TT_ADDRESS_TEXT_BYTES, "%s:%u", text, ntohs(in->sin_port));
    } else if (a->storage.ss_family == AF_UNIX) {
        snprintf(out, TT_ADDRESS_TEXT_BYTES, "this host");
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->storage;

        inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof text);
        snprintf(out, TT_ADDRESS_TEXT_BYTES, "[%s]:%u", text, ntohs(in6->sin6_port));
    }
}

static uint16_t socket_port(int fd)
{
    struct sockaddr_storage a = { .ss_family = AF_UNSPEC };
    socklen_t bytes = sizeof a;

    if (getsockname(fd, (struct sockaddr *)&a, &bytes) != 0)
        return 0;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

static int listen_on_address(const struct tt_address *a, uint16_t *port_out)
{
    const int one = 1, zero = 0;
    int fd, err;

    fd = socket(a->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (a->storage.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (tt_near_bind(fd, (const struct sockaddr *)&a->storage, a->bytes) != 0 ||
        listen(fd, BACKLOG) != 0)
        goto fail;
    *port_out = socket_port(fd);
    return fd;

fail:
    err = errno;
    close(fd);
    errno = err;
    return -1;
}

int tt_listen(const struct tt_address *a, uint16_t port, uint16_t *port_out)
{
    static const uint8_t any[16];
    struct tt_address all;
    int fd;

    if (a)
        return listen_on_address(a, port_out);
    all = make_address(6, any, port);
    fd = listen_on_address(&all, port_out);
    if (fd >= 0 || errno == EADDRINUSE)
        return fd;
    all = make_address(4, any, port);     /* a kernel without IPv6 */
    return listen_on_address(&all, port_out);
}

/* Control frames are small and must not be delayed. Keep-alive detects an unreachable host within
 * 15 s. */
static void tune(int fd)
{
    const int one = 1, idle_s = 5, interval_s = 3, count = 3;
    const unsigned user_timeout_ms = 15000;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
}

int tt_accept(struct tt_acceptor *acceptor)
{
    const int fd = tt_acceptor_take(acceptor);

    if (fd >= 0)
        tune(fd);
    return fd;
}

int tt_connect_begin(const struct tt_address *a)
{
    int fd, err;

    if (tt_near_applies((const struct sockaddr *)&a->storage))
        return tt_near_connect((const struct sockaddr *)&a->storage);
    fd = socket(a->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    tune(fd);
    if (connect(fd, (const struct sockaddr *)&a->storage, a->bytes) == 0 || errno == EINPROGRESS)
        return fd;
    err = errno;
    close(fd);
    errno = err;
    return -1;
}

/* Without a listener, a socket whose local port is also its destination may connect to itself
 * (simultaneous open on one host). */
static bool is_to_itself(int fd)
{
    struct sockaddr_storage here, there;
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;

    memset(&here, 0, sizeof here);
    memset(&there, 0, sizeof there);
    return getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 &&
           here_bytes == there_bytes && memcmp(&here, &there, here_bytes) == 0;
}

int tt_connect_result(int fd)
{
    int err = 0;
    socklen_t bytes = sizeof err;

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &bytes) != 0)
        return errno;
    return err == 0 && is_to_itself(fd) ? ECONNREFUSED : err;
}
