/* The calling thread's device, and its memory. */
#include "gpu/gpu.h"

/* Returns the ordinal of the current context's device, or 0 without a context. */
static tutti_status current_device(const struct tt_cuda *cu, int *out, bool *has_context)
{
    tt_cuda_context context = NULL;
    tt_cuda_result error = cu->context_current(&context);

    *out = 0;
    *has_context = context != NULL;
    if (!error && context)
        error = cu->context_device(out);
    return error ? tt_cuda_fail(cu, error, "gpu: cannot query the current device") : TUTTI_OK;
}

tutti_status tutti_gpu_current_device(int *out)
{
    const struct tt_cuda *cu;
    bool has_context;
    tutti_status st;
    int device;

    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_gpu_current_device: out is NULL");
    st = tt_cuda_load(&cu);
    if (!st)
        st = current_device(cu, &device, &has_context);
    if (!st)
        *out = device;
    return st;
}

/* Makes the primary context of the current device current if the thread has no context. It stays
 * retained, for the memory. Returns an error of CUDA. */
static tt_cuda_result enter_device(const struct tt_cuda *cu, int device, bool has_context)
{
    tt_cuda_context context;
    tt_cuda_result error = 0;

    if (!has_context)
        error = cu->primary_retain(&context, device);
    if (!has_context && !error)
        error = cu->context_push(context);
    return error;
}

static void leave_device(const struct tt_cuda *cu, bool has_context)
{
    tt_cuda_context was;

    if (!has_context)
        cu->context_pop(&was);
}

tutti_status tutti_gpu_mem_alloc(size_t bytes, void **out)
{
    tt_cuda_address mem = 0;
    const struct tt_cuda *cu;
    tt_cuda_result error;
    bool has_context;
    tutti_status st;
    int device;

    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_gpu_mem_alloc: out is NULL");
    st = tt_cuda_load(&cu);
    if (!st)
        st = current_device(cu, &device, &has_context);
    if (st)
        return st;
    error = enter_device(cu, device, has_context);
    if (!error) {
        error = cu->mem_alloc(&mem, bytes);
        leave_device(cu, has_context);
    }
    if (error)
        return tt_cuda_fail(cu, error, "tutti_gpu_mem_alloc: %zu bytes of device %d", bytes,
                            device);
    *out = (void *)(uintptr_t)mem;
    return TUTTI_OK;
}

tutti_status tutti_gpu_mem_free(void *mem)
{
    const struct tt_cuda *cu;
    tt_cuda_result error;
    bool has_context;
    tutti_status st;
    int device;

    if (!mem)
        return TUTTI_OK;
    st = tt_cuda_load(&cu);
    if (!st)
        st = current_device(cu, &device, &has_context);
    if (st)
        return st;
    error = enter_device(cu, device, has_context);
    if (!error) {
        error = cu->mem_free(tt_cuda_address_of(mem));
        leave_device(cu, has_context);
    }
    return error ? tt_cuda_fail(cu, error, "tutti_gpu_mem_free: %p", mem) : TUTTI_OK;
}
