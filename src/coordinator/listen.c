#include "coordinator/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hostport.h"
#include "base/near.h"
#include "base/param.h"
#include "base/resolve.h"
#include "base/status.h"

#define BACKLOG 4096
#define PORT_TRIES 8    /* attempts to find a port that is free on all addresses */
/* socket buffer of a connection, per direction; the kernel doubles it for its own overhead */
#define SOCKET_BYTES 131072

/* ---- addresses ---- */

static void split_mapped(const struct sockaddr_storage *at, struct sockaddr_storage *out)
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)at;
    struct sockaddr_in four = { .sin_family = AF_INET };

    *out = *at;
    if (at->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        return;
    four.sin_port = six->sin6_port;
    memcpy(&four.sin_addr, six->sin6_addr.s6_addr + 12, 4);
    memcpy(out, &four, sizeof four);
}

void tt_listen_text(const struct sockaddr_storage *at, char out[TT_LISTEN_TEXT_BYTES])
{
    struct sockaddr_storage a;
    char host[INET6_ADDRSTRLEN];

    split_mapped(at, &a);
    if (a.ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&a;

        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host);
        snprintf(out, TT_LISTEN_TEXT_BYTES, "[%s]:%u", host, ntohs(six->sin6_port));
    } else {
        const struct sockaddr_in *four = (const struct sockaddr_in *)&a;

        inet_ntop(AF_INET, &four->sin_addr, host, sizeof host);
        snprintf(out, TT_LISTEN_TEXT_BYTES, "%s:%u", host, ntohs(four->sin_port));
    }
}

void tt_listen_origin(const struct sockaddr_storage *at, uint8_t out[16])
{
    struct sockaddr_storage a;

    memset(out, 0, 16);
    split_mapped(at, &a);
    if (a.ss_family == AF_INET6)
        memcpy(out, ((const struct sockaddr_in6 *)&a)->sin6_addr.s6_addr, 8);
    else
        memcpy(out + 8, &((const struct sockaddr_in *)&a)->sin_addr, 4);
}

static bool listens_on_loopback(const struct sockaddr *at)
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)at;
    const struct sockaddr_in *four = (const struct sockaddr_in *)at;

    if (at->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) && six->sin6_addr.s6_addr[12] == 127);
    return ntohl(four->sin_addr.s_addr) >> 24 == 127;
}

/* Resolves `text`; the caller frees the addresses with freeaddrinfo. Waits for a name server for at
 * most the start-up timeout. */
static tutti_status resolve_text(const char *text, const char *given, struct addrinfo **list,
                                 uint16_t *port)
{
    struct tt_hostport at;
    const char *why = tt_hostport_parse(&at, text, strlen(text));
    int64_t timeout_ms;
    tutti_status st;

    if (why)
        return tt_fail(TUTTI_ERR_INVALID, "invalid listen address \"%s\" (%s): %s", text, given,
                       why);
    st = tt_param_get(TT_PARAM_TIMEOUT_MS, &timeout_ms);
    if (st)
        return st;
    st = tt_resolve(*at.host && strcmp(at.host, "*") != 0 ? at.host : NULL, at.port, AI_PASSIVE,
                    false, tt_deadline_ns(tt_now_ns(), timeout_ms), list, &why);
    if (st)
        return tt_fail(st, "cannot resolve listen address \"%s\" (%s): %s", text, given, why);
    *port = at.number;
    return TUTTI_OK;
}

tutti_status tt_listen_check(const char *text, const char *given, bool *loopback)
{
    struct addrinfo *list;
    uint16_t port;
    tutti_status st = resolve_text(text, given, &list, &port);

    if (st)
        return st;
    *loopback = true;
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        *loopback &= listens_on_loopback(a->ai_addr);
    freeaddrinfo(list);
    return TUTTI_OK;
}

/* ---- listening ---- */

static void set_port(struct sockaddr_storage *at, uint16_t port)
{
    if (at->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)at)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)at)->sin_port = htons(port);
}

static uint16_t bound_port(const struct sockaddr_storage *at)
{
    return ntohs(at->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)at)->sin6_port
                                           : ((const struct sockaddr_in *)at)->sin_port);
}

/* Fills *out, or returns an errno. *port: if 0, any port, which is then stored there. */
static int listen_one(struct tt_listener *out, const struct addrinfo *a, uint16_t *port)
{
    const int yes = 1, room = SOCKET_BYTES;
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_storage at = { 0 };
    socklen_t bytes = sizeof at;
    int err;

    if (fd < 0)
        return errno;
    memcpy(&at, a->ai_addr, a->ai_addrlen);
    set_port(&at, *port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (tt_near_bind(fd, (const struct sockaddr *)&at, a->ai_addrlen) != 0 ||
        listen(fd, BACKLOG) != 0 || getsockname(fd, (struct sockaddr *)&at, &bytes) != 0) {
        err = errno;
        close(fd);
        return err;
    }
    *port = bound_port(&at);
    out->fd = fd;
    out->loopback = listens_on_loopback(a->ai_addr);
    tt_listen_text(&at, out->text);
    return 0;
}

static void close_listeners(struct tt_listener *l, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        close(l[i].fd);
}

/* Listens on all addresses with one port. Skips IPv6 (or IPv4) if the host does not support it. */
static int listen_all(struct tt_listener *out, uint32_t max, uint32_t *n,
                      const struct addrinfo *list, uint16_t port)
{
    int err = 0;

    *n = 0;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        err = *n < max ? listen_one(&out[*n], a, &port) : E2BIG;
        if (err == 0)
            ++*n;
        else if (err != EAFNOSUPPORT && err != EADDRNOTAVAIL)
            break;
        else if (a->ai_next || *n > 0)
            err = 0;
    }
    if (err)
        close_listeners(out, *n);
    return err;
}

tutti_status tt_listen_open(struct tt_listener *out, uint32_t max, uint32_t *n, const char *text,
                            const char *given)
{
    struct addrinfo *list;
    uint32_t count = 0;
    uint16_t port;
    tutti_status st = resolve_text(text, given, &list, &port);
    int err = 0;

    if (st)
        return st;
    for (int tries = 0; tries < PORT_TRIES; tries++) {
        err = listen_all(out, max, &count, list, port);
        if (err != EADDRINUSE || port != 0)
            break;
    }
    freeaddrinfo(list);
    if (err || count == 0)
        return tt_fail_errno(err ? err : EADDRNOTAVAIL, "cannot listen on \"%s\" (%s)", text,
                             given);
    *n = count;
    return TUTTI_OK;
}
