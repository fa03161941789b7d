/* The calls with a single operation. */
#include "gpu/gpu.h"

#define NO_OP TUTTI_SUM     /* operation of calls without a reduction; ignored */

/* Starts one operation. `root` is the root, or the peer of a send or receive; 0 without either. */
static tutti_status start(tutti_gpu_kind kind, const void *src, void *dst, size_t count,
                          tutti_dtype type, tutti_redop op, int root, tutti_gpu *gpu, void *stream)
{
    const tutti_gpu_op one = { .size = sizeof one,
                               .kind = kind,
                               .gpu = gpu,
                               .stream = stream,
                               .src = src,
                               .dst = dst,
                               .count = count,
                               .type = type,
                               .op = op,
                               .root = root };

    return tutti_gpu_group(&one, 1);
}

tutti_status tutti_gpu_allreduce(const void *src, void *dst, size_t count, tutti_dtype type,
                                 tutti_redop op, tutti_gpu *gpu, void *stream)
{
    return start(TUTTI_GPU_ALLREDUCE, src, dst, count, type, op, 0, gpu, stream);
}

tutti_status tutti_gpu_reduce(const void *src, void *dst, size_t count, tutti_dtype type,
                              tutti_redop op, int root, tutti_gpu *gpu, void *stream)
{
    return start(TUTTI_GPU_REDUCE, src, dst, count, type, op, root, gpu, stream);
}

tutti_status tutti_gpu_reduce_scatter(const void *src, void *dst, size_t count, tutti_dtype type,
                                      tutti_redop op, tutti_gpu *gpu, void *stream)
{
    return start(TUTTI_GPU_REDUCE_SCATTER, src, dst, count, type, op, 0, gpu, stream);
}

tutti_status tutti_gpu_allgather(const void *src, void *dst, size_t count, tutti_dtype type,
                                 tutti_gpu *gpu, void *stream)
{
    return start(TUTTI_GPU_ALLGATHER, src, dst, count, type, NO_OP, 0, gpu, stream);
}

tutti_status tutti_gpu_broadcast(const void *src, void *dst, size_t count, tutti_dtype type,
                                 int root, tutti_gpu *gpu, void *stream)
{
    return start(TUTTI_GPU_BROADCAST, src, dst, count, type, NO_OP, root, gpu, stream);
}

tutti_status tutti_gpu_gather(const void *src, void *dst, size_t count, tutti_dtype type, int root,
                              tutti_gpu *gpu, void *stream)
{
    return start(TUTTI_GPU_GATHER, src, dst, count, type, NO_OP, root, gpu, stream);
}

tutti_status tutti_gpu_scatter(const void *src, void *dst, size_t count, tutti_dtype type, int root,
                               tutti_gpu *gpu, void *stream)
{
    return start(TUTTI_GPU_SCATTER, src, dst, count, type, NO_OP, root, gpu, stream);
}

tutti_status tutti_gpu_alltoall(const void *src, void *dst, size_t count, tutti_dtype type,
                                tutti_gpu *gpu, void *stream)
{
    return start(TUTTI_GPU_ALLTOALL, src, dst, count, type, NO_OP, 0, gpu, stream);
}

tutti_status tutti_gpu_alltoallv_dynamic(const tutti_dynamic *what, tutti_dtype type,
                                         tutti_gpu *gpu, void *stream)
{
    const tutti_gpu_op one = { .size = sizeof one,
                               .kind = TUTTI_GPU_ALLTOALLV_DYNAMIC,
                               .gpu = gpu,
                               .stream = stream,
                               .type = type,
                               .dynamic = what };

    return tutti_gpu_group(&one, 1);
}

tutti_status tutti_gpu_barrier(tutti_gpu *gpu, void *stream)
{
    return start(TUTTI_GPU_BARRIER, NULL, NULL, 0, TUTTI_U8, NO_OP, 0, gpu, stream);
}

tutti_status tutti_gpu_put_signal(const void *src, size_t count, tutti_dtype type, int peer,
                                  tutti_gpu_window *window, size_t offset, uint32_t signal,
                                  tutti_gpu *gpu, void *stream)
{
    const tutti_gpu_op one = { .size = sizeof one,
                               .kind = TUTTI_GPU_PUT_SIGNAL,
                               .gpu = gpu,
                               .stream = stream,
                               .src = src,
                               .count = count,
                               .type = type,
                               .root = peer,
                               .window = window,
                               .offset = offset,
                               .signal = signal };

    return tutti_gpu_group(&one, 1);
}

tutti_status tutti_gpu_get(void *dst, size_t count, tutti_dtype type, int peer,
                           tutti_gpu_window *window, size_t offset, tutti_gpu *gpu, void *stream)
{
    const tutti_gpu_op one = { .size = sizeof one,
                               .kind = TUTTI_GPU_GET,
                               .gpu = gpu,
                               .stream = stream,
                               .dst = dst,
                               .count = count,
                               .type = type,
                               .root = peer,
                               .window = window,
                               .offset = offset };

    return tutti_gpu_group(&one, 1);
}

tutti_status tutti_gpu_atomic(tutti_atomic_op op, uint64_t operand, uint64_t compare, void *old,
                              tutti_dtype type, int peer, tutti_gpu_window *window, size_t offset,
                              tutti_gpu *gpu, void *stream)
{
    const tutti_gpu_op one = { .size = sizeof one,
                               .kind = TUTTI_GPU_ATOMIC,
                               .gpu = gpu,
                               .stream = stream,
                               .dst = old,
                               .count = 1,
                               .type = type,
                               .root = peer,
                               .window = window,
                               .offset = offset,
                               .atomic = op,
                               .operand = operand,
                               .compare = compare };

    return tutti_gpu_group(&one, 1);
}

tutti_status tutti_gpu_signal(int peer, uint32_t signal, tutti_gpu *gpu, void *stream)
{
    return tutti_gpu_put_signal(NULL, 0, TUTTI_U8, peer, NULL, 0, signal, gpu, stream);
}

tutti_status tutti_gpu_wait_signal(int peer, uint32_t signal, uint32_t n, tutti_gpu *gpu,
                                   void *stream)
{
    const tutti_gpu_op one = { .size = sizeof one,
                               .kind = TUTTI_GPU_WAIT_SIGNAL,
                               .gpu = gpu,
                               .stream = stream,
                               .count = n,
                               .type = TUTTI_U8,
                               .root = peer,
                               .signal = signal };

    return tutti_gpu_group(&one, 1);
}

tutti_status tutti_gpu_send(const void *buf, size_t count, tutti_dtype type, int peer,
                            tutti_gpu *gpu, void *stream)
{
    return start(TUTTI_GPU_SEND, buf, NULL, count, type, NO_OP, peer, gpu, stream);
}

tutti_status tutti_gpu_recv(void *buf, size_t count, tutti_dtype type, int peer, tutti_gpu *gpu,
                            void *stream)
{
    return start(TUTTI_GPU_RECV, NULL, buf, count, type, NO_OP, peer, gpu, stream);
}
