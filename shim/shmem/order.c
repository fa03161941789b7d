/* Fence and quiet.
 *
 * In OpenSHMEM 1.5, a fence orders all earlier operations to a PE before "any subsequent
 * operations" to it. A window fence does the same, except for puts longer than a word. Therefore
 * shmem_fence only increments a counter. The next signal, get or atomic to a PE passes the fence to
 * the window, without waiting. The next put first waits for remote completion of all operations
 * before the fence. */
#include "order.h"

#include <stdlib.h>

#include "move.h"

static uint32_t fences;         /* number of fences in this process */
static struct peer {
    uint32_t passed;            /* last fence passed to the window for this PE */
    uint32_t landed;            /* last fence whose earlier operations are complete on this PE */
} *peers;

void sh_order_init(int npes)
{
    fences = 0;
    peers = sh_alloc("shmem_init", (size_t)npes * sizeof *peers);
}

void sh_order_fini(void)
{
    free(peers);
    peers = NULL;
}

void sh_order_drain(const char *call, int pe)
{
    const uint32_t now = __atomic_load_n(&fences, __ATOMIC_ACQUIRE);

    if (pe == sh_job.me || __atomic_load_n(&peers[pe].landed, __ATOMIC_ACQUIRE) == now)
        return;
    sh_check(call, tutti_window_quiet(sh_job.heap.window, pe, 0));
    __atomic_store_n(&peers[pe].landed, now, __ATOMIC_RELEASE);
}

void sh_order_pass(const char *call, int pe)
{
    const uint32_t now = __atomic_load_n(&fences, __ATOMIC_ACQUIRE);

    if (pe == sh_job.me || __atomic_load_n(&peers[pe].passed, __ATOMIC_ACQUIRE) == now ||
        __atomic_load_n(&peers[pe].landed, __ATOMIC_ACQUIRE) == now)
        return;
    sh_check(call, tutti_window_fence(sh_job.heap.window, pe));
    __atomic_store_n(&peers[pe].passed, now, __ATOMIC_RELEASE);
}

void shmem_fence(void)
{
    sh_need(__func__);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);    /* also orders stores through shmem_ptr */
    __atomic_fetch_add(&fences, 1, __ATOMIC_SEQ_CST);
}

static void quiet(const char *call)
{
    sh_need(call);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    sh_check(call, tutti_window_quiet(sh_job.heap.window, TUTTI_ALL_RANKS, 0));
}

void shmem_quiet(void)
{
    quiet(__func__);
}

void shmem_ctx_fence(shmem_ctx_t ctx)
{
    sh_need(__func__);
    if (ctx != SHMEM_CTX_INVALID)
        shmem_fence();
}

void shmem_ctx_quiet(shmem_ctx_t ctx)
{
    sh_need(__func__);
    if (ctx != SHMEM_CTX_INVALID)
        shmem_quiet();
}

static void sync_all(const char *call)
{
    sh_need(call);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    sh_check(call, tutti_barrier(sh_job.comm, NULL));
}

void shmem_sync_all(void)
{
    sync_all(__func__);
}

void shmem_barrier_all(void)
{
    quiet(__func__);
    sync_all(__func__);
}
