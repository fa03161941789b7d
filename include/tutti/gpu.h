/* Tutti, collectives on device memory in stream order, for CUDA.
 *
 * A tutti_gpu binds a communicator to a device. Its calls take device pointers and a stream. A call
 * returns at once. The operation starts when the stream gets to it, and later work of the stream
 * starts when the operation has completed on this rank:
 *
 *     tutti_comm_create -> tutti_gpu_create -> kernels, tutti_gpu_allreduce(..., gpu, stream, ...),
 *     kernels -> cudaStreamSynchronize -> tutti_gpu_status -> tutti_gpu_destroy
 *
 * The functions of CUDA's driver library are loaded at run time (libcuda.so.1); programs need no
 * CUDA headers. A stream is a CUstream or cudaStream_t; NULL is the default stream.
 *
 *  - Order: the operations of one tutti_gpu run in the order of their calls, also on different
 *    streams. All ranks must make the calls of a communicator in the same order. A stream must not
 *    wait for work that is ordered after a later operation of the same tutti_gpu.
 *  - Device memory: also managed memory, and host memory that is registered with CUDA. All of a
 *    buffer must be valid until the operation has completed. In place as in tutti/tutti.h; any
 *    other overlap is an error.
 *  - Communicator: from tutti_gpu_create to tutti_gpu_destroy it is used by the thread of the
 *    tutti_gpu. Only calls marked "any thread" in tutti/tutti.h are allowed. For collectives on
 *    host memory use another one (tutti_comm_dup).
 *  - Errors: invalid arguments are returned at once, and nothing is started. All later errors (a
 *    lost rank, an abort, a timeout, a failed copy) end this and all later operations of the
 *    tutti_gpu, and release their streams. The contents of their outputs are undefined. The request
 *    (tutti_gpu_op.request) and tutti_gpu_status return the error.
 *  - CUDA graphs: a call on a stream that is being captured becomes part of the graph, and runs at
 *    each launch. All arguments are those of the capture; a factor in host memory
 *    (tutti_gpu_op.scale_from) is read at the capture. Streams and events, not the order of calls,
 *    must then order launches and all other operations of the tutti_gpu, equally on all ranks.
 *    Operations of one capture run in the order of their calls. Launches of graphs from the same
 *    capture must not overlap. Graphs should be destroyed before the tutti_gpu. A later launch
 *    does not run the operations, releases the streams, and sets tutti_gpu_graph_status.
 *  - Threads: any number of threads may call on the same tutti_gpu, except tutti_gpu_destroy.
 *  - Structs with `size`: as in tutti/tutti.h.
 *
 * docs/gpu.md describes the implementation. Sources: NCCL 2.x user guide (stream semantics, group
 * calls); "Collective Communication for 100k+ GPUs" (arXiv 2510.20171), 4.1; CUDA driver API 13,
 * stream memory operations. */
#ifndef TUTTI_GPU_H
#define TUTTI_GPU_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A communicator bound to a device, created by tutti_gpu_create, and a request of an operation,
 * created by tutti_gpu_group. Programs use pointers only. */
typedef struct tutti_gpu tutti_gpu;
typedef struct tutti_gpu_request tutti_gpu_request;

/* Options of tutti_gpu_create. Set `size` to sizeof(tutti_gpu_conf). A field that is zero takes its
 * default value. */
typedef struct tutti_gpu_conf {
    size_t size;
    int has_device;             /* 1: use `device`; 0: the calling thread's current device */
    int device;                 /* CUDA ordinal */
    uint64_t chunk_bytes;       /* size of a pinned chunk; must be the same on all ranks;
                                   4096 to 1 GiB; 0: default (4 MiB) */
    int32_t chunks;             /* chunks in flight, 1 to 64; 0: default (4). May differ between
                                   ranks */
    int64_t timeout_ms;         /* timeout of operations, from their start; 0: the communicator's;
                                   negative: none */
} tutti_gpu_conf;

/* Writes the ordinal of the calling thread's current device to *out (0 if it has none). Local.
 * UNSUPPORTED: as for tutti_gpu_create. */
TUTTI_API tutti_status tutti_gpu_current_device(int *out);

/* Allocates memory of the calling thread's current device. Local. The caller frees *out with
 * tutti_gpu_mem_free, which may wait for work of the device. mem may be NULL. */
TUTTI_API tutti_status tutti_gpu_mem_alloc(size_t bytes, void **out);
TUTTI_API tutti_status tutti_gpu_mem_free(void *mem);

/* Binds comm to a device. comm must outlive *out, which is owned by the caller and freed with
 * tutti_gpu_destroy. conf may be NULL. Local.
 * UNSUPPORTED: there is no CUDA driver or no device, or the driver is too old; the message names
 * the missing part. INVALID: the device does not exist. */
TUTTI_API tutti_status tutti_gpu_create(tutti_gpu **out, tutti_comm *comm,
                                        const tutti_gpu_conf *conf);
/* Waits until all operations have completed, and frees the object. Streams that still wait for an
 * operation that was not started are released. gpu may be NULL. */
TUTTI_API void tutti_gpu_destroy(tutti_gpu *gpu);

/* Returns the device's ordinal, or -1 if gpu is NULL. Any thread. */
TUTTI_API int tutti_gpu_device(const tutti_gpu *gpu);

/* Returns TUTTI_OK, or the error that ended the operations of gpu; its message is then also the
 * calling thread's last error. Does not block. Any thread. */
TUTTI_API tutti_status tutti_gpu_status(const tutti_gpu *gpu);

/* Returns INVALID if a CUDA graph was launched after the end of the tutti_gpu of one of its
 * operations, and resets this state, which the process has once. Any thread. */
TUTTI_API tutti_status tutti_gpu_graph_status(void);

/* Aborts the communicator (tutti_comm_abort), and releases all streams that wait for its
 * operations. Does not wait. Afterwards gpu can only be destroyed. Any thread. */
TUTTI_API tutti_status tutti_gpu_abort(tutti_gpu *gpu);

/* Waits until all operations of earlier calls have completed on this rank, and returns
 * tutti_gpu_status. Does not wait for launches of CUDA graphs: synchronize their stream instead. */
TUTTI_API tutti_status tutti_gpu_flush(tutti_gpu *gpu);

/* Operations. */
typedef enum tutti_gpu_kind {
    TUTTI_GPU_ALLREDUCE = 0,
    TUTTI_GPU_REDUCE,
    TUTTI_GPU_REDUCE_SCATTER,
    TUTTI_GPU_ALLGATHER,
    TUTTI_GPU_BROADCAST,
    TUTTI_GPU_GATHER,
    TUTTI_GPU_SCATTER,
    TUTTI_GPU_ALLTOALL,
    TUTTI_GPU_BARRIER,
    TUTTI_GPU_SEND,             /* from src to rank `root` */
    TUTTI_GPU_RECV,             /* into dst, from rank `root` */
    TUTTI_GPU_KIND_COUNT
} tutti_gpu_kind;

/* An operation. Set `size` to sizeof(tutti_gpu_op); fields that the operation does not have are
 * zero. Arguments are those of the function of the same name in tutti/tutti.h. */
typedef struct tutti_gpu_op {
    size_t size;
    tutti_gpu_kind kind;
    tutti_gpu *gpu;
    void *stream;
    const void *src;
    void *dst;
    size_t count;
    tutti_dtype type;
    tutti_redop op;
    int root;                       /* or the peer of a send or receive */
    uint32_t tag;                   /* of a send or receive */
    double scale;                   /* PREMUL_SUM: factor of this rank's input */
    const void *scale_from;         /* PREMUL_SUM: non-NULL: one element of `type`, used instead of
                                       `scale`. In device memory: read when the operation starts;
                                       in host memory: read by the call */
    uint64_t divisor;               /* AVG: as tutti_call.divisor */
    const char *algo;               /* as tutti_call.algo; copied */
    tutti_gpu_request **request;    /* non-NULL: set to a request, which the caller owns and frees
                                       with tutti_gpu_wait; not in a capture */
} tutti_gpu_op;

/* Starts ops[n], which may be of several tutti_gpu of this process and on several streams. All are
 * checked before the first one is started; on error none is. The operations of one tutti_gpu form
 * one unit: it starts when all its streams get to it, and these streams continue when it has
 * completed. The streams are all being captured, or none is; those of one tutti_gpu are in the same
 * capture. Collectives of a unit run in list order, then its sends and receives, concurrently.
 * Therefore one thread can make the calls of many ranks. The caller may free ops afterwards.
 * Source: ncclGroupStart and ncclGroupEnd. */
TUTTI_API tutti_status tutti_gpu_group(const tutti_gpu_op *ops, size_t n);

/* Returns TUTTI_PENDING, or the status of the completed operation. Does not block. */
TUTTI_API tutti_status tutti_gpu_test(tutti_gpu_request *request);
/* Blocks until the operation has completed, frees the request and returns its status. The stream
 * must get to the operation. */
TUTTI_API tutti_status tutti_gpu_wait(tutti_gpu_request *request);

/* One operation each; shapes as in tutti/tutti.h. */
TUTTI_API tutti_status tutti_gpu_allreduce(const void *src, void *dst, size_t count,
                                           tutti_dtype type, tutti_redop op, tutti_gpu *gpu,
                                           void *stream);
TUTTI_API tutti_status tutti_gpu_reduce(const void *src, void *dst, size_t count, tutti_dtype type,
                                        tutti_redop op, int root, tutti_gpu *gpu, void *stream);
TUTTI_API tutti_status tutti_gpu_reduce_scatter(const void *src, void *dst, size_t count,
                                                tutti_dtype type, tutti_redop op, tutti_gpu *gpu,
                                                void *stream);
TUTTI_API tutti_status tutti_gpu_allgather(const void *src, void *dst, size_t count,
                                           tutti_dtype type, tutti_gpu *gpu, void *stream);
TUTTI_API tutti_status tutti_gpu_broadcast(const void *src, void *dst, size_t count,
                                           tutti_dtype type, int root, tutti_gpu *gpu,
                                           void *stream);
TUTTI_API tutti_status tutti_gpu_gather(const void *src, void *dst, size_t count, tutti_dtype type,
                                        int root, tutti_gpu *gpu, void *stream);
TUTTI_API tutti_status tutti_gpu_scatter(const void *src, void *dst, size_t count, tutti_dtype type,
                                         int root, tutti_gpu *gpu, void *stream);
TUTTI_API tutti_status tutti_gpu_alltoall(const void *src, void *dst, size_t count,
                                          tutti_dtype type, tutti_gpu *gpu, void *stream);
/* Arrays as in tutti_alltoallv; they are read before the call returns. Not in place. */
TUTTI_API tutti_status tutti_gpu_alltoallv(const void *src, const size_t *send_counts,
                                           const size_t *send_displs, void *dst,
                                           const size_t *recv_counts, const size_t *recv_displs,
                                           tutti_dtype type, tutti_gpu *gpu, void *stream);
/* Shapes as in tutti/tutti.h. */
TUTTI_API tutti_status tutti_gpu_barrier(tutti_gpu *gpu, void *stream);
TUTTI_API tutti_status tutti_gpu_send(const void *buf, size_t count, tutti_dtype type, int peer,
                                      tutti_gpu *gpu, void *stream);
TUTTI_API tutti_status tutti_gpu_recv(void *buf, size_t count, tutti_dtype type, int peer,
                                      tutti_gpu *gpu, void *stream);

/* Runs job(comm, arg) in the thread of gpu, after all earlier operations, and returns its status.
 * For other calls on the communicator, such as tutti_comm_split.
 * Blocks. After a failure of gpu, job is not called, and the error is returned. */
TUTTI_API tutti_status tutti_gpu_run(tutti_gpu *gpu,
                                     tutti_status (*job)(tutti_comm *comm, void *arg), void *arg);

#ifdef __cplusplus
}
#endif
#endif
