/* Shared functions of the tests in this folder. The tests use the public API of CUDA, so they can
 * also be compiled for a real GPU (docs/emulation.md); checks that need the emulation depend on
 * gpu_is_emulated. */
#ifndef TESTS_EMU_GPU_H
#define TESTS_EMU_GPU_H

#include "support/unit.h"

#include <cuda_runtime_api.h>

#define assert_cuda(call) assert_string_equal(cudaGetErrorName(call), "cudaSuccess")
#define assert_cuda_error(call, error)                                                             \
    do {                                                                                           \
        assert_string_equal(cudaGetErrorName(call), cudaGetErrorName(error));                      \
        assert_string_equal(cudaGetErrorName(cudaGetLastError()), cudaGetErrorName(error));        \
    } while (0)

bool gpu_is_emulated(void);

/* A gate: a host function that blocks a stream until the test opens the gate. */
struct gate {
    _Atomic int open;
};
void gate_close_stream(struct gate *g, cudaStream_t stream);
void gate_open(struct gate *g);

/* Runs fn(arg) in a child process; returns its wait status. */
int gpu_in_child(void (*fn)(void *arg), void *arg);

#endif
