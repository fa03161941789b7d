/* Queue pairs: reliable connections. */
#include "process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- states ---- */

#define ANY_TO (IBV_QP_STATE | IBV_QP_CUR_STATE)

/* Attributes of the state changes of a reliable connection. */
static const struct change {
    enum ibv_qp_state from, to;
    int required, optional;
} changes[] = {
    { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
    { IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
    { IBV_QPS_INIT, IBV_QPS_RTR,
      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
          IBV_QP_MIN_RNR_TIMER,
      IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS },
    { IBV_QPS_RTR, IBV_QPS_RTS,
      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
          IBV_QP_MAX_QP_RD_ATOMIC,
      IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
    { IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
};

/* Returns whether this state change is valid with these attributes. */
static bool change_is_valid(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
    if (to == IBV_QPS_ERR || to == IBV_QPS_RESET)
        return !(mask & ~ANY_TO);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const struct change *c = &changes[i];

        if (c->from == from && c->to == to)
            return (mask & c->required) == c->required &&
                   !(mask & ~(ANY_TO | c->required | c->optional));
    }
    return false;
}

static bool values_are_valid(const struct ibv_qp_attr *a, int mask)
{
    return !(mask & IBV_QP_PORT && a->port_num != 1) &&
           !(mask & IBV_QP_PKEY_INDEX && a->pkey_index != 0) &&
           !(mask & IBV_QP_PATH_MTU && (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096)) &&
           !(mask & IBV_QP_DEST_QPN && a->dest_qp_num >= 1u << 24) &&
           !(mask & IBV_QP_MAX_DEST_RD_ATOMIC && a->max_dest_rd_atomic > 16) &&
           !(mask & IBV_QP_MAX_QP_RD_ATOMIC && a->max_rd_atomic > 16) &&
           !(mask & IBV_QP_MIN_RNR_TIMER && a->min_rnr_timer > 31) &&
           !(mask & IBV_QP_TIMEOUT && a->timeout > 31) &&
           !(mask & IBV_QP_RETRY_CNT && a->retry_cnt > 7) &&
           !(mask & IBV_QP_RNR_RETRY && a->rnr_retry > 7) &&
           !(mask & IBV_QP_AV && (!a->ah_attr.is_global || a->ah_attr.port_num != 1));
}

/* ---- create ---- */

/* Returns a free index that was not used recently; RDMA_QPS: none. */
static uint32_t pair_index(void)
{
    for (uint32_t i = 1; i <= RDMA_QPS; i++) {
        const uint32_t index = (rdma.qp_next + i) % RDMA_QPS;

        if (!rdma.qp[index]) {
            rdma.qp_next = index;
            return index;
        }
    }
    return RDMA_QPS;
}

static bool init_is_valid(const struct ibv_qp_init_attr *i)
{
    return i->send_cq && i->recv_cq && i->cap.max_send_wr <= RDMA_WRS &&
           i->cap.max_recv_wr <= RDMA_WRS && i->cap.max_send_sge <= RDMA_SGE &&
           i->cap.max_recv_sge <= RDMA_SGE && i->cap.max_inline_data <= RDMA_INLINE;
}

static int receives_create(struct rdma_qp *qp, struct shm_rq *rq)
{
    const struct ibv_qp_cap *cap = &qp->init.cap;

    rq->ring = 0;
    rq->head = rq->tail = 0;
    rq->depth = cap->max_recv_wr;
    rq->sge_max = cap->max_recv_sge;
    qp->rq_bytes =
        (sizeof(struct shm_receive) + rq->sge_max * sizeof(struct ibv_sge)) * (uint64_t)rq->depth;
    if (qp->init.srq || qp->rq_bytes == 0)
        return 0;
    rq->ring = rdma_heap_take(qp->rq_bytes);
    return rq->ring ? 0 : ENOMEM;
}

static int shared_create(struct rdma_qp *qp, uint32_t pd)
{
    struct shm_qp *s = &rdma.own->qp[qp->index];
    int err = rdma_keep(s, sizeof *s);

    if (err)
        return err;
    if (!s->locks_ready) {
        rdma_mutex_init(&s->lock);
        rdma_mutex_init(&s->rq.lock);
        __atomic_store_n(&s->locks_ready, true, __ATOMIC_RELEASE);
    }
    rdma_lock(&s->lock);
    s->device = qp->context->device->index;
    s->pd = pd;
    s->access = s->dest_qpn = s->events = 0;
    s->recv_cq = ((struct rdma_cq *)qp->init.recv_cq)->index;
    s->srq = qp->init.srq ? ((struct rdma_srq *)qp->init.srq)->index : RDMA_SRQS;
    __atomic_store_n(&s->state, IBV_QPS_RESET, __ATOMIC_SEQ_CST);
    err = receives_create(qp, &s->rq);
    rdma_unlock(&s->lock);
    qp->shared = s;
    return err;
}

static int pair_enter(struct rdma_qp *qp, struct rdma_pd *pd)
{
    const uint64_t from = 1;
    int err;

    qp->index = pair_index();
    if (qp->index == RDMA_QPS)
        return ENOMEM;
    err = shared_create(qp, pd->number);
    if (err)
        return err;
    if (rdma.sq_head[qp->index] == 0)
        rdma.sq_head[qp->index] = from;
    qp->done = qp->executed = qp->tail = rdma.sq_head[qp->index];
    qp->public.qp_num = RDMA_QPN(rdma.slot, qp->index);
    qp->public.handle = qp->index;
    rdma.qp[qp->index] = qp;
    pd->users++;
    qp->context->objects++;
    ((struct rdma_cq *)qp->init.send_cq)->users++;
    ((struct rdma_cq *)qp->init.recv_cq)->users++;
    if (qp->init.srq)
        ((struct rdma_srq *)qp->init.srq)->users++;
    return 0;
}

RDMA_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct rdma_qp *qp = calloc(1, sizeof *qp);
    int err = !qp ? ENOMEM
              : init->qp_type != IBV_QPT_RC ? EOPNOTSUPP
              : !init_is_valid(init)        ? EINVAL
                                            : 0;

    if (!err) {
        qp->depth = init->cap.max_send_wr ? init->cap.max_send_wr : 1;
        qp->ring = calloc(qp->depth, sizeof *qp->ring);
        err = qp->ring ? 0 : ENOMEM;
    }
    if (!err) {
        qp->context = rdma_context_of(pd->context);
        qp->init = *init;
        qp->public = (struct ibv_qp){ .context = pd->context,
                                      .qp_context = init->qp_context,
                                      .pd = pd,
                                      .send_cq = init->send_cq,
                                      .recv_cq = init->recv_cq,
                                      .srq = init->srq,
                                      .state = IBV_QPS_RESET,
                                      .qp_type = IBV_QPT_RC };
        pthread_mutex_init(&qp->public.mutex, NULL);
        pthread_cond_init(&qp->public.cond, NULL);
        pthread_mutex_init(&qp->lock, NULL);
        pthread_mutex_lock(&rdma.lock);
        err = pair_enter(qp, (struct rdma_pd *)pd);
        pthread_mutex_unlock(&rdma.lock);
    }
    if (!err)
        return &qp->public;
    if (qp)
        free(qp->ring);
    free(qp);
    errno = err;
    return NULL;
}

/* ---- modify ---- */

static void state_set(struct rdma_qp *qp, enum ibv_qp_state state)
{
    __atomic_store_n(&qp->shared->state, state, __ATOMIC_SEQ_CST);
    qp->public.state = state;
}

/* Finds the process of the remote queue pair, and compares its address. */
static struct rdma_peer *peer_find(const struct ibv_qp_attr *a)
{
    struct rdma_peer *p = rdma_peer_get(RDMA_QPN_SLOT(a->dest_qp_num));
    const struct shm_port *port;
    uint32_t device;

    if (!p)
        return NULL;
    device = p->segment->qp[RDMA_QPN_INDEX(a->dest_qp_num)].device;
    port = &p->segment->port[device % RDMA_DEVICES];
    for (uint32_t i = 0; i < port->ngids && i < RDMA_GIDS; i++)
        if (memcmp(&port->gid[i], &a->ah_attr.grh.dgid, sizeof port->gid[i]) == 0)
            return p;
    rdma_peer_put(p);
    return NULL;
}

/* Copies the attributes. Both locks held. */
static void attributes_set(struct rdma_qp *qp, const struct ibv_qp_attr *a, int mask)
{
    struct ibv_qp_attr *mine = &qp->attr;

    if (mask & IBV_QP_ACCESS_FLAGS)
        qp->shared->access = mine->qp_access_flags = a->qp_access_flags;
    if (mask & IBV_QP_PORT)
        mine->port_num = a->port_num;
    if (mask & IBV_QP_AV)
        mine->ah_attr = a->ah_attr;
    if (mask & IBV_QP_PATH_MTU)
        mine->path_mtu = a->path_mtu;
    if (mask & IBV_QP_DEST_QPN)
        qp->shared->dest_qpn = mine->dest_qp_num = a->dest_qp_num;
    if (mask & IBV_QP_RQ_PSN)
        mine->rq_psn = a->rq_psn;
    if (mask & IBV_QP_SQ_PSN)
        mine->sq_psn = a->sq_psn;
    if (mask & IBV_QP_MIN_RNR_TIMER)
        qp->shared->rnr_timer = mine->min_rnr_timer = a->min_rnr_timer;
    if (mask & IBV_QP_TIMEOUT)
        mine->timeout = a->timeout;
    if (mask & IBV_QP_RETRY_CNT)
        mine->retry_cnt = a->retry_cnt;
    if (mask & IBV_QP_RNR_RETRY)
        mine->rnr_retry = a->rnr_retry;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
        mine->max_rd_atomic = a->max_rd_atomic;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
        mine->max_dest_rd_atomic = a->max_dest_rd_atomic;
}

/* Drops all requests and receives. qp->lock held. */
static void pair_reset(struct rdma_qp *qp)
{
    for (; qp->executed < qp->tail; qp->executed++) {
        struct rdma_send *e = &qp->ring[qp->executed % qp->depth];

        free(e->copy);
        e->copy = NULL;
    }
    qp->done = qp->tail;
    __atomic_store_n(&rdma.sq_head[qp->index], qp->tail, __ATOMIC_SEQ_CST);
    qp->again_ns = qp->lost_ns = 0;
    qp->rnr_tries = 0;
    rdma_lock(&qp->shared->rq.lock);
    __atomic_store_n(&qp->shared->rq.head, qp->shared->rq.tail, __ATOMIC_RELEASE);
    rdma_unlock(&qp->shared->rq.lock);
}

/* Both locks of the library held. */
static int pair_modify(struct rdma_qp *qp, const struct ibv_qp_attr *a, int mask)
{
    const enum ibv_qp_state now =
        (enum ibv_qp_state)__atomic_load_n(&qp->shared->state, __ATOMIC_SEQ_CST);
    const enum ibv_qp_state to = mask & IBV_QP_STATE ? a->qp_state : now;

    if ((mask & IBV_QP_CUR_STATE && a->cur_qp_state != now) || !change_is_valid(now, to, mask) ||
        !values_are_valid(a, mask))
        return EINVAL;
    rdma_lock(&qp->shared->lock);
    attributes_set(qp, a, mask);
    state_set(qp, to);
    rdma_unlock(&qp->shared->lock);
    if (to == IBV_QPS_RTR) {
        rdma_peer_put(qp->peer);
        qp->peer = peer_find(a);
    }
    if (to == IBV_QPS_RESET)
        pair_reset(qp);
    if (to == IBV_QPS_ERR && now != IBV_QPS_ERR) {
        rdma_pump(qp);
        rdma_receives_flush(qp);
        if (qp->init.srq && now != IBV_QPS_RESET)
            rdma_qp_fail(rdma.own, qp->index, RDMA_EVENT_LAST);
    }
    return 0;
}

RDMA_EXPORT int ibv_modify_qp(struct ibv_qp *public, struct ibv_qp_attr *attr, int mask)
{
    struct rdma_qp *qp = (struct rdma_qp *)public;
    int err;

    pthread_mutex_lock(&rdma.lock);
    pthread_mutex_lock(&qp->lock);
    err = pair_modify(qp, attr, mask);
    pthread_mutex_unlock(&qp->lock);
    pthread_mutex_unlock(&rdma.lock);
    if (err)
        errno = err;
    return err;
}

RDMA_EXPORT int ibv_query_qp(struct ibv_qp *public, struct ibv_qp_attr *attr, int mask,
                             struct ibv_qp_init_attr *init)
{
    struct rdma_qp *qp = (struct rdma_qp *)public;

    (void)mask;
    pthread_mutex_lock(&qp->lock);
    *attr = qp->attr;
    attr->cap = qp->init.cap;
    attr->qp_state = attr->cur_qp_state =
        (enum ibv_qp_state)__atomic_load_n(&qp->shared->state, __ATOMIC_SEQ_CST);
    public->state = attr->qp_state;
    if (init)
        *init = qp->init;
    pthread_mutex_unlock(&qp->lock);
    return 0;
}

RDMA_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    (void)qp;
    (void)op;
    (void)flags;
    return 0;
}

/* ---- destroy ---- */

RDMA_EXPORT int ibv_destroy_qp(struct ibv_qp *public)
{
    struct rdma_qp *qp = (struct rdma_qp *)public;

    pthread_mutex_lock(&rdma.lock);
    pthread_mutex_lock(&qp->lock);
    rdma_lock(&qp->shared->lock);
    state_set(qp, IBV_QPS_RESET);
    qp->shared->dest_qpn = qp->shared->events = 0;
    rdma_unlock(&qp->shared->lock);
    pair_reset(qp);
    rdma.qp[qp->index] = NULL;
    rdma_heap_give(qp->shared->rq.ring, qp->rq_bytes);
    qp->shared->rq.ring = 0;
    rdma_peer_put(qp->peer);
    rdma_events_drop(qp->context, public);
    ((struct rdma_pd *)public->pd)->users--;
    ((struct rdma_cq *)qp->init.send_cq)->users--;
    ((struct rdma_cq *)qp->init.recv_cq)->users--;
    if (qp->init.srq)
        ((struct rdma_srq *)qp->init.srq)->users--;
    qp->context->objects--;
    pthread_mutex_unlock(&qp->lock);
    pthread_mutex_unlock(&rdma.lock);
    rdma_wait_acked(&public->mutex, &public->cond, &public->events_completed, &qp->async_got);
    free(qp->ring);
    free(qp);
    return 0;
}

/* ---- receives and errors ---- */

int rdma_post_recv(struct ibv_qp *public, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct rdma_qp *qp = (struct rdma_qp *)public;
    int err;

    if (qp->init.srq || __atomic_load_n(&qp->shared->state, __ATOMIC_SEQ_CST) == IBV_QPS_RESET) {
        *bad = wr;
        return EINVAL;
    }
    err = rdma_receives_add(&qp->shared->rq, wr, bad);
    if (__atomic_load_n(&qp->shared->state, __ATOMIC_SEQ_CST) == IBV_QPS_ERR) {
        pthread_mutex_lock(&qp->lock);
        rdma_receives_flush(qp);
        pthread_mutex_unlock(&qp->lock);
    }
    return err;
}

void rdma_receives_flush(struct rdma_qp *qp)
{
    struct shm_rq *rq = &qp->shared->rq;
    uint32_t sge_max;

    if (qp->init.srq)
        return;
    rdma_lock(&rq->lock);
    for (; rq->head < rq->tail; __atomic_store_n(&rq->head, rq->head + 1, __ATOMIC_RELEASE)) {
        const struct shm_receive *r = rdma_receive_at(rdma.own, rq, rq->head, &sge_max);
        const struct shm_cqe e = { .wr_id = r ? r->wr_id : 0,
                                   .status = IBV_WC_WR_FLUSH_ERR,
                                   .opcode = IBV_WC_RECV,
                                   .qpn = qp->public.qp_num };

        rdma_cq_push(rdma.own, qp->shared->recv_cq, &e, false);
    }
    rdma_unlock(&rq->lock);
}

void rdma_qp_fail(struct shm_segment *s, uint32_t index, uint32_t event)
{
    struct shm_qp *qp = &s->qp[index];

    __atomic_store_n(&qp->state, IBV_QPS_ERR, __ATOMIC_SEQ_CST);
    __atomic_fetch_or(&qp->events, event, __ATOMIC_SEQ_CST);
    rdma_notify(s, s->qp_news, index);
}

void rdma_qp_news(struct rdma_qp *qp)
{
    static const struct {
        uint32_t bit;
        enum ibv_event_type type;
    } types[] = {
        { RDMA_EVENT_ACCESS, IBV_EVENT_QP_ACCESS_ERR },
        { RDMA_EVENT_REQUEST, IBV_EVENT_QP_REQ_ERR },
        { RDMA_EVENT_FATAL, IBV_EVENT_QP_FATAL },
        { RDMA_EVENT_LAST, IBV_EVENT_QP_LAST_WQE_REACHED },
    };
    const uint32_t events = __atomic_exchange_n(&qp->shared->events, 0, __ATOMIC_SEQ_CST);

    pthread_mutex_lock(&qp->lock);
    if (__atomic_load_n(&qp->shared->state, __ATOMIC_SEQ_CST) == IBV_QPS_ERR) {
        rdma_pump(qp);
        rdma_receives_flush(qp);
    }
    pthread_mutex_unlock(&qp->lock);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (events & types[i].bit)
            rdma_event_raise(qp->context, &(struct ibv_async_event){ .element.qp = &qp->public,
                                                                     .event_type = types[i].type });
}
