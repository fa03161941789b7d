/* The thread that receives the pieces of other ranks and copies them to the device. */
#ifndef TT_GPU_SERVICE_H
#define TT_GPU_SERVICE_H

#include "gpu/rma.h"
#include "tutti/rma.h"

struct tt_gpu_answers;

/* A rank's process, and a number that differs between the communicators of the process. */
struct tt_gpu_member {
    uint64_t process, number;
};

struct tt_gpu_rma {
    tutti_gpu *gpu;
    tutti_comm *comm;
    tutti_window *window;
    struct tt_gpu_layout layout;
    char *mem;                      /* of the window */
    uint32_t rank;
    uint64_t *sent;                 /* [nranks] pieces; used by the worker */
    uint64_t *waited;               /* [nranks][TUTTI_GPU_SIGNALS] signals; likewise */
    uint64_t replies;               /* awaited so far; likewise */
    uint64_t *taken;                /* [nranks] pieces; used by the service thread */
    tt_cuda_stream stream;          /* likewise */
    struct tt_gpu_answers **answers;    /* [nranks]; NULL: no request yet; likewise */
    pthread_t service;
    atomic_bool stop;
    bool all_left;                  /* used by the service thread */

    struct tt_gpu_member *members;  /* [nranks] */
    uint64_t group;                 /* equal on all ranks, and unique among groups */
    size_t nlocal;                  /* ranks in this process */

    pthread_mutex_t lock;           /* protects the following fields */
    pthread_cond_t ended;           /* one of the flags below was set, or `stop` before has_begun */
    struct tutti_gpu_window *windows;
    uint32_t next_id;
    bool has_thread, has_begun;     /* the service thread exists; it uses the window */
    bool has_ended;                 /* pieces that have arrived are counted; the service thread
                                       no longer uses gpu */
    bool is_closed;                 /* gpu has ended: the service thread frees all of this */
};

/* Starts the thread, which waits for tt_gpu_service_begin. At `stop`, or when the communicator
 * fails, it sets has_ended. After is_closed is set, it discards further pieces and refuses requests
 * until all ranks have left, because other ranks may still use the communicator. Then it frees
 * r. */
tutti_status tt_gpu_service_start(struct tt_gpu_rma *r);
/* The communicator and the window exist: the thread uses them from now on. */
void tt_gpu_service_begin(struct tt_gpu_rma *r);
/* Stops a thread that has not begun, and joins it. No-op without a thread. */
void tt_gpu_service_cancel(struct tt_gpu_rma *r);
/* Frees r, whose service thread has not started or has ended. */
void tt_gpu_service_free(struct tt_gpu_rma *r);
/* Sets is_closed, if the thread has set has_ended. The last rank of the process that calls this
 * waits until the threads of all its ranks have ended. */
void tt_gpu_service_close(struct tt_gpu_rma *r);
/* Wakes the thread, which checks `stop`, and waits for signals, which check their counts. */
void tt_gpu_service_wake(struct tt_gpu_rma *r);

#endif
