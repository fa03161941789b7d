/* Calls other than operations: versions, errors, splits, shrinks, non-blocking initialization,
 * aborts.
 *
 *     calls NAME      runs one check; prints what failed and exits with 1
 */
#include "nccl_calls.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 4

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s (%s)\n", __FILE__, __LINE__, #condition,          \
                    ncclGetLastError(NULL));                                                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { SUCCESS, CUDA, SYSTEM, INTERNAL, ARGUMENT, USAGE, REMOTE, IN_PROGRESS };

static const ncclConfig_t config = {
    .size = sizeof config, .magic = 0xcafebeef, .version = 23203, .blocking = 0
};

/* Without a driver: these calls work, and initialization reports what is missing. */
static void without_driver(void)
{
    ncclComm_t comm = (ncclComm_t)1;
    ncclUniqueId id;
    int version = 0;

    CHECK(ncclGetVersion(&version) == SUCCESS && version == 23203);
    CHECK(ncclGetUniqueId(&id) == SUCCESS);
    CHECK(!strcmp(ncclGetErrorString(SUCCESS), "no error"));
    CHECK(!strcmp(ncclGetErrorString(4711), "unknown result code"));
    CHECK(ncclCommInitRank(&comm, 1, id, 0) == CUDA);
    CHECK(strstr(ncclGetLastError(NULL), "CUDA driver"));
    CHECK(ncclCommInitAll(&comm, 1, NULL) == CUDA);
}

static void arguments(void)
{
    ncclConfig_t wrong = config;
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    int op, value = 3;
    void *mem;

    CHECK(ncclGetUniqueId(&id) == SUCCESS);
    CHECK(ncclCommInitRank(&comm, 0, id, 0) == ARGUMENT);
    CHECK(ncclCommInitRank(&comm, 2, id, 2) == ARGUMENT);
    CHECK(ncclCommInitRank(NULL, 1, id, 0) == ARGUMENT);
    wrong.magic = 1;
    CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &wrong) == ARGUMENT);
    CHECK(ncclGroupEnd() == USAGE);
    CHECK(ncclCommInitRank(&comm, 1, id, 0) == SUCCESS);
    CHECK(ncclMemAlloc(&mem, 4096) == SUCCESS);
    CHECK(ncclAllReduce(mem, mem, 1, 12, 0, comm, NULL) == ARGUMENT);
    CHECK(ncclAllReduce(mem, mem, 1, 7, 5, comm, NULL) == ARGUMENT);
    CHECK(ncclAllReduce(mem, &value, 1, 2, 0, comm, NULL) == ARGUMENT);
    CHECK(strstr(ncclGetLastError(NULL), "not device memory"));
    CHECK(ncclAllReduce(mem, mem, 1, 2, 0, NULL, NULL) == ARGUMENT);
    CHECK(ncclRedOpCreatePreMulSum(&op, &value, 2, 1, comm) == SUCCESS);
    CHECK(ncclAllReduce(mem, mem, 1, 7, op, comm, NULL) == ARGUMENT);
    CHECK(ncclAllReduce(mem, mem, 1, 2, op, comm, NULL) == SUCCESS);
    CHECK(ncclRedOpDestroy(op, comm) == SUCCESS);
    CHECK(ncclRedOpDestroy(op, comm) == ARGUMENT);
    CHECK(ncclGroupStart() == SUCCESS);     /* a group with a refused call starts nothing */
    CHECK(ncclSend(mem, 1, 2, 0, comm, NULL) == SUCCESS);
    CHECK(ncclRecv(mem, 1, 99, 0, comm, NULL) == ARGUMENT);
    CHECK(ncclGroupEnd() == ARGUMENT);
    CHECK(ncclCommGrow(comm, 2, &id, 0, &comm, NULL) == ARGUMENT);
    CHECK(ncclCommGrow(comm, 1, &id, -1, &comm, NULL) == ARGUMENT);
    CHECK(ncclCommGrow(NULL, 2, NULL, 1, &comm, NULL) == ARGUMENT);
    CHECK(strstr(ncclGetLastError(NULL), "ncclCommGrow"));
    CHECK(ncclSetEncryption() == USAGE);
    CHECK(strstr(ncclGetLastError(NULL), "ncclSetEncryption"));
    CHECK(ncclCommDestroy(comm) == SUCCESS);
    CHECK(ncclMemFree(mem) == SUCCESS);
    CHECK(ncclCommDestroy(NULL) == SUCCESS);
}

static void open_all(ncclComm_t *comms)
{
    const int devices[N] = { 3, 2, 1, 0 };
    int value;

    CHECK(ncclCommInitAll(comms, N, devices) == SUCCESS);
    for (int i = 0; i < N; i++) {
        CHECK(ncclCommCount(comms[i], &value) == SUCCESS && value == N);
        CHECK(ncclCommUserRank(comms[i], &value) == SUCCESS && value == i);
        CHECK(ncclCommCuDevice(comms[i], &value) == SUCCESS && value == devices[i]);
    }
}

/* Sums one int over the communicators; returns the result, which is the same on all. */
static int sum(const ncclComm_t *comms, int n)
{
    int *mem[N], device, got = 0, first = 0;
    const int one = 1;

    CHECK(ncclGroupStart() == SUCCESS);
    for (int i = 0; i < n; i++) {
        CHECK(ncclCommCuDevice(comms[i], &device) == SUCCESS);
        CHECK(cudaSetDevice(device) == cudaSuccess);
        CHECK(cudaMalloc((void **)&mem[i], sizeof(int)) == cudaSuccess);
        CHECK(cudaMemcpy(mem[i], &one, sizeof one, cudaMemcpyHostToDevice) == cudaSuccess);
        CHECK(ncclAllReduce(mem[i], mem[i], 1, 2, 0, comms[i], NULL) == SUCCESS);
    }
    CHECK(ncclGroupEnd() == SUCCESS);
    for (int i = 0; i < n; i++) {
        CHECK(ncclCommCuDevice(comms[i], &device) == SUCCESS);
        CHECK(cudaSetDevice(device) == cudaSuccess);
        CHECK(cudaMemcpy(&got, mem[i], sizeof got, cudaMemcpyDeviceToHost) == cudaSuccess);
        CHECK(i == 0 || got == first);
        first = got;
        CHECK(cudaFree(mem[i]) == cudaSuccess);
    }
    return first;
}

/* Ranks 0 to 2 form one part, in reverse order; rank 3 is in none. Then rank 1 leaves. */
static void splits(void)
{
    ncclComm_t comms[N], part[N], rest[2];
    int excluded = 1, value;
    void *handle;

    open_all(comms);
    CHECK(sum(comms, N) == N);
    CHECK(ncclGroupStart() == SUCCESS);
    for (int i = 0; i < N; i++)
        CHECK(ncclCommSplit(comms[i], i < 3 ? 7 : -1, -i, &part[i], NULL) == SUCCESS);
    CHECK(ncclGroupEnd() == SUCCESS);
    CHECK(part[3] == NULL);
    for (int i = 0; i < 3; i++) {
        CHECK(ncclCommCount(part[i], &value) == SUCCESS && value == 3);
        CHECK(ncclCommUserRank(part[i], &value) == SUCCESS && value == 2 - i);
    }
    CHECK(sum(part, 3) == 3);
    CHECK(ncclGroupStart() == SUCCESS);
    CHECK(ncclCommShrink(part[0], &excluded, 1, &rest[0], NULL, 0) == SUCCESS);
    CHECK(ncclCommShrink(part[2], &excluded, 1, &rest[1], NULL, 0) == SUCCESS);
    CHECK(ncclGroupEnd() == SUCCESS);
    CHECK(ncclCommShrink(part[1], &excluded, 1, &rest[1], NULL, 0) == ARGUMENT);
    CHECK(sum(rest, 2) == 2);
    CHECK(ncclCommRegister(comms[0], &value, sizeof value, &handle) == SUCCESS);
    CHECK(ncclCommDeregister(comms[0], handle) == SUCCESS);
    for (int i = 0; i < 2; i++)
        CHECK(ncclCommDestroy(rest[i]) == SUCCESS);
    for (int i = 0; i < 3; i++)
        CHECK(ncclCommDestroy(part[i]) == SUCCESS);
    for (int i = 0; i < N; i++)
        CHECK(ncclCommDestroy(comms[i]) == SUCCESS);
}

/* Non-blocking initialization: one thread initializes both ranks without a group. */
static void starts_that_do_not_block(void)
{
    ncclConfig_t mine = config;
    ncclComm_t comms[2];
    ncclUniqueId id;
    int state;

    CHECK(ncclGetUniqueId(&id) == SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK(cudaSetDevice(i) == cudaSuccess);
        CHECK(ncclCommInitRankConfig(&comms[i], 2, id, i, &mine) == IN_PROGRESS);
    }
    for (int i = 0; i < 2; i++)
        do {
            CHECK(ncclCommGetAsyncError(comms[i], &state) == SUCCESS);
            sched_yield();
        } while (state == IN_PROGRESS);
    CHECK(state == SUCCESS);
    CHECK(sum(comms, 2) == 2);
    for (int i = 0; i < 2; i++)
        CHECK(ncclCommDestroy(comms[i]) == SUCCESS);
}

/* Rank 0 waits for rank 1, which aborts: the stream of rank 0 is released, with an error. */
static void aborts(void)
{
    ncclComm_t comms[2];
    int *mem, state;

    CHECK(ncclCommInitAll(comms, 2, NULL) == SUCCESS);
    CHECK(cudaSetDevice(0) == cudaSuccess);
    CHECK(cudaMalloc((void **)&mem, sizeof *mem) == cudaSuccess);
    CHECK(ncclRecv(mem, 1, 2, 1, comms[0], NULL) == SUCCESS);
    CHECK(ncclCommAbort(comms[1]) == SUCCESS);
    CHECK(cudaStreamSynchronize(NULL) == cudaSuccess);
    do {
        CHECK(ncclCommGetAsyncError(comms[0], &state) == SUCCESS);
        sched_yield();
    } while (state == SUCCESS);
    CHECK(state == REMOTE);
    CHECK(ncclRecv(mem, 1, 2, 1, comms[0], NULL) == REMOTE);
    CHECK(ncclCommAbort(comms[0]) == SUCCESS);
    CHECK(cudaFree(mem) == cudaSuccess);
}

/* Two ranks become four; the root passes the id. Without an id, all ranks of the parent fail. */
static void grows(void)
{
    ncclComm_t comms[2], all[N] = { NULL };
    ncclUniqueId id;
    int value;

    CHECK(ncclCommInitAll(comms, 2, NULL) == SUCCESS);
    CHECK(ncclCommGetUniqueId(comms[1], &id) == SUCCESS);
    CHECK(ncclGroupStart() == SUCCESS);
    for (int i = 0; i < N; i++) {
        CHECK(cudaSetDevice(i) == cudaSuccess);
        if (i < 2)
            CHECK(ncclCommGrow(comms[i], N, i ? &id : NULL, -1, &all[i], NULL) == SUCCESS);
        else
            CHECK(ncclCommGrow(NULL, N, &id, i, &all[i], NULL) == SUCCESS);
    }
    CHECK(ncclGroupEnd() == SUCCESS);
    for (int i = 0; i < N; i++)
        CHECK(ncclCommUserRank(all[i], &value) == SUCCESS && value == i);
    CHECK(sum(all, N) == N);
    CHECK(sum(comms, 2) == 2);
    for (int i = 0; i < N; i++)
        CHECK(ncclCommDestroy(all[i]) == SUCCESS);
    CHECK(ncclGroupStart() == SUCCESS);
    for (int i = 0; i < 2; i++)
        CHECK(ncclCommGrow(comms[i], N, NULL, -1, &all[i], NULL) == SUCCESS);
    CHECK(ncclGroupEnd() == USAGE);
    for (int i = 0; i < 2; i++) {
        CHECK(strstr(ncclGetLastError(all[i]), "0 ranks of the communicator passed an id"));
        CHECK(ncclCommDestroy(all[i]) == SUCCESS);
        CHECK(ncclCommDestroy(comms[i]) == SUCCESS);
    }
}

/* The stream of rank 0 waits for rank 1. Both revoke; then only management is allowed. */
static void revokes(void)
{
    ncclComm_t comms[2], part[2];
    int *mem, state;

    CHECK(ncclCommInitAll(comms, 2, NULL) == SUCCESS);
    CHECK(cudaSetDevice(0) == cudaSuccess);
    CHECK(cudaMalloc((void **)&mem, sizeof *mem) == cudaSuccess);
    CHECK(ncclRecv(mem, 1, 2, 1, comms[0], NULL) == SUCCESS);
    CHECK(ncclCommRevoke(comms[0], 1) == ARGUMENT);
    for (int i = 0; i < 2; i++)
        CHECK(ncclCommRevoke(comms[i], 0) == SUCCESS);
    CHECK(cudaStreamSynchronize(NULL) == cudaSuccess);
    CHECK(ncclCommGetAsyncError(comms[0], &state) == SUCCESS && state == SUCCESS);
    CHECK(ncclRecv(mem, 1, 2, 1, comms[0], NULL) == USAGE);
    CHECK(strstr(ncclGetLastError(NULL), "revoked"));
    CHECK(ncclCommFinalize(comms[0]) == USAGE);
    CHECK(ncclGroupStart() == SUCCESS);
    for (int i = 0; i < 2; i++)
        CHECK(ncclCommSplit(comms[i], 0, i, &part[i], NULL) == SUCCESS);
    CHECK(ncclGroupEnd() == SUCCESS);
    CHECK(sum(part, 2) == 2);
    for (int i = 0; i < 2; i++) {
        CHECK(ncclCommDestroy(comms[i]) == SUCCESS);
        CHECK(ncclCommDestroy(part[i]) == SUCCESS);
    }
    CHECK(cudaFree(mem) == cudaSuccess);
}

static void suspends(void)
{
    ncclComm_t comms[2];
    uint64_t value;

    CHECK(ncclCommInitAll(comms, 2, NULL) == SUCCESS);
    CHECK(ncclCommResume(comms[0]) == USAGE);
    CHECK(ncclCommSuspend(comms[0], 0) == ARGUMENT);
    CHECK(ncclCommMemStats(comms[0], 4, &value) == ARGUMENT);
    CHECK(ncclCommMemStats(comms[0], 1, &value) == SUCCESS && value == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(ncclCommSuspend(comms[i], 1) == SUCCESS);
        CHECK(ncclCommMemStats(comms[i], 1, &value) == SUCCESS && value == 1);
        CHECK(ncclCommMemStats(comms[i], 3, &value) == SUCCESS && value == 0);
    }
    CHECK(ncclCommSuspend(comms[0], 1) == USAGE);
    CHECK(ncclSend(NULL, 0, 2, 1, comms[0], NULL) == USAGE);
    CHECK(strstr(ncclGetLastError(NULL), "suspended"));
    for (int i = 0; i < 2; i++)
        CHECK(ncclCommResume(comms[i]) == SUCCESS);
    CHECK(sum(comms, 2) == 2);
    for (int i = 0; i < 2; i++)
        CHECK(ncclCommDestroy(comms[i]) == SUCCESS);
}

/* Arguments of puts and signals; the communicator stays usable. */
static void refuse_bad_puts(ncclComm_t comm, void *mem, void *window)
{
    ncclWaitSignalDesc_t none = { 0, 0, 0, 0 }, far = { 1, 5, 0, 0 }, high = { 1, 0, 16, 0 };
    int error;

    CHECK(ncclPutSignal(mem, 1, 2, 0, NULL, 0, 0, 0, 0, comm, NULL) == ARGUMENT);
    CHECK(strstr(ncclGetLastError(NULL), "ncclPutSignal: the window is NULL"));
    CHECK(ncclPutSignal(mem, 1, 99, 0, window, 0, 0, 0, 0, comm, NULL) == ARGUMENT);
    CHECK(ncclPutSignal(mem, 1, 2, 2, window, 0, 0, 0, 0, comm, NULL) == ARGUMENT);
    CHECK(ncclPutSignal(mem, 1, 2, 0, window, 0, 16, 0, 0, comm, NULL) == ARGUMENT);
    CHECK(strstr(ncclGetLastError(NULL), "signal is 16"));
    CHECK(ncclPutSignal(mem, 1, 2, 0, window, 0, 0, 4, 0, comm, NULL) == ARGUMENT);
    CHECK(ncclPutSignal(mem, 1, 2, 0, window, 0, 0, 0, 1, comm, NULL) == ARGUMENT);
    CHECK(strstr(ncclGetLastError(NULL), "flags"));
    CHECK(ncclPutSignal(mem, 1, 2, 0, window, 8190, 0, 0, 0, comm, NULL) == ARGUMENT);
    CHECK(strstr(ncclGetLastError(NULL), "outside the window"));
    CHECK(ncclSignal(0, -1, 0, 0, comm, NULL) == ARGUMENT);
    CHECK(ncclWaitSignal(-1, &none, comm, NULL) == ARGUMENT);
    CHECK(ncclWaitSignal(1, NULL, comm, NULL) == ARGUMENT);
    CHECK(ncclWaitSignal(1, &none, comm, NULL) == ARGUMENT);
    CHECK(ncclWaitSignal(1, &far, comm, NULL) == ARGUMENT);
    CHECK(ncclWaitSignal(1, &high, comm, NULL) == ARGUMENT);
    CHECK(ncclWaitSignal(0, NULL, comm, NULL) == SUCCESS);
    CHECK(ncclGroupStart() == SUCCESS);     /* a group with a refused call starts nothing */
    CHECK(ncclSignal(1, 0, 0, 0, comm, NULL) == SUCCESS);
    CHECK(ncclSignal(1, 16, 0, 0, comm, NULL) == ARGUMENT);
    CHECK(ncclGroupEnd() == ARGUMENT);
    CHECK(ncclCommGetAsyncError(comm, &error) == SUCCESS && error == SUCCESS);
}

/* Registers memory of both ranks in a group; that of rank 0 is refused. */
static void refuse_window(ncclComm_t *comms, void *bad, size_t bytes, int flags, char *good,
                          int at_once, const char *why)
{
    void *window[2] = { 0 };

    CHECK(ncclGroupStart() == SUCCESS);
    CHECK(ncclCommWindowRegister(comms[0], bad, bytes, &window[0], flags) ==
          (at_once ? ARGUMENT : SUCCESS));
    CHECK(ncclCommWindowRegister(comms[1], good, 8192, &window[1], 0) == SUCCESS);
    CHECK(ncclGroupEnd() == ARGUMENT);
    CHECK(strstr(ncclGetLastError(NULL), why));
    CHECK(at_once == !window[0]);
}

/* The registration fails on all ranks if it fails on one, so the group call returns. */
static void refuse_bad_windows(ncclComm_t *comms, char **mem)
{
    static char room[8192];
    void *host = (void *)(((uintptr_t)room + 4095) & ~(uintptr_t)4095);

    refuse_window(comms, mem[0] + 1, 4096, 0, mem[1], 1, "aligned");
    refuse_window(comms, mem[0], 8192, 64, mem[1], 1, "flags");
    refuse_window(comms, mem[0], 0, 0, mem[1], 1, "size is 0");
    refuse_window(comms, host, 1, 0, mem[1], 0, "not device memory");
}

/* Windows refer to their memory. Their registration is collective: one thread needs a group. */
static void windows(void)
{
    ncclComm_t comms[2];
    char *mem[2];
    void *window[2] = { 0 }, *buf = NULL;

    CHECK(ncclCommInitAll(comms, 2, NULL) == SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK(cudaSetDevice(i) == cudaSuccess);
        CHECK(ncclMemAlloc((void **)&mem[i], 8192) == SUCCESS);
    }
    CHECK(ncclSignal(1, 0, 0, 0, comms[0], NULL) == ARGUMENT);
    CHECK(strstr(ncclGetLastError(NULL), "has no window"));
    refuse_bad_windows(comms, mem);
    CHECK(ncclGroupStart() == SUCCESS);
    for (int i = 0; i < 2; i++)
        CHECK(ncclCommWindowRegister(comms[i], mem[i], 8192, &window[i], 1) == SUCCESS);
    CHECK(ncclGroupEnd() == SUCCESS);
    CHECK(ncclWinGetUserPtr(comms[0], window[0], &buf) == SUCCESS && buf == mem[0]);
    CHECK(ncclWinGetUserPtr(comms[1], window[0], &buf) == ARGUMENT);
    CHECK(cudaSetDevice(0) == cudaSuccess);
    refuse_bad_puts(comms[0], mem[0], window[0]);
    CHECK(ncclPutSignal(mem[0], 1, 2, 0, window[1], 0, 0, 0, 0, comms[0], NULL) == ARGUMENT);
    CHECK(ncclCommWindowDeregister(comms[1], window[0]) == ARGUMENT);
    CHECK(ncclCommWindowDeregister(comms[0], window[0]) == SUCCESS);
    CHECK(ncclCommWindowDeregister(comms[0], NULL) == ARGUMENT);
    for (int i = 0; i < 2; i++)         /* frees the other window */
        CHECK(ncclCommDestroy(comms[i]) == SUCCESS);
    for (int i = 0; i < 2; i++)
        CHECK(ncclMemFree(mem[i]) == SUCCESS);
}

/* Several splits of the same communicators in one group are matched in the order of the calls. */
static void several_splits_in_a_group(void)
{
    ncclComm_t comms[2], part[2][3];
    int value;

    CHECK(ncclCommInitAll(comms, 2, NULL) == SUCCESS);
    CHECK(ncclGroupStart() == SUCCESS);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++)
            CHECK(ncclCommSplit(comms[i], 0, k % 2 ? -i : i, &part[i][k], NULL) == SUCCESS);
    CHECK(ncclGroupEnd() == SUCCESS);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++) {
            CHECK(ncclCommUserRank(part[i][k], &value) == SUCCESS);
            CHECK(value == (k % 2 ? 1 - i : i));
            CHECK(ncclCommDestroy(part[i][k]) == SUCCESS);
        }
    for (int i = 0; i < 2; i++)
        CHECK(ncclCommDestroy(comms[i]) == SUCCESS);
}

/* A simulated group sends nothing, also if it is inside of another one; groups work afterwards. */
static void simulates(void)
{
    ncclComm_t comms[2];
    void *mem[2];

    CHECK(ncclGroupSimulateEnd(NULL) == USAGE);
    CHECK(strstr(ncclGetLastError(NULL), "no ncclGroupStart"));
    CHECK(ncclCommInitAll(comms, 2, NULL) == SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK(cudaSetDevice(i) == cudaSuccess);
        CHECK(ncclMemAlloc(&mem[i], 4096) == SUCCESS);
    }
    for (int nested = 0; nested < 2; nested++) {
        CHECK(ncclGroupStart() == SUCCESS);
        if (nested)
            CHECK(ncclGroupStart() == SUCCESS);
        CHECK(ncclSend(mem[0], 1, 2, 1, comms[0], NULL) == SUCCESS);    /* nobody receives it */
        CHECK(ncclGroupSimulateEnd(NULL) == USAGE);
        CHECK(strstr(ncclGetLastError(NULL), "ncclGroupSimulateEnd is not supported"));
        if (nested)
            CHECK(ncclGroupEnd() == USAGE);
        CHECK(ncclGroupEnd() == USAGE);         /* the group has ended */
        CHECK(sum(comms, 2) == 2);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(ncclMemFree(mem[i]) == SUCCESS);
        CHECK(ncclCommDestroy(comms[i]) == SUCCESS);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } checks[] = {
        { "without_driver", without_driver },
        { "arguments", arguments },
        { "splits", splits },
        { "starts_that_do_not_block", starts_that_do_not_block },
        { "aborts", aborts },
        { "grows", grows },
        { "revokes", revokes },
        { "suspends", suspends },
        { "windows", windows },
        { "several_splits_in_a_group", several_splits_in_a_group },
        { "simulates", simulates },
    };

    for (size_t i = 0; argc == 2 && i < sizeof checks / sizeof *checks; i++)
        if (!strcmp(argv[1], checks[i].name)) {
            checks[i].run();
            return 0;
        }
    fprintf(stderr, "usage: calls CHECK\n");
    return 2;
}
