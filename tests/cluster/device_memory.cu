/* GPU memory as windows and as sources of puts, in a job of two ranks: tutti run -n 2 --wires ofi
 * -- device_memory (test_device_memory.sh). With the argument "managed", it is memory accessible to
 * both the GPU and processors, which any libfabric provider supports. Ranks share the GPU if there
 * is only one. No kernel runs: CUDA's copies read and write the GPU's bytes. Exit status 77: there
 * is no GPU, or no transport of the job supports its memory. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda_check.h"
#include "tutti/rma.h"

#define RANKS 2
#define MIB ((size_t)1 << 20)
#define LONGEST (16 * MIB)
#define SIDE_BYTES (LONGEST + 2 * MIB)  /* of a window, and of the sources of puts; both consist
                                           of pieces of 2 MiB */
#define BURST 24u
#define BURST_BYTES 70001u
#define TIMED 8u
#define ALLOCATIONS 8                   /* at most, until the same address is returned */
#define WAIT_MS 60000

#define CHECK_CUDA(call) \
    do { \
        const cudaError_t error = (call); \
        if (error != cudaSuccess) { \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error)); \
            exit(1); \
        } \
    } while (0)

#define CHECK_SAYS(call, status, says) \
    do { \
        CHECK((call) == (status)); \
        CHECK(strstr(tutti_last_error(), (says))); \
    } while (0)

/* Sizes around the limits of the transport's messages and segments. */
static const size_t sizes[] = { 8,     100,    1968,    1969,        4097,        32768,
                                32769, 300001, MIB - 1, MIB + 12345, 5 * MIB + 7, LONGEST };

enum direction { GPU_TO_GPU, GPU_TO_HOST, HOST_TO_GPU, DIRECTIONS };

/* State of a rank. */
struct here {
    tutti_comm *comm;
    tutti_window *gpu_window, *host_window, *signals;
    uint8_t *gpu, *gpu_source;          /* [SIDE_BYTES] each, in GPU memory */
    uint8_t *host, *host_source;
    uint8_t *staged, *expected;         /* [SIDE_BYTES], for this program's own copies */
    uint64_t puts;
    int rank, other, device;
    bool managed;
};

/* ---- bytes ---- */

/* The finalizer of SplitMix64. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* Fills with bytes that are unique for this put of this rank, and never 0. */
static void fill(uint8_t *mem, size_t bytes, int rank, uint64_t put)
{
    const uint64_t salt = mix(put * RANKS + (uint64_t)rank + 1);

    for (size_t at = 0; at < bytes; at += 8) {
        const uint64_t word = mix(salt + at) | 0x0101010101010101ull;

        memcpy(mem + at, &word, bytes - at < 8 ? bytes - at : 8);
    }
}

/* Copies to or from GPU or host memory; complete on return. */
static void copy(void *to, const void *from, size_t bytes)
{
    CHECK_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
    CHECK_CUDA(cudaDeviceSynchronize());
}

static void wipe(const struct here *h, uint8_t *mem, size_t bytes)
{
    if (mem == h->host) {
        memset(mem, 0, bytes);
        return;
    }
    CHECK_CUDA(cudaMemset(mem, 0, bytes));
    CHECK_CUDA(cudaDeviceSynchronize());
}

/* Checks that mem[at .. at + bytes) has the other rank's put, and that the bytes around it are
 * 0. */
static void check(struct here *h, const uint8_t *mem, size_t at, size_t bytes, uint64_t put, const char *what)
{
    copy(h->staged, mem + at - 1, bytes + 2);
    fill(h->expected, bytes, h->other, put);
    for (size_t i = 0; i < bytes; i++) {
        if (h->staged[i + 1] == h->expected[i])
            continue;
        fprintf(stderr, "rank %d: %s of %zu bytes to %zu: byte %zu is %u, not %u\n", h->rank, what,
                bytes, at, i, h->staged[i + 1], h->expected[i]);
        exit(1);
    }
    CHECK(h->staged[0] == 0 && h->staged[bytes + 1] == 0);
}

/* ---- the memory ---- */

static void *driver(const char *symbol)
{
    void *const library = dlopen("libcuda.so.1", RTLD_NOW);
    void *const found = library ? dlsym(library, symbol) : NULL;

    CHECK(found);
    return found;
}

/* Returns its dma-buf; -1: the GPU or its driver does not support it. */
static int export_dmabuf(const struct here *h, size_t bytes)
{
    CUresult (*get)(CUdevice *, int) = (CUresult(*)(CUdevice *, int))driver("cuDeviceGet");
    CUresult (*attribute)(int *, CUdevice_attribute, CUdevice) =
        (CUresult(*)(int *, CUdevice_attribute, CUdevice))driver("cuDeviceGetAttribute");
    CUresult (*range)(void *, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long) =
        (CUresult(*)(void *, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long))driver(
            "cuMemGetHandleForAddressRange");
    CUdevice device;
    int supported = 0, fd = -1;
    CUresult error;

    CHECK(get(&device, h->device) == CUDA_SUCCESS);
    CHECK(attribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device) == CUDA_SUCCESS);
    if (!supported) {
        printf("rank %d: this GPU and its driver give no dma-buf\n", h->rank);
        return -1;
    }
    error = range(&fd, (CUdeviceptr)h->gpu, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    CHECK(error == CUDA_SUCCESS && fd >= 0);
    printf("rank %d: %zu bytes of the GPU's memory are a dma-buf\n", h->rank, bytes);
    return fd;
}

static void allocate(struct here *h)
{
    void *mem = NULL;

    if (h->managed)
        CHECK_CUDA(cudaMallocManaged(&mem, 2 * SIDE_BYTES, cudaMemAttachGlobal));
    else
        CHECK_CUDA(cudaMalloc(&mem, 2 * SIDE_BYTES));
    CHECK((uintptr_t)mem % (2 * MIB) == 0 || h->managed);
    h->gpu = (uint8_t *)mem;
    h->gpu_source = h->gpu + SIDE_BYTES;
    wipe(h, h->gpu, 2 * SIDE_BYTES);
}

/* UNSUPPORTED: no transport of this job supports it. */
static tutti_status tell(struct here *h)
{
    const int fd = h->managed ? -1 : export_dmabuf(h, 2 * SIDE_BYTES);
    tutti_mem_device what = {};
    tutti_status st;

    what.size = sizeof what;
    what.kind = h->managed ? TUTTI_MEM_MAPPED : TUTTI_MEM_CUDA;
    what.device = h->device;
    what.has_dmabuf = fd >= 0;
    what.dmabuf = fd;
    st = tutti_mem_register_device(h->comm, h->gpu, 2 * SIDE_BYTES, &what);
    if (fd >= 0)
        close(fd);
    return st;
}

/* Registers the memory and creates the windows. Returns false if no transport supports it. */
static bool begin(struct here *h)
{
    const tutti_status st = tell(h);

    if (st == TUTTI_ERR_UNSUPPORTED) {
        printf("rank %d: %s\n", h->rank, tutti_last_error());
        return false;
    }
    CHECK(st == TUTTI_OK);
    CHECK(tutti_window_create(h->comm, h->gpu, SIDE_BYTES, &h->gpu_window) == TUTTI_OK);
    CHECK(tutti_window_create(h->comm, h->host, SIDE_BYTES, &h->host_window) == TUTTI_OK);
    CHECK(tutti_window_create(h->comm, NULL, 64, &h->signals) == TUTTI_OK);
    return true;
}

static void end(struct here *h)
{
    CHECK(tutti_barrier(h->comm, NULL) == TUTTI_OK);
    CHECK(tutti_window_free(h->gpu_window) == TUTTI_OK);
    CHECK(tutti_window_free(h->host_window) == TUTTI_OK);
    CHECK(tutti_window_free(h->signals) == TUTTI_OK);
    CHECK(tutti_mem_deregister(h->comm, h->gpu) == TUTTI_OK);
}

/* ---- tests ---- */

/* Operations of processors on device memory are refused. */
static void play_refusals(struct here *h)
{
    uint64_t word = 0;
    tutti_rma signal = {};
    tutti_window *const w = h->gpu_window;

    signal.size = sizeof signal;
    signal.signal_op = TUTTI_SIGNAL_SET;
    CHECK_SAYS(tutti_window_put(w, h->rank, 0, &word, 8, NULL), TUTTI_ERR_UNSUPPORTED,
               "device memory");
    CHECK_SAYS(tutti_window_put(w, h->other, 0, &word, 8, &signal), TUTTI_ERR_UNSUPPORTED,
               "device memory");
    CHECK_SAYS(tutti_window_signal(w, h->other, 0, TUTTI_SIGNAL_ADD, 1), TUTTI_ERR_UNSUPPORTED,
               "device memory");
    CHECK_SAYS(tutti_window_get(w, h->other, 0, &word, 8, NULL), TUTTI_ERR_UNSUPPORTED,
               "device memory");
    CHECK_SAYS(tutti_window_get(h->host_window, h->other, 0, h->gpu_source, 8, NULL), TUTTI_ERR_UNSUPPORTED,
               "device memory");
    CHECK_SAYS(tutti_window_atomic(w, h->other, 0, 8, TUTTI_ATOMIC_ADD, 1, 0, &word), TUTTI_ERR_UNSUPPORTED,
               "device memory");
    CHECK_SAYS(tutti_window_wait(w, 0, TUTTI_EQUAL, 0, 0, NULL), TUTTI_ERR_UNSUPPORTED,
               "device memory");
    CHECK_SAYS(tutti_allreduce(h->gpu_source, h->gpu_source, 16, TUTTI_F32, TUTTI_SUM, h->comm, NULL), TUTTI_ERR_UNSUPPORTED,
               "device memory");
}

static tutti_rma signal_of(const struct here *h, uint64_t value)
{
    tutti_rma rma = {};

    rma.size = sizeof rma;
    rma.signal_op = TUTTI_SIGNAL_SET;
    rma.signal_value = value;
    rma.signal_window = h->signals;
    rma.timeout_ms = WAIT_MS;
    return rma;
}

/* Both ranks put to each other, at unaligned addresses, and check the data when the signal
 * arrives. */
static void play_put(struct here *h, enum direction d, size_t bytes)
{
    static const char *const names[] = { "a put from GPU to GPU", "a put from GPU to host",
                                         "a put from host to GPU" };
    uint8_t *const target = d == GPU_TO_HOST ? h->host : h->gpu;
    uint8_t *const source = d == HOST_TO_GPU ? h->host_source : h->gpu_source;
    const uint64_t put = ++h->puts;
    const size_t to = 1 + 2 * (put * 37 % 4096), from = 1 + 2 * (put * 53 % 4096);
    const tutti_rma rma = signal_of(h, put);

    fill(h->staged, bytes, h->rank, put);
    copy(source + from, h->staged, bytes);
    wipe(h, target, SIDE_BYTES);
    CHECK(tutti_barrier(h->comm, NULL) == TUTTI_OK);
    CHECK(tutti_window_put(d == GPU_TO_HOST ? h->host_window : h->gpu_window, h->other, to, source + from, bytes, &rma) ==
          TUTTI_OK);
    CHECK(tutti_window_wait(h->signals, 0, TUTTI_EQUAL, put, WAIT_MS, NULL) == TUTTI_OK);
    check(h, target, to, bytes, put, names[d]);
    CHECK(tutti_window_quiet(h->gpu_window, TUTTI_ALL_RANKS, WAIT_MS) == TUTTI_OK);
    CHECK(tutti_barrier(h->comm, NULL) == TUTTI_OK);
}

/* Many overlapping puts with one signal behind a fence. */
static void play_burst(struct here *h)
{
    const uint64_t first = h->puts + 1;
    uint64_t counter = 0;
    tutti_rma later = {};

    later.size = sizeof later;
    later.counter = &counter;
    for (uint32_t i = 0; i < BURST; i++) {
        fill(h->staged, BURST_BYTES, h->rank, first + i);
        copy(h->gpu_source + i * (BURST_BYTES + 2), h->staged, BURST_BYTES);
    }
    wipe(h, h->gpu, SIDE_BYTES);
    CHECK(tutti_barrier(h->comm, NULL) == TUTTI_OK);
    for (uint32_t i = 0; i < BURST; i++)
        CHECK(tutti_window_put(h->gpu_window, h->other, 1 + i * (BURST_BYTES + 2), h->gpu_source + i * (BURST_BYTES + 2),
                               BURST_BYTES, &later) == TUTTI_OK);
    h->puts += BURST;
    CHECK(tutti_window_fence(h->gpu_window, h->other) == TUTTI_OK);
    CHECK(tutti_window_signal(h->signals, h->other, 0, TUTTI_SIGNAL_SET, h->puts) == TUTTI_OK);
    CHECK(tutti_window_wait(h->signals, 0, TUTTI_EQUAL, h->puts, WAIT_MS, NULL) == TUTTI_OK);
    for (uint32_t i = 0; i < BURST; i++)
        check(h, h->gpu, 1 + i * (BURST_BYTES + 2), BURST_BYTES, first + i,
              "one of many puts from GPU to GPU");
    CHECK(tutti_window_wait_counter(h->gpu_window, &counter, BURST, WAIT_MS) == TUTTI_OK);
    CHECK(tutti_barrier(h->comm, NULL) == TUTTI_OK);
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns GB/s from rank 0 to 1; the first put is not measured. */
static double bandwidth(struct here *h, tutti_window *window, const uint8_t *source)
{
    const tutti_rma last = signal_of(h, ++h->puts);
    double began = 0;

    CHECK(tutti_barrier(h->comm, NULL) == TUTTI_OK);
    if (h->rank != 0) {
        CHECK(tutti_window_wait(h->signals, 0, TUTTI_EQUAL, h->puts, 2 * WAIT_MS, NULL) == TUTTI_OK);
        return 0;
    }
    for (uint32_t i = 0; i <= TIMED; i++) {
        CHECK(tutti_window_put(window, h->other, 0, source, LONGEST, i == TIMED ? &last : NULL) == TUTTI_OK);
        if (i == 0) {
            CHECK(tutti_window_quiet(window, h->other, WAIT_MS) == TUTTI_OK);
            began = now_s();
        }
    }
    CHECK(tutti_window_quiet(window, h->other, WAIT_MS) == TUTTI_OK);
    return (double)(TIMED * LONGEST) / (now_s() - began) * 1e-9;
}

static void play_bandwidth(struct here *h)
{
    const double gpu = bandwidth(h, h->gpu_window, h->gpu_source), host = bandwidth(h, h->host_window, h->host_source);

    if (h->rank == 0)
        printf("puts of 16 MiB: %.2f GB/s from GPU to GPU, %.2f GB/s from host to host\n", gpu,
               host);
}

/* Frees the memory and allocates the same address again: the old registration must not be used. */
static void have_again(struct here *h)
{
    uint8_t *const before = h->gpu;
    uint8_t *others[ALLOCATIONS];
    int n = 0;

    CHECK_CUDA(cudaFree(h->gpu));
    for (allocate(h); h->gpu != before && n < ALLOCATIONS; allocate(h))
        others[n++] = h->gpu;
    printf("rank %d: memory came again at %s address\n", h->rank,
           h->gpu == before ? "the same" : "another");
    while (n > 0)
        CHECK_CUDA(cudaFree(others[--n]));
}

static void play(struct here *h)
{
    play_refusals(h);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int d = 0; d < DIRECTIONS; d++)
            play_put(h, (enum direction)d, sizes[i]);
    play_burst(h);
}

static uint8_t *have_host(void)
{
    void *const mem = aligned_alloc(4096, SIDE_BYTES);

    CHECK(mem);
    memset(mem, 0, SIDE_BYTES);
    return (uint8_t *)mem;
}

int main(int argc, char **argv)
{
    struct cudaDeviceProp what;
    struct here h = {};
    int ndevices = 0;
    tutti_status st;

    setvbuf(stdout, NULL, _IOLBF, 0);
    h.managed = argc > 1 && strcmp(argv[1], "managed") == 0;
    if (cudaGetDeviceCount(&ndevices) != cudaSuccess || ndevices == 0) {
        printf("there is no GPU here\n");
        return SKIPPED;
    }
    h.device = (getenv("TUTTI_RANK") ? atoi(getenv("TUTTI_RANK")) : 0) % ndevices;
    CHECK_CUDA(cudaSetDevice(h.device));        /* before libfabric initializes CUDA */
    CHECK_CUDA(cudaFree(NULL));
    CHECK_CUDA(cudaGetDeviceProperties(&what, h.device));
    st = tutti_comm_create(&h.comm, NULL);
    if (st == TUTTI_ERR_UNSUPPORTED) {
        printf("%s\n", tutti_last_error());
        return SKIPPED;
    }
    CHECK(st == TUTTI_OK);
    CHECK(tutti_comm_size(h.comm) == RANKS);
    h.rank = tutti_comm_rank(h.comm);
    h.other = 1 - h.rank;
    h.host = have_host();
    h.host_source = have_host();
    h.staged = have_host();
    h.expected = have_host();
    allocate(&h);
    if (!begin(&h)) {
        tutti_comm_destroy(h.comm);
        return SKIPPED;
    }
    play(&h);
    play_bandwidth(&h);
    end(&h);
    have_again(&h);
    CHECK(begin(&h));
    play(&h);
    end(&h);
    CHECK_CUDA(cudaFree(h.gpu));
    printf("rank %d: %llu puts from and to %s of %s\n", h.rank, (unsigned long long)h.puts,
           h.managed ? "managed memory" : "memory", what.name);
    tutti_comm_destroy(h.comm);
    return 0;
}
