/* Calls of the communicator's operations, by kind. */
#include "gpu/post.h"

tutti_status tt_gpu_post(const tutti_gpu_op *op, const void *src, void *dst, size_t n,
                         const tutti_call *options)
{
    tutti_comm *comm = op->gpu->comm;
    tutti_call call = *options;

    call.algo = op->algo;
    call.scale = op->scale;
    call.divisor = op->divisor;
    call.quant = op->quant;
    switch (op->kind) {
    case TUTTI_GPU_ALLREDUCE:
        return tutti_allreduce(src, dst, n, op->type, op->op, comm, &call);
    case TUTTI_GPU_REDUCE:
        return tutti_reduce(src, dst, n, op->type, op->op, op->root, comm, &call);
    case TUTTI_GPU_REDUCE_SCATTER:
        return tutti_reduce_scatter(src, dst, n, op->type, op->op, comm, &call);
    case TUTTI_GPU_ALLGATHER:
        return tutti_allgather(src, dst, n, op->type, comm, &call);
    case TUTTI_GPU_BROADCAST:
        return tutti_broadcast(src, dst, n, op->type, op->root, comm, &call);
    case TUTTI_GPU_GATHER:
        return tutti_gather(src, dst, n, op->type, op->root, comm, &call);
    case TUTTI_GPU_SCATTER:
        return tutti_scatter(src, dst, n, op->type, op->root, comm, &call);
    case TUTTI_GPU_ALLTOALL:
        return tutti_alltoall(src, dst, n, op->type, comm, &call);
    case TUTTI_GPU_BARRIER:
        return tutti_barrier(comm, &call);
    case TUTTI_GPU_SEND:
    case TUTTI_GPU_RECV:
        call = (tutti_call){ .size = call.size, .request = call.request, .tag = op->tag,
                             .timeout_ms = call.timeout_ms };
        return op->kind == TUTTI_GPU_SEND ? tutti_send(src, n, op->type, op->root, comm, &call)
                                          : tutti_recv(dst, n, op->type, op->root, comm, &call);
    case TUTTI_GPU_PUT_SIGNAL:
    case TUTTI_GPU_WAIT_SIGNAL:
    case TUTTI_GPU_GET:
    case TUTTI_GPU_ATOMIC:
    case TUTTI_GPU_ALLTOALLV_DYNAMIC:
    case TUTTI_GPU_KIND_COUNT:
        break;
    }
    return tt_fail(TUTTI_ERR_INVALID, "gpu: unknown operation %d", (int)op->kind);
}
