/* Collectives, sends, receives, and operations of reductions. */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "group.h"

static const tutti_dtype types[] = {
    TUTTI_I8, TUTTI_U8, TUTTI_I32, TUTTI_U32, TUTTI_I64, TUTTI_U64,
    TUTTI_F16, TUTTI_F32, TUTTI_F64, TUTTI_BF16, TUTTI_F8E4M3, TUTTI_F8E5M2,
};
#define NTYPES ((int)(sizeof types / sizeof *types))

static const tutti_redop operations[NCCL_OPS] = { TUTTI_SUM, TUTTI_PROD, TUTTI_MAX, TUTTI_MIN,
                                                  TUTTI_AVG };

static ncclResult_t set_type(tutti_gpu_op *op, ncclDataType_t type, const char *call)
{
    if (type < 0 || type >= NTYPES)
        return nccl_fail(ncclInvalidArgument, "%s: unknown data type %d", call, type);
    op->type = types[type];
    return ncclSuccess;
}

/* Sets the operation; *value becomes a factor on the host. */
static ncclResult_t set_operation(tutti_gpu_op *op, struct ncclComm *c, ncclRedOp_t redop,
                                  const void **value, const char *call)
{
    ncclResult_t result = ncclSuccess;
    int i = redop - NCCL_OPS;

    if (redop >= 0 && redop < NCCL_OPS) {
        op->op = operations[redop];
        return ncclSuccess;
    }
    pthread_mutex_lock(&c->lock);
    if (i < 0 || i >= c->nfactors || !c->factors[i].used) {
        result = nccl_fail(ncclInvalidArgument, "%s: unknown reduction operation %d", call, redop);
    } else if (c->factors[i].type != op->type) {
        result = nccl_fail(ncclInvalidArgument,
                           "%s: the operation %d was created for another data "
                           "type",
                           call, redop);
    } else {
        op->op = TUTTI_PREMUL_SUM;
        op->scale_from = c->factors[i].on_device ? c->factors[i].device : NULL;
        if (!c->factors[i].on_device) {
            memcpy(&op->scale, c->factors[i].value, sizeof op->scale);
            *value = &op->scale;        /* a value of the data type, not a double, until it is
                                           converted */
        }
    }
    pthread_mutex_unlock(&c->lock);
    return result;
}

struct call {
    tutti_gpu_kind kind;
    const char *name;
};
#define CALL(kind, name) ((struct call){ TUTTI_GPU_##kind, name })
#define NO_REDOP (-1)

/* Adds an operation. `root` is the root, or the peer of a send or receive; 0 if there is
 * neither. */
static ncclResult_t add(struct call call, const void *src, void *dst, size_t count,
                        ncclDataType_t type, ncclRedOp_t redop, int root, struct ncclComm *c,
                        cudaStream_t stream)
{
    tutti_gpu_op op = { .size = sizeof op,
                        .kind = call.kind,
                        .src = src,
                        .dst = dst,
                        .count = count,
                        .root = root,
                        .stream = stream };
    const void *value = NULL;
    ncclResult_t result = nccl_comm_check(c, call.name);

    if (!result)
        result = set_type(&op, type, call.name);
    if (!result && op.kind <= TUTTI_GPU_REDUCE_SCATTER)
        result = set_operation(&op, c, redop, &value, call.name);
    return result ? nccl_group_refuse(result) : nccl_group_add(c, &op, value);
}

NCCL_API(ncclResult_t, ncclAllReduce, const void *src, void *dst, size_t count, ncclDataType_t type,
         ncclRedOp_t redop, ncclComm_t comm, cudaStream_t stream)
{
    return add(CALL(ALLREDUCE, "ncclAllReduce"), src, dst, count, type, redop, 0, comm, stream);
}

NCCL_API(ncclResult_t, ncclReduce, const void *src, void *dst, size_t count, ncclDataType_t type,
         ncclRedOp_t redop, int root, ncclComm_t comm, cudaStream_t stream)
{
    return add(CALL(REDUCE, "ncclReduce"), src, dst, count, type, redop, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclReduceScatter, const void *src, void *dst, size_t count,
         ncclDataType_t type, ncclRedOp_t redop, ncclComm_t comm, cudaStream_t stream)
{
    return add(CALL(REDUCE_SCATTER, "ncclReduceScatter"), src, dst, count, type, redop, 0, comm,
               stream);
}

NCCL_API(ncclResult_t, ncclBroadcast, const void *src, void *dst, size_t count, ncclDataType_t type,
         int root, ncclComm_t comm, cudaStream_t stream)
{
    return add(CALL(BROADCAST, "ncclBroadcast"), src, dst, count, type, NO_REDOP, root, comm,
               stream);
}

NCCL_API(ncclResult_t, ncclBcast, void *buf, size_t count, ncclDataType_t type, int root,
         ncclComm_t comm, cudaStream_t stream)
{
    return add(CALL(BROADCAST, "ncclBcast"), buf, buf, count, type, NO_REDOP, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclAllGather, const void *src, void *dst, size_t count, ncclDataType_t type,
         ncclComm_t comm, cudaStream_t stream)
{
    return add(CALL(ALLGATHER, "ncclAllGather"), src, dst, count, type, NO_REDOP, 0, comm, stream);
}

NCCL_API(ncclResult_t, ncclGather, const void *src, void *dst, size_t count, ncclDataType_t type,
         int root, ncclComm_t comm, cudaStream_t stream)
{
    return add(CALL(GATHER, "ncclGather"), src, dst, count, type, NO_REDOP, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclScatter, const void *src, void *dst, size_t count, ncclDataType_t type,
         int root, ncclComm_t comm, cudaStream_t stream)
{
    return add(CALL(SCATTER, "ncclScatter"), src, dst, count, type, NO_REDOP, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclAlltoAll, const void *src, void *dst, size_t count, ncclDataType_t type,
         ncclComm_t comm, cudaStream_t stream)
{
    return add(CALL(ALLTOALL, "ncclAlltoAll"), src, dst, count, type, NO_REDOP, 0, comm, stream);
}

NCCL_API(ncclResult_t, ncclSend, const void *src, size_t count, ncclDataType_t type, int peer,
         ncclComm_t comm, cudaStream_t stream)
{
    return add(CALL(SEND, "ncclSend"), src, NULL, count, type, NO_REDOP, peer, comm, stream);
}

NCCL_API(ncclResult_t, ncclRecv, void *dst, size_t count, ncclDataType_t type, int peer,
         ncclComm_t comm, cudaStream_t stream)
{
    return add(CALL(RECV, "ncclRecv"), NULL, dst, count, type, NO_REDOP, peer, comm, stream);
}

/* ---- puts and signals ---- */

/* Sets the signal of a context. */
static ncclResult_t set_signal(tutti_gpu_op *op, int signal, int context, const char *call)
{
    if (signal < 0 || signal >= NCCL_SIGNALS)
        return nccl_fail(ncclInvalidArgument, "%s: signal is %d: must be 0 to %d", call, signal,
                         NCCL_SIGNALS - 1);
    if (context < 0 || context >= NCCL_CONTEXTS)
        return nccl_fail(ncclInvalidArgument, "%s: context is %d: must be 0 to %d", call, context,
                         NCCL_CONTEXTS - 1);
    op->signal = (uint32_t)(context * NCCL_SIGNALS + signal);
    return ncclSuccess;
}

static ncclResult_t put(tutti_gpu_op *op, int signal, int context, unsigned flags,
                        struct ncclComm *c, struct ncclWindow *w, const char *call)
{
    ncclResult_t result = nccl_comm_check(c, call);

    op->size = sizeof *op;
    op->kind = TUTTI_GPU_PUT_SIGNAL;
    if (!result)
        result = set_signal(op, signal, context, call);
    if (!result && flags)
        result = nccl_fail(ncclInvalidArgument, "%s: flags is %#x: must be 0", call, flags);
    return result ? nccl_group_refuse(result) : nccl_group_add_put(c, op, w);
}

NCCL_API(ncclResult_t, ncclPutSignal, const void *src, size_t count, ncclDataType_t type, int peer,
         struct ncclWindow *window, size_t offset, int signal, int context, unsigned flags,
         ncclComm_t comm, cudaStream_t stream)
{
    tutti_gpu_op op = {
        .src = src, .count = count, .root = peer, .offset = offset, .stream = stream
    };
    ncclResult_t result = set_type(&op, type, "ncclPutSignal");

    if (!result && !window)
        result = nccl_fail(ncclInvalidArgument, "ncclPutSignal: the window is NULL");
    if (result)
        return nccl_group_refuse(result);
    return put(&op, signal, context, flags, comm, window, "ncclPutSignal");
}

NCCL_API(ncclResult_t, ncclSignal, int peer, int signal, int context, unsigned flags,
         ncclComm_t comm, cudaStream_t stream)
{
    tutti_gpu_op op = { .root = peer, .stream = stream };

    return put(&op, signal, context, flags, comm, NULL, "ncclSignal");
}

/* A wait of one descriptor. */
static ncclResult_t wait_for(const ncclWaitSignalDesc_t *d, struct ncclComm *c, cudaStream_t stream)
{
    tutti_gpu_op op = { .size = sizeof op,
                        .kind = TUTTI_GPU_WAIT_SIGNAL,
                        .root = d->peer,
                        .count = (size_t)d->op_count,
                        .stream = stream };
    ncclResult_t result = set_signal(&op, d->signal, d->context, "ncclWaitSignal");

    if (!result && d->op_count < 1)
        result = nccl_fail(ncclInvalidArgument,
                           "ncclWaitSignal: opCnt is %d: must be at least 1",
                           d->op_count);
    return result ? nccl_group_refuse(result) : nccl_group_add(c, &op, NULL);
}

NCCL_API(ncclResult_t, ncclWaitSignal, int n, ncclWaitSignalDesc_t *descriptors, ncclComm_t comm,
         cudaStream_t stream)
{
    ncclResult_t result = nccl_comm_check(comm, "ncclWaitSignal"), ended;

    if (!result && (n < 0 || (n && !descriptors)))
        result = nccl_fail(ncclInvalidArgument, "ncclWaitSignal: %s",
                           n < 0 ? "the number of descriptors is negative" : "NULL argument");
    if (result)
        return nccl_group_refuse(result);
    nccl_group_begin();             /* all waits are started, or none */
    for (int i = 0; i < n && !result; i++)
        result = wait_for(&descriptors[i], comm, stream);
    ended = nccl_group_end();
    return result ? result : ended;
}

/* ---- operations of reductions ---- */

/* Returns a free entry of the table, or NULL without memory. The caller holds the lock. */
static struct nccl_factor *free_factor(struct ncclComm *c)
{
    struct nccl_factor *more;

    for (int i = 0; i < c->nfactors; i++)
        if (!c->factors[i].used)
            return &c->factors[i];
    more = realloc(c->factors, (size_t)(c->nfactors + 1) * sizeof *more);
    if (!more)
        return NULL;
    c->factors = more;
    return &c->factors[c->nfactors++];
}

NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t *op, void *scalar, ncclDataType_t type,
         ncclScalarResidence_t residence, ncclComm_t comm)
{
    const char *call = "ncclRedOpCreatePreMulSum";
    ncclResult_t result = nccl_comm_check(comm, call);
    struct nccl_factor *f;
    tutti_gpu_op typed = { 0 };

    if (!result && (!op || !scalar))
        result = nccl_fail(ncclInvalidArgument, "%s: NULL argument", call);
    if (!result && residence != 0 && residence != 1)
        result =
            nccl_fail(ncclInvalidArgument, "%s: residence is %d: must be 0 or 1", call, residence);
    if (!result)
        result = set_type(&typed, type, call);
    if (result)
        return result;
    pthread_mutex_lock(&comm->lock);
    f = free_factor(comm);
    if (f) {
        *f = (struct nccl_factor){
            .used = true, .on_device = residence == 0, .type = typed.type, .device = scalar
        };
        if (!f->on_device)
            memcpy(f->value, scalar, tutti_dtype_bytes(typed.type));
        *op = NCCL_OPS + (int)(f - comm->factors);
    }
    pthread_mutex_unlock(&comm->lock);
    return f ? ncclSuccess : nccl_fail(ncclSystemError, "%s: out of memory", call);
}

NCCL_API(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm)
{
    ncclResult_t result = nccl_comm_check(comm, "ncclRedOpDestroy");
    const int i = op - NCCL_OPS;

    if (result)
        return result;
    pthread_mutex_lock(&comm->lock);
    if (i < 0 || i >= comm->nfactors || !comm->factors[i].used)
        result = nccl_fail(ncclInvalidArgument,
                           "ncclRedOpDestroy: operation %d was not created by "
                           "ncclRedOpCreatePreMulSum",
                           op);
    else
        comm->factors[i].used = false;
    pthread_mutex_unlock(&comm->lock);
    return result;
}
