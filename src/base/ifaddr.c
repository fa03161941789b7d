#include "base/ifaddr.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include "base/status.h"

/* Whether one entry of a rule, entry[n], stands for `name`. */
static bool entry_matches(const char *entry, size_t n, const char *name)
{
    if (n > 0 && entry[0] == '=')
        return strlen(name) == n - 1 && memcmp(entry + 1, name, n - 1) == 0;
    return n > 0 && strncmp(name, entry, n) == 0;
}

bool tt_ifaddr_allowed(const char *rule, const char *name)
{
    bool negated;

    if (!rule || !*rule)
        return strcmp(name, "lo") != 0;
    negated = *rule == '^';
    rule += negated;

    while (*rule) {
        const size_t n = strcspn(rule, ",");

        if (entry_matches(rule, n, name))
            return !negated;
        rule += n + (rule[n] == ',');
    }
    return negated;
}

static const uint8_t *address_bytes(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return (const uint8_t *)&((const struct sockaddr_in *)a)->sin_addr;
    return (const uint8_t *)&((const struct sockaddr_in6 *)a)->sin6_addr;
}

static size_t address_size(const struct sockaddr *a)
{
    return a->sa_family == AF_INET ? 4 : a->sa_family == AF_INET6 ? 16 : 0;
}

bool tt_ifaddr_same_net(const struct sockaddr *a, const struct sockaddr *b, unsigned bits)
{
    const uint8_t *x, *y;
    unsigned whole, rest;

    if (a->sa_family != b->sa_family || bits > 8 * address_size(a))
        return false;
    x = address_bytes(a);
    y = address_bytes(b);
    whole = bits / 8;
    rest = bits % 8;
    return memcmp(x, y, whole) == 0 && (rest == 0 || (x[whole] ^ y[whole]) >> (8 - rest) == 0);
}

static uint8_t mask_bits(const struct sockaddr *mask, size_t bytes)
{
    unsigned bits = 0;

    for (size_t i = 0; mask && i < bytes; i++)
        bits += (unsigned)__builtin_popcount(address_bytes(mask)[i]);
    return (uint8_t)bits;
}

/* An address that others can be told: up, IPv4 or IPv6, not link-local (it means nothing without the interface). */
static bool is_usable(const struct ifaddrs *i)
{
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || address_size(i->ifa_addr) == 0)
        return false;
    return i->ifa_addr->sa_family == AF_INET ||
           !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr);
}

static bool is_bridge(const char *name)
{
    return strncmp(name, "docker", 6) == 0 || strncmp(name, "virbr", 5) == 0 || strncmp(name, "br-", 3) == 0;
}

/* Passes over the list: what belongs together in the order of preference has one number. */
enum { PASS_V4, PASS_V6, PASS_BRIDGE, PASS_COUNT };

static int pass_of(const struct ifaddrs *i)
{
    return is_bridge(i->ifa_name) ? PASS_BRIDGE : i->ifa_addr->sa_family == AF_INET ? PASS_V4 : PASS_V6;
}

static void add(struct tt_ifaddr *out, const struct ifaddrs *i)
{
    const size_t bytes = i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", i->ifa_name);
    memcpy(&out->addr, i->ifa_addr, bytes);
    out->prefix_bits = mask_bits(i->ifa_netmask, address_size(i->ifa_addr));
}

static size_t collect(const struct ifaddrs *all, const char *rule, struct tt_ifaddr *out, size_t max)
{
    size_t n = 0;

    for (int pass = 0; pass < PASS_COUNT; pass++)
        for (const struct ifaddrs *i = all; i && n < max; i = i->ifa_next)
            if (is_usable(i) && pass_of(i) == pass && tt_ifaddr_allowed(rule, i->ifa_name))
                add(&out[n++], i);
    return n;
}

/* "lo, eth0" of every usable interface, for the sentence of an error. */
static void name_all(const struct ifaddrs *all, char *out, size_t cap)
{
    size_t n = 0;

    out[0] = '\0';
    for (const struct ifaddrs *i = all; i && n < cap; i = i->ifa_next)
        if (is_usable(i))
            n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? ", " : "", i->ifa_name);
}

tutti_status tt_ifaddr_list(const char *rule, struct tt_ifaddr *out, size_t max, size_t *n)
{
    struct ifaddrs *all;
    tutti_status st = TUTTI_OK;
    size_t found;
    char names[256];

    if (getifaddrs(&all) != 0)
        return tt_fail_errno(errno, "list the network interfaces");

    found = collect(all, rule, out, max);
    if (found == 0 && (!rule || !*rule))
        found = collect(all, "lo", out, max);
    if (found == 0) {
        name_all(all, names, sizeof names);
        st = tt_fail(TUTTI_ERR_INVALID, "no interface that is up matches \"%s\"; there are: %s", rule ? rule : "",
                     *names ? names : "none");
    } else {
        *n = found;
    }
    freeifaddrs(all);
    return st;
}
