#include "shared.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

void rdma_log(const char *format, ...)
{
    char line[512];
    va_list args;

    if (getenv("TUTTI_EMU_QUIET"))
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "emulated RDMA: %s\n", line);
}

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

/* Returns entry `number` of a ring, or NULL if the ring is not in the heap of the segment. */
static void *entry_of(struct shm_segment *s, uint64_t ring, uint64_t depth, uint64_t stride,
                      uint64_t number)
{
    if (depth == 0 || ring < RDMA_HEAP_AT || ring > RDMA_SEGMENT_BYTES || ring % 8 != 0 ||
        depth * stride > RDMA_SEGMENT_BYTES - ring)
        return NULL;
    return (uint8_t *)s + ring + number % depth * stride;
}

bool rdma_cq_push(struct shm_segment *s, uint32_t index, const struct shm_cqe *e, bool solicited)
{
    struct shm_cq *cq = &s->cq[index % RDMA_CQS];
    bool notify = false, pushed = false;
    struct shm_cqe *to;
    uint32_t armed, depth;

    rdma_lock(&cq->lock);
    depth = __atomic_load_n(&cq->depth, __ATOMIC_RELAXED);
    to = depth <= RDMA_CQES ? entry_of(s, cq->ring, depth, sizeof *e, cq->tail) : NULL;
    if (!to || cq->tail - __atomic_load_n(&cq->head, __ATOMIC_ACQUIRE) >= depth) {
        __atomic_store_n(&cq->overrun, true, __ATOMIC_SEQ_CST);
    } else {
        *to = *e;
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

struct shm_receive *rdma_receive_at(struct shm_segment *s, const struct shm_rq *rq, uint64_t number,
                                    uint32_t *sge_max)
{
    const uint32_t depth = __atomic_load_n(&rq->depth, __ATOMIC_RELAXED);

    *sge_max = __atomic_load_n(&rq->sge_max, __ATOMIC_RELAXED);
    if (depth > RDMA_SRQ_WRS || *sge_max > RDMA_SGE)
        return NULL;
    return entry_of(s, rq->ring, depth,
                    sizeof(struct shm_receive) + *sge_max * sizeof(struct ibv_sge), number);
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
