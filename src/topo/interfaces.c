/* The interfaces of this network namespace. getifaddrs queries the kernel and is always right. /sys
 * may show another namespace's interfaces, so it is used only if the hardware address agrees. */
#include <dirent.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/machine.h"

/* Reads the first line of /sys/class/net/NAME/what, without its end. Returns false if there is
 * none. */
static bool read_nic_line(const char *name, const char *what, char *out, int cap)
{
    char path[96];
    FILE *f;
    bool ok;

    snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, what);
    f = fopen(path, "re");
    ok = f && fgets(out, cap, f);
    if (f)
        fclose(f);
    if (ok)
        out[strcspn(out, "\n")] = '\0';
    return ok;
}

/* Returns whether the kernel lists a device below it: a physical one, or an interface that it
 * uses. */
static bool is_wired(const char *name)
{
    char path[64];
    bool found = false;
    DIR *d;

    snprintf(path, sizeof path, "/sys/class/net/%s", name);
    d = opendir(path);
    if (!d)
        return false;
    for (const struct dirent *e; !found && (e = readdir(d));)
        found =
            strcmp(e->d_name, "device") == 0 || strncmp(e->d_name, "lower_", strlen("lower_")) == 0;
    closedir(d);
    return found;
}

static void read_rate(struct tt_nic *nic)
{
    char text[64], mac[18];
    long long mbit_s;

    snprintf(mac, sizeof mac, "%02x:%02x:%02x:%02x:%02x:%02x", nic->mac[0], nic->mac[1],
             nic->mac[2], nic->mac[3], nic->mac[4], nic->mac[5]);
    if (!read_nic_line(nic->name, "address", text, sizeof text) || strcmp(text, mac) != 0)
        return;
    nic->wired = is_wired(nic->name);
    if (!read_nic_line(nic->name, "speed", text, sizeof text))
        return;
    mbit_s = atoll(text);
    nic->bit_s = mbit_s > 0 && mbit_s < 100000000 ? mbit_s * 1000000 : 0;
}

static struct tt_nic *find_nic(struct tt_nic *nic, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(nic[i].name, name) == 0)
            return &nic[i];
    return NULL;
}

static bool is_ip_address(const struct sockaddr *sa)
{
    return sa->sa_family == AF_INET ||
           (sa->sa_family == AF_INET6 &&
            !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)sa)->sin6_addr));
}

uint32_t tt_nics_list(struct tt_nic *nic, uint32_t max)
{
    struct ifaddrs *all;
    uint32_t n = 0;

    if (getifaddrs(&all) != 0)
        return 0;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        struct tt_nic *at = find_nic(nic, n, i->ifa_name);

        if (!at && n < max && strlen(i->ifa_name) < sizeof at->name) {
            at = &nic[n++];
            *at = (struct tt_nic){ .socket = TT_UNKNOWN, .numa = TT_UNKNOWN };
            strcpy(at->name, i->ifa_name);
        }
        if (!at)
            continue;
        at->up |= (i->ifa_flags & IFF_UP) != 0;
        at->loopback |= (i->ifa_flags & IFF_LOOPBACK) != 0;
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_PACKET)
            memcpy(at->mac, ((const struct sockaddr_ll *)i->ifa_addr)->sll_addr, sizeof at->mac);
        else if (i->ifa_addr)
            at->addressed |= is_ip_address(i->ifa_addr);
    }
    freeifaddrs(all);
    for (uint32_t i = 0; i < n; i++)
        read_rate(&nic[i]);
    return n;
}
