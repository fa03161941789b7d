/* Devices: one per interface, with one RoCE port. */
#include "process.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEFAULT_DEVICES 2u

/* ---- configuration ---- */

static struct rdma_device devices[RDMA_DEVICES];
static uint32_t ndevices;

/* name[name_n] NULL: emu0, emu1, ... */
static void device_add(const char *name, size_t name_n, const char *interface, size_t n)
{
    struct rdma_device *d = &devices[ndevices];

    if (n == 0)
        return;
    if (ndevices == RDMA_DEVICES || n >= sizeof d->interface) {
        rdma_log("TUTTI_EMU_RDMA_INTERFACES: interface %.*s is not used: %s", (int)n, interface,
                 ndevices == RDMA_DEVICES ? "there are too many" : "its name is too long");
        return;
    }
    for (uint32_t i = 0; i < ndevices; i++)
        if (strncmp(devices[i].interface, interface, n) == 0 && devices[i].interface[n] == 0)
            return;
    memcpy(d->interface, interface, n);
    d->index = ndevices++;
    d->public.node_type = IBV_NODE_CA;
    d->public.transport_type = IBV_TRANSPORT_IB;
    if (name && name_n > 0 && name_n < sizeof d->public.name)
        memcpy(d->public.name, name, name_n);
    else
        snprintf(d->public.name, sizeof d->public.name, "emu%u", d->index);
    snprintf(d->public.dev_name, sizeof d->public.dev_name, "uverbs%u", d->index);
}

/* Without a setting: one for each of the first interfaces that are up with an IPv4 address; if
 * there are none, one for the loopback. */
static void devices_default(void)
{
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) == 0)
        for (const struct ifaddrs *a = all; a && ndevices < DEFAULT_DEVICES; a = a->ifa_next)
            if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET && a->ifa_flags & IFF_UP &&
                !(a->ifa_flags & IFF_LOOPBACK))
                device_add(NULL, 0, a->ifa_name, strlen(a->ifa_name));
    if (all)
        freeifaddrs(all);
    if (ndevices == 0)
        device_add(NULL, 0, "lo", 2);
}

static void devices_read(void)
{
    const char *list = getenv("TUTTI_EMU_RDMA_INTERFACES");

    if (!list) {
        devices_default();
        return;
    }
    while (*list) {
        const size_t n = strcspn(list, ","), name_n = strcspn(list, "=,");

        if (list[name_n] == '=')
            device_add(list, name_n, list + name_n + 1, n - name_n - 1);
        else
            device_add(NULL, 0, list, n);
        list += n + (list[n] != 0);
    }
}

struct rdma_device *rdma_devices(uint32_t *n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, devices_read);
    *n = ndevices;
    return devices;
}

/* ---- interfaces ---- */

bool rdma_port_is_up(const struct rdma_device *d)
{
    const uint64_t until = __atomic_load_n(&rdma.down_until_ns[d->index], __ATOMIC_SEQ_CST);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq r;
    bool up;

    memset(&r, 0, sizeof r);
    memcpy(r.ifr_name, d->interface, sizeof d->interface);
    up = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &r) == 0 && r.ifr_flags & IFF_UP;
    if (fd >= 0)
        close(fd);
    return up && (until == 0 || rdma_now_ns() >= until);
}

/* Each address is a GID of RoCE version 2: IPv4 as ::ffff:a.b.c.d. */
uint32_t rdma_gids(const struct rdma_device *d, union ibv_gid gid[RDMA_GIDS])
{
    struct ifaddrs *all = NULL;
    uint32_t n = 0;

    if (getifaddrs(&all) != 0)
        return 0;
    for (const struct ifaddrs *a = all; a && n < RDMA_GIDS; a = a->ifa_next) {
        const struct sockaddr *sa = a->ifa_addr;

        if (!sa || strcmp(a->ifa_name, d->interface) != 0 ||
            (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
            continue;
        memset(&gid[n], 0, sizeof gid[n]);
        if (sa->sa_family == AF_INET) {
            gid[n].raw[10] = gid[n].raw[11] = 0xff;
            memcpy(gid[n].raw + 12, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
        } else {
            memcpy(gid[n].raw, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
        }
        n++;
    }
    freeifaddrs(all);
    return n;
}

/* ---- list, open, close ---- */

RDMA_EXPORT struct ibv_device **ibv_get_device_list(int *out)
{
    struct ibv_device **list;
    uint32_t n;
    struct rdma_device *const d = rdma_devices(&n);

    list = calloc(n + 1, sizeof *list);
    if (out)
        *out = list ? (int)n : 0;
    for (uint32_t i = 0; list && i < n; i++)
        list[i] = &d[i].public;
    return list;
}

RDMA_EXPORT void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

RDMA_EXPORT const char *ibv_get_device_name(struct ibv_device *d)
{
    return d->name;
}

RDMA_EXPORT int ibv_get_device_index(struct ibv_device *d)
{
    return (int)((struct rdma_device *)d)->index;
}

RDMA_EXPORT __be64 ibv_get_device_guid(struct ibv_device *d)
{
    return htobe64(0x0200745474690000ull + ((struct rdma_device *)d)->index + 1);
}

struct rdma_context *rdma_context_of(struct ibv_context *c)
{
    return (struct rdma_context *)(void *)((uint8_t *)c -
                                           offsetof(struct rdma_context, verbs.context));
}

static int query_port(struct ibv_context *c, uint8_t number, struct ibv_port_attr *out,
                      size_t bytes)
{
    struct rdma_device *d = rdma_context_of(c)->device;
    union ibv_gid gid[RDMA_GIDS];
    struct ibv_port_attr attr;
    bool up;

    if (number != 1) {
        errno = EINVAL;
        return EINVAL;
    }
    up = rdma_port_is_up(d);
    attr = (struct ibv_port_attr){
        .state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = IBV_MTU_4096,
        .gid_tbl_len = (int)rdma_gids(d, gid),
        .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        .max_msg_sz = RDMA_MESSAGE_BYTES,
        .pkey_tbl_len = 1,
        .active_width = 2,      /* 4 lanes */
        .active_speed = 32,     /* EDR: 25 Gbit/s each */
        .phys_state = up ? 5 : 3,
        .link_layer = IBV_LINK_LAYER_ETHERNET,
    };
    memset(out, 0, bytes);
    memcpy(out, &attr, bytes < sizeof attr ? bytes : sizeof attr);
    return 0;
}

static void context_init(struct rdma_context *c, struct rdma_device *d)
{
    c->device = d;
    c->events_end = &c->events;
    c->verbs.sz = sizeof c->verbs;
    c->verbs.query_port = query_port;
    c->verbs.context = (struct ibv_context){
        .device = &d->public,
        .cmd_fd = -1,
        .async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE),
        .num_comp_vectors = 1,
        .abi_compat = __VERBS_ABI_IS_EXTENDED,
        .ops = { .poll_cq = rdma_poll_cq,
                 .req_notify_cq = rdma_req_notify_cq,
                 .post_srq_recv = rdma_post_srq_recv,
                 .post_send = rdma_post_send,
                 .post_recv = rdma_post_recv },
    };
    pthread_mutex_init(&c->verbs.context.mutex, NULL);
}

RDMA_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct rdma_context *c = calloc(1, sizeof *c);
    int err = !c ? ENOMEM : !rdma_faults_are_valid() ? EINVAL : 0;

    if (c)
        context_init(c, (struct rdma_device *)device);
    if (c && c->verbs.context.async_fd < 0)
        err = errno;
    pthread_mutex_lock(&rdma.lifecycle);
    pthread_mutex_lock(&rdma.lock);
    if (!err)
        err = rdma_process_open();
    if (!err) {
        c->next = rdma.contexts;
        rdma.contexts = c;
    }
    pthread_mutex_unlock(&rdma.lock);
    pthread_mutex_unlock(&rdma.lifecycle);
    if (!err)
        return &c->verbs.context;
    if (c && c->verbs.context.async_fd >= 0)
        close(c->verbs.context.async_fd);
    free(c);
    errno = err;
    return NULL;
}

RDMA_EXPORT int ibv_close_device(struct ibv_context *context)
{
    struct rdma_context *c = rdma_context_of(context), **at = &rdma.contexts;

    pthread_mutex_lock(&rdma.lifecycle);
    pthread_mutex_lock(&rdma.lock);
    if (c->objects > 0) {
        rdma_log("%s cannot be closed: it has %u objects", c->device->public.name, c->objects);
        pthread_mutex_unlock(&rdma.lock);
        pthread_mutex_unlock(&rdma.lifecycle);
        errno = EBUSY;
        return -1;
    }
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    if (!rdma.contexts)
        rdma_process_close();
    pthread_mutex_unlock(&rdma.lock);
    pthread_mutex_unlock(&rdma.lifecycle);
    while (c->events) {
        struct rdma_event *e = c->events;

        c->events = e->next;
        free(e);
    }
    close(context->async_fd);
    pthread_mutex_destroy(&context->mutex);
    free(c);
    return 0;
}

/* ---- attributes ---- */

RDMA_EXPORT int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
    const __be64 guid = ibv_get_device_guid(c->device);

    *attr = (struct ibv_device_attr){
        .fw_ver = "tutti",
        .node_guid = guid,
        .sys_image_guid = guid,
        .max_mr_size = 1ull << 46,
        .page_size_cap = 4096,
        .max_qp = RDMA_QPS - 1,
        .max_qp_wr = RDMA_WRS,
        .device_cap_flags =
            IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_CURR_QP_STATE_MOD,
        .max_sge = RDMA_SGE,
        .max_sge_rd = RDMA_SGE,
        .max_cq = RDMA_CQS,
        .max_cqe = RDMA_CQES,
        .max_mr = RDMA_MRS - 1,
        .max_pd = 1 << 20,
        .max_qp_rd_atom = 16,
        .max_res_rd_atom = 16 * RDMA_QPS,
        .max_qp_init_rd_atom = 16,
        .atomic_cap = IBV_ATOMIC_HCA,
        .max_srq = RDMA_SRQS,
        .max_srq_wr = RDMA_SRQ_WRS,
        .max_srq_sge = RDMA_SGE,
        .max_pkeys = 1,
        .local_ca_ack_delay = 15,
        .phys_port_cnt = 1,
    };
    return 0;
}

/* Called by programs compiled against headers before version 1.1 of the port's attributes. */
#undef ibv_query_port
RDMA_EXPORT int ibv_query_port(struct ibv_context *c, uint8_t number,
                               struct _compat_ibv_port_attr *out)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *)out;

    return query_port(c, number, attr, offsetof(struct ibv_port_attr, port_cap_flags2));
}

RDMA_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries,
                                         size_t max, uint32_t flags, size_t bytes)
{
    const struct rdma_device *d = rdma_context_of(c)->device;
    union ibv_gid gid[RDMA_GIDS];
    const uint32_t n = rdma_gids(d, gid);

    if (flags || bytes < sizeof *entries)
        return -EINVAL;
    if (n > max)
        return -EINVAL;
    for (uint32_t i = 0; i < n; i++)
        *(struct ibv_gid_entry *)(void *)((uint8_t *)entries + i * bytes) =
            (struct ibv_gid_entry){ .gid = gid[i],
                                    .gid_index = i,
                                    .port_num = 1,
                                    .gid_type = IBV_GID_TYPE_ROCE_V2,
                                    .ndev_ifindex = if_nametoindex(d->interface) };
    return (ssize_t)n;
}

RDMA_EXPORT int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index,
                                  struct ibv_gid_entry *entry, uint32_t flags, size_t bytes)
{
    struct ibv_gid_entry all[RDMA_GIDS];
    const ssize_t n = _ibv_query_gid_table(c, all, RDMA_GIDS, 0, sizeof *all);

    if (port != 1 || flags || bytes < sizeof *entry)
        return EINVAL;
    if (n < 0 || index >= (size_t)n)
        return ENODATA;
    *entry = all[index];
    return 0;
}

RDMA_EXPORT int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
    struct ibv_gid_entry e;

    if (index < 0 || _ibv_query_gid_ex(c, port, (uint32_t)index, &e, 0, sizeof e) != 0) {
        errno = EINVAL;
        return -1;
    }
    *gid = e.gid;
    return 0;
}

RDMA_EXPORT int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, __be16 *key)
{
    (void)c;
    if (port != 1 || index != 0) {
        errno = EINVAL;
        return -1;
    }
    *key = htobe16(0xffff);
    return 0;
}

RDMA_EXPORT int ibv_get_pkey_index(struct ibv_context *c, uint8_t port, __be16 key)
{
    (void)c;
    if (port == 1 && (be16toh(key) & 0x7fff) == 0x7fff)
        return 0;
    errno = EINVAL;
    return -1;
}

/* ---- events ---- */

/* Counts an event that the program receives: the object's destruction waits for its
 * acknowledgement. */
static void event_count(const struct ibv_async_event *e)
{
    switch (e->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        ((struct rdma_qp *)e->element.qp)->async_got++;
        break;
    case IBV_EVENT_CQ_ERR:
        ((struct rdma_cq *)e->element.cq)->async_got++;
        break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        ((struct rdma_srq *)e->element.srq)->async_got++;
        break;
    default:
        break;
    }
}

RDMA_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *out)
{
    struct rdma_context *c = rdma_context_of(context);
    struct rdma_event *e = NULL;
    uint64_t one;

    while (!e) {    /* events of destroyed objects are dropped, but still counted in async_fd */
        if (read(context->async_fd, &one, sizeof one) != sizeof one)
            return -1;
        pthread_mutex_lock(&rdma.lock);
        e = c->events;
        if (e) {
            c->events = e->next;
            if (!c->events)
                c->events_end = &c->events;
            event_count(&e->public);
        }
        pthread_mutex_unlock(&rdma.lock);
    }
    *out = e->public;
    free(e);
    return 0;
}

static void acked(pthread_mutex_t *m, pthread_cond_t *cond, uint32_t *count)
{
    pthread_mutex_lock(m);
    (*count)++;
    pthread_cond_signal(cond);
    pthread_mutex_unlock(m);
}

RDMA_EXPORT void ibv_ack_async_event(struct ibv_async_event *e)
{
    switch (e->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        acked(&e->element.qp->mutex, &e->element.qp->cond, &e->element.qp->events_completed);
        break;
    case IBV_EVENT_CQ_ERR:
        acked(&e->element.cq->mutex, &e->element.cq->cond, &e->element.cq->async_events_completed);
        break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        acked(&e->element.srq->mutex, &e->element.srq->cond, &e->element.srq->events_completed);
        break;
    default:
        break;
    }
}

void rdma_events_drop(struct rdma_context *c, const void *object)
{
    struct rdma_event **at = &c->events;

    while (*at) {
        struct rdma_event *e = *at;

        if (e->public.event_type != IBV_EVENT_PORT_ACTIVE &&
            e->public.event_type != IBV_EVENT_PORT_ERR &&
            e->public.event_type != IBV_EVENT_GID_CHANGE && e->public.element.qp == object) {
            *at = e->next;
            free(e);
        } else {
            at = &e->next;
        }
    }
    c->events_end = at;
}
