#include "drv.h"

#include "context.h"
#include "event.h"
#include "memory.h"
#include "stream.h"

#include <string.h>

static CUresult create(CUstream *out, unsigned flags, int priority)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    return st ? st : tt_emu_stream_create(tt_emu_context_current(), flags, priority, out);
}

CUresult CUDAAPI cuStreamCreate(CUstream *out, unsigned int flags)
{
    return create(out, flags, 0);
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    return create(out, flags, priority);
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream)
{
    return tt_emu_stream_destroy(stream);
}

CUresult CUDAAPI cuStreamSynchronize(CUstream stream)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(stream, &s);

    return st ? st : tt_emu_stream_synchronize(s);
}

CUresult CUDAAPI cuStreamQuery(CUstream stream)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(stream, &s);

    return st ? st : tt_emu_stream_query(s);
}

/* Defines a call that returns a field of a stream. */
#define STREAM_GETTER(name, type, field)                                                           \
    CUresult CUDAAPI name(CUstream stream, type *out)                                              \
    {                                                                                              \
        CUstream s;                                                                                \
        const CUresult st = tt_emu_drv_stream(stream, &s);                                         \
        if (!st)                                                                                   \
            *out = s->field;                                                                       \
        return st;                                                                                 \
    }

STREAM_GETTER(cuStreamGetPriority, int, priority)
STREAM_GETTER(cuStreamGetFlags, unsigned int, flags)
STREAM_GETTER(cuStreamGetId, unsigned long long, id)
STREAM_GETTER(cuStreamGetDevice, CUdevice, device)
STREAM_GETTER(cuStreamGetCtx, CUcontext, context)

static CUresult push(CUstream stream, struct tt_emu_work work)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(stream, &s);

    if (!st && work.kind == TT_EMU_CALLBACK)
        work.callback.stream = s;
    return st ? st : tt_emu_stream_push(s, &work);
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *arg)
{
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    return push(stream, (struct tt_emu_work){ .kind = TT_EMU_HOST, .host = { fn, arg } });
}

CUresult CUDAAPI cuStreamAddCallback(CUstream stream, CUstreamCallback fn, void *arg,
                                     unsigned int flags)
{
    if (!fn || flags)
        return CUDA_ERROR_INVALID_VALUE;
    return push(stream,
                (struct tt_emu_work){ .kind = TT_EMU_CALLBACK, .callback = { fn, arg, NULL } });
}

/* ---- values in memory ---- */

/* Values are in memory of devices, or in pinned, registered or managed memory. */
static CUresult value_op(CUstream stream, enum tt_emu_work_kind kind, CUdeviceptr at,
                         uint64_t value, unsigned flags, unsigned bytes)
{
    const unsigned known = kind == TT_EMU_VALUE_WAIT ? 3u : CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
    struct tt_emu_range r;

    if (flags & ~known)         /* CU_STREAM_WAIT_VALUE_FLUSH is not supported either */
        return CUDA_ERROR_INVALID_VALUE;
    if (!at || at % bytes || !tt_emu_memory_find(at, &r) || at + bytes > r.base + r.bytes)
        return CUDA_ERROR_INVALID_VALUE;
    return push(stream, (struct tt_emu_work){ .kind = kind, .value = { at, value, flags, bytes } });
}

#define VALUE_OP(name, type, kind)                                                                 \
    CUresult CUDAAPI name(CUstream stream, CUdeviceptr at, type value, unsigned int flags)         \
    {                                                                                              \
        return value_op(stream, kind, at, value, flags, sizeof(type));                             \
    }

VALUE_OP(cuStreamWaitValue32, cuuint32_t, TT_EMU_VALUE_WAIT)
VALUE_OP(cuStreamWaitValue64, cuuint64_t, TT_EMU_VALUE_WAIT)
VALUE_OP(cuStreamWriteValue32, cuuint32_t, TT_EMU_VALUE_WRITE)
VALUE_OP(cuStreamWriteValue64, cuuint64_t, TT_EMU_VALUE_WRITE)

static CUresult batch_one(CUstream stream, const CUstreamBatchMemOpParams *p)
{
    switch (p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return cuStreamWaitValue32(stream, p->waitValue.address, p->waitValue.value,
                                   p->waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return cuStreamWaitValue64(stream, p->waitValue.address, p->waitValue.value64,
                                   p->waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return cuStreamWriteValue32(stream, p->writeValue.address, p->writeValue.value,
                                    p->writeValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return cuStreamWriteValue64(stream, p->writeValue.address, p->writeValue.value64,
                                    p->writeValue.flags);
    case CU_STREAM_MEM_OP_BARRIER:
        return CUDA_SUCCESS;        /* a stream performs its memory accesses in order */
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult CUDAAPI cuStreamBatchMemOp(CUstream stream, unsigned int count,
                                    CUstreamBatchMemOpParams *params, unsigned int flags)
{
    CUresult st = CUDA_SUCCESS;

    if (flags || count > 256 || (count && !params))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && !st; i++)
        st = batch_one(stream, &params[i]);
    return st;
}

/* ---- events ---- */

CUresult CUDAAPI cuEventCreate(CUevent *out, unsigned int flags)
{
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    return st ? st : tt_emu_event_create(device, flags, out);
}

CUresult CUDAAPI cuEventDestroy(CUevent event)
{
    return tt_emu_event_destroy(event);
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(stream, &s);

    return st ? st : tt_emu_event_record(event, s, flags);
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream)
{
    return cuEventRecordWithFlags(event, stream, 0);
}

CUresult CUDAAPI cuEventQuery(CUevent event)
{
    return tt_emu_event_query(event);
}

CUresult CUDAAPI cuEventSynchronize(CUevent event)
{
    return tt_emu_event_synchronize(event);
}

CUresult CUDAAPI cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return ms ? tt_emu_event_elapsed(ms, start, end) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(stream, &s);

    return st ? st : tt_emu_stream_wait_event(s, event, flags);
}

CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    struct tt_emu_ipc h;
    const CUresult st = tt_emu_event_export(event, &h);

    if (!st) {
        memset(handle, 0, sizeof(*handle));
        memcpy(handle, &h, sizeof(h));
    }
    return st;
}

CUresult CUDAAPI cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    struct tt_emu_ipc h;
    int device;
    const CUresult st = tt_emu_drv_device(&device);

    memcpy(&h, &handle, sizeof(h));
    return st ? st : tt_emu_event_import(&h, event);
}
