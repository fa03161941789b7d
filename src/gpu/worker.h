/* The thread that runs the units of a tutti_gpu. */
#ifndef TT_GPU_WORKER_H
#define TT_GPU_WORKER_H

#include "gpu/gpu.h"

/* Main function; arg is the tutti_gpu. Returns when `stop` is set and the queue is empty. */
void *tt_gpu_worker(void *arg);

#endif
