/* The calls of NCCL that the programs use. They link with libnccl.so.2, as programs that are
 * compiled with NCCL's header do. */
#ifndef TESTS_NCCL_CALLS_H
#define TESTS_NCCL_CALLS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking;
    int rest[25];
} ncclConfig_t;
_Static_assert(sizeof(ncclConfig_t) == 120, "size in NCCL 2.32");

int ncclGetVersion(int *version);
int ncclGetUniqueId(ncclUniqueId *id);
const char *ncclGetErrorString(int result);
const char *ncclGetLastError(ncclComm_t comm);
int ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank);
int ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                           ncclConfig_t *config);
int ncclCommInitAll(ncclComm_t *comms, int n, const int *devices);
int ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *config);
int ncclCommShrink(ncclComm_t comm, int *excluded, int n, ncclComm_t *out, ncclConfig_t *config,
                   int flags);
int ncclCommFinalize(ncclComm_t comm);
int ncclCommDestroy(ncclComm_t comm);
int ncclCommAbort(ncclComm_t comm);
int ncclCommGetAsyncError(ncclComm_t comm, int *error);
int ncclCommCount(ncclComm_t comm, int *count);
int ncclCommUserRank(ncclComm_t comm, int *rank);
int ncclCommCuDevice(ncclComm_t comm, int *device);
int ncclCommRegister(ncclComm_t comm, void *buf, size_t bytes, void **handle);
int ncclCommDeregister(ncclComm_t comm, void *handle);
int ncclMemAlloc(void **mem, size_t bytes);
int ncclMemFree(void *mem);
int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, ncclComm_t comm);
int ncclRedOpDestroy(int op, ncclComm_t comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclGroupSimulateEnd(void *info);
int ncclAllReduce(const void *src, void *dst, size_t count, int type, int op, ncclComm_t comm,
                  cudaStream_t stream);
int ncclReduce(const void *src, void *dst, size_t count, int type, int op, int root,
               ncclComm_t comm, cudaStream_t stream);
int ncclReduceScatter(const void *src, void *dst, size_t count, int type, int op, ncclComm_t comm,
                      cudaStream_t stream);
int ncclBroadcast(const void *src, void *dst, size_t count, int type, int root, ncclComm_t comm,
                  cudaStream_t stream);
int ncclAllGather(const void *src, void *dst, size_t count, int type, ncclComm_t comm,
                  cudaStream_t stream);
int ncclGather(const void *src, void *dst, size_t count, int type, int root, ncclComm_t comm,
               cudaStream_t stream);
int ncclScatter(const void *src, void *dst, size_t count, int type, int root, ncclComm_t comm,
                cudaStream_t stream);
int ncclAlltoAll(const void *src, void *dst, size_t count, int type, ncclComm_t comm,
                 cudaStream_t stream);
int ncclSend(const void *src, size_t count, int type, int peer, ncclComm_t comm,
             cudaStream_t stream);
int ncclRecv(void *dst, size_t count, int type, int peer, ncclComm_t comm, cudaStream_t stream);
int ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id);
int ncclCommRevoke(ncclComm_t comm, int flags);
int ncclCommSuspend(ncclComm_t comm, int flags);
int ncclCommResume(ncclComm_t comm);
int ncclCommMemStats(ncclComm_t comm, int stat, uint64_t *value);
int ncclCommWindowRegister(ncclComm_t comm, void *buf, size_t bytes, void **window, int flags);
int ncclCommWindowDeregister(ncclComm_t comm, void *window);
int ncclWinGetUserPtr(ncclComm_t comm, void *window, void **buf);
int ncclPutSignal(const void *src, size_t count, int type, int peer, void *window, size_t offset,
                  int signal, int context, unsigned flags, ncclComm_t comm, cudaStream_t stream);
typedef struct {
    int opCnt, peer, sigIdx, ctx;
} ncclWaitSignalDesc_t;
int ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t comm,
               cudaStream_t stream);
int ncclWaitSignal(int n, ncclWaitSignalDesc_t *signals, ncclComm_t comm, cudaStream_t stream);
int ncclSetEncryption(void);
int ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *out,
                 ncclConfig_t *config);

#endif
