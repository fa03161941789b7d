#include "drv.h"

#include "capture.h"
#include "exec.h"
#include "handles.h"
#include "kernel.h"

/* ---- capture ---- */

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(stream, &s);

    return st ? st : tt_emu_capture_begin(s, mode, NULL, NULL, 0);
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                             const CUgraphNode *before,
                                             const CUgraphEdgeData *edges, size_t n,
                                             CUstreamCaptureMode mode)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(stream, &s);

    (void)edges;            /* all kinds of edges are full dependencies */
    if (st || !graph)
        return st ? st : CUDA_ERROR_INVALID_VALUE;
    return tt_emu_capture_begin(s, mode, graph, before, n);
}

CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(stream, &s);

    return st ? st : tt_emu_capture_end(s, graph);
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status,
                                        cuuint64_t *id, CUgraph *graph, const CUgraphNode **before,
                                        const CUgraphEdgeData **edges, size_t *n)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(stream, &s);

    if (!st && edges)
        *edges = NULL;
    return st ? st : tt_emu_capture_info(s, status, id, graph, before, n);
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    return cuStreamGetCaptureInfo(stream, status, NULL, NULL, NULL, NULL, NULL);
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *before,
                                                   const CUgraphEdgeData *edges, size_t n,
                                                   unsigned int flags)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(stream, &s);

    (void)edges;
    return st ? st : tt_emu_capture_update(s, before, n, flags);
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    return tt_emu_capture_mode(mode);
}

/* ---- graphs ---- */

CUresult CUDAAPI cuGraphCreate(CUgraph *out, unsigned int flags)
{
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *out = tt_emu_graph_create();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph)
{
    return tt_emu_graph_destroy(graph);
}

CUresult CUDAAPI cuGraphClone(CUgraph *out, CUgraph graph)
{
    return tt_emu_graph_clone(graph, out);
}

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                                      size_t n, const CUDA_KERNEL_NODE_PARAMS *p)
{
    struct tt_emu_work work;
    CUresult st;

    if (!p || !tt_emu_handle_is(p->func, TT_EMU_FUNCTION))
        return p ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    if (p->extra)
        return CUDA_ERROR_NOT_SUPPORTED;
    st = tt_emu_kernel_work(p->func, (const unsigned[]){ p->gridDimX, p->gridDimY, p->gridDimZ },
                            (const unsigned[]){ p->blockDimX, p->blockDimY, p->blockDimZ },
                            p->sharedMemBytes, p->kernelParams, &work);
    return st ? st : tt_emu_graph_add_work(graph, CU_GRAPH_NODE_TYPE_KERNEL, &work, before, n, out);
}

CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                                    size_t n, const CUDA_HOST_NODE_PARAMS *p)
{
    struct tt_emu_work work = { .kind = TT_EMU_HOST };

    if (!p || !p->fn)
        return CUDA_ERROR_INVALID_VALUE;
    work.host.fn = p->fn;
    work.host.arg = p->userData;
    return tt_emu_graph_add_work(graph, CU_GRAPH_NODE_TYPE_HOST, &work, before, n, out);
}

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                                     size_t n)
{
    struct tt_emu_work work = { .kind = TT_EMU_EMPTY };

    return tt_emu_graph_add_work(graph, CU_GRAPH_NODE_TYPE_EMPTY, &work, before, n, out);
}

CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph,
                                          const CUgraphNode *before, size_t n, CUgraph child)
{
    return tt_emu_graph_add_child(graph, child, before, n, out);
}

CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph,
                                           const CUgraphNode *before, size_t n, CUevent event)
{
    return tt_emu_graph_add_event(graph, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, before, n, out);
}

CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                                         size_t n, CUevent event)
{
    return tt_emu_graph_add_event(graph, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, before, n, out);
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
                                        const CUgraphNode *to, const CUgraphEdgeData *edges,
                                        size_t n)
{
    (void)edges;
    return tt_emu_graph_depend(graph, from, to, n);
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    if (!tt_emu_handle_is(node, TT_EMU_NODE) || !type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    return tt_emu_graph_list(graph, false, nodes, n);
}

CUresult CUDAAPI cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    return tt_emu_graph_list(graph, true, nodes, n);
}

CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes,
                                            CUgraphEdgeData *edges, size_t *n)
{
    for (size_t i = 0; edges && n && i < *n; i++)
        edges[i] = (CUgraphEdgeData){ 0 };
    return tt_emu_graph_neighbours(node, false, nodes, n);
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    return flags & ~known ? CUDA_ERROR_INVALID_VALUE : tt_emu_exec_create(graph, out);
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec)
{
    return tt_emu_exec_destroy(exec);
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec exec, CUgraph graph,
                                   CUgraphExecUpdateResultInfo *info)
{
    CUgraphExecUpdateResult why = CU_GRAPH_EXEC_UPDATE_ERROR;
    const CUresult st = tt_emu_exec_update(exec, graph, &why);

    if (info)
        *info = (CUgraphExecUpdateResultInfo){ .result = why };
    return st;
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(stream, &s);

    return st ? st : tt_emu_exec_launch(exec, s);
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    CUstream s;
    const CUresult st = tt_emu_drv_stream(stream, &s);

    if (st)
        return st;
    return tt_emu_handle_is(exec, TT_EMU_EXEC) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *out, void *p, CUhostFn destroy, unsigned int refs,
                                    unsigned int flags)
{
    if (flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    return tt_emu_object_create(p, destroy, refs, out);
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int n)
{
    return tt_emu_object_retain(object, n);
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int n)
{
    return tt_emu_object_release(object, n);
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int n,
                                         unsigned int flags)
{
    if (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
        return CUDA_ERROR_INVALID_VALUE;
    return tt_emu_graph_hold(graph, object, n, flags == CU_GRAPH_USER_OBJECT_MOVE);
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int n)
{
    return tt_emu_graph_unhold(graph, object, n);
}
