#include "context.h"

#include "fail.h"
#include "handles.h"
#include "machine.h"
#include "memory.h"
#include "stream.h"

#include <stdlib.h>

#define DEPTH_MAX 64

static _Thread_local CUcontext stack[DEPTH_MAX];
static _Thread_local int depth;
static _Atomic unsigned long long next_id = 1;

static CUcontext create(int device, unsigned flags, bool primary)
{
    CUcontext c = tt_emu_alloc(sizeof(*c));

    *c = (struct CUctx_st){ device, flags, primary, atomic_fetch_add(&next_id, 1) };
    tt_emu_handle_add(c, TT_EMU_CONTEXT);
    return c;
}

CUcontext tt_emu_context_primary(int device)
{
    struct tt_emu_device *dev = &tt_emu_machine()->device[device];
    CUcontext c;

    pthread_mutex_lock(&tt_emu_machine()->lock);
    if (!dev->primary)
        dev->primary = create(device, dev->primary_flags, true);
    dev->primary_active = true;
    c = dev->primary;
    pthread_mutex_unlock(&tt_emu_machine()->lock);
    return c;
}

CUresult tt_emu_context_create(int device, unsigned flags, CUcontext *out)
{
    CUresult st = tt_emu_device_ready(device);

    if (st)
        return st;
    if (depth == DEPTH_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = create(device, flags, false);
    stack[depth++] = *out;
    return CUDA_SUCCESS;
}

CUresult tt_emu_context_destroy(CUcontext c)
{
    if (!tt_emu_handle_is(c, TT_EMU_CONTEXT) || c->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    tt_emu_device_synchronize(c->device);
    if (!tt_emu_handle_remove(c, TT_EMU_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth && stack[depth - 1] == c)
        depth--;
    free(c);
    return CUDA_SUCCESS;
}

CUcontext tt_emu_context_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

CUresult tt_emu_context_set(CUcontext c)
{
    if (c && !tt_emu_handle_is(c, TT_EMU_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!c)
        depth -= depth > 0;
    else if (depth)
        stack[depth - 1] = c;
    else
        stack[depth++] = c;
    return CUDA_SUCCESS;
}

CUresult tt_emu_context_push(CUcontext c)
{
    if (!tt_emu_handle_is(c, TT_EMU_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == DEPTH_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = c;
    return CUDA_SUCCESS;
}

CUresult tt_emu_context_pop(CUcontext *out)
{
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (out)
        *out = stack[depth];
    return CUDA_SUCCESS;
}

CUresult tt_emu_context_get(CUcontext *out)
{
    CUresult st = tt_emu_ready();
    CUcontext c;

    if (st)
        return st;
    if (tt_emu_stream_in_worker())
        return CUDA_ERROR_NOT_PERMITTED;
    c = tt_emu_context_current();
    if (c && !tt_emu_handle_is(c, TT_EMU_CONTEXT))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!c) {
        c = tt_emu_context_primary(0);
        stack[depth++] = c;
    }
    *out = c;
    return tt_emu_device_ready(c->device);
}

CUresult tt_emu_context_device(int *device)
{
    CUcontext c = NULL;
    CUresult st = tt_emu_context_get(&c);

    if (c)
        *device = c->device;
    return st;
}

void tt_emu_device_reset(int device)
{
    tt_emu_device_synchronize(device);
    tt_emu_memory_reset(device);
    atomic_store(&tt_emu_machine()->device[device].error, 0);
}
