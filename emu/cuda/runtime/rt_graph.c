#include "rt.h"

#include "exec.h"
#include "graph.h"
#include "handles.h"
#include "kernel.h"

cudaError_t CUDARTAPI cudaGraphCreate(cudaGraph_t *out, unsigned int flags)
{
    if (!out || flags)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    *out = tt_emu_graph_create();
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph)
{
    return tt_emu_rt_done(tt_emu_graph_destroy(graph));
}

cudaError_t CUDARTAPI cudaGraphClone(cudaGraph_t *out, cudaGraph_t graph)
{
    return tt_emu_rt_done(tt_emu_graph_clone(graph, out));
}

/* ---- nodes ---- */

static CUresult kernel_work(const struct cudaKernelNodeParams *p, struct tt_emu_work *work)
{
    const unsigned grid[3] = { p->gridDim.x, p->gridDim.y, p->gridDim.z };
    const unsigned block[3] = { p->blockDim.x, p->blockDim.y, p->blockDim.z };
    CUfunction f = tt_emu_kernel_find(p->func);

    if (!f)
        return (CUresult)cudaErrorInvalidDeviceFunction;
    if (p->extra)
        return CUDA_ERROR_NOT_SUPPORTED;
    return tt_emu_kernel_work(f, grid, block, p->sharedMemBytes, p->kernelParams, work);
}

cudaError_t CUDARTAPI cudaGraphAddKernelNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                             const cudaGraphNode_t *before, size_t n,
                                             const struct cudaKernelNodeParams *params)
{
    struct tt_emu_work work;
    CUresult st = params ? kernel_work(params, &work) : CUDA_ERROR_INVALID_VALUE;

    if (!st)
        st = tt_emu_graph_add_work(graph, CU_GRAPH_NODE_TYPE_KERNEL, &work, before, n, out);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const struct cudaKernelNodeParams *params)
{
    struct tt_emu_work work;
    CUresult st = params ? kernel_work(params, &work) : CUDA_ERROR_INVALID_VALUE;

    return tt_emu_rt_done(st ? st : tt_emu_exec_set(exec, node, &work));
}

cudaError_t CUDARTAPI cudaGraphAddMemcpyNode1D(cudaGraphNode_t *out, cudaGraph_t graph,
                                               const cudaGraphNode_t *before, size_t n, void *dst,
                                               const void *src, size_t count,
                                               enum cudaMemcpyKind kind)
{
    struct tt_emu_work work = { .kind = TT_EMU_COPY };

    (void)kind;             /* determined from the addresses */
    if (!dst || !src || !count)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    work.copy = (struct tt_emu_copy){
        .to = (uintptr_t)dst, .from = (uintptr_t)src, .width = count, .height = 1, .depth = 1
    };
    return tt_emu_rt_done(
        tt_emu_graph_add_work(graph, CU_GRAPH_NODE_TYPE_MEMCPY, &work, before, n, out));
}

cudaError_t CUDARTAPI cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                         void *dst, const void *src, size_t count,
                                                         enum cudaMemcpyKind kind)
{
    struct tt_emu_work work = { .kind = TT_EMU_COPY };

    (void)kind;
    if (!dst || !src || !count)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    work.copy = (struct tt_emu_copy){
        .to = (uintptr_t)dst, .from = (uintptr_t)src, .width = count, .height = 1, .depth = 1
    };
    return tt_emu_rt_done(tt_emu_exec_set(exec, node, &work));
}

static CUresult memset_work(const struct cudaMemsetParams *p, struct tt_emu_work *work)
{
    if (!p || !p->dst || !p->width || !p->height ||
        (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4))
        return CUDA_ERROR_INVALID_VALUE;
    *work = (struct tt_emu_work){ .kind = TT_EMU_FILL };
    work->fill = (struct tt_emu_fill){ (uintptr_t)p->dst, p->pitch, p->width,
                                       p->height,         p->value, p->elementSize };
    return CUDA_SUCCESS;
}

cudaError_t CUDARTAPI cudaGraphAddMemsetNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                             const cudaGraphNode_t *before, size_t n,
                                             const struct cudaMemsetParams *params)
{
    struct tt_emu_work work;
    CUresult st = memset_work(params, &work);

    if (!st)
        st = tt_emu_graph_add_work(graph, CU_GRAPH_NODE_TYPE_MEMSET, &work, before, n, out);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaGraphAddHostNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                           const cudaGraphNode_t *before, size_t n,
                                           const struct cudaHostNodeParams *params)
{
    struct tt_emu_work work = { .kind = TT_EMU_HOST };

    if (!params || !params->fn)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    work.host.fn = params->fn;
    work.host.arg = params->userData;
    return tt_emu_rt_done(
        tt_emu_graph_add_work(graph, CU_GRAPH_NODE_TYPE_HOST, &work, before, n, out));
}

cudaError_t CUDARTAPI cudaGraphAddEmptyNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                            const cudaGraphNode_t *before, size_t n)
{
    struct tt_emu_work work = { .kind = TT_EMU_EMPTY };

    return tt_emu_rt_done(
        tt_emu_graph_add_work(graph, CU_GRAPH_NODE_TYPE_EMPTY, &work, before, n, out));
}

cudaError_t CUDARTAPI cudaGraphAddChildGraphNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                                 const cudaGraphNode_t *before, size_t n,
                                                 cudaGraph_t child)
{
    return tt_emu_rt_done(tt_emu_graph_add_child(graph, child, before, n, out));
}

cudaError_t CUDARTAPI cudaGraphAddEventRecordNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                                  const cudaGraphNode_t *before, size_t n,
                                                  cudaEvent_t event)
{
    return tt_emu_rt_done(
        tt_emu_graph_add_event(graph, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, before, n, out));
}

cudaError_t CUDARTAPI cudaGraphAddEventWaitNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                                const cudaGraphNode_t *before, size_t n,
                                                cudaEvent_t event)
{
    return tt_emu_rt_done(
        tt_emu_graph_add_event(graph, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, before, n, out));
}

/* Kernels, fills, host functions and empty nodes; conditional and other nodes are refused. */
cudaError_t CUDARTAPI cudaGraphAddNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                       const cudaGraphNode_t *before,
                                       const cudaGraphEdgeData *edges, size_t n,
                                       struct cudaGraphNodeParams *params)
{
    struct tt_emu_work work = { .kind = TT_EMU_EMPTY };
    CUresult st = CUDA_SUCCESS;

    (void)edges;
    if (!params)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    if (params->type == cudaGraphNodeTypeHost) {
        work.kind = TT_EMU_HOST;
        work.host.fn = params->host.fn;
        work.host.arg = params->host.userData;
    } else if (params->type != cudaGraphNodeTypeEmpty) {
        st = CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!st)
        st = tt_emu_graph_add_work(graph, (CUgraphNodeType)params->type, &work, before, n, out);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                               const cudaGraphNode_t *to,
                                               const cudaGraphEdgeData *edges, size_t n)
{
    (void)edges;
    return tt_emu_rt_done(tt_emu_graph_depend(graph, from, to, n));
}

cudaError_t CUDARTAPI cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    if (!tt_emu_handle_is(node, TT_EMU_NODE) || !type)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    *type = (enum cudaGraphNodeType)node->type;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n)
{
    return tt_emu_rt_done(tt_emu_graph_list(graph, false, nodes, n));
}

cudaError_t CUDARTAPI cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n)
{
    return tt_emu_rt_done(tt_emu_graph_list(graph, true, nodes, n));
}

cudaError_t CUDARTAPI cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from,
                                        cudaGraphNode_t *to, cudaGraphEdgeData *edges, size_t *n)
{
    for (size_t i = 0; edges && n && i < *n; i++)
        edges[i] = (cudaGraphEdgeData){ 0 };
    return tt_emu_rt_done(tt_emu_graph_edges(graph, from, to, n));
}

cudaError_t CUDARTAPI cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *nodes,
                                                   cudaGraphEdgeData *edges, size_t *n)
{
    for (size_t i = 0; edges && n && i < *n; i++)
        edges[i] = (cudaGraphEdgeData){ 0 };
    return tt_emu_rt_done(tt_emu_graph_neighbours(node, false, nodes, n));
}

cudaError_t CUDARTAPI cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *nodes,
                                                     cudaGraphEdgeData *edges, size_t *n)
{
    for (size_t i = 0; edges && n && i < *n; i++)
        edges[i] = (cudaGraphEdgeData){ 0 };
    return tt_emu_rt_done(tt_emu_graph_neighbours(node, true, nodes, n));
}

/* ---- executable graphs ---- */

cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                           unsigned long long flags)
{
    const unsigned long long known = cudaGraphInstantiateFlagAutoFreeOnLaunch |
                                     cudaGraphInstantiateFlagUpload |
                                     cudaGraphInstantiateFlagUseNodePriority;

    if (flags & cudaGraphInstantiateFlagDeviceLaunch)
        return tt_emu_rt_error(cudaErrorNotSupported);
    if (flags & ~known)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    return tt_emu_rt_done(tt_emu_exec_create(graph, out));
}

cudaError_t CUDARTAPI cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                                    unsigned long long flags)
{
    return cudaGraphInstantiate(out, graph, flags);
}

cudaError_t CUDARTAPI cudaGraphInstantiateWithParams(cudaGraphExec_t *out, cudaGraph_t graph,
                                                     cudaGraphInstantiateParams *params)
{
    cudaError_t st;

    if (!params)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    st = cudaGraphInstantiate(out, graph, params->flags);
    params->errNode_out = NULL;
    params->result_out = st ? cudaGraphInstantiateError : cudaGraphInstantiateSuccess;
    return st;
}

cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return tt_emu_rt_done(tt_emu_exec_destroy(exec));
}

cudaError_t CUDARTAPI cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                          cudaGraphExecUpdateResultInfo *info)
{
    CUgraphExecUpdateResult why = CU_GRAPH_EXEC_UPDATE_ERROR;
    const CUresult st = tt_emu_exec_update(exec, graph, &why);

    if (info)
        *info = (cudaGraphExecUpdateResultInfo){ .result = (enum cudaGraphExecUpdateResult)why };
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    CUstream s;
    const CUresult st = tt_emu_rt_stream(stream, &s);

    return tt_emu_rt_done(st ? st : tt_emu_exec_launch(exec, s));
}

cudaError_t CUDARTAPI cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    CUstream s;
    CUresult st = tt_emu_rt_stream(stream, &s);

    if (!st && !tt_emu_handle_is(exec, TT_EMU_EXEC))
        st = CUDA_ERROR_INVALID_VALUE;
    return tt_emu_rt_done(st);
}

/* ---- user objects ---- */

cudaError_t CUDARTAPI cudaUserObjectCreate(cudaUserObject_t *out, void *p, cudaHostFn_t destroy,
                                           unsigned int refs, unsigned int flags)
{
    if (flags != cudaUserObjectNoDestructorSync)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    return tt_emu_rt_done(tt_emu_object_create(p, destroy, refs, out));
}

cudaError_t CUDARTAPI cudaUserObjectRetain(cudaUserObject_t object, unsigned int n)
{
    return tt_emu_rt_done(tt_emu_object_retain(object, n));
}

cudaError_t CUDARTAPI cudaUserObjectRelease(cudaUserObject_t object, unsigned int n)
{
    return tt_emu_rt_done(tt_emu_object_release(object, n));
}

cudaError_t CUDARTAPI cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                unsigned int n, unsigned int flags)
{
    if (flags & ~(unsigned)cudaGraphUserObjectMove)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    return tt_emu_rt_done(tt_emu_graph_hold(graph, object, n, flags == cudaGraphUserObjectMove));
}

cudaError_t CUDARTAPI cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                 unsigned int n)
{
    return tt_emu_rt_done(tt_emu_graph_unhold(graph, object, n));
}
