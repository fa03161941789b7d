#include "gpu.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

bool gpu_is_emulated(void)
{
    struct cudaDeviceProp p;

    return cudaGetDeviceProperties(&p, 0) == cudaSuccess && strstr(p.name, "Emulated") != NULL;
}

static void hold(void *arg)
{
    struct gate *g = arg;
    const struct timespec nap = { 0, 100000 };

    while (!atomic_load(&g->open))
        nanosleep(&nap, NULL);
}

void gate_close_stream(struct gate *g, cudaStream_t stream)
{
    atomic_store(&g->open, 0);
    assert_cuda(cudaLaunchHostFunc(stream, hold, g));
}

void gate_open(struct gate *g)
{
    atomic_store(&g->open, 1);
}

int gpu_in_child(void (*fn)(void *arg), void *arg)
{
    int status = -1;
    const pid_t pid = fork();

    assert_true(pid >= 0);
    if (!pid) {
        fn(arg);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}
