/* The variants for per-thread default streams (per_thread.h). */
#include "rt.h"

#include "per_thread.h"

TT_EMU_PER_THREAD(cudaError_t, cudaEventRecordWithFlags, _ptsz,
                  (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
                  (event, stream, flags))
TT_EMU_PER_THREAD(cudaError_t, cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream),
                  (event, stream))
TT_EMU_PER_THREAD(cudaError_t, cudaFreeAsync, _ptsz, (void *devPtr, cudaStream_t hStream),
                  (devPtr, hStream))
TT_EMU_PER_THREAD(cudaError_t, cudaGetDriverEntryPointByVersion, _ptsz,
                  (const char *symbol, void **funcPtr, unsigned int cudaVersion,
                   unsigned long long flags, enum cudaDriverEntryPointQueryResult *driverStatus),
                  (symbol, funcPtr, cudaVersion, flags | cudaEnablePerThreadDefaultStream,
                   driverStatus))
TT_EMU_PER_THREAD(cudaError_t, cudaGraphInstantiateWithParams, _ptsz,
                  (cudaGraphExec_t * pGraphExec, cudaGraph_t graph,
                   cudaGraphInstantiateParams *instantiateParams),
                  (pGraphExec, graph, instantiateParams))
TT_EMU_PER_THREAD(cudaError_t, cudaGraphLaunch, _ptsz,
                  (cudaGraphExec_t graphExec, cudaStream_t stream), (graphExec, stream))
TT_EMU_PER_THREAD(cudaError_t, cudaGraphUpload, _ptsz,
                  (cudaGraphExec_t graphExec, cudaStream_t stream), (graphExec, stream))
TT_EMU_PER_THREAD(cudaError_t, cudaLaunchCooperativeKernel, _ptsz,
                  (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
                   cudaStream_t stream),
                  (func, gridDim, blockDim, args, sharedMem, stream))
TT_EMU_PER_THREAD(cudaError_t, cudaLaunchHostFunc, _ptsz,
                  (cudaStream_t stream, cudaHostFn_t fn, void *userData), (stream, fn, userData))
TT_EMU_PER_THREAD(cudaError_t, cudaLaunchKernelExC, _ptsz,
                  (const cudaLaunchConfig_t *config, const void *func, void **args),
                  (config, func, args))
TT_EMU_PER_THREAD(cudaError_t, cudaLaunchKernel, _ptsz,
                  (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
                   cudaStream_t stream),
                  (func, gridDim, blockDim, args, sharedMem, stream))
TT_EMU_PER_THREAD(cudaError_t, cudaMallocAsync, _ptsz,
                  (void **devPtr, size_t size, cudaStream_t hStream), (devPtr, size, hStream))
TT_EMU_PER_THREAD(cudaError_t, cudaMallocFromPoolAsync, _ptsz,
                  (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
                  (ptr, size, memPool, stream))
TT_EMU_PER_THREAD(cudaError_t, cudaMemPrefetchAsync, _ptsz,
                  (const void *devPtr, size_t count, struct cudaMemLocation location,
                   unsigned int flags, cudaStream_t stream),
                  (devPtr, count, location, flags, stream))
TT_EMU_PER_THREAD(cudaError_t, cudaMemcpy2DAsync, _ptsz,
                  (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                   size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
                  (dst, dpitch, src, spitch, width, height, kind, stream))
TT_EMU_PER_THREAD(cudaError_t, cudaMemcpy2D, _ptds,
                  (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                   size_t height, enum cudaMemcpyKind kind),
                  (dst, dpitch, src, spitch, width, height, kind))
TT_EMU_PER_THREAD(cudaError_t, cudaMemcpy3DAsync, _ptsz,
                  (const struct cudaMemcpy3DParms *p, cudaStream_t stream), (p, stream))
TT_EMU_PER_THREAD(cudaError_t, cudaMemcpy3DPeerAsync, _ptsz,
                  (const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream), (p, stream))
TT_EMU_PER_THREAD(cudaError_t, cudaMemcpy3DPeer, _ptds, (const struct cudaMemcpy3DPeerParms *p),
                  (p))
TT_EMU_PER_THREAD(cudaError_t, cudaMemcpy3D, _ptds, (const struct cudaMemcpy3DParms *p), (p))
TT_EMU_PER_THREAD(cudaError_t, cudaMemcpyAsync, _ptsz,
                  (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                   cudaStream_t stream),
                  (dst, src, count, kind, stream))
TT_EMU_PER_THREAD(cudaError_t, cudaMemcpyFromSymbol, _ptds,
                  (void *dst, const void *symbol, size_t count, size_t offset,
                   enum cudaMemcpyKind kind),
                  (dst, symbol, count, offset, kind))
TT_EMU_PER_THREAD(cudaError_t, cudaMemcpyToSymbol, _ptds,
                  (const void *symbol, const void *src, size_t count, size_t offset,
                   enum cudaMemcpyKind kind),
                  (symbol, src, count, offset, kind))
TT_EMU_PER_THREAD(cudaError_t, cudaMemcpy, _ptds,
                  (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
                  (dst, src, count, kind))
TT_EMU_PER_THREAD(cudaError_t, cudaMemset2DAsync, _ptsz,
                  (void *devPtr, size_t pitch, int value, size_t width, size_t height,
                   cudaStream_t stream),
                  (devPtr, pitch, value, width, height, stream))
TT_EMU_PER_THREAD(cudaError_t, cudaMemset2D, _ptds,
                  (void *devPtr, size_t pitch, int value, size_t width, size_t height),
                  (devPtr, pitch, value, width, height))
TT_EMU_PER_THREAD(cudaError_t, cudaMemsetAsync, _ptsz,
                  (void *devPtr, int value, size_t count, cudaStream_t stream),
                  (devPtr, value, count, stream))
TT_EMU_PER_THREAD(cudaError_t, cudaMemset, _ptds, (void *devPtr, int value, size_t count),
                  (devPtr, value, count))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamAddCallback, _ptsz,
                  (cudaStream_t stream, cudaStreamCallback_t callback, void *userData,
                   unsigned int flags),
                  (stream, callback, userData, flags))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamBeginCaptureToGraph, _ptsz,
                  (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                   const cudaGraphEdgeData *dependencyData, size_t numDependencies,
                   enum cudaStreamCaptureMode mode),
                  (stream, graph, dependencies, dependencyData, numDependencies, mode))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamBeginCapture, _ptsz,
                  (cudaStream_t stream, enum cudaStreamCaptureMode mode), (stream, mode))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamEndCapture, _ptsz,
                  (cudaStream_t stream, cudaGraph_t *pGraph), (stream, pGraph))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamGetAttribute, _ptsz,
                  (cudaStream_t hStream, cudaLaunchAttributeID attr,
                   cudaLaunchAttributeValue *value_out),
                  (hStream, attr, value_out))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamGetCaptureInfo, _ptsz,
                  (cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
                   unsigned long long *id_out, cudaGraph_t *graph_out,
                   const cudaGraphNode_t **dependencies_out, const cudaGraphEdgeData **edgeData_out,
                   size_t *numDependencies_out),
                  (stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
                   numDependencies_out))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamGetDevice, _ptsz, (cudaStream_t hStream, int *device),
                  (hStream, device))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamGetFlags, _ptsz,
                  (cudaStream_t hStream, unsigned int *flags), (hStream, flags))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamGetId, _ptsz,
                  (cudaStream_t hStream, unsigned long long *streamId), (hStream, streamId))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamGetPriority, _ptsz, (cudaStream_t hStream, int *priority),
                  (hStream, priority))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamIsCapturing, _ptsz,
                  (cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus),
                  (stream, pCaptureStatus))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamQuery, _ptsz, (cudaStream_t stream), (stream))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamSynchronize, _ptsz, (cudaStream_t stream), (stream))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamUpdateCaptureDependencies, _ptsz,
                  (cudaStream_t stream, cudaGraphNode_t *dependencies,
                   const cudaGraphEdgeData *dependencyData, size_t numDependencies,
                   unsigned int flags),
                  (stream, dependencies, dependencyData, numDependencies, flags))
TT_EMU_PER_THREAD(cudaError_t, cudaStreamWaitEvent, _ptsz,
                  (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
                  (stream, event, flags))
