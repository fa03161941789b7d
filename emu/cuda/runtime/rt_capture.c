#include "rt.h"

#include "capture.h"

cudaError_t CUDARTAPI cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                                    const cudaGraphNode_t *before,
                                                    const cudaGraphEdgeData *edges, size_t n,
                                                    enum cudaStreamCaptureMode mode)
{
    CUstream s;
    CUresult st = tt_emu_rt_stream(stream, &s);

    (void)edges;            /* all kinds of edges are full dependencies */
    if (!st && !graph)
        st = CUDA_ERROR_INVALID_VALUE;
    return tt_emu_rt_done(
        st ? st : tt_emu_capture_begin(s, (CUstreamCaptureMode)mode, graph, before, n));
}

cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    CUstream s;
    const CUresult st = tt_emu_rt_stream(stream, &s);

    return tt_emu_rt_done(st ? st
                             : tt_emu_capture_begin(s, (CUstreamCaptureMode)mode, NULL, NULL, 0));
}

cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    CUstream s;
    const CUresult st = tt_emu_rt_stream(stream, &s);

    return tt_emu_rt_done(st ? st : tt_emu_capture_end(s, graph));
}

cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t stream,
                                               enum cudaStreamCaptureStatus *status,
                                               unsigned long long *id, cudaGraph_t *graph,
                                               const cudaGraphNode_t **before,
                                               const cudaGraphEdgeData **edges, size_t *n)
{
    CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id64 = 0;
    CUstream s;
    CUresult st = tt_emu_rt_stream(stream, &s);

    if (!st && !status)
        st = CUDA_ERROR_INVALID_VALUE;
    if (!st)
        st = tt_emu_capture_info(s, &now, &id64, graph, before, n);
    if (st)
        return tt_emu_rt_done(st);
    *status = (enum cudaStreamCaptureStatus)now;
    if (id)
        *id = id64;
    if (edges)
        *edges = NULL;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream,
                                            enum cudaStreamCaptureStatus *status)
{
    return cudaStreamGetCaptureInfo(stream, status, NULL, NULL, NULL, NULL, NULL);
}

cudaError_t CUDARTAPI cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                          cudaGraphNode_t *before,
                                                          const cudaGraphEdgeData *edges, size_t n,
                                                          unsigned int flags)
{
    CUstream s;
    const CUresult st = tt_emu_rt_stream(stream, &s);

    (void)edges;
    return tt_emu_rt_done(st ? st : tt_emu_capture_update(s, before, n, flags));
}

cudaError_t CUDARTAPI cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    CUstreamCaptureMode m;
    CUresult st;

    if (!mode)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    m = (CUstreamCaptureMode)*mode;
    st = tt_emu_capture_mode(&m);
    *mode = (enum cudaStreamCaptureMode)m;
    return tt_emu_rt_done(st);
}
