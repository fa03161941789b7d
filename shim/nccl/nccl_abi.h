/* The part of NCCL's ABI that this library implements: values, layouts and prototypes of NCCL 2.32.
 * Programs are compiled with NCCL's own header; nothing of its text is used here. */
#ifndef TUTTI_NCCL_ABI_H
#define TUTTI_NCCL_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_VERSION 23203
#define NCCL_MAGIC 0xcafebeefu
#define NCCL_UNDEFINED INT32_MIN
#define NCCL_NO_COLOR (-1)
#define NCCL_WIN_ALIGNMENT 4096u
#define NCCL_WIN_FLAGS 7        /* symmetric, strict ordering, for puts only */
#define NCCL_CONTEXTS 4         /* of ncclPutSignal and the like */
#define NCCL_SIGNALS 16         /* of a context */
#define NCCL_SUSPEND_MEM 1
#define NCCL_STAT_SUSPENDED 1   /* of ncclCommMemStats; all other statistics are in bytes */
#define NCCL_STAT_TOTAL 3
#define NCCL_OPS 5              /* built-in operations; created operations have higher values */

typedef struct ncclComm *ncclComm_t;
typedef void *cudaStream_t;
typedef struct {
    char bytes[128];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError,
    ncclSystemError,
    ncclInternalError,
    ncclInvalidArgument,
    ncclInvalidUsage,
    ncclRemoteError,
    ncclInProgress,
    ncclTimeout,
    ncclNumResults
} ncclResult_t;

/* The start of the configuration. New releases append fields; `size` is set by the program. */
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking;
    int cga_cluster_size, ctas_min, ctas_max;
    const char *net_name;
    int split_share, traffic_class;
    const char *comm_name;
} ncclConfig_t;

/* Descriptor for ncclWaitSignal: op_count signals of a peer. */
typedef struct {
    int op_count, peer, signal, context;
} ncclWaitSignalDesc_t;

/* Output of ncclCommQueryProperties; `size` is set by the program. The types of transports and the
 * support of multicast and counted transfers are those of the device API. */
typedef struct {
    size_t size;
    unsigned magic, version;
    int rank, nranks, cuda_device, nvml_device;
    bool device_api, multimem;
    int gin_type, lsa_teams;
    bool host_rma;
    int railed_gin_type;
    uint64_t hash;
    int gin_stride, gin_connection;
    bool gin[64];
    size_t device_comm_bytes;
    bool cft, cft_multicast, cft_counted;
} ncclCommProperties_t;

/* A team: nranks ranks, `stride` apart; `rank` is the caller's rank in the team. */
typedef struct {
    int nranks, rank, stride;
} ncclTeam_t;

typedef int ncclDataType_t;     /* enumerations of the ABI */
typedef int ncclRedOp_t;
typedef int ncclScalarResidence_t;      /* 0: device memory, 1: host memory */

/* Declares pncclX, and ncclX as its weak alias: tools may replace ncclX and call pncclX. */
#define NCCL_API(type, name, ...)                                                                  \
    __attribute__((visibility("default"))) type p##name(__VA_ARGS__);                              \
    __attribute__((visibility("default"), weak, alias("p" #name))) type name(__VA_ARGS__);         \
    type p##name(__VA_ARGS__)

#endif
