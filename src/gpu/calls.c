/* The calls of one operation each. */
#include "gpu/gpu.h"

static tutti_status start(tutti_gpu_op op)
{
    op.size = sizeof op;
    return tutti_gpu_group(&op, 1);
}

tutti_status tutti_gpu_allreduce(const void *src, void *dst, size_t count, tutti_dtype type,
                                 tutti_redop op, tutti_gpu *gpu, void *stream)
{
    return start((tutti_gpu_op){ .kind = TUTTI_GPU_ALLREDUCE, .src = src, .dst = dst,
                                 .count = count, .type = type, .op = op, .gpu = gpu,
                                 .stream = stream });
}

tutti_status tutti_gpu_reduce(const void *src, void *dst, size_t count, tutti_dtype type,
                              tutti_redop op, int root, tutti_gpu *gpu, void *stream)
{
    return start((tutti_gpu_op){ .kind = TUTTI_GPU_REDUCE, .src = src, .dst = dst, .count = count,
                                 .type = type, .op = op, .root = root, .gpu = gpu,
                                 .stream = stream });
}

tutti_status tutti_gpu_reduce_scatter(const void *src, void *dst, size_t count, tutti_dtype type,
                                      tutti_redop op, tutti_gpu *gpu, void *stream)
{
    return start((tutti_gpu_op){ .kind = TUTTI_GPU_REDUCE_SCATTER, .src = src, .dst = dst,
                                 .count = count, .type = type, .op = op, .gpu = gpu,
                                 .stream = stream });
}

tutti_status tutti_gpu_allgather(const void *src, void *dst, size_t count, tutti_dtype type,
                                 tutti_gpu *gpu, void *stream)
{
    return start((tutti_gpu_op){ .kind = TUTTI_GPU_ALLGATHER,
                                 .src = src,
                                 .dst = dst,
                                 .count = count,
                                 .type = type,
                                 .gpu = gpu,
                                 .stream = stream });
}

tutti_status tutti_gpu_broadcast(const void *src, void *dst, size_t count, tutti_dtype type,
                                 int root, tutti_gpu *gpu, void *stream)
{
    return start((tutti_gpu_op){ .kind = TUTTI_GPU_BROADCAST, .src = src, .dst = dst,
                                 .count = count, .type = type, .root = root, .gpu = gpu,
                                 .stream = stream });
}

tutti_status tutti_gpu_gather(const void *src, void *dst, size_t count, tutti_dtype type, int root,
                              tutti_gpu *gpu, void *stream)
{
    return start((tutti_gpu_op){ .kind = TUTTI_GPU_GATHER,
                                 .src = src,
                                 .dst = dst,
                                 .count = count,
                                 .type = type,
                                 .root = root,
                                 .gpu = gpu,
                                 .stream = stream });
}

tutti_status tutti_gpu_scatter(const void *src, void *dst, size_t count, tutti_dtype type, int root,
                               tutti_gpu *gpu, void *stream)
{
    return start((tutti_gpu_op){ .kind = TUTTI_GPU_SCATTER,
                                 .src = src,
                                 .dst = dst,
                                 .count = count,
                                 .type = type,
                                 .root = root,
                                 .gpu = gpu,
                                 .stream = stream });
}

tutti_status tutti_gpu_alltoall(const void *src, void *dst, size_t count, tutti_dtype type,
                                tutti_gpu *gpu, void *stream)
{
    return start((tutti_gpu_op){ .kind = TUTTI_GPU_ALLTOALL,
                                 .src = src,
                                 .dst = dst,
                                 .count = count,
                                 .type = type,
                                 .gpu = gpu,
                                 .stream = stream });
}

tutti_status tutti_gpu_barrier(tutti_gpu *gpu, void *stream)
{
    return start((tutti_gpu_op){ .kind = TUTTI_GPU_BARRIER, .gpu = gpu, .stream = stream });
}

tutti_status tutti_gpu_send(const void *buf, size_t count, tutti_dtype type, int peer,
                            tutti_gpu *gpu, void *stream)
{
    return start((tutti_gpu_op){ .kind = TUTTI_GPU_SEND,
                                 .src = buf,
                                 .count = count,
                                 .type = type,
                                 .root = peer,
                                 .gpu = gpu,
                                 .stream = stream });
}

tutti_status tutti_gpu_recv(void *buf, size_t count, tutti_dtype type, int peer, tutti_gpu *gpu,
                            void *stream)
{
    return start((tutti_gpu_op){ .kind = TUTTI_GPU_RECV,
                                 .dst = buf,
                                 .count = count,
                                 .type = type,
                                 .root = peer,
                                 .gpu = gpu,
                                 .stream = stream });
}
