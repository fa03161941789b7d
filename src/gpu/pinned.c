/* A list of unused buffers. */
#include "gpu/pinned.h"

#include <pthread.h>
#include <stdlib.h>

#define BYTES_MIN 4096u
#define WASTE_MAX 4u            /* a buffer may be this many times as long as needed */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tt_gpu_pinned *unused;    /* protected by lock */

/* Removes the first buffer of the context whose size is in [min, max] from the list. */
static struct tt_gpu_pinned *take_unused(tt_cuda_context context, size_t min, size_t max)
{
    struct tt_gpu_pinned **at, *p;

    pthread_mutex_lock(&lock);
    for (at = &unused; (p = *at); at = &p->next)
        if (p->context == context && p->bytes >= min && p->bytes <= max)
            break;
    if (p)
        *at = p->next;
    pthread_mutex_unlock(&lock);
    return p;
}

tutti_status tt_gpu_pinned_take(struct tt_gpu_pinned **out, const struct tt_cuda *cu,
                                tt_cuda_context context, size_t bytes)
{
    const size_t min = bytes > BYTES_MIN ? bytes : BYTES_MIN;
    struct tt_gpu_pinned *p = take_unused(context, min, min * WASTE_MAX);
    tt_cuda_result error;

    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p)
            return tt_fail(TUTTI_ERR_NOMEM, "gpu: out of memory");
        p->context = context;
        p->bytes = min;
        error =
            cu->host_alloc((void **)&p->mem, min, TT_CUDA_HOST_PORTABLE | TT_CUDA_HOST_DEVICE_MAP);
        if (error) {
            free(p);
            return tt_cuda_fail(cu, error, "gpu: cannot allocate %zu bytes of pinned memory", min);
        }
    }
    *out = p;
    return TUTTI_OK;
}

void tt_gpu_pinned_put(struct tt_gpu_pinned *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&lock);
    p->next = unused;
    unused = p;
    pthread_mutex_unlock(&lock);
}

void tt_gpu_pinned_trim(const struct tt_cuda *cu, tt_cuda_context context)
{
    struct tt_gpu_pinned *p;

    while ((p = take_unused(context, 0, SIZE_MAX))) {
        cu->host_free(p->mem);
        free(p);
    }
}
