/* Execution of work requests. */
#include "process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define LOST_NS_MIN 50000ull
#define LOST_NS_MAX 20000000ull

enum outcome {
    DONE,           /* with rdma_send.status */
    NOT_READY,      /* the receiver has not posted a receive */
    LOST            /* the peer does not answer */
};

/* A request during its execution. The connected queue pair is locked. */
struct run {
    struct rdma_qp *qp;
    struct rdma_send *e;
    struct shm_segment *there;
    struct shm_qp *remote;
    uint32_t remote_index;
    struct iovec local[RDMA_SGE];
    uint32_t nlocal;
};

/* ---- copies ---- */

/* Copies between this process's memory and the peer's. Sets the status. */
static enum outcome copy_bytes(struct run *r, bool write, const struct iovec *remote,
                               uint32_t nremote)
{
    const pid_t pid = r->there->pid;
    ssize_t n;

    if (r->e->bytes == 0)
        return DONE;
    n = write ? process_vm_writev(pid, r->local, r->nlocal, remote, nremote, 0)
              : process_vm_readv(pid, r->local, r->nlocal, remote, nremote, 0);
    if (n == (ssize_t)r->e->bytes)
        return DONE;
    if (n < 0 && errno == ESRCH)
        return LOST;
    if (n < 0 && errno != EFAULT)
        rdma_log("cannot access the memory of process %d: %s (is ptrace restricted?)", (int)pid,
                 strerror(errno));
    r->e->status = n < 0 && errno != EFAULT ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_REM_ACCESS_ERR;
    return DONE;
}

/* Fills r->local with the request's own memory. */
static enum ibv_wc_status local_memory(struct run *r)
{
    const bool is_written = r->e->opcode == IBV_WR_RDMA_READ ||
                            r->e->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                            r->e->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    const uint32_t access = is_written ? IBV_ACCESS_LOCAL_WRITE : 0;

    r->nlocal = 0;
    for (uint32_t i = 0; i < r->e->nsge; i++) {
        const struct ibv_sge *g = &r->e->sge[i];
        const struct shm_mr *mr;
        uintptr_t at = (uintptr_t)g->addr;

        if (g->length == 0)
            continue;
        if (!(r->e->flags & IBV_SEND_INLINE)) {
            mr = rdma_mr_find(rdma.own, g->lkey, g->addr, g->length, access, r->qp->shared->pd);
            if (!mr)
                return IBV_WC_LOC_PROT_ERR;
            at = (uintptr_t)(mr->address + (g->addr - mr->iova));
        }
        r->local[r->nlocal++] = (struct iovec){ .iov_base = (void *)at, .iov_len = g->length };
    }
    return IBV_WC_SUCCESS;
}

/* ---- the remote side ---- */

/* The remote queue pair refuses the request: both fail. */
static enum outcome refuse(struct run *r, enum ibv_wc_status status)
{
    r->e->status = status;
    rdma_qp_fail(r->there, r->remote_index,
                 status == IBV_WC_REM_ACCESS_ERR ? RDMA_EVENT_ACCESS : RDMA_EVENT_REQUEST);
    return DONE;
}

/* Finds the request's remote memory. Returns false if the key does not allow it. */
static bool remote_memory(struct run *r, uint64_t bytes, uint32_t access, struct iovec *out)
{
    const struct shm_mr *mr;

    *out = (struct iovec){ 0 };
    if (!(r->remote->access & access))
        return false;
    if (bytes == 0)
        return true;
    mr = rdma_mr_find(r->there, r->e->rkey, r->e->remote, bytes, access, r->remote->pd);
    if (!mr)
        return false;
    *out = (struct iovec){ .iov_base = (void *)(uintptr_t)(mr->address + (r->e->remote - mr->iova)),
                           .iov_len = bytes };
    return true;
}

static struct shm_rq *receives_of(struct run *r)
{
    const uint32_t srq = r->remote->srq;

    return srq < RDMA_SRQS ? &r->there->srq[srq] : &r->remote->rq;
}

static bool has_receive(struct run *r)
{
    const struct shm_rq *rq = receives_of(r);

    return __atomic_load_n(&rq->tail, __ATOMIC_ACQUIRE) !=
           __atomic_load_n(&rq->head, __ATOMIC_ACQUIRE);
}

/* Consumes the next receive. Returns false if there is none. The receive is lost if this process
 * dies before it adds the completion. */
static bool receive_take(struct run *r, uint64_t *wr_id, struct ibv_sge sge[RDMA_SGE],
                         uint32_t *nsge)
{
    struct shm_rq *rq = receives_of(r);
    const struct shm_receive *from;
    bool below = false;
    uint32_t sge_max;

    rdma_lock(&rq->lock);
    from = rq->head != rq->tail ? rdma_receive_at(r->there, rq, rq->head, &sge_max) : NULL;
    if (from) {
        *wr_id = from->wr_id;
        *nsge = from->nsge;
        *nsge = *nsge < sge_max ? *nsge : sge_max;
        memcpy(sge, from->sge, *nsge * sizeof *sge);
        __atomic_store_n(&rq->head, rq->head + 1, __ATOMIC_RELEASE);
        below = rq->limit > 0 && rq->tail - rq->head < rq->limit;
        if (below)
            rq->limit = 0;
    }
    rdma_unlock(&rq->lock);
    if (below)
        rdma_notify(r->there, r->there->srq_news, r->remote->srq);
    return from != NULL;
}

static void receive_complete(struct run *r, uint64_t wr_id, enum ibv_wc_status status, bool write)
{
    const bool imm =
        r->e->opcode == IBV_WR_SEND_WITH_IMM || r->e->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    const struct shm_cqe e = {
        .wr_id = wr_id,
        .status = status,
        .opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
        .byte_len = r->e->bytes,
        .qpn = RDMA_QPN(r->there->slot, r->remote_index),
        .src_qpn = r->qp->public.qp_num,
        .flags = imm ? IBV_WC_WITH_IMM : 0,
        .imm = r->e->imm,
    };

    rdma_cq_push(r->there, r->remote->recv_cq, &e, r->e->flags & IBV_SEND_SOLICITED);
}

/* ---- operations ---- */

static enum outcome do_write(struct run *r)
{
    const bool imm = r->e->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    struct ibv_sge sge[RDMA_SGE];
    struct iovec to;
    enum outcome o;
    uint64_t wr_id;
    uint32_t nsge;

    if (imm && !has_receive(r))
        return NOT_READY;
    if (!remote_memory(r, r->e->bytes, IBV_ACCESS_REMOTE_WRITE, &to))
        return refuse(r, IBV_WC_REM_ACCESS_ERR);
    o = copy_bytes(r, true, &to, 1);
    if (o != DONE || r->e->status != IBV_WC_SUCCESS || !imm)
        return o;
    if (!receive_take(r, &wr_id, sge, &nsge))
        return NOT_READY;       /* another sender was faster: the bytes are written again */
    receive_complete(r, wr_id, IBV_WC_SUCCESS, true);
    return DONE;
}

static enum outcome do_read(struct run *r)
{
    struct iovec from;

    if (!remote_memory(r, r->e->bytes, IBV_ACCESS_REMOTE_READ, &from))
        return refuse(r, IBV_WC_REM_ACCESS_ERR);
    return copy_bytes(r, false, &from, 1);
}

/* Fills to[] with the memory of the receive, up to the length of the message. */
static enum ibv_wc_status scatter(struct run *r, const struct ibv_sge *sge, uint32_t nsge,
                                  struct iovec *to, uint32_t *nto)
{
    uint64_t left = r->e->bytes;

    *nto = 0;
    for (uint32_t i = 0; i < nsge && left > 0; i++) {
        const uint64_t n = sge[i].length < left ? sge[i].length : left;
        const struct shm_mr *mr = rdma_mr_find(r->there, sge[i].lkey, sge[i].addr, n,
                                               IBV_ACCESS_LOCAL_WRITE, r->remote->pd);

        if (n == 0)
            continue;
        if (!mr)
            return IBV_WC_LOC_PROT_ERR;
        to[(*nto)++] =
            (struct iovec){ .iov_base = (void *)(uintptr_t)(mr->address + (sge[i].addr - mr->iova)),
                            .iov_len = n };
        left -= n;
    }
    return left > 0 ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

static enum outcome do_send(struct run *r)
{
    struct ibv_sge sge[RDMA_SGE];
    struct iovec to[RDMA_SGE];
    enum ibv_wc_status status;
    uint64_t wr_id;
    uint32_t nsge, nto;
    enum outcome o;

    if (!receive_take(r, &wr_id, sge, &nsge))
        return NOT_READY;
    status = scatter(r, sge, nsge, to, &nto);
    if (status != IBV_WC_SUCCESS) {
        receive_complete(r, wr_id, status, false);
        return refuse(r, status == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR);
    }
    o = copy_bytes(r, true, to, nto);
    if (o == DONE && r->e->status == IBV_WC_SUCCESS)
        receive_complete(r, wr_id, IBV_WC_SUCCESS, false);
    else if (o == DONE)
        receive_complete(r, wr_id, IBV_WC_LOC_PROT_ERR, false);
    return o;
}

/* Atomic with regard to other atomic operations of the device, but not with regard to the CPUs. */
static enum outcome do_atomic(struct run *r)
{
    pthread_mutex_t *lock = &r->there->atomics[r->remote->device % RDMA_DEVICES];
    const bool swaps = r->e->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    struct iovec word, own;
    uint64_t old = 0, new;
    enum outcome o;

    if (r->e->remote % 8 != 0 || r->e->bytes != 8)
        return refuse(r, IBV_WC_REM_INV_REQ_ERR);
    if (!remote_memory(r, 8, IBV_ACCESS_REMOTE_ATOMIC, &word))
        return refuse(r, IBV_WC_REM_ACCESS_ERR);
    own = r->local[0];
    r->local[0] = (struct iovec){ .iov_base = &old, .iov_len = 8 };
    r->nlocal = 1;
    rdma_lock(lock);
    o = copy_bytes(r, false, &word, 1);
    new = swaps ? (old == r->e->compare_add ? r->e->swap : old) : old + r->e->compare_add;
    r->local[0].iov_base = &new;
    if (o == DONE && r->e->status == IBV_WC_SUCCESS)
        o = copy_bytes(r, true, &word, 1);
    rdma_unlock(lock);
    if (o == DONE && r->e->status == IBV_WC_SUCCESS)
        memcpy(own.iov_base, &old, 8);
    return o;
}

static enum outcome operate(struct run *r)
{
    switch (r->e->opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return do_write(r);
    case IBV_WR_RDMA_READ:
        return do_read(r);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return do_atomic(r);
    default:
        return do_send(r);
    }
}

/* ---- faults ---- */

static bool consumes_receive(const struct rdma_send *e)
{
    return e->opcode == IBV_WR_SEND || e->opcode == IBV_WR_SEND_WITH_IMM ||
           e->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* Injects due faults. Returns true if the queue pair fails. */
static bool break_by_fault(struct rdma_qp *qp, struct rdma_send *e)
{
    static uint64_t port_count;
    const uint32_t device = qp->context->device->index;

    if (rdma_fault_is_due(RDMA_FAULT_PORT, &port_count)) {
        __atomic_store_n(&rdma.down_until_ns[device],
                         rdma_now_ns() + 1000 * rdma_fault(RDMA_FAULT_PORT)->amount,
                         __ATOMIC_SEQ_CST);
        rdma_wake(rdma.own);
    }
    if (rdma_fault_is_due(RDMA_FAULT_LATE, &qp->late_count))
        e->due_ns = rdma_now_ns() + 1000 * rdma_fault(RDMA_FAULT_LATE)->amount;
    if (consumes_receive(e) && rdma_fault_is_due(RDMA_FAULT_RNR, &qp->rnr_count))
        qp->rnr_left = rdma_fault(RDMA_FAULT_RNR)->amount;
    if (!rdma_fault_is_due(RDMA_FAULT_QP, &qp->fault_count))
        return false;
    e->status = IBV_WC_FATAL_ERR;
    rdma_qp_fail(rdma.own, qp->index, RDMA_EVENT_FATAL);
    return true;
}

/* ---- one request ---- */

static bool path_is_up(const struct rdma_qp *qp)
{
    const uint32_t device = qp->shared->device;

    return qp->peer && __atomic_load_n(&rdma.own->port[device].up, __ATOMIC_SEQ_CST) &&
           __atomic_load_n(&rdma.down_until_ns[device], __ATOMIC_SEQ_CST) == 0 &&
           rdma_peer_is_alive(qp->peer);
}

/* Executes a request once. */
static enum outcome execute(struct rdma_qp *qp, struct rdma_send *e)
{
    struct run r = { .qp = qp, .e = e };
    enum outcome o = LOST;
    uint32_t state;

    e->status = local_memory(&r);
    if (e->status != IBV_WC_SUCCESS)
        return DONE;
    if (!path_is_up(qp))
        return LOST;
    if (consumes_receive(e) && qp->rnr_left > 0) {
        qp->rnr_left--;
        return NOT_READY;
    }
    r.there = qp->peer->segment;
    r.remote_index = RDMA_QPN_INDEX(qp->attr.dest_qp_num);
    r.remote = &r.there->qp[r.remote_index];
    if (!__atomic_load_n(&r.remote->locks_ready, __ATOMIC_ACQUIRE))
        return LOST;
    rdma_lock(&r.remote->lock);
    state = __atomic_load_n(&r.remote->state, __ATOMIC_SEQ_CST);
    if ((state == IBV_QPS_RTR || state == IBV_QPS_RTS) && r.remote->dest_qpn == qp->public.qp_num &&
        __atomic_load_n(&r.there->port[r.remote->device % RDMA_DEVICES].up, __ATOMIC_SEQ_CST))
        o = operate(&r);
    if (o == NOT_READY)
        rdma_not_ready(RDMA_QPN(r.there->slot, r.remote_index));
    rdma_unlock(&r.remote->lock);
    return o;
}

/* Converts the code of the RNR timer. The table is in units of 10 us. */
static uint64_t rnr_delay_ns(uint32_t code)
{
    static const uint32_t units[32] = { 65536, 1,   2,   3,   4,    6,    8,    12,
                                        16,    24,  32,  48,  64,   96,   128,  192,
                                        256,   384, 512, 768, 1024, 1536, 2048, 3072,
                                        4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152 };

    return units[code % 32] * 10000ull;
}

/* The receiver was not ready. Returns whether the request is finished, with an error. */
static bool retry_later(struct rdma_qp *qp, struct rdma_send *e)
{
    const struct shm_qp *remote = &qp->peer->segment->qp[RDMA_QPN_INDEX(qp->attr.dest_qp_num)];

    if (qp->attr.rnr_retry < 7 && qp->rnr_tries++ >= qp->attr.rnr_retry) {
        e->status = IBV_WC_RNR_RETRY_EXC_ERR;
        return true;
    }
    qp->again_ns = rdma_now_ns() + rnr_delay_ns(remote->rnr_timer);
    return false;
}

/* The peer did not answer. A real device repeats the request after its timeout. This one retries
 * more often, but fails after the same time. */
static bool retry_lost(struct rdma_qp *qp, struct rdma_send *e)
{
    const uint64_t now = rdma_now_ns();
    const uint64_t limit = (4096ull << qp->attr.timeout) * (qp->attr.retry_cnt + 1u);

    if (!qp->lost_ns) {
        qp->lost_ns = now;
        qp->wait_ns = LOST_NS_MIN;
    }
    if (qp->attr.timeout > 0 && now - qp->lost_ns >= limit) {
        e->status = IBV_WC_RETRY_EXC_ERR;
        return true;
    }
    qp->again_ns = now + qp->wait_ns;
    qp->wait_ns = qp->wait_ns < LOST_NS_MAX / 2 ? 2 * qp->wait_ns : LOST_NS_MAX;
    return false;
}

static bool has_failed(const struct rdma_qp *qp)
{
    return __atomic_load_n(&qp->shared->state, __ATOMIC_SEQ_CST) == IBV_QPS_ERR;
}

/* Executes a request, or flushes it. Returns whether it is finished. */
static bool advance(struct rdma_qp *qp, struct rdma_send *e)
{
    bool over = true;

    if (has_failed(qp)) {
        e->status = IBV_WC_WR_FLUSH_ERR;
        return true;
    }
    if (qp->again_ns && rdma_now_ns() < qp->again_ns)
        return false;
    if (!qp->again_ns && break_by_fault(qp, e))
        return true;
    qp->again_ns = 0;
    switch (execute(qp, e)) {
    case NOT_READY:
        over = retry_later(qp, e);
        break;
    case LOST:
        over = retry_lost(qp, e);
        break;
    case DONE:
        break;
    }
    if (!over)
        return false;
    qp->again_ns = qp->lost_ns = 0;
    qp->rnr_tries = 0;
    if (e->status != IBV_WC_SUCCESS) {
        rdma_lock(&qp->shared->lock);
        rdma_qp_fail(rdma.own, qp->index, qp->init.srq ? RDMA_EVENT_LAST : 0);
        rdma_unlock(&qp->shared->lock);
    }
    return true;
}

/* ---- completions ---- */

static enum ibv_wc_opcode completed_opcode(uint32_t opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    default:
        return IBV_WC_SEND;
    }
}

/* Adds the completions that are due. Returns when the next one is due; 0: there is none. */
static uint64_t complete(struct rdma_qp *qp)
{
    for (; qp->done < qp->executed; qp->done++) {
        const struct rdma_send *e = &qp->ring[qp->done % qp->depth];
        const struct shm_cqe cqe = {
            .wr_id = e->wr_id,
            .sq_end = qp->done + 1,
            .status = e->status,
            .opcode = completed_opcode(e->opcode),
            .byte_len = e->bytes,
            .qpn = qp->public.qp_num,
        };

        if (e->due_ns && !has_failed(qp) && rdma_now_ns() < e->due_ns)
            return e->due_ns;
        if (e->status != IBV_WC_SUCCESS || e->flags & IBV_SEND_SIGNALED || qp->init.sq_sig_all)
            rdma_cq_push(rdma.own, ((struct rdma_cq *)qp->init.send_cq)->index, &cqe, false);
    }
    return 0;
}

uint64_t rdma_pump(struct rdma_qp *qp)
{
    uint64_t next;

    while (qp->executed < qp->tail) {
        struct rdma_send *e = &qp->ring[qp->executed % qp->depth];

        if (!advance(qp, e))
            break;
        free(e->copy);
        e->copy = NULL;
        qp->executed++;
    }
    next = complete(qp);
    if (qp->executed < qp->tail && (!next || qp->again_ns < next))
        next = qp->again_ns;
    return next;
}

/* ---- post ---- */

static int request_check(const struct rdma_qp *qp, const struct ibv_send_wr *wr, uint64_t *bytes)
{
    *bytes = 0;
    if (wr->opcode > IBV_WR_ATOMIC_FETCH_AND_ADD)
        return EOPNOTSUPP;
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->init.cap.max_send_sge)
        return EINVAL;
    for (int i = 0; i < wr->num_sge; i++)
        *bytes += wr->sg_list[i].length;
    if (wr->send_flags & IBV_SEND_INLINE &&
        (wr->opcode >= IBV_WR_RDMA_READ || *bytes > qp->init.cap.max_inline_data))
        return EINVAL;
    if (*bytes > RDMA_MESSAGE_BYTES)
        return EINVAL;
    if (wr->opcode >= IBV_WR_ATOMIC_CMP_AND_SWP && (wr->num_sge != 1 || *bytes != 8))
        return EINVAL;
    return 0;
}

static void request_set(struct rdma_send *e, const struct ibv_send_wr *wr, uint64_t bytes)
{
    const bool atomic = wr->opcode >= IBV_WR_ATOMIC_CMP_AND_SWP;

    e->wr_id = wr->wr_id;
    e->opcode = wr->opcode;
    e->flags = wr->send_flags;
    e->imm = wr->imm_data;
    e->nsge = (uint32_t)wr->num_sge;
    e->remote = atomic ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr;
    e->rkey = atomic ? wr->wr.atomic.rkey : wr->wr.rdma.rkey;
    e->compare_add = atomic ? wr->wr.atomic.compare_add : 0;
    e->swap = atomic ? wr->wr.atomic.swap : 0;
    e->status = IBV_WC_SUCCESS;
    e->bytes = (uint32_t)bytes;
    e->due_ns = 0;
    e->copy = NULL;
    if (e->nsge > 0)
        memcpy(e->sge, wr->sg_list, e->nsge * sizeof *e->sge);
}

/* The request stays in the queue after the post: keeps its inline data. */
static bool request_keep(struct rdma_send *e)
{
    uint8_t *to;

    if (!(e->flags & IBV_SEND_INLINE) || e->bytes == 0)
        return true;
    to = e->copy = malloc(e->bytes);
    if (!to)
        return false;
    for (uint32_t i = 0; i < e->nsge; i++) {
        memcpy(to, (const void *)(uintptr_t)e->sge[i].addr, e->sge[i].length);
        to += e->sge[i].length;
    }
    e->sge[0] = (struct ibv_sge){ .addr = (uintptr_t)e->copy, .length = e->bytes };
    e->nsge = 1;
    return true;
}

/* Adds a request, and executes requests as far as possible. Returns an errno value. */
static int request_add(struct rdma_qp *qp, const struct ibv_send_wr *wr, uint64_t *next)
{
    struct rdma_send *e = &qp->ring[qp->tail % qp->depth];
    uint64_t bytes;
    int err = request_check(qp, wr, &bytes);

    if (err)
        return err;
    if (qp->tail - __atomic_load_n(&rdma.sq_head[qp->index], __ATOMIC_ACQUIRE) >= qp->depth)
        return ENOMEM;
    request_set(e, wr, bytes);
    qp->tail++;
    *next = rdma_pump(qp);
    if (qp->executed < qp->tail && !request_keep(e)) {
        qp->tail--;
        return ENOMEM;
    }
    return 0;
}

int rdma_post_send(struct ibv_qp *public, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct rdma_qp *qp = (struct rdma_qp *)public;
    uint64_t next = 0;
    uint32_t state;
    int err = 0;

    pthread_mutex_lock(&qp->lock);
    state = __atomic_load_n(&qp->shared->state, __ATOMIC_SEQ_CST);
    if (state != IBV_QPS_RTS && state != IBV_QPS_ERR)
        err = EINVAL;
    while (wr && !err) {
        err = request_add(qp, wr, &next);
        if (!err)
            wr = wr->next;
    }
    if (next)
        rdma_stall(qp);
    pthread_mutex_unlock(&qp->lock);
    if (err)
        *bad = wr;
    return err;
}
