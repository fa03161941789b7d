/* What fence and quiet mean here.
 *
 * The windows' fence orders signals after puts. The one of OpenSHMEM orders all that comes after it, so here a fence is a number that grows. Who puts to a PE for which
 * it has grown since, waits until all that went there before has landed; a signal takes the windows' fence along instead, and waits for nobody. */
#include "order.h"

#include <stdlib.h>

#include "move.h"

static uint32_t fences;         /* so many were called */
static struct peer {
    uint32_t seen;              /* all that went there before this fence has landed */
    bool asked;                 /* a change without a result may be on its way, which no signal waits for */
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

void sh_order_asked(int pe)
{
    __atomic_store_n(&peers[pe].asked, true, __ATOMIC_RELEASE);
}

void sh_order_before_put(const char *call, int pe)
{
    const uint32_t now = __atomic_load_n(&fences, __ATOMIC_ACQUIRE);

    if (pe == sh_job.me || __atomic_load_n(&peers[pe].seen, __ATOMIC_ACQUIRE) == now)
        return;
    __atomic_store_n(&peers[pe].asked, false, __ATOMIC_RELEASE);
    sh_check(call, tutti_window_quiet(sh_job.heap.window, pe, 0));
    __atomic_store_n(&peers[pe].seen, now, __ATOMIC_RELEASE);
}

void sh_order_before_signal(const char *call, int pe)
{
    if (pe == sh_job.me ||
        __atomic_load_n(&peers[pe].seen, __ATOMIC_ACQUIRE) == __atomic_load_n(&fences, __ATOMIC_ACQUIRE))
        return;
    if (__atomic_load_n(&peers[pe].asked, __ATOMIC_ACQUIRE))
        sh_order_before_put(call, pe);
    else
        sh_check(call, tutti_window_fence(sh_job.heap.window, pe));
}

void shmem_fence(void)
{
    sh_need(__func__);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);    /* of what was stored through shmem_ptr, too */
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
    (void)ctx;
    shmem_fence();
}

void shmem_ctx_quiet(shmem_ctx_t ctx)
{
    (void)ctx;
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
