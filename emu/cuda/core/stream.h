/* Streams. Each has a worker thread, which starts with the first work and performs it in order.
 * Work of different streams overlaps. The legacy default stream of a device waits for all blocking
 * streams of the device, and they wait for it. */
#ifndef TT_EMU_STREAM_H
#define TT_EMU_STREAM_H

#include "graph.h"
#include "work.h"

#include <pthread.h>

struct tt_emu_capture;

struct CUstream_st {
    int       device;
    CUcontext context;
    unsigned  flags;            /* CU_STREAM_NON_BLOCKING or 0 */
    int       priority;
    uint64_t  id;
    bool      is_default;       /* the program cannot destroy it */

    pthread_mutex_t lock;       /* the fields below */
    pthread_cond_t  arrived;
    struct tt_emu_op *head, **tail;
    bool      busy, started, stopping;
    atomic_uint changes;        /* of `head` and `stopping`; changed with the lock held */
    pthread_t thread;
    struct tt_emu_mark *last;   /* completes with all work up to now, if `last_valid` */
    bool      last_valid;

    struct tt_emu_capture *capture; /* capture of this stream, or NULL; under tt_emu_graph_lock */
    struct tt_emu_nodes captured;   /* dependencies of the next captured node; likewise */
};

#define TT_EMU_PRIORITY_LOWEST 0
#define TT_EMU_PRIORITY_HIGHEST (-5)

CUresult tt_emu_stream_create(CUcontext context, unsigned flags, int priority, CUstream *out);

/* Returns at once; the stream ends when its work is done. */
CUresult tt_emu_stream_destroy(CUstream stream);

/* The stream of a handle: NULL and CU_STREAM_LEGACY (the stream of the current device),
 * CU_STREAM_PER_THREAD, or a live stream; otherwise CUDA_ERROR_INVALID_HANDLE. */
CUresult tt_emu_stream_of(CUstream handle, CUstream *out);

/* Sets whether NULL means the stream of the calling thread in tt_emu_stream_of, for this thread;
 * returns the previous value. */
bool tt_emu_stream_null_per_thread(bool on);

/* Adds work, which the stream then owns, also on error. Waits for other streams as the rules of
 * default streams demand. If the stream is being captured, the work becomes a node of the graph. */
CUresult tt_emu_stream_push(CUstream stream, struct tt_emu_work *work);

/* Makes the stream ready for work. CUDA_ERROR_OUT_OF_MEMORY: there is no memory for its thread. */
CUresult tt_emu_stream_prepare(CUstream stream);

/* As tt_emu_stream_push, without rules of default streams and without capture. Never fails:
 * a stream that is not prepared ends the process if there is no memory for its thread. */
void tt_emu_stream_push_now(CUstream stream, const struct tt_emu_work *work);

/* The same for work[n], in order. */
void tt_emu_stream_push_list(CUstream stream, const struct tt_emu_work *work, size_t n);

/* A mark that is done when all work pushed up to now is done; one reference for the caller. NULL if
 * the stream is idle. */
struct tt_emu_mark *tt_emu_stream_tail(CUstream stream);

/* As tt_emu_stream_tail, but never NULL. */
struct tt_emu_mark *tt_emu_stream_mark(CUstream stream);

/* Makes the stream wait as the rules of default streams demand before new work.
 * CUDA_ERROR_OUT_OF_MEMORY: it has to wait, and there is no memory for its thread; never for a
 * stream that is prepared. */
CUresult tt_emu_stream_join_default(CUstream stream);

/* Makes the stream wait for a mark. The caller keeps its reference. */
void tt_emu_stream_wait(CUstream stream, struct tt_emu_mark *mark);

/* Waits for the stream, and for other streams according to the rules of default streams. Returns
 * the sticky error of its device, or that of tt_emu_stream_join_default. Fails while the stream is
 * being captured. */
CUresult tt_emu_stream_synchronize(CUstream stream);

/* CUDA_SUCCESS or CUDA_ERROR_NOT_READY, or the errors of tt_emu_stream_synchronize. */
CUresult tt_emu_stream_query(CUstream stream);

/* Waits for all work of all streams of a device. */
CUresult tt_emu_device_synchronize(int device);

/* The default streams. That of a thread is created at first use and ends with the thread. */
CUstream tt_emu_stream_legacy(int device);
CUstream tt_emu_stream_per_thread(int device);

/* Whether the calling thread performs work of a stream: it must not call CUDA (host functions). */
bool tt_emu_stream_in_worker(void);

#endif
