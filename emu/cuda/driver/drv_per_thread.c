/* The calls of programs that were compiled for default streams of threads (--default-stream
 * per-thread, CUDA_API_PER_THREAD_DEFAULT_STREAM): NULL means the stream of the thread. */
#include "drv.h"

#include "stream.h"

#define WRAP(type, name, suffix, parameters, arguments)                                            \
    type name##suffix parameters;                                                                  \
    type name##suffix parameters                                                                   \
    {                                                                                              \
        const bool before = tt_emu_stream_null_per_thread(true);                                   \
        const type result = name arguments;                                                        \
                                                                 \
        tt_emu_stream_null_per_thread(before);                                                     \
        return result;                                                                             \
    }

WRAP(CUresult, cuEventRecord, _ptsz, (CUevent hEvent, CUstream hStream), (hEvent, hStream))
WRAP(CUresult, cuEventRecordWithFlags, _ptsz,
     (CUevent hEvent, CUstream hStream, unsigned int flags), (hEvent, hStream, flags))
WRAP(CUresult, cuGraphLaunch, _ptsz, (CUgraphExec hGraphExec, CUstream hStream),
     (hGraphExec, hStream))
WRAP(CUresult, cuGraphUpload, _ptsz, (CUgraphExec hGraphExec, CUstream hStream),
     (hGraphExec, hStream))
WRAP(CUresult, cuLaunchCooperativeKernel, _ptsz,
     (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
      unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
      unsigned int sharedMemBytes, CUstream hStream, void **kernelParams),
     (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
      kernelParams))
WRAP(CUresult, cuLaunchHostFunc, _ptsz, (CUstream hStream, CUhostFn fn, void *userData),
     (hStream, fn, userData))
WRAP(CUresult, cuLaunchKernel, _ptsz,
     (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
      unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
      unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra),
     (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
      kernelParams, extra))
WRAP(CUresult, cuLaunchKernelEx, _ptsz,
     (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra),
     (config, f, kernelParams, extra))
WRAP(CUresult, cuMemAllocAsync, _ptsz, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
     (dptr, bytesize, hStream))
WRAP(CUresult, cuMemAllocFromPoolAsync, _ptsz,
     (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
     (dptr, bytesize, pool, hStream))
WRAP(CUresult, cuMemFreeAsync, _ptsz, (CUdeviceptr dptr, CUstream hStream), (dptr, hStream))
WRAP(CUresult, cuMemcpy, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount),
     (dst, src, ByteCount))
WRAP(CUresult, cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *pCopy, CUstream hStream),
     (pCopy, hStream))
WRAP(CUresult, cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *pCopy), (pCopy))
WRAP(CUresult, cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *pCopy), (pCopy))
WRAP(CUresult, cuMemcpyAsync, _ptsz,
     (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream),
     (dst, src, ByteCount, hStream))
WRAP(CUresult, cuMemcpyDtoDAsync_v2, _ptsz,
     (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
     (dstDevice, srcDevice, ByteCount, hStream))
WRAP(CUresult, cuMemcpyDtoD_v2, _ptds,
     (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount),
     (dstDevice, srcDevice, ByteCount))
WRAP(CUresult, cuMemcpyDtoHAsync_v2, _ptsz,
     (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
     (dstHost, srcDevice, ByteCount, hStream))
WRAP(CUresult, cuMemcpyDtoH_v2, _ptds, (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount),
     (dstHost, srcDevice, ByteCount))
WRAP(CUresult, cuMemcpyHtoDAsync_v2, _ptsz,
     (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream),
     (dstDevice, srcHost, ByteCount, hStream))
WRAP(CUresult, cuMemcpyHtoD_v2, _ptds,
     (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount),
     (dstDevice, srcHost, ByteCount))
WRAP(CUresult, cuMemcpyPeer, _ptds,
     (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
      size_t ByteCount),
     (dstDevice, dstContext, srcDevice, srcContext, ByteCount))
WRAP(CUresult, cuMemcpyPeerAsync, _ptsz,
     (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
      size_t ByteCount, CUstream hStream),
     (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream))
WRAP(CUresult, cuMemsetD16Async, _ptsz,
     (CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream),
     (dstDevice, us, N, hStream))
WRAP(CUresult, cuMemsetD16_v2, _ptds, (CUdeviceptr dstDevice, unsigned short us, size_t N),
     (dstDevice, us, N))
WRAP(CUresult, cuMemsetD32Async, _ptsz,
     (CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream),
     (dstDevice, ui, N, hStream))
WRAP(CUresult, cuMemsetD32_v2, _ptds, (CUdeviceptr dstDevice, unsigned int ui, size_t N),
     (dstDevice, ui, N))
WRAP(CUresult, cuMemsetD8Async, _ptsz,
     (CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream),
     (dstDevice, uc, N, hStream))
WRAP(CUresult, cuMemsetD8_v2, _ptds, (CUdeviceptr dstDevice, unsigned char uc, size_t N),
     (dstDevice, uc, N))
WRAP(CUresult, cuStreamAddCallback, _ptsz,
     (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),
     (hStream, callback, userData, flags))
WRAP(CUresult, cuStreamBatchMemOp_v2, _ptsz,
     (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
      unsigned int flags),
     (stream, count, paramArray, flags))
WRAP(CUresult, cuStreamBeginCaptureToGraph, _ptsz,
     (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
      const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode),
     (hStream, hGraph, dependencies, dependencyData, numDependencies, mode))
WRAP(CUresult, cuStreamBeginCapture_v2, _ptsz, (CUstream hStream, CUstreamCaptureMode mode),
     (hStream, mode))
WRAP(CUresult, cuStreamEndCapture, _ptsz, (CUstream hStream, CUgraph *phGraph), (hStream, phGraph))
WRAP(CUresult, cuStreamGetCaptureInfo_v3, _ptsz,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
      CUgraph *graph_out, const CUgraphNode **dependencies_out,
      const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out),
     (hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
      numDependencies_out))
WRAP(CUresult, cuStreamGetCtx, _ptsz, (CUstream hStream, CUcontext *pctx), (hStream, pctx))
WRAP(CUresult, cuStreamGetDevice, _ptsz, (CUstream hStream, CUdevice *device), (hStream, device))
WRAP(CUresult, cuStreamGetFlags, _ptsz, (CUstream hStream, unsigned int *flags), (hStream, flags))
WRAP(CUresult, cuStreamGetId, _ptsz, (CUstream hStream, unsigned long long *streamId),
     (hStream, streamId))
WRAP(CUresult, cuStreamGetPriority, _ptsz, (CUstream hStream, int *priority), (hStream, priority))
WRAP(CUresult, cuStreamIsCapturing, _ptsz, (CUstream hStream, CUstreamCaptureStatus *captureStatus),
     (hStream, captureStatus))
WRAP(CUresult, cuStreamQuery, _ptsz, (CUstream hStream), (hStream))
WRAP(CUresult, cuStreamSynchronize, _ptsz, (CUstream hStream), (hStream))
WRAP(CUresult, cuStreamUpdateCaptureDependencies_v2, _ptsz,
     (CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
      size_t numDependencies, unsigned int flags),
     (hStream, dependencies, dependencyData, numDependencies, flags))
WRAP(CUresult, cuStreamWaitEvent, _ptsz, (CUstream hStream, CUevent hEvent, unsigned int Flags),
     (hStream, hEvent, Flags))
WRAP(CUresult, cuStreamWaitValue32_v2, _ptsz,
     (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
     (stream, addr, value, flags))
WRAP(CUresult, cuStreamWaitValue64_v2, _ptsz,
     (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
     (stream, addr, value, flags))
WRAP(CUresult, cuStreamWriteValue32_v2, _ptsz,
     (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
     (stream, addr, value, flags))
WRAP(CUresult, cuStreamWriteValue64_v2, _ptsz,
     (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
     (stream, addr, value, flags))
