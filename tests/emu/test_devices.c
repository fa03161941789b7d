/* Devices: their number and size, properties, access to each other, and copies between them. */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sanitizers reserve much address space. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static void properties_agree_with_attributes(void **state)
{
    struct cudaDeviceProp p;
    char bus[32];
    int value, device;

    (void)state;
    assert_cuda(cudaGetDeviceProperties(&p, 1));
    assert_cuda(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 1));
    assert_int_equal(value, p.major);
    assert_cuda(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 1));
    assert_int_equal(value, p.multiProcessorCount);
    assert_cuda(cudaDeviceGetPCIBusId(bus, sizeof(bus), 1));
    assert_cuda(cudaDeviceGetByPCIBusId(&device, bus));
    assert_int_equal(device, 1);
    assert_cuda_error(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99),
                      cudaErrorInvalidDevice);
}

static void the_device_belongs_to_the_thread(void **state)
{
    struct cudaPointerAttributes a;
    int device;
    void *p;

    (void)state;
    assert_cuda(cudaSetDevice(2));
    assert_cuda(cudaGetDevice(&device));
    assert_int_equal(device, 2);
    assert_cuda(cudaMalloc(&p, 100));
    assert_cuda(cudaSetDevice(0));
    assert_cuda(cudaPointerGetAttributes(&a, p));
    assert_int_equal(a.device, 2);
    assert_cuda(cudaFree(p));
}

static void peers_copy_to_each_other(void **state)
{
    char out[300], in[300];
    int can;
    void *a, *b;

    (void)state;
    for (int i = 0; i < 300; i++)
        out[i] = (char)i;
    assert_cuda(cudaDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    assert_cuda(cudaDeviceCanAccessPeer(&can, 1, 1));
    assert_int_equal(can, 0);
    assert_cuda(cudaSetDevice(0));
    assert_cuda(cudaDeviceEnablePeerAccess(1, 0));
    assert_cuda_error(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    assert_cuda(cudaMalloc(&a, 300));
    assert_cuda(cudaSetDevice(1));
    assert_cuda(cudaMalloc(&b, 300));
    assert_cuda(cudaMemcpy(a, out, 300, cudaMemcpyHostToDevice));
    assert_cuda(cudaMemcpyPeer(b, 1, a, 0, 300));
    assert_cuda(cudaMemcpy(in, b, 300, cudaMemcpyDeviceToHost));
    assert_memory_equal(in, out, 300);
    assert_cuda_error(cudaMemcpyPeer(b, 7, a, 0, 300), cudaErrorInvalidDevice);
    assert_cuda(cudaFree(a));
    assert_cuda(cudaFree(b));
    assert_cuda(cudaSetDevice(0));
    assert_cuda(cudaDeviceDisablePeerAccess(1));
    assert_cuda_error(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
}

static void events_belong_to_their_device(void **state)
{
    cudaEvent_t event;
    cudaStream_t s;

    (void)state;
    assert_cuda(cudaSetDevice(0));
    assert_cuda(cudaEventCreate(&event));
    assert_cuda(cudaSetDevice(1));
    assert_cuda(cudaStreamCreate(&s));
    assert_cuda_error(cudaEventRecord(event, s), cudaErrorInvalidResourceHandle);
    assert_cuda(cudaStreamWaitEvent(s, event, 0));      /* but all devices may wait for it */
    assert_cuda(cudaStreamDestroy(s));
    assert_cuda(cudaEventDestroy(event));
}

static void without_devices(void *arg)
{
    int n = 5;
    void *p;

    (void)arg;
    setenv("TUTTI_EMU_DEVICES", "0", 1);
    if (cudaGetDeviceCount(&n) != cudaErrorNoDevice || n != 0 ||
        cudaMalloc(&p, 1) != cudaErrorNoDevice)
        _exit(1);
}

static void visible(void *arg)
{
    char bus[32], all[32];
    int n = 0;

    (void)arg;
    setenv("TUTTI_EMU_DEVICES", "4", 1);
    setenv("CUDA_VISIBLE_DEVICES", "2,0,9,1", 1);       /* the list ends at the invalid index 9 */
    if (cudaGetDeviceCount(&n) || n != 2)
        _exit(1);
    if (cudaDeviceGetPCIBusId(bus, sizeof(bus), 0) || cudaDeviceGetPCIBusId(all, sizeof(all), 1))
        _exit(2);
    if (strcmp(bus, "0000:12:00.0") != 0 || strcmp(all, "0000:10:00.0") != 0)
        _exit(3);
    if (cudaDeviceGetByPCIBusId(&n, "0000:12:00.0") || n != 0 ||
        cudaDeviceGetByPCIBusId(&n, "0000:11:00.0") != cudaErrorInvalidDevice)
        _exit(4);
}

/* Another process, without peer access: opens the handle in the pipe on each device. */
static void open_handle(int from)
{
    cudaIpcMemHandle_t handle;
    void *p;

    if (read(from, &handle, sizeof handle) != (ssize_t)sizeof handle)
        _exit(1);
    if (cudaSetDevice(1) || cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess) !=
                                cudaErrorPeerAccessUnsupported)
        _exit(2);
    if (cudaSetDevice(0) || cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess) ||
        cudaIpcCloseMemHandle(p))
        _exit(3);
    _exit(0);
}

static void without_peers(void *arg)
{
    cudaIpcMemHandle_t handle;
    int ends[2], status = 0;
    pid_t child;
    void *p;

    (void)arg;
    setenv("TUTTI_EMU_DEVICES", "2", 1);
    setenv("TUTTI_EMU_PEERS", "0", 1);
    if (pipe(ends))
        _exit(4);
    child = fork();
    if (!child)
        open_handle(ends[0]);
    if (cudaMalloc(&p, 1000) || cudaIpcGetMemHandle(&handle, p) ||
        write(ends[1], &handle, sizeof handle) != (ssize_t)sizeof handle)
        _exit(5);
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
        _exit(6);
    if (WEXITSTATUS(status))
        _exit(WEXITSTATUS(status));
}

static rlim_t address_space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (!f || fscanf(f, "%lu", &pages) != 1)
        _exit(1);
    fclose(f);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* A graph of two fills that run in parallel. */
static cudaGraphExec_t branches(void *mem)
{
    const struct cudaMemsetParams fill = {
        .dst = mem, .elementSize = 1, .width = 100, .height = 1
    };
    cudaGraphExec_t exec;
    cudaGraphNode_t node;
    cudaGraph_t graph;

    if (cudaGraphCreate(&graph, 0) || cudaGraphAddMemsetNode(&node, graph, NULL, 0, &fill) ||
        cudaGraphAddMemsetNode(&node, graph, NULL, 0, &fill) ||
        cudaGraphInstantiate(&exec, graph, 0) || cudaGraphDestroy(graph))
        _exit(8);
    return exec;
}

/* The thread of a stream starts with its first work. Without memory for the thread, the call fails;
 * a later call succeeds. */
static void without_threads(void *arg)
{
    struct rlimit before, limit;
    cudaGraphExec_t exec;
    cudaStream_t s, busy, unused;
    struct gate gate;
    cudaEvent_t event;
    void *p;

    (void)arg;
    if (cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) || cudaMalloc(&p, 100) ||
        cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking) || cudaEventCreate(&event) ||
        cudaMemsetAsync(p, 0, 100, busy) || cudaStreamCreate(&unused))
        _exit(2);
    gate_close_stream(&gate, NULL);             /* the blocking stream must wait for the legacy
                                                   stream */
    exec = branches(p);
    if (getrlimit(RLIMIT_AS, &before))
        _exit(3);
    limit = before;
    limit.rlim_cur = address_space() + (1 << 20);
    if (setrlimit(RLIMIT_AS, &limit))
        _exit(4);
    if (cudaMemsetAsync(p, 0, 100, s) != cudaErrorMemoryAllocation)
        _exit(5);
    if (cudaEventRecord(event, s) != cudaErrorMemoryAllocation ||
        cudaStreamWaitEvent(s, event, 0) != cudaErrorMemoryAllocation ||
        cudaGraphLaunch(exec, busy) != cudaErrorMemoryAllocation ||
        cudaStreamSynchronize(unused) != cudaErrorMemoryAllocation ||
        cudaStreamQuery(unused) != cudaErrorMemoryAllocation)
        _exit(9);
    if (setrlimit(RLIMIT_AS, &before))
        _exit(6);
    if (cudaStreamQuery(unused) != cudaErrorNotReady)
        _exit(10);
    gate_open(&gate);
    if (cudaStreamSynchronize(unused) || cudaMemsetAsync(p, 0, 100, s) ||
        cudaEventRecord(event, s) || cudaStreamWaitEvent(busy, event, 0) ||
        cudaGraphLaunch(exec, busy) || cudaStreamSynchronize(s) || cudaStreamSynchronize(busy))
        _exit(7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(properties_agree_with_attributes),
        cmocka_unit_test(the_device_belongs_to_the_thread),
        cmocka_unit_test(peers_copy_to_each_other),
        cmocka_unit_test(events_belong_to_their_device),
    };
    const int none = gpu_in_child(without_devices, NULL), some = gpu_in_child(visible, NULL);
    const int apart = gpu_in_child(without_peers, NULL);
    const int full = SANITIZED ? 0 : gpu_in_child(without_threads, NULL);

    if (none || some || apart || full) {
        print_error("children ended with status %#x (no devices), %#x (CUDA_VISIBLE_DEVICES), %#x "
                    "(TUTTI_EMU_PEERS), %#x (no memory for threads)\n",
                    (unsigned)none, (unsigned)some, (unsigned)apart, (unsigned)full);
        return 1;
    }
    setenv("TUTTI_EMU_DEVICES", "3", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
