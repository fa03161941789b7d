/* One-sided calls of NCCL: ncclPutSignal, ncclSignal, ncclWaitSignal.
 *
 *     puts PROCESSES PROCESS DEVICES FILE
 *
 * Each process drives DEVICES ranks from one thread; process 0 writes the id to FILE. In each
 * round, every rank puts a block into the window of every rank, and waits for theirs. It then
 * signals that it has read them, and the next round overwrites them. Prints "N blocks" and exits
 * with 0 if all are right. */
#include "nccl_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 8
#define RANKS_MAX 16
#define ROUNDS 4
#define INT32 2                 /* ncclInt32 */
#define READ 15                 /* signal: the blocks were read */

static const size_t counts[] = { 1, 1000, 200000 };

static int nranks, ndevices, first;
static ncclUniqueId id;
static ncclComm_t comm[DEVICES_MAX];
static cudaStream_t stream[DEVICES_MAX];
static int32_t *src[DEVICES_MAX], *dst[DEVICES_MAX];
static void *window[DEVICES_MAX];
static int32_t *host;
static unsigned long blocks;

static void expect(int result, const char *what)
{
    if (!result)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(result), ncclGetLastError(NULL));
    exit(1);
}

static void expect_cuda(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

static int32_t value_of(int round, int from, int to, size_t i)
{
    return (int32_t)(i * 31 + (size_t)(round * 1000003 + from * 1009 + to * 17));
}

/* The signal of the data from one rank to another. */
static int signal_of(int from, int to)
{
    return (from + 3 * to) % READ;
}

static int context_of(int from, int to)
{
    return (from + to) % 4;
}

/* ---- ranks ---- */

static void open_ranks(size_t bytes)
{
    expect(ncclGroupStart(), "ncclGroupStart");
    for (int k = 0; k < ndevices; k++) {
        expect_cuda(cudaSetDevice((first + k) % DEVICES_MAX), "cudaSetDevice");
        expect(ncclCommInitRank(&comm[k], nranks, id, first + k), "ncclCommInitRank");
    }
    expect(ncclGroupEnd(), "ncclCommInitRank");
    for (int k = 0; k < ndevices; k++) {
        expect_cuda(cudaSetDevice((first + k) % DEVICES_MAX), "cudaSetDevice");
        expect_cuda(cudaStreamCreate(&stream[k]), "cudaStreamCreate");
        expect(ncclMemAlloc((void **)&src[k], bytes), "ncclMemAlloc");
        expect(ncclMemAlloc((void **)&dst[k], bytes), "ncclMemAlloc");
    }
    expect(ncclGroupStart(), "ncclGroupStart");
    for (int k = 0; k < ndevices; k++)
        expect(ncclCommWindowRegister(comm[k], dst[k], bytes, &window[k], 1),
               "ncclCommWindowRegister");
    expect(ncclGroupEnd(), "ncclCommWindowRegister");
}

static void close_ranks(void)
{
    for (int k = 0; k < ndevices; k++) {
        expect(ncclCommWindowDeregister(comm[k], window[k]), "ncclCommWindowDeregister");
        expect(ncclCommFinalize(comm[k]), "ncclCommFinalize");
    }
    for (int k = 0; k < ndevices; k++) {
        expect(ncclCommDestroy(comm[k]), "ncclCommDestroy");
        expect(ncclMemFree(src[k]), "ncclMemFree");
        expect(ncclMemFree(dst[k]), "ncclMemFree");
        expect_cuda(cudaStreamDestroy(stream[k]), "cudaStreamDestroy");
    }
}

/* ---- a round ---- */

static void fill(int k, int round, size_t count)
{
    for (int to = 0; to < nranks; to++)
        for (size_t i = 0; i < count; i++)
            host[(size_t)to * count + i] = value_of(round, first + k, to, i);
    expect_cuda(cudaMemcpyAsync(src[k], host, (size_t)nranks * count * sizeof *host,
                                cudaMemcpyHostToDevice, stream[k]),
                "cudaMemcpyAsync");
    expect_cuda(cudaStreamSynchronize(stream[k]), "cudaStreamSynchronize");
}

static void put_all(int k, size_t count)
{
    const int from = first + k;

    for (int to = 0; to < nranks; to++)
        expect(ncclPutSignal(src[k] + (size_t)to * count, count, INT32, to, window[k],
                             (size_t)from * count * sizeof *host, signal_of(from, to),
                             context_of(from, to), 0, comm[k], stream[k]),
               "ncclPutSignal");
}

static void wait_all(int k)
{
    ncclWaitSignalDesc_t want[RANKS_MAX];

    for (int from = 0; from < nranks; from++)
        want[from] = (ncclWaitSignalDesc_t){ .opCnt = 1, .peer = from,
                                             .sigIdx = signal_of(from, first + k),
                                             .ctx = context_of(from, first + k) };
    expect(ncclWaitSignal(nranks, want, comm[k], stream[k]), "ncclWaitSignal");
}

static void compare(int k, int round, size_t count)
{
    const size_t bytes = (size_t)nranks * count * sizeof *host;

    expect_cuda(cudaMemcpyAsync(host, dst[k], bytes, cudaMemcpyDeviceToHost, stream[k]),
                "cudaMemcpyAsync");
    expect_cuda(cudaStreamSynchronize(stream[k]), "cudaStreamSynchronize");
    for (int from = 0; from < nranks; from++) {
        for (size_t i = 0; i < count; i++)
            if (host[(size_t)from * count + i] != value_of(round, from, first + k, i)) {
                fprintf(stderr, "round %d, count %zu: rank %d, element %zu of rank %d is wrong\n",
                        round, count, first + k, i, from);
                exit(1);
            }
        blocks++;
    }
}

/* Signals all ranks that this one has read its window, or waits for their signals. */
static void sync_readers(int k, int signals)
{
    for (int r = 0; r < nranks; r++) {
        ncclWaitSignalDesc_t want = { .opCnt = 1, .peer = r, .sigIdx = READ };

        if (signals)
            expect(ncclSignal(r, READ, 0, 0, comm[k], stream[k]), "ncclSignal");
        else
            expect(ncclWaitSignal(1, &want, comm[k], stream[k]), "ncclWaitSignal");
    }
}

static void run_round(int round, size_t count)
{
    int error;

    for (int k = 0; k < ndevices; k++)
        fill(k, round, count);
    expect(ncclGroupStart(), "ncclGroupStart");
    for (int k = 0; k < ndevices; k++) {
        put_all(k, count);
        wait_all(k);
    }
    expect(ncclGroupEnd(), "ncclGroupEnd");
    for (int k = 0; k < ndevices; k++)
        compare(k, round, count);
    for (int signals = 1; signals >= 0; signals--)
        for (int k = 0; k < ndevices; k++)
            sync_readers(k, signals);
    for (int k = 0; k < ndevices; k++) {
        expect_cuda(cudaStreamSynchronize(stream[k]), "cudaStreamSynchronize");
        expect(ncclCommGetAsyncError(comm[k], &error), "ncclCommGetAsyncError");
        expect(error, "asynchronous error");
    }
}

/* Passes the id from process 0 to the others, which are started when the file exists. */
static void share_id(int process, const char *path)
{
    char part[1024];
    FILE *f;

    if (process) {
        f = fopen(path, "rb");
        if (!f || fread(&id, sizeof id, 1, f) != 1) {
            perror(path);
            exit(1);
        }
        fclose(f);
        return;
    }
    expect(ncclGetUniqueId(&id), "ncclGetUniqueId");
    snprintf(part, sizeof part, "%s.part", path);
    f = fopen(part, "wb");
    if (!f || fwrite(&id, sizeof id, 1, f) != 1 || fclose(f) || rename(part, path)) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const size_t longest = counts[sizeof counts / sizeof *counts - 1];
    int process;

    if (argc != 5) {
        fprintf(stderr, "usage: puts PROCESSES PROCESS DEVICES FILE\n");
        return 2;
    }
    process = atoi(argv[2]);
    ndevices = atoi(argv[3]);
    nranks = atoi(argv[1]) * ndevices;
    if (ndevices < 1 || ndevices > DEVICES_MAX || nranks > RANKS_MAX)
        return 2;
    first = process * ndevices;
    share_id(process, argv[4]);
    host = malloc((size_t)nranks * longest * sizeof *host);
    open_ranks((size_t)nranks * longest * sizeof *host);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int round = 0; round < ROUNDS; round++)
            run_round(round, counts[i]);
    close_ranks();
    free(host);
    printf("%lu blocks\n", blocks);
    return 0;
}
