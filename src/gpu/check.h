/* Checks of operations before anything is started. */
#ifndef TT_GPU_CHECK_H
#define TT_GPU_CHECK_H

#include "gpu/gpu.h"

/* Name of an operation, for messages: "tutti_gpu_allreduce". */
const char *tt_gpu_kind_name(tutti_gpu_kind kind);

/* Checks one operation: arguments, buffers and stream. The context of its tutti_gpu is current. */
tutti_status tt_gpu_check(const tutti_gpu_op *op);

/* Checks the memory of a window. The context of gpu is current. */
tutti_status tt_gpu_check_window(tutti_gpu *gpu, const void *mem, size_t bytes);

/* Checks that buf[bytes] is memory of the operation's device. `what` is its name in messages. */
tutti_status tt_gpu_check_buffer(const tutti_gpu_op *op, const char *what, const void *buf,
                                 size_t bytes);

/* Returns the kind of memory at `pointer`; 0: host memory unknown to CUDA. */
int tt_gpu_memory_kind(const struct tt_cuda *cu, const void *pointer);

#endif
