/* Queries the calling thread's device, and allocates memory on it. */
#include "gpu/gpu.h"

/* The calling thread's device. */
struct current {
    const struct tt_cuda *cu;
    int device;                 /* of the current context; 0 without a context */
    bool has_context;
};

/* Loads the driver, and queries the current context. */
static tutti_status current_init(struct current *c)
{
    tutti_status st = tt_cuda_load(&c->cu);
    tt_cuda_context context = NULL;
    tt_cuda_result error;

    if (st)
        return st;
    error = c->cu->context_current(&context);
    c->device = 0;
    c->has_context = context != NULL;
    if (!error && context)
        error = c->cu->context_device(&c->device);
    return error ? tt_cuda_fail(c->cu, error, "gpu: cannot query the current device") : TUTTI_OK;
}

tutti_status tutti_gpu_current_device(int *out)
{
    struct current c;
    tutti_status st;

    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_gpu_current_device: out is NULL");
    st = current_init(&c);
    if (!st)
        *out = c.device;
    return st;
}

/* Makes the primary context of the current device current if the thread has no context. The context
 * stays retained, for the memory. Returns an error of CUDA. */
static tt_cuda_result enter_device(const struct current *c)
{
    tt_cuda_context context;
    tt_cuda_result error = 0;

    if (!c->has_context)
        error = c->cu->primary_retain(&context, c->device);
    if (!c->has_context && !error)
        error = c->cu->context_push(context);
    return error;
}

static void leave_device(const struct current *c)
{
    tt_cuda_context was;

    if (!c->has_context)
        c->cu->context_pop(&was);
}

tutti_status tutti_gpu_mem_alloc(size_t bytes, void **out)
{
    tt_cuda_address mem = 0;
    tt_cuda_result error;
    struct current c;
    tutti_status st;

    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_gpu_mem_alloc: out is NULL");
    st = current_init(&c);
    if (st)
        return st;
    error = enter_device(&c);
    if (!error) {
        error = c.cu->mem_alloc(&mem, bytes);
        leave_device(&c);
    }
    if (error)
        return tt_cuda_fail(c.cu, error,
                            "tutti_gpu_mem_alloc: cannot allocate %zu bytes on device %d", bytes,
                            c.device);
    *out = (void *)(uintptr_t)mem;
    return TUTTI_OK;
}

tutti_status tutti_gpu_mem_free(void *mem)
{
    tt_cuda_result error;
    struct current c;
    tutti_status st;

    if (!mem)
        return TUTTI_OK;
    st = current_init(&c);
    if (st)
        return st;
    error = enter_device(&c);
    if (!error) {
        error = c.cu->mem_free(tt_cuda_address_of(mem));
        leave_device(&c);
    }
    return error ? tt_cuda_fail(c.cu, error, "tutti_gpu_mem_free: %p", mem) : TUTTI_OK;
}
