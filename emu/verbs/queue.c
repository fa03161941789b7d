/* Completion queues and their channels, and shared receive queues. */
#include "process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- channels ---- */

RDMA_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct rdma_channel *ch = calloc(1, sizeof *ch);

    if (!ch)
        return NULL;
    ch->public.context = context;
    ch->public.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    if (ch->public.fd < 0) {
        free(ch);
        return NULL;
    }
    pthread_mutex_lock(&rdma.lock);
    rdma_context_of(context)->objects++;
    pthread_mutex_unlock(&rdma.lock);
    return &ch->public;
}

RDMA_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *public)
{
    bool busy;

    pthread_mutex_lock(&rdma.lock);
    busy = public->refcnt > 0;
    if (!busy)
        rdma_context_of(public->context)->objects--;
    pthread_mutex_unlock(&rdma.lock);
    if (busy) {
        errno = EBUSY;
        return EBUSY;
    }
    close(public->fd);
    free(public);
    return 0;
}

static void cq_list(struct rdma_channel *ch, struct rdma_cq *cq)
{
    struct rdma_cq **at = &ch->ready;

    if (cq->listed)
        return;
    while (*at)
        at = &(*at)->next_ready;
    *at = cq;
    cq->next_ready = NULL;
    cq->listed = true;
}

static void cq_unlist(struct rdma_channel *ch, struct rdma_cq *cq)
{
    struct rdma_cq **at = &ch->ready;

    while (cq->listed && *at != cq)
        at = &(*at)->next_ready;
    if (cq->listed)
        *at = cq->next_ready;
    cq->listed = false;
}

void rdma_cq_deliver(struct rdma_cq *cq)
{
    struct rdma_channel *ch = (struct rdma_channel *)cq->public.channel;
    const uint64_t n = __atomic_exchange_n(&cq->shared->events, 0, __ATOMIC_SEQ_CST);

    if (__atomic_load_n(&cq->shared->overrun, __ATOMIC_SEQ_CST) && !cq->failed) {
        cq->failed = true;
        rdma_log("a completion queue of %d entries is full: it is not usable any more",
                 cq->public.cqe);
        rdma_event_raise(
            rdma_context_of(cq->public.context),
            &(struct ibv_async_event){ .element.cq = &cq->public, .event_type = IBV_EVENT_CQ_ERR });
    }
    if (n == 0 || !ch)
        return;
    cq->ready += (uint32_t)n;
    cq_list(ch, cq);
    if (write(ch->public.fd, &n, sizeof n) < 0)
        rdma_log("cannot signal a completion: %s", strerror(errno));
}

RDMA_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *public, struct ibv_cq **out,
                                 void **context)
{
    struct rdma_channel *ch = (struct rdma_channel *)public;
    struct rdma_cq *cq = NULL;
    uint64_t one;

    while (!cq) {   /* events of destroyed queues are dropped, but still counted in the fd */
        if (read(public->fd, &one, sizeof one) != sizeof one)
            return -1;
        pthread_mutex_lock(&rdma.lock);
        cq = ch->ready;
        if (cq) {
            cq_unlist(ch, cq);
            cq->events_got++;
            if (--cq->ready > 0)
                cq_list(ch, cq);
        }
        pthread_mutex_unlock(&rdma.lock);
    }
    *out = &cq->public;
    *context = cq->public.cq_context;
    return 0;
}

RDMA_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += n;
    pthread_cond_signal(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}

void rdma_wait_acked(pthread_mutex_t *m, pthread_cond_t *c, const uint32_t *acked,
                     const uint32_t *got)
{
    pthread_mutex_lock(m);
    while (*acked != *got)
        pthread_cond_wait(c, m);
    pthread_mutex_unlock(m);
}

/* ---- completion queues ---- */

static int cq_enter(struct rdma_cq *cq, uint32_t depth)
{
    uint32_t index = 0;
    int err;

    while (index < RDMA_CQS && rdma.cq[index])
        index++;
    if (index == RDMA_CQS)
        return ENOMEM;
    cq->index = index;
    cq->shared = &rdma.own->cq[index];
    cq->ring_bytes = (uint64_t)depth * sizeof(struct shm_cqe);
    err = rdma_keep(cq->shared, sizeof *cq->shared);
    cq->ring = err ? 0 : rdma_heap_take(cq->ring_bytes);
    if (cq->ring == 0)
        return err ? err : ENOMEM;
    memset(cq->shared, 0, sizeof *cq->shared);
    rdma_mutex_init(&cq->shared->lock);
    cq->shared->ring = cq->ring;
    cq->shared->depth = depth;
    rdma.cq[index] = cq;
    rdma_context_of(cq->public.context)->objects++;
    if (cq->public.channel)
        cq->public.channel->refcnt++;
    return 0;
}

RDMA_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                         struct ibv_comp_channel *channel, int vector)
{
    struct rdma_cq *cq = calloc(1, sizeof *cq);
    int err = !cq ? ENOMEM : cqe < 1 || (uint32_t)cqe > RDMA_CQES || vector != 0 ? EINVAL : 0;

    if (!err) {
        cq->public = (struct ibv_cq){
            .context = context, .channel = channel, .cq_context = cq_context, .cqe = cqe
        };
        pthread_mutex_init(&cq->public.mutex, NULL);
        pthread_cond_init(&cq->public.cond, NULL);
        pthread_mutex_init(&cq->poll, NULL);
        pthread_mutex_lock(&rdma.lock);
        err = cq_enter(cq, (uint32_t)cqe);
        pthread_mutex_unlock(&rdma.lock);
    }
    if (!err)
        return &cq->public;
    free(cq);
    errno = err;
    return NULL;
}

RDMA_EXPORT int ibv_destroy_cq(struct ibv_cq *public)
{
    struct rdma_cq *cq = (struct rdma_cq *)public;
    struct rdma_channel *ch = (struct rdma_channel *)public->channel;

    pthread_mutex_lock(&rdma.lock);
    if (cq->users > 0) {
        pthread_mutex_unlock(&rdma.lock);
        errno = EBUSY;
        return EBUSY;
    }
    if (ch) {
        cq_unlist(ch, cq);
        ch->public.refcnt--;
    }
    rdma_events_drop(rdma_context_of(public->context), public);
    rdma.cq[cq->index] = NULL;
    cq->shared->depth = 0;
    rdma_heap_give(cq->ring, cq->ring_bytes);
    rdma_context_of(public->context)->objects--;
    pthread_mutex_unlock(&rdma.lock);
    rdma_wait_acked(&public->mutex, &public->cond, &public->comp_events_completed, &cq->events_got);
    rdma_wait_acked(&public->mutex, &public->cond, &public->async_events_completed, &cq->async_got);
    free(cq);
    return 0;
}

RDMA_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    (void)cq;
    (void)cqe;
    errno = EOPNOTSUPP;
    return EOPNOTSUPP;
}

/* The requests up to the completed one leave the send queue. */
static void send_retire(const struct shm_cqe *e)
{
    uint64_t *head = &rdma.sq_head[RDMA_QPN_INDEX(e->qpn)];

    if (__atomic_load_n(head, __ATOMIC_RELAXED) < e->sq_end)
        __atomic_store_n(head, e->sq_end, __ATOMIC_RELEASE);
}

int rdma_poll_cq(struct ibv_cq *public, int max, struct ibv_wc *wc)
{
    struct rdma_cq *cq = (struct rdma_cq *)public;
    struct shm_cq *s = cq->shared;
    const struct shm_cqe *ring =
        (const struct shm_cqe *)(const void *)((const uint8_t *)rdma.own + cq->ring);
    int n = 0;

    if (__atomic_load_n(&s->tail, __ATOMIC_ACQUIRE) == __atomic_load_n(&s->head, __ATOMIC_RELAXED))
        return __atomic_load_n(&s->overrun, __ATOMIC_RELAXED) ? -1 : 0;
    pthread_mutex_lock(&cq->poll);
    for (; n < max && s->head != __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE); n++) {
        const struct shm_cqe *e = &ring[s->head % s->depth];

        wc[n] = (struct ibv_wc){
            .wr_id = e->wr_id,
            .status = (enum ibv_wc_status)e->status,
            .opcode = (enum ibv_wc_opcode)e->opcode,
            .byte_len = e->byte_len,
            .imm_data = e->imm,
            .qp_num = e->qpn,
            .src_qp = e->src_qpn,
            .wc_flags = e->flags,
        };
        if (e->sq_end)
            send_retire(e);
        __atomic_store_n(&s->head, s->head + 1, __ATOMIC_SEQ_CST);
    }
    pthread_mutex_unlock(&cq->poll);
    return n;
}

int rdma_req_notify_cq(struct ibv_cq *public, int solicited_only)
{
    struct shm_cq *s = ((struct rdma_cq *)public)->shared;

    rdma_lock(&s->lock);
    if (s->armed != 1)
        __atomic_store_n(&s->armed, solicited_only ? 2u : 1u, __ATOMIC_SEQ_CST);
    rdma_unlock(&s->lock);
    return 0;
}

/* ---- receive queues ---- */

static bool receive_is_valid(const struct shm_rq *rq, const struct ibv_recv_wr *wr)
{
    return wr->num_sge >= 0 && (uint32_t)wr->num_sge <= rq->sge_max;
}

int rdma_receives_add(struct shm_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    uint32_t sge_max;
    int err = 0;

    rdma_lock(&rq->lock);
    for (; wr && !err; wr = err ? wr : wr->next) {
        struct shm_receive *r = rdma_receive_at(rdma.own, rq, rq->tail, &sge_max);

        if (!r || rq->tail - rq->head >= rq->depth)
            err = ENOMEM;
        else if (!receive_is_valid(rq, wr))
            err = EINVAL;
        if (err)
            break;
        r->wr_id = wr->wr_id;
        r->nsge = (uint32_t)wr->num_sge;
        if (r->nsge > 0)
            memcpy(r->sge, wr->sg_list, r->nsge * sizeof *r->sge);
        __atomic_store_n(&rq->tail, rq->tail + 1, __ATOMIC_RELEASE);
    }
    rdma_unlock(&rq->lock);
    if (err && bad)
        *bad = wr;
    return err;
}

static int srq_enter(struct rdma_srq *srq, const struct ibv_srq_attr *attr)
{
    uint32_t index = 0;
    uint64_t ring;
    int err;

    while (index < RDMA_SRQS && rdma.srq[index])
        index++;
    if (index == RDMA_SRQS)
        return ENOMEM;
    srq->index = index;
    srq->shared = &rdma.own->srq[index];
    srq->ring_bytes = (sizeof(struct shm_receive) + attr->max_sge * sizeof(struct ibv_sge)) *
                      (uint64_t)attr->max_wr;
    err = rdma_keep(srq->shared, sizeof *srq->shared);
    ring = err ? 0 : rdma_heap_take(srq->ring_bytes);
    if (ring == 0)
        return err ? err : ENOMEM;
    *srq->shared = (struct shm_rq){ .ring = ring, .depth = attr->max_wr, .sge_max = attr->max_sge };
    rdma_mutex_init(&srq->shared->lock);
    rdma.srq[index] = srq;
    rdma_context_of(srq->public.context)->objects++;
    ((struct rdma_pd *)srq->public.pd)->users++;
    return 0;
}

RDMA_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    struct rdma_srq *srq = calloc(1, sizeof *srq);
    int err = !srq ? ENOMEM : 0;

    if (srq && (init->attr.max_wr < 1 || init->attr.max_wr > RDMA_SRQ_WRS ||
                init->attr.max_sge > RDMA_SGE))
        err = EINVAL;
    if (!err) {
        srq->public =
            (struct ibv_srq){ .context = pd->context, .srq_context = init->srq_context, .pd = pd };
        pthread_mutex_init(&srq->public.mutex, NULL);
        pthread_cond_init(&srq->public.cond, NULL);
        pthread_mutex_lock(&rdma.lock);
        err = srq_enter(srq, &init->attr);
        pthread_mutex_unlock(&rdma.lock);
    }
    if (!err)
        return &srq->public;
    free(srq);
    errno = err;
    return NULL;
}

RDMA_EXPORT int ibv_destroy_srq(struct ibv_srq *public)
{
    struct rdma_srq *srq = (struct rdma_srq *)public;

    pthread_mutex_lock(&rdma.lock);
    if (srq->users > 0) {
        pthread_mutex_unlock(&rdma.lock);
        errno = EBUSY;
        return EBUSY;
    }
    rdma.srq[srq->index] = NULL;
    rdma_heap_give(srq->shared->ring, srq->ring_bytes);
    srq->shared->ring = 0;
    rdma_events_drop(rdma_context_of(public->context), public);
    rdma_context_of(public->context)->objects--;
    ((struct rdma_pd *)public->pd)->users--;
    pthread_mutex_unlock(&rdma.lock);
    rdma_wait_acked(&public->mutex, &public->cond, &public->events_completed, &srq->async_got);
    free(srq);
    return 0;
}

RDMA_EXPORT int ibv_modify_srq(struct ibv_srq *public, struct ibv_srq_attr *attr, int mask)
{
    struct shm_rq *rq = ((struct rdma_srq *)public)->shared;

    if (mask & ~IBV_SRQ_LIMIT || attr->srq_limit > rq->depth) {
        errno = mask & IBV_SRQ_MAX_WR ? EOPNOTSUPP : EINVAL;
        return errno;
    }
    rdma_lock(&rq->lock);
    rq->limit = attr->srq_limit;
    rdma_unlock(&rq->lock);
    return 0;
}

RDMA_EXPORT int ibv_query_srq(struct ibv_srq *public, struct ibv_srq_attr *attr)
{
    struct shm_rq *rq = ((struct rdma_srq *)public)->shared;

    rdma_lock(&rq->lock);
    *attr = (struct ibv_srq_attr){ .max_wr = rq->depth,
                                   .max_sge = rq->sge_max,
                                   .srq_limit = rq->limit };
    rdma_unlock(&rq->lock);
    return 0;
}

int rdma_post_srq_recv(struct ibv_srq *public, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    return rdma_receives_add(((struct rdma_srq *)public)->shared, wr, bad);
}

void rdma_srq_deliver(struct rdma_srq *srq)
{
    rdma_event_raise(rdma_context_of(srq->public.context),
                     &(struct ibv_async_event){ .element.srq = &srq->public,
                                                .event_type = IBV_EVENT_SRQ_LIMIT_REACHED });
}
