#include "rt.h"

#include "context.h"
#include "event.h"
#include "fail.h"
#include "stream.h"

static cudaError_t create(cudaStream_t *out, unsigned flags, int priority)
{
    CUcontext c;
    CUresult st = tt_emu_context_get(&c);

    if (!st && !out)
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st)
        st = tt_emu_stream_create(c, flags, priority, out);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t *out)
{
    return create(out, 0, 0);
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int flags)
{
    return create(out, flags, 0);
}

cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t *out, unsigned int flags,
                                                   int priority)
{
    return create(out, flags, priority);
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream)
{
    return tt_emu_rt_done(tt_emu_stream_destroy(stream));
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream)
{
    CUstream s;
    CUresult st = tt_emu_rt_stream(stream, &s);

    if (!st)
        st = tt_emu_stream_synchronize(s);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream)
{
    CUstream s;
    CUresult st = tt_emu_rt_stream(stream, &s);

    if (!st)
        st = tt_emu_stream_query(s);
    return tt_emu_rt_done(st);
}

/* Defines a call that returns a field of a stream. */
#define STREAM_GETTER(name, type, field)                                                           \
    cudaError_t CUDARTAPI name(cudaStream_t stream, type *out)                                     \
    {                                                                                              \
        CUstream s;                                                                                \
        const CUresult st = tt_emu_rt_stream(stream, &s);                                          \
        if (!st)                                                                                   \
            *out = s->field;                                                                       \
        return tt_emu_rt_done(st);                                                                 \
    }

STREAM_GETTER(cudaStreamGetPriority, int, priority)
STREAM_GETTER(cudaStreamGetFlags, unsigned int, flags)
STREAM_GETTER(cudaStreamGetId, unsigned long long, id)
STREAM_GETTER(cudaStreamGetDevice, int, device)

static cudaError_t push(cudaStream_t stream, struct tt_emu_work work)
{
    CUstream s;
    CUresult st = tt_emu_rt_stream(stream, &s);

    if (!st && work.kind == TT_EMU_CALLBACK)
        work.callback.stream = s;
    if (!st)
        st = tt_emu_stream_push(s, &work);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *arg)
{
    if (!fn)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    return push(stream, (struct tt_emu_work){ .kind = TT_EMU_HOST, .host = { fn, arg } });
}

cudaError_t CUDARTAPI cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t fn, void *arg,
                                            unsigned int flags)
{
    if (!fn || flags)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    return push(stream, (struct tt_emu_work){
                            .kind = TT_EMU_CALLBACK,
                            .callback = { (CUstreamCallback)(void (*)(void))fn, arg, NULL } });
}

/* ---- events ---- */

static cudaError_t event_create(cudaEvent_t *out, unsigned flags)
{
    int device;
    CUresult st = tt_emu_context_device(&device);

    if (!st && !out)
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st)
        st = tt_emu_event_create(device, flags, out);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t *out)
{
    return event_create(out, 0);
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int flags)
{
    return event_create(out, flags);
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event)
{
    return tt_emu_rt_done(tt_emu_event_destroy(event));
}

cudaError_t CUDARTAPI cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                               unsigned int flags)
{
    CUstream s;
    CUresult st = tt_emu_rt_stream(stream, &s);

    if (!st)
        st = tt_emu_event_record(event, s, flags);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event)
{
    return tt_emu_rt_done(tt_emu_event_query(event));
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event)
{
    return tt_emu_rt_done(tt_emu_event_synchronize(event));
}

cudaError_t CUDARTAPI cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    if (!ms)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    return tt_emu_rt_done(tt_emu_event_elapsed(ms, start, end));
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                          unsigned int flags)
{
    CUstream s;
    CUresult st = tt_emu_rt_stream(stream, &s);

    if (!st)
        st = tt_emu_stream_wait_event(s, event, flags);
    return tt_emu_rt_done(st);
}
