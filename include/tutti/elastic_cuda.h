/* Shared state (tutti/elastic.h) in the memory of a CUDA device: callbacks for tutti_array.memory.
 * Sources that include this header must be compiled by nvcc, because a kernel computes the hash
 * (tutti/hash_device.h). The library itself does not use CUDA.
 *
 *     tutti_array_cuda where = { device, stream };
 *     tutti_array_memory memory = tutti_array_memory_cuda(&where);
 *     tutti_array weights = { sizeof weights, "weights", on_device, n, TUTTI_F32, 0, &memory };
 *
 * Copies and hashes run on `stream`, after earlier work on `stream`. Work on other streams must
 * be complete before tutti_run_sync is called. The callbacks return a cudaError_t as int and
 * restore the current device of the calling thread. */
#ifndef TUTTI_ELASTIC_CUDA_H
#define TUTTI_ELASTIC_CUDA_H

#if !defined(__CUDACC__)
#error "tutti/elastic_cuda.h is for sources that nvcc compiles"
#endif

#include "tutti/elastic.h"
#include "tutti/hash_device.h"

/* Device and stream of the arrays. The object must outlive the tutti_array_memory that points to
 * it. */
typedef struct tutti_array_cuda {
    int device;
    cudaStream_t stream;        /* a stream of `device`; 0: the default stream */
} tutti_array_cuda;

/* Makes where->device current for the calling thread; *before is set to the previous device. */
static inline cudaError_t tutti_array_cuda_enter(const tutti_array_cuda *where, int *before)
{
    const cudaError_t err = cudaGetDevice(before);

    return err == cudaSuccess ? cudaSetDevice(where->device) : err;
}

/* Makes the previous device current again. Returns err if err is an error, else the status of
 * cudaSetDevice. */
static inline int tutti_array_cuda_leave(int before, cudaError_t err)
{
    const cudaError_t back = cudaSetDevice(before);

    return (int)(err != cudaSuccess ? err : back);
}

/* Copies from[bytes] to `to` on the stream and waits until the copy is complete. */
static inline int tutti_array_cuda_copy(const tutti_array_cuda *where, void *to, const void *from,
                                        size_t bytes, cudaMemcpyKind kind)
{
    int before;
    cudaError_t err = tutti_array_cuda_enter(where, &before);

    if (err != cudaSuccess)
        return (int)err;
    err = cudaMemcpyAsync(to, from, bytes, kind, where->stream);
    if (err == cudaSuccess)
        err = cudaStreamSynchronize(where->stream);
    return tutti_array_cuda_leave(before, err);
}

static inline int tutti_array_cuda_to_host(void *context, void *host, const void *at, size_t bytes)
{
    return tutti_array_cuda_copy((const tutti_array_cuda *)context, host, at, bytes,
                                 cudaMemcpyDeviceToHost);
}

static inline int tutti_array_cuda_from_host(void *context, void *at, const void *host,
                                             size_t bytes)
{
    return tutti_array_cuda_copy((const tutti_array_cuda *)context, at, host, bytes,
                                 cudaMemcpyHostToDevice);
}

static inline int tutti_array_cuda_hash(void *context, const void *at, size_t bytes,
                                        uint32_t value[4])
{
    const tutti_array_cuda *where = (const tutti_array_cuda *)context;
    int before;
    cudaError_t err = tutti_array_cuda_enter(where, &before);

    if (err != cudaSuccess)
        return (int)err;
    err = tutti_hash_cuda(where->stream, at, bytes, value);
    return tutti_array_cuda_leave(before, err);
}

/* Returns the callbacks for arrays on the device of *where. *where must outlive the result. */
static inline tutti_array_memory tutti_array_memory_cuda(tutti_array_cuda *where)
{
    tutti_array_memory memory = {};

    memory.size = sizeof memory;
    memory.to_host = tutti_array_cuda_to_host;
    memory.from_host = tutti_array_cuda_from_host;
    memory.hash = tutti_array_cuda_hash;
    memory.context = where;
    return memory;
}

#endif
