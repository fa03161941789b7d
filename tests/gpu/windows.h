/* Windows of device memory on all ranks of a world. */
#ifndef TESTS_GPU_WINDOWS_H
#define TESTS_GPU_WINDOWS_H

#include <pthread.h>

#include "world.h"

#include "base/status.h"

/* A call of tutti_gpu_window_create. */
struct creator {
    struct world *w;
    int rank;
    void *mem;
    size_t bytes;
    tutti_gpu_window *window;
    tutti_status status;
    char why[TT_ERROR_BYTES];
    pthread_t thread;
};

/* Calls tutti_gpu_window_create on all ranks, with mem[r] and bytes[r]. */
void windows_create(struct creator *c, struct world *w, void *const *mem, const size_t *bytes);

/* A window of zeroes on each rank, of bytes[r]. */
struct windows {
    void *mem[WORLD_RANKS];
    tutti_gpu_window *window[WORLD_RANKS];
};
void windows_open(struct windows *ws, struct world *w, const size_t *bytes);
void windows_close(struct windows *ws, struct world *w);

#endif
