#include "rt.h"

#include "context.h"
#include "errors.h"
#include "machine.h"
#include "refused.h"
#include "stream.h"

static _Thread_local cudaError_t last;

cudaError_t tt_emu_rt_error(cudaError_t error)
{
    if (error)
        last = error;
    return error;
}

/* Any call of the runtime initializes the driver. */
cudaError_t tt_emu_rt_done(CUresult st)
{
    struct tt_emu_machine *m = tt_emu_machine();

    if (!atomic_load(&m->initialized))
        atomic_store(&m->initialized, true);
    return tt_emu_rt_error((cudaError_t)st);
}

CUresult tt_emu_rt_stream(cudaStream_t handle, CUstream *out)
{
    return tt_emu_stream_of(handle, out);
}

int tt_emu_rt_refused(const char *name, _Atomic int *noted)
{
    return (int)tt_emu_rt_error((cudaError_t)tt_emu_refused(name, noted));
}

/* A sticky error of the device is not cleared. */
cudaError_t CUDARTAPI cudaGetLastError(void)
{
    const cudaError_t error = cudaPeekAtLastError();

    last = cudaSuccess;
    return error;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void)
{
    CUcontext c = tt_emu_context_current();
    const CUresult sticky = c ? tt_emu_device_ready(c->device) : CUDA_SUCCESS;

    return sticky ? (cudaError_t)sticky : last;
}

const char *CUDARTAPI cudaGetErrorName(cudaError_t error)
{
    const char *name;

    if (error == cudaErrorInvalidMemcpyDirection)
        return "cudaErrorInvalidMemcpyDirection";
    return tt_emu_error_name((CUresult)error, true, &name) ? "unrecognized error code" : name;
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t error)
{
    const char *text;

    if (error == cudaErrorInvalidMemcpyDirection)
        return "invalid copy direction for memcpy";
    return tt_emu_error_string((CUresult)error, &text) ? "unrecognized error code" : text;
}
