/* A list of unused buffers. */
#include "gpu/pinned.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define WASTE_MAX 4u            /* a buffer may be this many times as long as needed */
#define FLAGS (TT_CUDA_HOST_PORTABLE | TT_CUDA_HOST_DEVICE_MAP)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tt_gpu_pinned *unused;    /* protected by lock */
/* Held while a buffer is registered. CUDA is called with it, but never calls code that locks it. */
static pthread_mutex_t registration = PTHREAD_MUTEX_INITIALIZER;

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

/* Registers the buffer unless it is registered. */
static tt_cuda_result register_once(struct tt_gpu_pinned *p, const struct tt_cuda *cu, bool *again)
{
    tt_cuda_result error;

    pthread_mutex_lock(&registration);
    error = cu->host_address(&p->address, p->mem, 0);
    *again = error != 0;
    if (error) {
        error = cu->host_register(p->mem, p->bytes, FLAGS);
        if (!error) {
            error = cu->host_address(&p->address, p->mem, 0);
            if (error)
                cu->host_unregister(p->mem);
        }
    }
    pthread_mutex_unlock(&registration);
    return error;
}

tutti_status tt_gpu_pinned_check(struct tt_gpu_pinned *p, const struct tt_cuda *cu, bool *again)
{
    const tt_cuda_result error = register_once(p, cu, again);

    return error ? tt_cuda_fail(cu, error, "gpu: cannot pin %zu bytes of memory", p->bytes)
                 : TUTTI_OK;
}

/* Unmaps and frees a buffer that is not registered. */
static void free_buffer(struct tt_gpu_pinned *p)
{
    munmap(p->mem, p->bytes);
    free(p);
}

/* Maps and registers a new buffer. On failure returns NULL and sets *error, which is 0 if the
 * kernel has no memory. The mapping is shared, so that a fork never replaces pages that the device
 * writes. */
static struct tt_gpu_pinned *create(const struct tt_cuda *cu, tt_cuda_context context, size_t bytes,
                                    tt_cuda_result *error)
{
    struct tt_gpu_pinned *p = calloc(1, sizeof *p);
    bool again;

    *error = 0;
    if (!p)
        return NULL;
    p->context = context;
    p->bytes = bytes;
    p->mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p->mem == MAP_FAILED) {
        free(p);
        return NULL;
    }
    *error = register_once(p, cu, &again);
    if (*error) {
        free_buffer(p);
        return NULL;
    }
    return p;
}

/* Returns an unused buffer, otherwise a new one; NULL and *error as from `create`. */
static struct tt_gpu_pinned *take(const struct tt_cuda *cu, tt_cuda_context context, size_t bytes,
                                  tt_cuda_result *error)
{
    const size_t min = bytes ? (bytes + PAGE - 1) / PAGE * PAGE : PAGE;
    struct tt_gpu_pinned *p = take_unused(context, min, min * WASTE_MAX);
    bool again;

    if (!p)
        return create(cu, context, min, error);
    *error = register_once(p, cu, &again);
    if (!*error)
        return p;
    free_buffer(p);
    return NULL;
}

tutti_status tt_gpu_pinned_take(struct tt_gpu_pinned **out, const struct tt_cuda *cu,
                                tt_cuda_context context, size_t bytes)
{
    tt_cuda_result error = 0;
    struct tt_gpu_pinned *p = take(cu, context, bytes, &error);

    if (p) {
        *out = p;
        return TUTTI_OK;
    }
    return error ? tt_cuda_fail(cu, error, "gpu: cannot pin %zu bytes of memory", bytes)
                 : tt_fail(TUTTI_ERR_NOMEM, "gpu: out of memory (%zu bytes to pin)", bytes);
}

struct tt_gpu_pinned *tt_gpu_pinned_try(const struct tt_cuda *cu, tt_cuda_context context,
                                        size_t bytes)
{
    tt_cuda_result error;

    return take(cu, context, bytes, &error);
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
        cu->host_unregister(p->mem);
        free_buffer(p);
    }
}
