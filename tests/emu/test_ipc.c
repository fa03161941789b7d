/* Memory and events of one process, which another process opens by their handles. */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the exporting process sends through a pipe. */
struct message {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event;
};

#define BYTES 5000

static void copy_exactly(int from, void *to, size_t bytes)
{
    for (char *p = to; bytes;) {
        const ssize_t n = read(from, p, bytes);

        if (n <= 0)
            _exit(99);
        p += n;
        bytes -= (size_t)n;
    }
}

/* A handle with one damaged byte opens part of the same memory or returns an error. */
static void damaged_handles(const struct message *m)
{
    for (size_t i = 0; i < 8 * sizeof(m->memory); i++) {
        cudaIpcMemHandle_t memory = m->memory;
        cudaIpcEventHandle_t event_handle = m->event;
        cudaEvent_t event;
        void *p;

        ((char *)&memory)[i / 8] ^= (char)(1 << i % 8);
        ((char *)&event_handle)[i / 8] ^= (char)(1 << i % 8);
        if (!cudaIpcOpenMemHandle(&p, memory, cudaIpcMemLazyEnablePeerAccess) &&
            cudaIpcCloseMemHandle(p))
            _exit(10);
        if (!cudaIpcOpenEventHandle(&event, event_handle) && cudaEventDestroy(event))
            _exit(11);
    }
}

/* The other process: waits for the event, checks the memory, and writes to it. Its exit status
 * identifies the failed check. */
static void use(int from)
{
    struct message m;
    cudaEvent_t event;
    cudaStream_t s;
    char in[BYTES];
    void *p, *again;

    setenv("TUTTI_EMU_QUIET", "1", 1);
    copy_exactly(from, &m, sizeof(m));
    if (cudaIpcOpenMemHandle(&p, m.memory, cudaIpcMemLazyEnablePeerAccess))
        _exit(1);
    if (cudaIpcOpenMemHandle(&again, m.memory, cudaIpcMemLazyEnablePeerAccess) || again != p)
        _exit(2);
    if (cudaIpcCloseMemHandle(again) || cudaIpcOpenEventHandle(&event, m.event))
        _exit(3);
    if (cudaStreamCreate(&s) || cudaStreamWaitEvent(s, event, 0))
        _exit(4);
    if (cudaMemcpyAsync(in, p, BYTES, cudaMemcpyDeviceToHost, s) || cudaStreamSynchronize(s))
        _exit(5);
    for (int i = 0; i < BYTES; i++)
        if (in[i] != 0x17)
            _exit(6);
    if (cudaMemset(p, 0x71, BYTES) || cudaDeviceSynchronize() || cudaIpcCloseMemHandle(p))
        _exit(7);
    if (cudaIpcCloseMemHandle(p) == cudaSuccess)
        _exit(8);
    damaged_handles(&m);
    memset(&m.memory, 0x55, sizeof(m.memory));
    if (cudaIpcOpenMemHandle(&p, m.memory, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess)
        _exit(9);
    _exit(0);
}

/* The process that uses CUDA first is the child's parent, so the child starts before. */
static int pipe_to_child[2];
static pid_t child;

static void another_process_sees_memory_and_events(void **state)
{
    struct message m;
    struct gate gate;
    cudaEvent_t event;
    cudaStream_t s;
    char in[BYTES];
    int status;
    void *p;

    (void)state;
    assert_cuda(cudaStreamCreate(&s));
    assert_cuda(cudaMalloc(&p, BYTES));
    assert_cuda(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
    gate_close_stream(&gate, s);
    assert_cuda(cudaMemsetAsync(p, 0x17, BYTES, s));
    assert_cuda(cudaEventRecord(event, s));
    assert_cuda(cudaIpcGetMemHandle(&m.memory, p));
    assert_cuda(cudaIpcGetEventHandle(&m.event, event));
    assert_int_equal(write(pipe_to_child[1], &m, sizeof(m)), sizeof(m));
    assert_cuda_error(cudaEventQuery(event), cudaErrorNotReady);
    gate_open(&gate);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_cuda(cudaEventSynchronize(event));
    assert_cuda(cudaMemcpy(in, p, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(in[i], 0x71);
    assert_cuda(cudaEventDestroy(event));
    assert_cuda(cudaFree(p));
    assert_cuda(cudaStreamDestroy(s));
}

static void handles_are_for_other_processes(void **state)
{
    cudaIpcMemHandle_t handle;
    cudaIpcEventHandle_t event_handle;
    cudaEvent_t event;
    void *p, *q, *pinned;

    (void)state;
    assert_cuda(cudaMalloc(&p, 100));
    assert_cuda(cudaMallocHost(&pinned, 100));
    assert_cuda(cudaIpcGetMemHandle(&handle, p));
    assert_cuda_error(cudaIpcOpenMemHandle(&q, handle, cudaIpcMemLazyEnablePeerAccess),
                      cudaErrorDeviceUninitialized);
    assert_cuda_error(cudaIpcGetMemHandle(&handle, pinned), cudaErrorInvalidValue);
    assert_cuda(cudaEventCreate(&event));
    assert_cuda_error(cudaIpcGetEventHandle(&event_handle, event), cudaErrorInvalidResourceHandle);
    assert_cuda(cudaEventDestroy(event));
    assert_cuda(cudaFreeHost(pinned));
    assert_cuda(cudaFree(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_process_sees_memory_and_events),
        cmocka_unit_test(handles_are_for_other_processes),
    };

    if (pipe(pipe_to_child))
        return 1;
    child = fork();
    if (child < 0)
        return 1;
    if (!child) {
        close(pipe_to_child[1]);
        use(pipe_to_child[0]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
