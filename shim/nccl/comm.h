/* Communicators of NCCL: each is a communicator of Tutti, bound to a device. */
#ifndef TUTTI_NCCL_COMM_H
#define TUTTI_NCCL_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "nccl_abi.h"
#include "tutti/gpu.h"

#define NCCL_COMM_MAGIC 0x74757474u
#define NCCL_WHY_BYTES 1024

/* An operation created by ncclRedOpCreatePreMulSum. */
struct nccl_factor {
    bool used, on_device;
    tutti_dtype type;
    const void *device;
    unsigned char value[8];     /* on the host */
};

struct ncclComm {
    uint32_t magic;
    tutti_comm *base;                   /* for splits and the like: survives a revocation */
    tutti_comm *comm;                   /* its duplicate, for operations */
    tutti_gpu *gpu;
    int rank, nranks, device;
    bool blocking;
    bool none;                          /* this rank is in no part of a split; freed after the
                                           start */
    _Atomic ncclResult_t state;         /* ncclInProgress, then the result of the start */
    atomic_bool revoked, suspended;
    pthread_mutex_t lock;               /* protects the next fields */
    pthread_cond_t turn_changed;
    bool turn_lost;                     /* a derived one was never started: no more can be */
    unsigned derived, turn;             /* derived communicators: their number, and the index of the
                                           one that may use `base` */
    pthread_t thread;                   /* the thread that starts it */
    bool has_thread;                    /* not joined yet */
    struct ncclWindow *windows;         /* protected by lock */
    struct nccl_factor *factors;
    int nfactors;
    char why[NCCL_WHY_BYTES];           /* reason of a failed start; written before state */
};

/* Start of a communicator: from an id, or from a parent by a split, a shrink or a grow. Owned by
 * the thread that runs it. */
struct nccl_start {
    struct ncclComm *comm;
    tutti_id id;
    struct ncclComm *parent;    /* NULL: from the id */
    int color, key;
    unsigned number;            /* index among those derived from the parent, in the same order on
                                   all ranks */
    int *members;               /* of a shrink; owned; NULL: a split or a grow */
    int nmembers;
    int nranks;                 /* of a grow */
    bool grows, has_id;         /* a grow; whether this rank is its root */
};

/* Allocates a communicator in the state ncclInProgress. */
struct ncclComm *nccl_comm_new(int nranks, int rank, int device, const ncclConfig_t *config);
/* Frees a communicator; aborts its operations in progress if `abort` is set. */
void nccl_comm_free(struct ncclComm *c, bool abort);
/* Returns ncclInvalidArgument unless c is a communicator. */
ncclResult_t nccl_comm_check(const struct ncclComm *c, const char *call);
/* The same, and waits until c is ready. */
ncclResult_t nccl_comm_ready(struct ncclComm *c, const char *call);
/* The same, and returns ncclInvalidUsage if c was revoked or is suspended. */
ncclResult_t nccl_comm_usable(struct ncclComm *c, const char *call);
/* Returns an error unless config is NULL or valid. */
ncclResult_t nccl_config_check(const ncclConfig_t *config, const char *call);

/* Frees a start that does not take place. */
void nccl_start_drop(struct nccl_start *s);
/* Starts a communicator in this thread, or in one of its own, which nccl_comm_ready joins. The
 * callee owns s. */
void nccl_start_run(struct nccl_start *s);
ncclResult_t nccl_start_thread(struct nccl_start *s);
/* Starts a communicator at once, or at the end of the group; waits for it if it is blocking. */
ncclResult_t nccl_start(struct nccl_start *s);

#endif
