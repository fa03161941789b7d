#include "base/near.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

#define BACKLOG 4096

struct place {
    uint8_t ip[16];             /* IPv4 mapped into IPv6; the wildcard address: zeros */
    uint16_t port;
};

/* Returns false for other address families. */
static bool place_of_sockaddr(const struct sockaddr *a, struct place *out)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;
    const struct sockaddr_in *four = (const struct sockaddr_in *)a;

    memset(out, 0, sizeof *out);
    if (a->sa_family == AF_INET6) {
        memcpy(out->ip, &six->sin6_addr, 16);
        out->port = ntohs(six->sin6_port);
    } else if (a->sa_family == AF_INET) {
        if (four->sin_addr.s_addr != htonl(INADDR_ANY)) {
            memcpy(out->ip, mapped, sizeof mapped);
            memcpy(out->ip + 12, &four->sin_addr, 4);
        }
        out->port = ntohs(four->sin_port);
    }
    return a->sa_family == AF_INET6 || a->sa_family == AF_INET;
}

static socklen_t socket_name_of(const struct place *p, struct sockaddr_un *out)
{
    char *at = out->sun_path + 1;
    char *const end = out->sun_path + sizeof out->sun_path;

    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    at += snprintf(at, (size_t)(end - at), "tutti-near-%u-", p->port);
    for (size_t i = 0; i < sizeof p->ip; i++)
        at += snprintf(at, (size_t)(end - at), "%02x", p->ip[i]);
    return (socklen_t)(at - (char *)out);
}

static int make_unix_socket(int type)
{
    return socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

bool tt_near_lo_is_down(void)
{
    struct ifreq lo = { .ifr_name = "lo" };
    const int fd = make_unix_socket(SOCK_DGRAM);
    bool down;

    if (fd < 0)
        return false;
    down = ioctl(fd, SIOCGIFFLAGS, &lo) == 0 && !(lo.ifr_flags & IFF_UP);
    close(fd);
    return down;
}

int tt_near_listen(int listener)
{
    struct sockaddr_storage a = { .ss_family = AF_UNSPEC };
    socklen_t bytes = sizeof a;
    struct sockaddr_un name;
    struct place place;
    int fd;

    if (!tt_near_lo_is_down() || getsockname(listener, (struct sockaddr *)&a, &bytes) != 0 ||
        !place_of_sockaddr((const struct sockaddr *)&a, &place))
        return -1;
    fd = make_unix_socket(SOCK_STREAM);
    bytes = socket_name_of(&place, &name);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&name, bytes) == 0 &&
        listen(fd, BACKLOG) == 0) {
        tt_log(TT_LOG_INFO,
               "the loopback interface lo is down: connections within this host to port %u use a "
               "Unix socket",
               place.port);
        return fd;
    }
    if (errno != EADDRINUSE)    /* the IPv4 and IPv6 wildcard addresses have the same name */
        tt_log(TT_LOG_WARN,
               "the loopback interface lo is down, and no Unix socket can replace it (%s): "
               "processes of this host cannot "
               "connect to port %u (run ip link set lo up)",
               strerror(errno), place.port);
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool place_is_loopback(const struct place *p)
{
    static const uint8_t one[16] = { [15] = 1 },
                         mapped[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 };

    return memcmp(p->ip, one, sizeof one) == 0 || memcmp(p->ip, mapped, sizeof mapped) == 0;
}

static bool is_of_this_host(const struct place *p)
{
    struct ifaddrs *all;
    struct place own;
    bool found = place_is_loopback(p);

    if (found || getifaddrs(&all) != 0)
        return found;
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
        found = i->ifa_addr && place_of_sockaddr(i->ifa_addr, &own) &&
                memcmp(own.ip, p->ip, sizeof own.ip) == 0;
    freeifaddrs(all);
    return found;
}

bool tt_near_applies(const struct sockaddr *a)
{
    struct place place;

    return place_of_sockaddr(a, &place) && tt_near_lo_is_down() && is_of_this_host(&place);
}

int tt_near_bind(int fd, const struct sockaddr *a, socklen_t bytes)
{
    const int one = 1;
    int err;

    if (bind(fd, a, bytes) == 0)
        return 0;
    err = errno;
    if (err == EADDRNOTAVAIL && tt_near_applies(a) &&
        setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &one, sizeof one) == 0)
        return bind(fd, a, bytes);
    errno = err;
    return -1;
}

static int connect_to(const struct place *p)
{
    struct sockaddr_un name;
    const socklen_t bytes = socket_name_of(p, &name);
    const int fd = make_unix_socket(SOCK_STREAM);
    int err;

    if (fd < 0 || connect(fd, (const struct sockaddr *)&name, bytes) == 0)
        return fd;
    err = errno;
    close(fd);
    errno = err;
    return -1;
}

int tt_near_connect(const struct sockaddr *a)
{
    struct place place, all;
    int fd;

    if (!place_of_sockaddr(a, &place)) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    fd = connect_to(&place);
    if (fd >= 0 || errno != ECONNREFUSED)
        return fd;
    all = (struct place){ .port = place.port };
    return connect_to(&all);
}
