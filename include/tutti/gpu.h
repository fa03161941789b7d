/* Tutti, collectives on device memory in stream order, for CUDA.
 *
 * A tutti_gpu binds a communicator to a device. Its calls take device pointers and a stream. A call
 * enqueues an operation and returns at once. The operation starts when the stream reaches it, and
 * later work of the stream starts when the operation has completed on this rank:
 *
 *     tutti_comm_create -> tutti_gpu_create -> kernels, tutti_gpu_allreduce(..., gpu, stream, ...),
 *     kernels -> cudaStreamSynchronize -> tutti_gpu_status -> tutti_gpu_destroy
 *
 * The functions of CUDA's driver library are loaded at run time (libcuda.so.1); programs need no
 * CUDA headers. A stream is a CUstream or cudaStream_t; NULL is the default stream.
 *
 *  - Order: the operations of one tutti_gpu run in the order of their calls, even if they are on
 *    different streams. All ranks must make these calls in the same order. A stream must not wait
 *    for work that is ordered after a later operation of the same tutti_gpu.
 *  - Buffers are in device memory, managed memory, or host memory that is registered with CUDA.
 *    They must stay valid until the operation has completed. In-place calls are defined as in
 *    tutti/tutti.h; any other overlap is an error.
 *  - Communicator: a thread of the tutti_gpu uses the communicator from tutti_gpu_create to
 *    tutti_gpu_destroy. Meanwhile, the program may make only calls marked "any thread" in
 *    tutti/tutti.h. Collectives on host memory need another communicator (tutti_comm_dup).
 *  - Errors: a call with invalid arguments returns an error and starts nothing. A later error (a
 *    lost rank, an abort, a timeout, a failed copy) fails this and all later operations of the
 *    tutti_gpu. Their streams continue, and the contents of their outputs are undefined. The
 *    request (tutti_gpu_op.request) and tutti_gpu_status return the error.
 *  - CUDA graphs: a call on a stream that is being captured adds the operation to the graph. The
 *    operation runs at each launch, with the arguments of the capture; a factor in host memory
 *    (tutti_gpu_op.scale_from) is read at the capture. Operations of one capture run in the order
 *    of their calls. The program must use streams and events to order launches and all other
 *    operations of the tutti_gpu, in the same order on all ranks. All ranks must capture an
 *    operation, or none, and graphs that match at their first launch must match at all later ones.
 *    Launches of graphs from the same capture must not overlap; otherwise the tutti_gpu fails with
 *    INVALID. Destroy the graphs before the tutti_gpu: otherwise a later launch skips the
 *    operations, and tutti_gpu_graph_status returns an error.
 *  - Threads: any number of threads may use the same tutti_gpu concurrently. Exception: no other
 *    call may run during tutti_gpu_destroy.
 *  - Structs with `size`: as in tutti/tutti.h.
 *
 * docs/gpu.md describes the implementation. Sources: NCCL 2.x user guide (stream semantics, group
 * calls); "Collective Communication for 100k+ GPUs" (arXiv 2510.20171), 4.1; CUDA driver API 13,
 * stream memory operations. */
#ifndef TUTTI_GPU_H
#define TUTTI_GPU_H

#include "tutti/moe.h"
#include "tutti/rma.h"
#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque handles: a communicator bound to a device, created by tutti_gpu_create, and a request of
 * an operation, created by tutti_gpu_group. */
typedef struct tutti_gpu tutti_gpu;
typedef struct tutti_gpu_request tutti_gpu_request;
/* Device memory that other ranks put data into, created by tutti_gpu_window_create. */
typedef struct tutti_gpu_window tutti_gpu_window;

/* Options of tutti_gpu_create. Set `size` to sizeof(tutti_gpu_conf). A field that is zero takes its
 * default value. */
typedef struct tutti_gpu_conf {
    size_t size;
    int has_device;             /* 1: use `device`; 0: use the calling thread's current device */
    int device;                 /* CUDA ordinal */
    uint64_t chunk_bytes;       /* size of the pinned host buffers through which data is copied;
                                   must be the same on all ranks; 4096 to 1 GiB; 0: 4 MiB */
    int32_t chunks;             /* number of pinned host buffers, 1 to 64; 0: 4. May differ between
                                   ranks */
    int64_t timeout_ms;         /* timeout of operations, from their start; 0: the communicator's
                                   timeout; negative: none */
} tutti_gpu_conf;

/* Writes the ordinal of the calling thread's current device to *out (0 if it has none). Local.
 * UNSUPPORTED: as for tutti_gpu_create. */
TUTTI_API tutti_status tutti_gpu_current_device(int *out);

/* Allocates device memory on the calling thread's current device. Local. The caller frees *out with
 * tutti_gpu_mem_free, which may wait for work of the device. mem may be NULL. */
TUTTI_API tutti_status tutti_gpu_mem_alloc(size_t bytes, void **out);
TUTTI_API tutti_status tutti_gpu_mem_free(void *mem);

/* Binds comm to a device. comm must outlive *out, which is owned by the caller and freed with
 * tutti_gpu_destroy. conf may be NULL. Local.
 * UNSUPPORTED: there is no CUDA driver or no device, or the driver is too old; the message names
 * the missing part. INVALID: the device does not exist. */
TUTTI_API tutti_status tutti_gpu_create(tutti_gpu **out, tutti_comm *comm,
                                        const tutti_gpu_conf *conf);
/* Waits until all operations have completed, and frees the object. Operations of launched CUDA
 * graphs that have not started by then are skipped, and their streams continue. If a window was
 * created, the last tutti_gpu_destroy in a process also waits until all ranks of the communicator
 * have called tutti_gpu_destroy. gpu may be NULL. */
TUTTI_API void tutti_gpu_destroy(tutti_gpu *gpu);

/* Returns the device's ordinal, or -1 if gpu is NULL. Any thread. */
TUTTI_API int tutti_gpu_device(const tutti_gpu *gpu);

/* Returns TUTTI_OK, or the error with which gpu has failed; tutti_last_error() then returns the
 * error message. Does not block. Any thread. */
TUTTI_API tutti_status tutti_gpu_status(const tutti_gpu *gpu);

/* Returns INVALID if this process has launched a CUDA graph with operations of a destroyed
 * tutti_gpu since the last call, else TUTTI_OK. Any thread. */
TUTTI_API tutti_status tutti_gpu_graph_status(void);

/* Aborts the communicator (tutti_comm_abort). All streams that wait for operations of gpu continue.
 * Does not wait. Afterwards gpu can only be destroyed. Any thread. */
TUTTI_API tutti_status tutti_gpu_abort(tutti_gpu *gpu);

/* Waits until all operations of earlier calls have completed on this rank, and returns
 * tutti_gpu_status. Does not wait for launches of CUDA graphs: synchronize the stream of the launch
 * instead. */
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
    TUTTI_GPU_PUT_SIGNAL,       /* from src into `window` of rank `root`, then a signal */
    TUTTI_GPU_WAIT_SIGNAL,      /* for `count` signals from rank `root` */
    TUTTI_GPU_GET,              /* into dst, from `window` of rank `root` */
    TUTTI_GPU_ATOMIC,           /* on a word of `window` of rank `root`; dst: as `old` of
                                   tutti_gpu_atomic */
    TUTTI_GPU_ALLTOALLV_DYNAMIC,        /* as `dynamic` describes */
    TUTTI_GPU_KIND_COUNT
} tutti_gpu_kind;

/* An operation. Set `size` to sizeof(tutti_gpu_op), and fields that the operation does not use to
 * zero. The arguments are those of the function of the same name in tutti/tutti.h. */
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
    int root;                       /* root, or the peer of a send or receive */
    uint32_t tag;                   /* sends and receives only; 4294967294 is reserved */
    double scale;                   /* PREMUL_SUM: factor applied to this rank's input */
    const void *scale_from;         /* PREMUL_SUM: if not NULL, points to a factor of type `type`
                                       that replaces `scale`. A factor in device memory is read when
                                       the operation starts; a factor in host memory is read during
                                       the call */
    uint64_t divisor;               /* AVG: as tutti_call.divisor */
    const char *algo;               /* as tutti_call.algo; copied */
    tutti_gpu_request **request;    /* if not NULL, receives a request, which the caller owns and
                                       frees with tutti_gpu_wait. Must be NULL during a capture */
    tutti_gpu_window *window;       /* puts, gets and atomics only; NULL: a signal without data
                                       (count 0) */
    size_t offset;                  /* likewise: offset in the window of rank `root`, in bytes */
    uint32_t signal;                /* puts and waits only: index of the signal, below
                                       TUTTI_GPU_SIGNALS */
    tutti_atomic_op atomic;         /* atomics only, like the next two */
    uint64_t operand, compare;
    const tutti_dynamic *dynamic;   /* of tutti_gpu_alltoallv_dynamic; copied */
    tutti_quant quant;              /* as tutti_call.quant; the chunks of a long operation
                                       (tutti_gpu_conf.chunk_bytes) are quantized separately */
    float *error_feedback;          /* as tutti_call.error_feedback, in device memory; undefined
                                       after an error */
} tutti_gpu_op;

/* Enqueues the operations ops[n], which may use several streams and several tutti_gpu of this
 * process. Therefore one thread can make the calls of several ranks. All operations are checked
 * first; if one is invalid, none is enqueued. The operations of one tutti_gpu form a unit. A unit
 * starts when all its streams have reached the unit, and the streams continue when the unit has
 * completed. In a unit, collectives run first, in list order, then puts, gets and atomics, in list
 * order. Then sends and receives run concurrently, and last the waits for signals. Either all
 * streams or no stream must be in a capture; the streams of one tutti_gpu must be in the same
 * capture. The caller may free ops when the call returns.
 * Modelled on ncclGroupStart and ncclGroupEnd. */
TUTTI_API tutti_status tutti_gpu_group(const tutti_gpu_op *ops, size_t n);

/* Returns TUTTI_PENDING, or the status of the completed operation. Does not block. */
TUTTI_API tutti_status tutti_gpu_test(tutti_gpu_request *request);
/* Blocks until the operation has completed, frees the request and returns its status. The call can
 * return only after the stream has reached the operation, or after an error. */
TUTTI_API tutti_status tutti_gpu_wait(tutti_gpu_request *request);

/* Enqueue one operation on `stream`. Shapes as in tutti/tutti.h. */
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
/* Like tutti_alltoallv, but not in place. The arrays of counts and displacements are read during
 * the call. */
TUTTI_API tutti_status tutti_gpu_alltoallv(const void *src, const size_t *send_counts,
                                           const size_t *send_displs, void *dst,
                                           const size_t *recv_counts, const size_t *recv_displs,
                                           tutti_dtype type, tutti_gpu *gpu, void *stream);
/* Like the functions of the same names in tutti/tutti.h, in place with the block of this rank in
 * its place. The arrays of counts and displacements are read during the call. The blocks are sends
 * and receives between the ranks; reduce_scatterv is one reduction per rank with a block. */
TUTTI_API tutti_status tutti_gpu_allgatherv(const void *src, void *dst, const size_t *counts,
                                            const size_t *displs, tutti_dtype type, tutti_gpu *gpu,
                                            void *stream);
TUTTI_API tutti_status tutti_gpu_gatherv(const void *src, void *dst, const size_t *counts,
                                         const size_t *displs, tutti_dtype type, int root,
                                         tutti_gpu *gpu, void *stream);
TUTTI_API tutti_status tutti_gpu_scatterv(const void *src, void *dst, const size_t *counts,
                                          const size_t *displs, tutti_dtype type, int root,
                                          tutti_gpu *gpu, void *stream);
TUTTI_API tutti_status tutti_gpu_reduce_scatterv(const void *src, void *dst, const size_t *counts,
                                                 tutti_dtype type, tutti_redop op, tutti_gpu *gpu,
                                                 void *stream);
/* Like tutti_alltoallv_dynamic, with all lists and buffers of *what in device memory. Only *what
 * and its array recvbuffs are in host memory; they are read during the call. The lists and sendbuff
 * are read when the stream has reached the operation. `start` and `over` must be NULL. The sum of
 * index_block_lens is at most nranks * nsplits. Uses pinned memory of (nranks + 1) * max_total
 * elements and the lists, rounded up to a power of two. An invalid list fails the tutti_gpu of all
 * ranks with the same status. */
TUTTI_API tutti_status tutti_gpu_alltoallv_dynamic(const tutti_dynamic *what, tutti_dtype type,
                                                   tutti_gpu *gpu, void *stream);
/* Enqueue one operation on `stream`, as in tutti/tutti.h. */
TUTTI_API tutti_status tutti_gpu_barrier(tutti_gpu *gpu, void *stream);
TUTTI_API tutti_status tutti_gpu_send(const void *buf, size_t count, tutti_dtype type, int peer,
                                      tutti_gpu *gpu, void *stream);
TUTTI_API tutti_status tutti_gpu_recv(void *buf, size_t count, tutti_dtype type, int peer,
                                      tutti_gpu *gpu, void *stream);

/* ---- windows: puts, gets, atomics and signals ------------------------------------------------ */

#define TUTTI_GPU_SIGNALS 64u       /* signals per ordered pair of ranks, numbered from 0 */

/* Exposes mem[bytes] of gpu's device to other ranks. Collective over the communicator;
 * sizes may differ between ranks. Blocks. All ranks must create the windows of a communicator in
 * the same order. The caller owns mem, which must stay valid until the window is freed. The first
 * window creates a second communicator and a thread, which copies the data of puts to the device.
 * INVALID: mem is not memory of the device. If the call fails on a rank, it fails on all ranks, and
 * the messages of the others name this rank. Exception: only this rank detects that out is NULL.
 * After an error no window exists, and gpu can still be used. */
TUTTI_API tutti_status tutti_gpu_window_create(tutti_gpu *gpu, void *mem, size_t bytes,
                                               tutti_gpu_window **out);
/* Frees the window. Local: a later put of another rank into this window fails the tutti_gpu of all
 * ranks with INVALID. Must precede tutti_gpu_destroy. window may be NULL. */
TUTTI_API tutti_status tutti_gpu_window_free(tutti_gpu_window *window);

/* Puts src[count] into the window of rank `peer`, at `offset` bytes, and then sends a signal. The
 * stream continues when src is reusable. Puts and signals from one rank to another arrive in the
 * order of their calls. When a signal has arrived, the data of its put and of all earlier puts is
 * in device memory. The target need not make a call.
 * Modelled on ncclPutSignal of NCCL 2.29. */
TUTTI_API tutti_status tutti_gpu_put_signal(const void *src, size_t count, tutti_dtype type,
                                            int peer, tutti_gpu_window *window, size_t offset,
                                            uint32_t signal, tutti_gpu *gpu, void *stream);
/* Gets dst[count] from the window of rank `peer`, at `offset` bytes. The stream continues when the
 * data is in dst. Reads the data of all earlier puts and atomics of this rank to `peer`. The peer
 * need not make a call, but must not have called tutti_gpu_destroy: otherwise it refuses the get,
 * and this rank's tutti_gpu fails with PEER_LOST. The same holds for tutti_gpu_atomic with
 * `old`. */
TUTTI_API tutti_status tutti_gpu_get(void *dst, size_t count, tutti_dtype type, int peer,
                                     tutti_gpu_window *window, size_t offset, tutti_gpu *gpu,
                                     void *stream);
/* Applies `op` to the word at `offset` in the window of rank `peer`. type: an integer type of 4 or
 * 8 bytes; `offset` is a multiple of its size. With 4 bytes, the low halves of operand and compare
 * are used. If `old` is not NULL, it is device memory that receives the previous value, and then
 * the stream continues. Otherwise the stream does not wait for the update. Atomic with respect to
 * other calls of tutti_gpu_atomic, puts and gets, but not to kernels and copies of the peer. */
TUTTI_API tutti_status tutti_gpu_atomic(tutti_atomic_op op, uint64_t operand, uint64_t compare,
                                        void *old, tutti_dtype type, int peer,
                                        tutti_gpu_window *window, size_t offset, tutti_gpu *gpu,
                                        void *stream);
/* Sends a signal without data. A window must exist. */
TUTTI_API tutti_status tutti_gpu_signal(int peer, uint32_t signal, tutti_gpu *gpu, void *stream);
/* The stream continues when `n` more signals with the index `signal` have arrived from rank `peer`.
 * The wait consumes these n signals. A window must exist. */
TUTTI_API tutti_status tutti_gpu_wait_signal(int peer, uint32_t signal, uint32_t n, tutti_gpu *gpu,
                                             void *stream);

/* Runs job(comm, arg) in the thread of gpu, after all earlier operations, and returns its status.
 * Used for other calls on the communicator, such as tutti_comm_split. Blocks until `job` has
 * returned. If gpu has failed, returns the error of gpu without calling `job`. */
TUTTI_API tutti_status tutti_gpu_run(tutti_gpu *gpu,
                                     tutti_status (*job)(tutti_comm *comm, void *arg), void *arg);

#ifdef __cplusplus
}
#endif
#endif
