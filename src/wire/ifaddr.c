#include "wire/ifaddr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/status.h"

#define LISTED_MAX 64

bool tt_ifaddr_allows(const char *rule, const char *name)
{
    bool negated, all_exact, found = false;

    if (!rule || !*rule)
        return true;
    negated = *rule == '^';
    rule += negated;
    all_exact = *rule == '=';
    while (*rule) {
        const size_t n = strcspn(rule, ",");
        const size_t mark = *rule == '=';
        const bool exact = mark || all_exact;
        const char *word = rule + mark;
        const size_t bytes = n - mark;

        if (bytes > 0 && strncmp(name, word, bytes) == 0 && (!exact || name[bytes] == '\0'))
            found = true;
        rule += n;
        rule += *rule == ',';
    }
    return found != negated;
}

static unsigned prefix_bits(const uint8_t *mask, size_t bytes)
{
    unsigned bits = 0;

    while (bits < 8 * bytes && mask[bits / 8] >> (7 - bits % 8) & 1)
        bits++;
    return bits;
}

bool tt_ifaddr_near(const struct tt_ifaddr *a, int family, const uint8_t *ip)
{
    if (a->family != family || a->prefix_bits == 0)
        return false;
    for (unsigned bit = 0; bit < a->prefix_bits; bit++)
        if ((a->ip[bit / 8] ^ ip[bit / 8]) >> (7 - bit % 8) & 1)
            return false;
    return true;
}

static size_t ip_of_sockaddr(const struct sockaddr *sa, const uint8_t **ip)
{
    if (sa->sa_family == AF_INET) {
        *ip = (const uint8_t *)&((const struct sockaddr_in *)sa)->sin_addr;
        return 4;
    }
    *ip = (const uint8_t *)&((const struct sockaddr_in6 *)sa)->sin6_addr;
    return 16;
}

/* Finds the source address of the default route. Connecting a datagram socket sends nothing. The
 * targets are addresses reserved for documentation. */
static bool find_routed_address(int family, uint8_t ip[16])
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(9) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(9) };
    const struct sockaddr *target = family == AF_INET ? (void *)&v4 : (void *)&v6;
    socklen_t bytes = family == AF_INET ? sizeof v4 : sizeof v6;
    struct sockaddr_storage mine;
    const uint8_t *at;
    bool found;
    int fd;

    inet_pton(AF_INET, "198.51.100.1", &v4.sin_addr);
    inet_pton(AF_INET6, "2001:db8::1", &v6.sin6_addr);
    fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    found = connect(fd, target, bytes) == 0;
    bytes = sizeof mine;
    found = found && getsockname(fd, (struct sockaddr *)&mine, &bytes) == 0;
    close(fd);
    if (found) {
        bytes = (socklen_t)ip_of_sockaddr((struct sockaddr *)&mine, &at);
        memcpy(ip, at, bytes);
    }
    return found;
}

/* Bridges and tunnels of container and virtual machine managers: often up, often with the same
 * address on every host. */
static bool name_is_virtual(const char *name)
{
    static const char *const prefixes[] = { "docker", "br-",     "virbr", "veth", "vmnet",
                                            "cni",    "flannel", "tun",   "tap" };

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static int badness(const struct tt_ifaddr *a, const uint8_t v4[16], const uint8_t v6[16])
{
    const size_t bytes = a->family == AF_INET ? 4 : 16;

    if (a->loopback)
        return 0;
    if (a->link_local)
        return 4;
    if (memcmp(a->ip, a->family == AF_INET ? v4 : v6, bytes) == 0)
        return 1;
    return name_is_virtual(a->name) ? 3 : 2;
}

/* If the entry is an address on an interface that is up and allowed by the rule, sets *out and
 * returns true. */
static bool entry_usable(const struct ifaddrs *i, const char *rule, struct tt_ifaddr *out)
{
    const uint8_t *ip, *mask;
    size_t bytes;

    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !tt_ifaddr_allows(rule, i->ifa_name))
        return false;
    if (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6)
        return false;
    memset(out, 0, sizeof *out);
    strncpy(out->name, i->ifa_name, sizeof out->name - 1);
    out->index = if_nametoindex(i->ifa_name);
    out->family = i->ifa_addr->sa_family;
    bytes = ip_of_sockaddr(i->ifa_addr, &ip);
    memcpy(out->ip, ip, bytes);
    if (i->ifa_netmask) {
        ip_of_sockaddr(i->ifa_netmask, &mask);
        out->prefix_bits = prefix_bits(mask, bytes);
    }
    out->loopback = i->ifa_flags & IFF_LOOPBACK;
    out->link_local = out->family == AF_INET6 && out->ip[0] == 0xfe && (out->ip[1] & 0xc0) == 0x80;
    return true;
}

tutti_status tt_ifaddr_list(const char *rule, struct tt_ifaddr *out, size_t max, size_t *count)
{
    struct tt_ifaddr found[LISTED_MAX];
    uint8_t v4[16] = { 0 }, v6[16] = { 0 };
    struct ifaddrs *all;
    size_t n = 0, kept = 0;

    if (getifaddrs(&all) != 0)
        return tt_fail_errno(errno, "tcp: cannot list the network interfaces");
    for (const struct ifaddrs *i = all; i && n < LISTED_MAX; i = i->ifa_next)
        n += entry_usable(i, rule, &found[n]);
    freeifaddrs(all);

    find_routed_address(AF_INET, v4);
    find_routed_address(AF_INET6, v6);
    for (int bad = 0; bad <= 4; bad++)
        for (size_t i = 0; i < n && kept < max; i++)
            if (badness(&found[i], v4, v6) == bad)
                out[kept++] = found[i];
    *count = kept;
    return TUTTI_OK;
}
