/* What an emulated RDMA device reads from the memory of another process, and its settings of faults:
 * queues and regions with any contents. Each access stays in the heap of the segment. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include "base/status.h"
#include "process.h"

static struct shm_segment *segment(void)
{
    static struct shm_segment *s;

    if (!s) {
        s = mmap(NULL, RDMA_SEGMENT_BYTES, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        tt_assert(s != MAP_FAILED);
        rdma_mutex_init(&s->cq[0].lock);
    }
    return s;
}

/* Copies input over an object behind its lock. */
static void overwrite(void *object, size_t lock_bytes, size_t object_bytes, const uint8_t *data,
                      size_t bytes)
{
    const size_t room = object_bytes - lock_bytes;

    memset((uint8_t *)object + lock_bytes, 0, room);
    memcpy((uint8_t *)object + lock_bytes, data, bytes < room ? bytes : room);
}

static void check_inside(const void *at, size_t bytes)
{
    const uint8_t *heap = (const uint8_t *)segment() + RDMA_HEAP_AT;

    tt_assert((const uint8_t *)at >= heap && (const uint8_t *)at + bytes <= heap + RDMA_HEAP_BYTES);
}

static void queues(const uint8_t *data, size_t bytes)
{
    struct shm_segment *s = segment();
    struct shm_cq *cq = &s->cq[0];
    struct shm_rq *rq = &s->srq[0];
    const struct shm_cqe e = { .wr_id = 0x1122334455667788ull };
    struct shm_receive *r;
    uint64_t before;
    uint32_t sge_max;

    overwrite(cq, offsetof(struct shm_cq, ring), sizeof *cq, data, bytes);
    before = cq->tail;
    if (rdma_cq_push(s, 0, &e, false)) {
        const uint8_t *at =
            (const uint8_t *)s + cq->ring + before % cq->depth * sizeof(struct shm_cqe);

        check_inside(at, sizeof e);
        tt_assert(memcmp(at, &e, sizeof e.wr_id) == 0 && cq->tail == before + 1);
    }
    overwrite(rq, offsetof(struct shm_rq, ring), sizeof *rq, data, bytes);
    r = rdma_receive_at(s, rq, rq->head, &sge_max);
    if (r)
        check_inside(r, sizeof *r + sge_max * sizeof *r->sge);
}

/* A region found for a key covers the requested bytes. */
static void regions(const uint8_t *data, size_t bytes)
{
    struct shm_segment *s = segment();
    struct shm_mr *mr = &s->mr[1];
    uint64_t request[3] = { 0 };
    const struct shm_mr *found;

    overwrite(mr, 0, sizeof *mr, data, bytes);
    if (bytes > sizeof *mr)
        memcpy(request, data + sizeof *mr,
               bytes - sizeof *mr < sizeof request ? bytes - sizeof *mr : sizeof request);
    found = rdma_mr_find(s, mr->key, request[0], request[1], (uint32_t)request[2], mr->pd);
    if (!found)
        return;
    tt_assert(found == mr && request[0] >= mr->iova && request[1] <= mr->bytes);
    tt_assert(request[0] - mr->iova + request[1] <= mr->bytes);
}

static void faults(const uint8_t *data, size_t bytes)
{
    struct rdma_fault_setting settings[RDMA_FAULTS];
    const char *wrong = NULL;
    char text[128] = "";

    memcpy(text, data, bytes < sizeof text ? bytes : sizeof text - 1);
    if (!rdma_faults_parse(text, settings, &wrong))
        tt_assert(wrong >= text && wrong < text + sizeof text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    queues(data, bytes);
    regions(data, bytes);
    faults(data, bytes);
    return 0;
}
