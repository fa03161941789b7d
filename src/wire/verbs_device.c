#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "wire/ifaddr.h"
#include "wire/verbs.h"

#define GIDS_MAX 256
#define INLINE_BYTES TT_VERBS_SLOT_BYTES
#define ACK_TIMEOUT 16      /* 4.096 us * 2^16 = 0.27 s for an answer */
#define ACK_RETRIES 7
#define RNR_TIMER 12        /* 0.64 ms; credit keeps receives posted, so that it is never needed */
#define RNR_RETRIES 6

/* ---- devices ---- */

/* How good an address of a RoCE port is: routable ones before those of one network segment only. 0: none. */
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

/* Picks the port's address. False: it has none that serves. */
static bool choose_gid(struct tt_verbs_device *d)
{
    struct ibv_gid_entry *all = calloc(GIDS_MAX, sizeof *all);
    ssize_t n = all ? ibv_query_gid_table(d->context, all, GIDS_MAX, 0) : 0;
    int best = 0;

    for (ssize_t i = 0; i < n; i++) {
        const struct ibv_gid_entry *e = &all[i];
        const int merit = d->infiniband ? e->gid_index == 0 : gid_merit(e);

        if (e->port_num != d->port || merit <= best)
            continue;
        best = merit;
        d->gid = e->gid;
        d->gid_index = (uint8_t)e->gid_index;
        if (e->ndev_ifindex == 0 || !if_indextoname(e->ndev_ifindex, d->interface))
            d->interface[0] = 0;
    }
    free(all);
    return best > 0;
}

/* The device's first port that is up. False: none is, or it has no address. */
static bool choose_port(struct tt_verbs_device *d)
{
    struct ibv_port_attr port;

    for (uint8_t i = 1; i <= d->attr.phys_port_cnt; i++) {
        if (ibv_query_port(d->context, i, &port) != 0 || port.state != IBV_PORT_ACTIVE)
            continue;
        d->port = i;
        d->lid = port.lid;
        d->mtu = (uint8_t)port.active_mtu;
        d->infiniband = port.link_layer != IBV_LINK_LAYER_ETHERNET;
        if (choose_gid(d))
            return true;
    }
    return false;
}

/* Opens it. why: what is wrong with it otherwise. */
static bool open_one(struct tt_verbs_device *out, struct ibv_device *from, const char **why)
{
    struct tt_verbs_device d = { .context = ibv_open_device(from) };

    snprintf(d.name, sizeof d.name, "%s", ibv_get_device_name(from));
    *why = "cannot be opened";
    if (!d.context)
        return false;
    *why = "does not tell what it can";
    if (ibv_query_device(d.context, &d.attr) != 0)
        goto close;
    *why = "has no port that is up and has an address";
    if (!choose_port(&d))
        goto close;
    *why = "has no shared receive queues";
    if (d.attr.max_srq <= 0 || d.attr.max_srq_wr < TT_VERBS_LINK_RECEIVES || d.attr.max_cqe < TT_VERBS_LINK_RECEIVES)
        goto close;
    *out = d;
    return true;

close:
    ibv_close_device(d.context);
    return false;
}

tutti_status tt_verbs_device_open(struct tt_verbs_device *out, const char *rule)
{
    int n = 0;
    struct ibv_device **list;
    char reasons[256] = "", sentence[300];
    size_t at = 0;
    bool found = false;

    ibv_fork_init();        /* kernels before 5.12 need it; others ignore it */
    list = ibv_get_device_list(&n);
    for (int i = 0; list && i < n && !found; i++) {
        const char *name = ibv_get_device_name(list[i]), *why = "is not allowed by TUTTI_RDMA_DEVICES";

        found = tt_ifaddr_allows(rule, name) && open_one(out, list[i], &why);
        if (!found && at < sizeof reasons)
            at += (size_t)snprintf(reasons + at, sizeof reasons - at, "%s%s %s", at ? "; " : "", name, why);
    }
    if (list)
        ibv_free_device_list(list);
    if (found) {
        tt_log(TT_LOG_INFO, "verbs: device %s, port %u, %s%s%s, GID %u", out->name, out->port,
               out->infiniband ? "InfiniBand" : "RoCE", *out->interface ? " on " : "", out->interface, out->gid_index);
        return TUTTI_OK;
    }
    snprintf(sentence, sizeof sentence, "verbs: %s", at ? reasons : "this machine has no RDMA device");
    tt_log(TT_LOG_INFO, "%s", sentence);        /* most machines are such: no error */
    return tt_fail_again(TUTTI_ERR_UNSUPPORTED, sentence);
}

void tt_verbs_device_close(struct tt_verbs_device *d)
{
    if (d->context)
        ibv_close_device(d->context);
    d->context = NULL;
}

/* ---- queues that links share ---- */

static void group_destroy(struct tt_verbs_group *g)
{
    if (g->srq)
        ibv_destroy_srq(g->srq);
    if (g->send_cq)
        ibv_destroy_cq(g->send_cq);
    if (g->recv_cq)
        ibv_destroy_cq(g->recv_cq);
    free(g);
}

static struct tt_verbs_group *group_create(struct tt_verbs *v)
{
    struct tt_verbs_group *g = calloc(1, sizeof *g);
    const int receives = (int)v->group_links * TT_VERBS_LINK_RECEIVES;
    const int sends = (int)v->group_links * TT_VERBS_LANES * TT_VERBS_WRS;
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = (uint32_t)receives, .max_sge = 1 } };

    if (!g)
        return NULL;
    g->srq = ibv_create_srq(v->pd, &srq);
    if (g->srq)
        g->send_cq = ibv_create_cq(v->device.context, sends, NULL, v->channel, 0);
    if (g->send_cq)
        g->recv_cq = ibv_create_cq(v->device.context, receives, NULL, v->channel, 0);
    if (g->recv_cq)
        return g;
    group_destroy(g);
    return NULL;
}

tutti_status tt_verbs_group_join(struct tt_verbs_link *link)
{
    struct tt_verbs *v = link->verbs;
    struct tt_verbs_group *g = v->groups;

    while (g && g->nlinks == v->group_links)
        g = g->next;
    if (!g) {
        g = group_create(v);
        if (!g)
            return tt_fail(TUTTI_ERR_NOMEM, "verbs: %s has no queues for more peers: %s", v->device.name, strerror(errno));
        g->next = v->groups;
        v->groups = g;
    }
    if (g->wanted < (g->nlinks + 1) * TT_VERBS_LINK_RECEIVES)
        g->wanted = (g->nlinks + 1) * TT_VERBS_LINK_RECEIVES;
    if (!tt_verbs_receives(g))
        return tt_fail(TUTTI_ERR_NOMEM, "verbs: %s takes no more receives: %s", v->device.name, strerror(errno));
    g->nlinks++;
    link->group = g;
    return TUTTI_OK;
}

/* Its receives stay in the queue, for whoever joins next. */
void tt_verbs_group_leave(struct tt_verbs_link *link)
{
    struct tt_verbs_group *g = link->group;

    if (!g)
        return;
    link->group = NULL;
    g->nlinks--;
}

void tt_verbs_groups_close(struct tt_verbs *v)
{
    while (v->groups) {
        struct tt_verbs_group *g = v->groups;

        v->groups = g->next;
        group_destroy(g);
    }
}

/* ---- queue pairs ---- */

static struct tt_verbs_lane **bucket_of(struct tt_verbs *v, uint32_t qpn)
{
    return &v->lanes[qpn % TT_VERBS_BUCKETS];
}

tutti_status tt_verbs_qp_create(struct tt_verbs_lane *lane)
{
    struct tt_verbs_link *link = lane->link;
    struct tt_verbs *v = link->verbs;
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .port_num = v->device.port,
                                .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

    for (uint32_t bytes = INLINE_BYTES;; bytes /= 2) {      /* what a device can is not told */
        struct ibv_qp_init_attr init = {
            .send_cq = link->group->send_cq,
            .recv_cq = link->group->recv_cq,
            .srq = link->group->srq,
            .cap = { .max_send_wr = TT_VERBS_WRS, .max_send_sge = 1, .max_inline_data = bytes },
            .qp_type = IBV_QPT_RC,
        };

        lane->qp = ibv_create_qp(v->pd, &init);
        lane->inline_bytes = init.cap.max_inline_data;
        if (lane->qp || bytes == 0)
            break;
    }
    if (!lane->qp)
        return tt_fail_errno(errno, "verbs: create a queue pair on %s for rank %u", v->device.name, link->peer);
    if (ibv_modify_qp(lane->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
        const tutti_status st = tt_fail_errno(errno, "verbs: set up a queue pair on %s for rank %u", v->device.name, link->peer);

        ibv_destroy_qp(lane->qp);
        lane->qp = NULL;
        return st;
    }
    lane->qpn = lane->qp->qp_num;
    lane->psn = (lane->qpn * 2654435761u ^ (uint32_t)tt_now_ns()) & 0xffffff;    /* unlike that of an earlier one of the same number */
    lane->next = *bucket_of(v, lane->qpn);
    *bucket_of(v, lane->qpn) = lane;
    return TUTTI_OK;
}

tutti_status tt_verbs_qp_connect(struct tt_verbs_lane *lane, const struct tt_verbs_hello *theirs)
{
    const struct tt_verbs_device *d = &lane->link->verbs->device;
    const struct tt_verbs_hello_lane *there = &theirs->lanes[lane->index];
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = theirs->mtu < d->mtu ? (enum ibv_mtu)theirs->mtu : (enum ibv_mtu)d->mtu,
        .dest_qp_num = there->qp,
        .rq_psn = there->psn,
        .min_rnr_timer = RNR_TIMER,
        .ah_attr = { .dlid = theirs->lid, .port_num = d->port, .is_global = !d->infiniband },
    };

    memcpy(attr.ah_attr.grh.dgid.raw, theirs->gid, sizeof theirs->gid);
    attr.ah_attr.grh.sgid_index = d->gid_index;
    attr.ah_attr.grh.hop_limit = 64;
    if (ibv_modify_qp(lane->qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
        return tt_fail_errno(errno, "verbs: %s has no way to rank %u", d->name, lane->link->peer);

    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS,
        .timeout = ACK_TIMEOUT,
        .retry_cnt = ACK_RETRIES,
        .rnr_retry = RNR_RETRIES,
        .sq_psn = lane->psn,
    };
    if (ibv_modify_qp(lane->qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC) != 0)
        return tt_fail_errno(errno, "verbs: %s cannot send to rank %u", d->name, lane->link->peer);
    return TUTTI_OK;
}

void tt_verbs_qp_stop(struct tt_verbs_lane *lane)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

    if (lane->qp)
        ibv_modify_qp(lane->qp, &attr, IBV_QP_STATE);
}

void tt_verbs_qp_destroy(struct tt_verbs_lane *lane)
{
    struct tt_verbs_lane **at;

    if (!lane->qp)
        return;
    ibv_destroy_qp(lane->qp);
    lane->qp = NULL;
    while (tt_verbs_collect(lane->link->verbs) > 0)
        continue;
    at = bucket_of(lane->link->verbs, lane->qpn);
    while (*at != lane)
        at = &(*at)->next;
    *at = lane->next;
}
