#include "shared.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

void rdma_mutex_init(pthread_mutex_t *m)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(m, &attr);
    pthread_mutexattr_destroy(&attr);
}

void rdma_lock(pthread_mutex_t *m)
{
    const int err = pthread_mutex_lock(m);

    if (err == EOWNERDEAD)
        pthread_mutex_consistent(m);
    else if (err) {
        fprintf(stderr, "emulated RDMA: a lock in shared memory is invalid (error %d)\n", err);
        abort();
    }
}

void rdma_unlock(pthread_mutex_t *m)
{
    pthread_mutex_unlock(m);
}

void rdma_wake(struct shm_segment *s)
{
    __atomic_fetch_add(&s->wake, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &s->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void rdma_notify(struct shm_segment *s, uint64_t *table, uint32_t index)
{
    __atomic_fetch_or(&table[index / 64], 1ull << index % 64, __ATOMIC_SEQ_CST);
    rdma_wake(s);
}

bool rdma_cq_push(struct shm_segment *s, uint32_t index, const struct shm_cqe *e, bool solicited)
{
    struct shm_cq *cq = &s->cq[index % RDMA_CQS];
    bool notify = false, pushed = false;
    uint32_t armed;

    rdma_lock(&cq->lock);
    if (cq->depth == 0 || cq->depth > RDMA_CQES || cq->ring > s->bytes ||
        cq->depth * sizeof *e > s->bytes - cq->ring ||
        cq->tail - __atomic_load_n(&cq->head, __ATOMIC_ACQUIRE) >= cq->depth) {
        __atomic_store_n(&cq->overrun, true, __ATOMIC_SEQ_CST);
    } else {
        struct shm_cqe *ring = (struct shm_cqe *)(void *)((uint8_t *)s + cq->ring);

        ring[cq->tail % cq->depth] = *e;
        __atomic_store_n(&cq->tail, cq->tail + 1, __ATOMIC_SEQ_CST);
        pushed = true;
    }
    armed = __atomic_load_n(&cq->armed, __ATOMIC_SEQ_CST);
    if (armed == 1 || (armed == 2 && (solicited || e->status != IBV_WC_SUCCESS || !pushed))) {
        __atomic_store_n(&cq->armed, 0, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&cq->events, 1, __ATOMIC_SEQ_CST);
        notify = true;
    }
    rdma_unlock(&cq->lock);
    if (notify || !pushed)
        rdma_notify(s, s->cq_news, index % RDMA_CQS);
    return pushed;
}

struct shm_receive *rdma_receive_at(struct shm_segment *s, const struct shm_rq *rq, uint64_t number)
{
    const uint64_t stride = sizeof(struct shm_receive) + rq->sge_max * sizeof(struct ibv_sge);

    if (rq->ring < RDMA_HEAP_AT || rq->ring > s->bytes || rq->depth == 0 ||
        rq->depth > RDMA_SRQ_WRS || rq->sge_max > RDMA_SGE ||
        rq->depth * stride > s->bytes - rq->ring)
        return NULL;
    return (struct shm_receive *)(void *)((uint8_t *)s + rq->ring + number % rq->depth * stride);
}

const struct shm_mr *rdma_mr_find(const struct shm_segment *s, uint32_t key, uint64_t address,
                                  uint64_t bytes, uint32_t access, uint32_t pd)
{
    const uint32_t index = key >> 8;
    const struct shm_mr *mr;

    if (index >= RDMA_MRS)
        return NULL;
    mr = &s->mr[index];
    if (key == 0 || __atomic_load_n(&mr->key, __ATOMIC_SEQ_CST) != key || mr->pd != pd)
        return NULL;
    if ((mr->access & access) != access || address < mr->iova || bytes > mr->bytes ||
        address - mr->iova > mr->bytes - bytes)
        return NULL;
    return mr;
}
