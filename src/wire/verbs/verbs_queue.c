/* Shared queues, and queue pairs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "wire/verbs/verbs.h"

#define INLINE_BYTES TT_VERBS_SLOT_BYTES
#define ACK_TIMEOUT 16      /* 4.096 us * 2^16 = 0.27 s until a retransmit */
#define ACK_RETRIES 6       /* 7 would mean forever with soft-RoCE */
#define RNR_TIMER 12        /* 0.64 ms; unused, since credits guarantee posted receives */
#define RNR_RETRIES 6
#define POSTED_MAX 64       /* receives posted at once */

/* ---- shared queues ---- */

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

static struct tt_verbs_group *group_create(struct tt_verbs_rail *rail)
{
    struct tt_verbs_group *g = calloc(1, sizeof *g);
    const int receives = (int)(rail->group_links * TT_VERBS_LINK_RECEIVES);
    const int sends = (int)(rail->group_links * TT_VERBS_LINK_SENDS);
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = (uint32_t)receives, .max_sge = 1 } };

    if (!g)
        return NULL;
    g->srq = ibv_create_srq(rail->pd, &srq);
    if (g->srq)
        g->send_cq = ibv_create_cq(rail->context, sends, NULL, rail->channel, 0);
    if (g->send_cq)
        g->recv_cq = ibv_create_cq(rail->context, receives, NULL, rail->channel, 0);
    if (g->recv_cq)
        return g;
    group_destroy(g);
    return NULL;
}

bool tt_verbs_receives(struct tt_verbs_group *g)
{
    struct ibv_recv_wr wrs[POSTED_MAX], *bad;

    while (g->posted < g->wanted) {
        const uint32_t n = g->wanted - g->posted, now = n < POSTED_MAX ? n : POSTED_MAX;

        for (uint32_t i = 0; i < now; i++)      /* a write with immediate consumes a receive, but
                                                   needs no buffer */
            wrs[i] = (struct ibv_recv_wr){ .next = i + 1 < now ? &wrs[i + 1] : NULL };
        if (ibv_post_srq_recv(g->srq, wrs, &bad) != 0)
            return false;
        g->posted += now;
    }
    return true;
}

tutti_status tt_verbs_group_join(struct tt_verbs_link *link, uint32_t number)
{
    struct tt_verbs_rail *rail = &link->verbs->rail[number];
    struct tt_verbs_group *g = rail->groups;

    while (g && g->nlinks == rail->group_links)
        g = g->next;
    if (!g) {
        g = group_create(rail);
        if (!g)
            return tt_fail(TUTTI_ERR_NOMEM, "verbs: %s: cannot create queues for more peers: %s",
                           rail->name, strerror(errno));
        g->next = rail->groups;
        rail->groups = g;
    }
    if (g->wanted < (g->nlinks + 1) * TT_VERBS_LINK_RECEIVES)
        g->wanted = (g->nlinks + 1) * TT_VERBS_LINK_RECEIVES;
    if (!tt_verbs_receives(g))
        return tt_fail(TUTTI_ERR_NOMEM, "verbs: %s: cannot post more receives: %s", rail->name,
                       strerror(errno));
    g->nlinks++;
    link->group[number] = g;
    return TUTTI_OK;
}

/* Receives stay in the queues, for the next link. */
void tt_verbs_groups_leave(struct tt_verbs_link *link)
{
    for (uint32_t i = 0; i < TT_VERBS_RAILS; i++) {
        if (link->group[i])
            link->group[i]->nlinks--;
        link->group[i] = NULL;
    }
}

void tt_verbs_groups_close(struct tt_verbs_rail *rail)
{
    while (rail->groups) {
        struct tt_verbs_group *g = rail->groups;

        rail->groups = g->next;
        group_destroy(g);
    }
}

/* ---- queue pairs ---- */

static struct tt_verbs_lane **bucket_of(struct tt_verbs_lane *lane)
{
    return &lane->link->verbs->lanes[lane->rail][lane->qpn % TT_VERBS_BUCKETS];
}

tutti_status tt_verbs_qp_create(struct tt_verbs_lane *lane)
{
    struct tt_verbs_link *link = lane->link;
    struct tt_verbs_rail *rail = &link->verbs->rail[lane->rail];
    const struct tt_verbs_group *g = link->group[lane->rail];
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .pkey_index = rail->pkey_index,
                                .port_num = rail->port,
                                .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

    for (uint32_t bytes = INLINE_BYTES;; bytes /= 2) {      /* devices do not report their limit */
        struct ibv_qp_init_attr init = {
            .send_cq = g->send_cq,
            .recv_cq = g->recv_cq,
            .srq = g->srq,
            .cap = { .max_send_wr = lane->wr_depth, .max_send_sge = 1, .max_inline_data = bytes },
            .qp_type = IBV_QPT_RC,
        };

        lane->qp = ibv_create_qp(rail->pd, &init);
        lane->inline_bytes = init.cap.max_inline_data;
        if (lane->qp || bytes == 0)
            break;
    }
    if (!lane->qp)
        return tt_fail_errno(errno, "verbs: cannot create a queue pair on %s for rank %u",
                             rail->name, link->base.peer);
    if (ibv_modify_qp(lane->qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
        const tutti_status st =
            tt_fail_errno(errno, "verbs: cannot set up a queue pair on %s for rank %u", rail->name,
                          link->base.peer);

        ibv_destroy_qp(lane->qp);
        lane->qp = NULL;
        return st;
    }
    lane->qpn = lane->qp->qp_num;
    /* different from that of an earlier queue pair with the same number */
    lane->psn = (lane->qpn * 2654435761u ^ (uint32_t)tt_now_ns()) & 0xffffff;
    lane->next = *bucket_of(lane);
    *bucket_of(lane) = lane;
    return TUTTI_OK;
}

tutti_status tt_verbs_qp_connect(struct tt_verbs_lane *lane, const struct tt_verbs_hello *theirs)
{
    const struct tt_verbs_rail *rail = &lane->link->verbs->rail[lane->rail];
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = theirs->mtu < rail->mtu ? (enum ibv_mtu)theirs->mtu : (enum ibv_mtu)rail->mtu,
        .dest_qp_num = theirs->qp,
        .rq_psn = theirs->psn,
        .min_rnr_timer = RNR_TIMER,
        .ah_attr = { .dlid = theirs->lid,
                     .sl = rail->choice.service_level,
                     .port_num = rail->port,
                     .is_global = !rail->infiniband },
    };

    memcpy(attr.ah_attr.grh.dgid.raw, theirs->gid, sizeof theirs->gid);
    attr.ah_attr.grh.sgid_index = rail->gid_index;
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.grh.traffic_class = rail->choice.traffic_class;
    if (ibv_modify_qp(lane->qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
        return tt_fail_errno(errno, "verbs: %s cannot connect to rank %u", rail->name,
                             lane->link->base.peer);

    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS,
        .timeout = ACK_TIMEOUT,
        .retry_cnt = ACK_RETRIES,
        .rnr_retry = RNR_RETRIES,
        .sq_psn = lane->psn,
    };
    if (ibv_modify_qp(lane->qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) != 0)
        return tt_fail_errno(errno, "verbs: %s cannot send to rank %u", rail->name,
                             lane->link->base.peer);
    return TUTTI_OK;
}

void tt_verbs_qp_stop(struct tt_verbs_lane *lane)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

    if (lane->qp)
        ibv_modify_qp(lane->qp, &attr, IBV_QP_STATE);
}
