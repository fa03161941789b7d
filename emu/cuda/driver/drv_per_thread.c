/* The variants for per-thread default streams (per_thread.h). */
#include "drv.h"

#include "per_thread.h"

TT_EMU_PER_THREAD(CUresult, cuEventRecord, _ptsz, (CUevent hEvent, CUstream hStream),
                  (hEvent, hStream))
TT_EMU_PER_THREAD(CUresult, cuEventRecordWithFlags, _ptsz,
                  (CUevent hEvent, CUstream hStream, unsigned int flags), (hEvent, hStream, flags))
TT_EMU_PER_THREAD(CUresult, cuGraphLaunch, _ptsz, (CUgraphExec hGraphExec, CUstream hStream),
                  (hGraphExec, hStream))
TT_EMU_PER_THREAD(CUresult, cuGraphUpload, _ptsz, (CUgraphExec hGraphExec, CUstream hStream),
                  (hGraphExec, hStream))
TT_EMU_PER_THREAD(CUresult, cuLaunchCooperativeKernel, _ptsz,
                  (CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                   unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                   unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                   void **kernelParams),
                  (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                   hStream, kernelParams))
TT_EMU_PER_THREAD(CUresult, cuLaunchHostFunc, _ptsz,
                  (CUstream hStream, CUhostFn fn, void *userData), (hStream, fn, userData))
TT_EMU_PER_THREAD(CUresult, cuLaunchKernel, _ptsz,
                  (CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                   unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                   unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                   void **kernelParams, void **extra),
                  (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                   hStream, kernelParams, extra))
TT_EMU_PER_THREAD(CUresult, cuLaunchKernelEx, _ptsz,
                  (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra),
                  (config, f, kernelParams, extra))
TT_EMU_PER_THREAD(CUresult, cuMemAllocAsync, _ptsz,
                  (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
                  (dptr, bytesize, hStream))
TT_EMU_PER_THREAD(CUresult, cuMemAllocFromPoolAsync, _ptsz,
                  (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
                  (dptr, bytesize, pool, hStream))
TT_EMU_PER_THREAD(CUresult, cuMemFreeAsync, _ptsz, (CUdeviceptr dptr, CUstream hStream),
                  (dptr, hStream))
TT_EMU_PER_THREAD(CUresult, cuMemcpy, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount),
                  (dst, src, ByteCount))
TT_EMU_PER_THREAD(CUresult, cuMemcpy2DAsync_v2, _ptsz,
                  (const CUDA_MEMCPY2D *pCopy, CUstream hStream), (pCopy, hStream))
TT_EMU_PER_THREAD(CUresult, cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *pCopy), (pCopy))
TT_EMU_PER_THREAD(CUresult, cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *pCopy), (pCopy))
TT_EMU_PER_THREAD(CUresult, cuMemcpy3DAsync_v2, _ptsz,
                  (const CUDA_MEMCPY3D *pCopy, CUstream hStream), (pCopy, hStream))
TT_EMU_PER_THREAD(CUresult, cuMemcpy3DPeerAsync, _ptsz,
                  (const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream), (pCopy, hStream))
TT_EMU_PER_THREAD(CUresult, cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER *pCopy), (pCopy))
TT_EMU_PER_THREAD(CUresult, cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *pCopy), (pCopy))
TT_EMU_PER_THREAD(CUresult, cuMemcpyAsync, _ptsz,
                  (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream),
                  (dst, src, ByteCount, hStream))
TT_EMU_PER_THREAD(CUresult, cuMemcpyDtoDAsync_v2, _ptsz,
                  (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                   CUstream hStream),
                  (dstDevice, srcDevice, ByteCount, hStream))
TT_EMU_PER_THREAD(CUresult, cuMemcpyDtoD_v2, _ptds,
                  (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount),
                  (dstDevice, srcDevice, ByteCount))
TT_EMU_PER_THREAD(CUresult, cuMemcpyDtoHAsync_v2, _ptsz,
                  (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
                  (dstHost, srcDevice, ByteCount, hStream))
TT_EMU_PER_THREAD(CUresult, cuMemcpyDtoH_v2, _ptds,
                  (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount),
                  (dstHost, srcDevice, ByteCount))
TT_EMU_PER_THREAD(CUresult, cuMemcpyHtoDAsync_v2, _ptsz,
                  (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream),
                  (dstDevice, srcHost, ByteCount, hStream))
TT_EMU_PER_THREAD(CUresult, cuMemcpyHtoD_v2, _ptds,
                  (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount),
                  (dstDevice, srcHost, ByteCount))
TT_EMU_PER_THREAD(CUresult, cuMemcpyPeer, _ptds,
                  (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                   CUcontext srcContext, size_t ByteCount),
                  (dstDevice, dstContext, srcDevice, srcContext, ByteCount))
TT_EMU_PER_THREAD(CUresult, cuMemcpyPeerAsync, _ptsz,
                  (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                   CUcontext srcContext, size_t ByteCount, CUstream hStream),
                  (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream))
TT_EMU_PER_THREAD(CUresult, cuMemsetD16Async, _ptsz,
                  (CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream),
                  (dstDevice, us, N, hStream))
TT_EMU_PER_THREAD(CUresult, cuMemsetD16_v2, _ptds,
                  (CUdeviceptr dstDevice, unsigned short us, size_t N), (dstDevice, us, N))
TT_EMU_PER_THREAD(CUresult, cuMemsetD32Async, _ptsz,
                  (CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream),
                  (dstDevice, ui, N, hStream))
TT_EMU_PER_THREAD(CUresult, cuMemsetD32_v2, _ptds,
                  (CUdeviceptr dstDevice, unsigned int ui, size_t N), (dstDevice, ui, N))
TT_EMU_PER_THREAD(CUresult, cuMemsetD8Async, _ptsz,
                  (CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream),
                  (dstDevice, uc, N, hStream))
TT_EMU_PER_THREAD(CUresult, cuMemsetD8_v2, _ptds,
                  (CUdeviceptr dstDevice, unsigned char uc, size_t N), (dstDevice, uc, N))
TT_EMU_PER_THREAD(CUresult, cuStreamAddCallback, _ptsz,
                  (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),
                  (hStream, callback, userData, flags))
TT_EMU_PER_THREAD(CUresult, cuStreamBatchMemOp_v2, _ptsz,
                  (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
                   unsigned int flags),
                  (stream, count, paramArray, flags))
TT_EMU_PER_THREAD(CUresult, cuStreamBeginCaptureToGraph, _ptsz,
                  (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
                   const CUgraphEdgeData *dependencyData, size_t numDependencies,
                   CUstreamCaptureMode mode),
                  (hStream, hGraph, dependencies, dependencyData, numDependencies, mode))
TT_EMU_PER_THREAD(CUresult, cuStreamBeginCapture_v2, _ptsz,
                  (CUstream hStream, CUstreamCaptureMode mode), (hStream, mode))
TT_EMU_PER_THREAD(CUresult, cuStreamEndCapture, _ptsz, (CUstream hStream, CUgraph *phGraph),
                  (hStream, phGraph))
TT_EMU_PER_THREAD(CUresult, cuStreamGetCaptureInfo_v3, _ptsz,
                  (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                   CUgraph *graph_out, const CUgraphNode **dependencies_out,
                   const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out),
                  (hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
                   numDependencies_out))
TT_EMU_PER_THREAD(CUresult, cuStreamGetCtx, _ptsz, (CUstream hStream, CUcontext *pctx),
                  (hStream, pctx))
TT_EMU_PER_THREAD(CUresult, cuStreamGetDevice, _ptsz, (CUstream hStream, CUdevice *device),
                  (hStream, device))
TT_EMU_PER_THREAD(CUresult, cuStreamGetFlags, _ptsz, (CUstream hStream, unsigned int *flags),
                  (hStream, flags))
TT_EMU_PER_THREAD(CUresult, cuStreamGetId, _ptsz, (CUstream hStream, unsigned long long *streamId),
                  (hStream, streamId))
TT_EMU_PER_THREAD(CUresult, cuStreamGetPriority, _ptsz, (CUstream hStream, int *priority),
                  (hStream, priority))
TT_EMU_PER_THREAD(CUresult, cuStreamIsCapturing, _ptsz,
                  (CUstream hStream, CUstreamCaptureStatus *captureStatus),
                  (hStream, captureStatus))
TT_EMU_PER_THREAD(CUresult, cuStreamQuery, _ptsz, (CUstream hStream), (hStream))
TT_EMU_PER_THREAD(CUresult, cuStreamSynchronize, _ptsz, (CUstream hStream), (hStream))
TT_EMU_PER_THREAD(CUresult, cuStreamUpdateCaptureDependencies_v2, _ptsz,
                  (CUstream hStream, CUgraphNode *dependencies,
                   const CUgraphEdgeData *dependencyData, size_t numDependencies,
                   unsigned int flags),
                  (hStream, dependencies, dependencyData, numDependencies, flags))
TT_EMU_PER_THREAD(CUresult, cuStreamWaitEvent, _ptsz,
                  (CUstream hStream, CUevent hEvent, unsigned int Flags), (hStream, hEvent, Flags))
TT_EMU_PER_THREAD(CUresult, cuStreamWaitValue32_v2, _ptsz,
                  (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
                  (stream, addr, value, flags))
TT_EMU_PER_THREAD(CUresult, cuStreamWaitValue64_v2, _ptsz,
                  (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
                  (stream, addr, value, flags))
TT_EMU_PER_THREAD(CUresult, cuStreamWriteValue32_v2, _ptsz,
                  (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
                  (stream, addr, value, flags))
TT_EMU_PER_THREAD(CUresult, cuStreamWriteValue64_v2, _ptsz,
                  (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
                  (stream, addr, value, flags))
