#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/status.h"
#include "wire/ifaddr.h"
#include "wire/verbs/verbs.h"

#define ADDRESSES_MAX 256
#define PKEYS_MAX 128               /* maximum entries read from a port's table */

/* ---- GIDs ---- */

/* Returns whether the GID is an address of an interface of this network namespace. A device may be
 * visible in several namespaces, but works only with that namespace's GIDs. */
static bool is_of_this_namespace(const struct ibv_gid_entry *e, const struct tt_ifaddr *here,
                                 size_t nhere)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    const uint8_t *raw = e->gid.raw;
    const bool v4 = memcmp(raw, mapped, sizeof mapped) == 0;

    for (size_t i = 0; i < nhere; i++)
        if (v4 ? here[i].family == AF_INET && memcmp(here[i].ip, raw + 12, 4) == 0
               : here[i].family == AF_INET6 && memcmp(here[i].ip, raw, 16) == 0)
            return true;
    return false;
}

/* Rates an address of a RoCE port: routable ones before those of a single network segment. 0:
 * unusable. */
static int gid_merit(const struct ibv_gid_entry *e)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    const uint8_t *raw = e->gid.raw;

    if (e->gid_type == IBV_GID_TYPE_ROCE_V1)
        return 1;
    if (e->gid_type != IBV_GID_TYPE_ROCE_V2)
        return 0;
    if (memcmp(raw, mapped, sizeof mapped) == 0)
        return 4;       /* IPv4 */
    return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80 ? 2 : 3;
}

/* As gid_merit, but 0 unless the choice and the namespace allow the address. */
static int merit_here(const struct tt_verbs_rail *rail, const struct ibv_gid_entry *e,
                      const struct tt_ifaddr *here, size_t nhere)
{
    if (rail->infiniband)
        return e->gid_index == 0;
    if (!tt_verbs_filter_allows(&rail->choice, e->gid_index, e->gid.raw))
        return 0;
    if (rail->choice.gid_by == TT_VERBS_GID_INDEX)
        return 1;
    return is_of_this_namespace(e, here, nhere) ? gid_merit(e) : 0;
}

static void gid_take(struct tt_verbs_rail *rail, const struct ibv_gid_entry *e)
{
    rail->gid = e->gid;
    rail->gid_index = (uint8_t)e->gid_index;
    if (e->ndev_ifindex == 0 || !if_indextoname(e->ndev_ifindex, rail->interface))
        rail->interface[0] = 0;
}

/* Selects the port's address. Returns false if it has no usable one. */
static bool choose_gid(struct tt_verbs_rail *rail)
{
    struct ibv_gid_entry *all = calloc(TT_VERBS_GIDS_MAX, sizeof *all);
    struct tt_ifaddr *here = calloc(ADDRESSES_MAX, sizeof *here);
    ssize_t n = all && here ? ibv_query_gid_table(rail->context, all, TT_VERBS_GIDS_MAX, 0) : 0;
    size_t nhere = 0;
    int best = 0;

    if (n > 0 && !rail->infiniband && tt_ifaddr_list(NULL, here, ADDRESSES_MAX, &nhere) != TUTTI_OK)
        n = 0;
    for (ssize_t i = 0; i < n; i++) {
        const int merit =
            all[i].port_num == rail->port ? merit_here(rail, &all[i], here, nhere) : 0;

        if (merit > best)
            gid_take(rail, &all[i]);
        best = merit > best ? merit : best;
    }
    free(all);
    free(here);
    return best > 0;
}

/* ---- partitions ---- */

/* Returns false if the port is not in the chosen partition. */
static bool choose_pkey(struct tt_verbs_rail *rail, uint32_t nkeys)
{
    uint16_t table[PKEYS_MAX] = { 0 };
    int index;

    for (uint32_t i = 0; i < nkeys && i < PKEYS_MAX && rail->choice.has_pkey; i++) {
        __be16 key = 0;

        if (ibv_query_pkey(rail->context, rail->port, (int)i, &key) == 0)
            table[i] = be16toh(key);
    }
    index = tt_verbs_filter_pkey(&rail->choice, table, nkeys < PKEYS_MAX ? nkeys : PKEYS_MAX);
    if (index < 0)
        return false;
    rail->pkey_index = (uint16_t)index;
    return true;
}

/* ---- devices ---- */

/* Examines a port. Returns false, and the reason, if it is not usable now. */
static bool examine_port(struct tt_verbs_rail *rail, uint8_t number, const char **why)
{
    struct ibv_port_attr port;

    *why = "has no active port";
    if (ibv_query_port(rail->context, number, &port) != 0 || port.state != IBV_PORT_ACTIVE)
        return false;
    rail->port = number;
    rail->lid = port.lid;
    rail->mtu = (uint8_t)port.active_mtu;
    rail->infiniband = port.link_layer != IBV_LINK_LAYER_ETHERNET;
    *why = "is not in the partition of TUTTI_RDMA_PKEY";
    if (!choose_pkey(rail, port.pkey_tbl_len))
        return false;
    *why = rail->choice.gid_by == TT_VERBS_GID_BEST
               ? "has no GID that is an address of this network namespace"
           : rail->choice.gid_by == TT_VERBS_GID_INDEX
               ? "has no usable GID at the index of TUTTI_RDMA_GID"
               : "has no GID that matches TUTTI_RDMA_GID and is an address of this "
                 "network namespace";
    return choose_gid(rail);
}

/* Selects the device's first usable port after `behind`. */
static bool choose_port(struct tt_verbs_rail *rail, uint8_t behind, const char **why)
{
    const char *of_port;

    *why = rail->choice.port > rail->attr.phys_port_cnt
               ? "has no port with the number of TUTTI_RDMA_PORT"
               : "has no active port";
    for (uint32_t i = behind + 1u; i <= rail->attr.phys_port_cnt; i++) {
        if (rail->choice.port && rail->choice.port != i)
            continue;
        if (examine_port(rail, (uint8_t)i, &of_port))
            return true;
        if (strcmp(of_port, *why) != 0)
            *why = of_port;
    }
    return false;
}

static bool make_nonblocking(int fd)
{
    const int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

/* Completions of a link in the longer of its two queues. */
#define LINK_COMPLETIONS \
    (TT_VERBS_LINK_SENDS > TT_VERBS_LINK_RECEIVES ? TT_VERBS_LINK_SENDS : TT_VERBS_LINK_RECEIVES)

/* Creates this process's objects on the device. */
static bool rail_open_objects(struct tt_verbs_rail *rail)
{
    const uint32_t by_receives = (uint32_t)rail->attr.max_srq_wr / TT_VERBS_LINK_RECEIVES;
    const uint32_t by_completions = (uint32_t)rail->attr.max_cqe / LINK_COMPLETIONS;

    rail->group_links = TT_VERBS_GROUP_LINKS;
    if (rail->group_links > by_receives)
        rail->group_links = by_receives;
    if (rail->group_links > by_completions)
        rail->group_links = by_completions;
    rail->pd = ibv_alloc_pd(rail->context);
    rail->channel = rail->pd ? ibv_create_comp_channel(rail->context) : NULL;
    return rail->channel && make_nonblocking(rail->channel->fd) &&
           make_nonblocking(rail->context->async_fd);
}

/* Opens the device with its first usable port after `behind`. On failure *why is the reason. */
static bool rail_open(struct tt_verbs_rail *out, struct ibv_device *from, uint8_t behind,
                      const struct tt_verbs_filter *choice, const char **why)
{
    struct tt_verbs_rail rail = { .context = ibv_open_device(from), .choice = *choice };

    snprintf(rail.name, sizeof rail.name, "%s", ibv_get_device_name(from));
    *why = "cannot be opened";
    if (!rail.context)
        return false;
    *why = "cannot be queried";
    if (ibv_query_device(rail.context, &rail.attr) != 0)
        goto close;
    if (!choose_port(&rail, behind, why))
        goto close;
    *why = "has no shared receive queues, or its queues are too short";
    if (rail.attr.max_srq <= 0 || rail.attr.max_srq_wr < (int)TT_VERBS_LINK_RECEIVES ||
        rail.attr.max_cqe < (int)LINK_COMPLETIONS)
        goto close;
    *why = "failed to allocate a protection domain or completion channel";
    if (!rail_open_objects(&rail))
        goto close;
    rail.up = true;
    *out = rail;
    return true;

close:
    tt_verbs_rail_close(&rail);
    return false;
}

void tt_verbs_rail_close(struct tt_verbs_rail *rail)
{
    tt_verbs_groups_close(rail);
    if (rail->channel)
        ibv_destroy_comp_channel(rail->channel);
    if (rail->pd)
        ibv_dealloc_pd(rail->pd);
    if (rail->context)
        ibv_close_device(rail->context);
    rail->channel = NULL;
    rail->pd = NULL;
    rail->context = NULL;
}

bool tt_verbs_rail_events(struct tt_verbs_rail *rail, bool *doubtful)
{
    const bool was = rail->up;
    struct ibv_async_event event;
    const char *why;
    bool look = false;

    *doubtful = false;
    while (ibv_get_async_event(rail->context, &event) == 0) {
        switch (event.event_type) {
        case IBV_EVENT_DEVICE_FATAL:
            rail->dead = true;
            look = true;
            break;
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_QP_LAST_WQE_REACHED:
            *doubtful = true;
            break;
        default:
            look = true;
            break;
        }
        ibv_ack_async_event(&event);
    }
    if (look)
        rail->up = !rail->dead && examine_port(rail, rail->port, &why);
    return rail->up != was;
}

/* ---- selection ---- */

/* Returns whether one of the process's CPUs is near the device, i.e. in the device's list of CPUs
 * ("0-15,32-47"). Without a list, all are near. */
static bool device_is_near(const char *name)
{
    char path[160], list[1024];
    cpu_set_t allowed;
    unsigned first, last;
    FILE *f;
    bool reported;

    snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/local_cpulist", name);
    f = fopen(path, "re");
    reported = f && fgets(list, sizeof list, f) && list[0] >= '0' && list[0] <= '9';
    if (f)
        fclose(f);
    if (!reported || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return true;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const int n = sscanf(at, "%u-%u", &first, &last);

        for (unsigned cpu = first; n > 0 && cpu <= (n == 2 ? last : first) && cpu < CPU_SETSIZE;
             cpu++)
            if (CPU_ISSET(cpu, &allowed))
                return true;
    }
    return false;
}

static int device_by_name(const void *a, const void *b)
{
    return strverscmp(ibv_get_device_name(*(struct ibv_device *const *)a),
                      ibv_get_device_name(*(struct ibv_device *const *)b));
}

/* Reasons against devices. */
struct reasons {
    char text[256];
    size_t at;
};

static void reason_add(struct reasons *r, const char *name, const char *why)
{
    tt_log(TT_LOG_DEBUG, "verbs: %s %s", name, why);
    if (r->at < sizeof r->text)
        r->at += (size_t)snprintf(r->text + r->at, sizeof r->text - r->at, "%s%s %s",
                                  r->at ? "; " : "", name, why);
}

/* Returns the highest port of that device that is a rail, or 0. */
static uint8_t last_port(const struct tt_verbs_rail *rail, uint32_t nrails, const char *name)
{
    uint8_t port = 0;

    for (uint32_t i = 0; i < nrails; i++)
        if (strcmp(rail[i].name, name) == 0)
            port = rail[i].port;
    return port;
}

/* Opens one port of each allowed device of list[n] that is near, or not, as requested. Considers
 * only devices without a rail; with `again`, only those with a rail, for another port. */
static void open_some(struct tt_verbs_rail rail[TT_VERBS_RAILS], uint32_t *nrails,
                      struct ibv_device *const *list, int n, const char *rule,
                      const struct tt_verbs_filter *choice, bool near, bool again,
                      struct reasons *reasons)
{
    const bool named = rule && *rule;

    for (int i = 0; i < n; i++) {
        const char *name = ibv_get_device_name(list[i]),
                   *why = "is not allowed by TUTTI_RDMA_DEVICES";
        const uint8_t behind = last_port(rail, *nrails, name);

        if ((named || device_is_near(name)) != near || (behind > 0) != again)
            continue;
        if (*nrails == TT_VERBS_RAILS) {
            tt_log(TT_LOG_DEBUG, "verbs: %s is not used: %u devices are already used", name,
                   *nrails);
            continue;
        }
        if (!tt_ifaddr_allows(rule, name) ||
            !rail_open(&rail[*nrails], list[i], behind, choice, &why)) {
            if (!again)
                reason_add(reasons, name, why);
        } else if (*nrails > 0 && rail[*nrails].infiniband != rail[0].infiniband) {
            tt_verbs_rail_close(&rail[*nrails]);
            reason_add(reasons, name, "has another link layer than the first device");
        } else {
            tt_log(TT_LOG_INFO, "verbs: device %s, port %u, %s%s%s, GID %u", rail[*nrails].name,
                   rail[*nrails].port, rail[*nrails].infiniband ? "InfiniBand" : "RoCE",
                   *rail[*nrails].interface ? " on " : "", rail[*nrails].interface,
                   rail[*nrails].gid_index);
            (*nrails)++;
        }
    }
}

tutti_status tt_verbs_rails_open(struct tt_verbs_rail rail[TT_VERBS_RAILS], uint32_t *nrails,
                                 const char *rule, const char *gid)
{
    struct reasons reasons = { .at = 0 };
    struct ibv_device **list;
    char sentence[300];
    struct tt_verbs_filter choice;
    int n = 0;
    const tutti_status st = tt_verbs_filter_read(&choice, gid);

    if (st)
        return st;
    ibv_fork_init();        /* required before Linux 5.12; no effect later */
    list = ibv_get_device_list(&n);
    if (list && n > 1)
        qsort(list, (size_t)n, sizeof *list, device_by_name);
    for (int far = 0; far < 2 && *nrails == 0; far++) {
        open_some(rail, nrails, list, list ? n : 0, rule, &choice, !far, false, &reasons);
        open_some(rail, nrails, list, list ? n : 0, rule, &choice, !far, true, &reasons);
    }
    if (list)
        ibv_free_device_list(list);
    if (*nrails > 0)
        return TUTTI_OK;
    snprintf(sentence, sizeof sentence, "verbs: %s",
             reasons.at ? reasons.text : "this machine has no RDMA device");
    return tt_fail_again(TUTTI_ERR_UNSUPPORTED, sentence);
}

