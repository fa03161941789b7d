/* Start of units: they are added to their streams and to the queues of their workers. */
#ifndef TT_GPU_START_H
#define TT_GPU_START_H

#include "gpu/gpu.h"

/* Starts unit[n], unit[i] on gpu[i]; the workers own them then. All starts are added to streams
 * before a stream waits for an end. Waits while too many units are pending. On error (a stream
 * rejects work) all units fail, and their communicators are aborted. */
tutti_status tt_gpu_start(struct tt_gpu_unit **unit, tutti_gpu **gpu, size_t n);

#endif
