/* Checks of arguments, buffers and streams; every message names the call and the value. */
#include "gpu/check.h"

#include <string.h>

#include "base/checked.h"
#include "gpu/offer.h"
#include "gpu/rma.h"
#include "gpu/staged.h"
#include "reduce/reduce.h"

#define WINDOW TUTTI_GPU_KIND_COUNT     /* no operation, but its memory has the same checks */

static const char *const names[] = {
    [TUTTI_GPU_ALLREDUCE] = "tutti_gpu_allreduce",
    [TUTTI_GPU_REDUCE] = "tutti_gpu_reduce",
    [TUTTI_GPU_REDUCE_SCATTER] = "tutti_gpu_reduce_scatter",
    [TUTTI_GPU_ALLGATHER] = "tutti_gpu_allgather",
    [TUTTI_GPU_BROADCAST] = "tutti_gpu_broadcast",
    [TUTTI_GPU_GATHER] = "tutti_gpu_gather",
    [TUTTI_GPU_SCATTER] = "tutti_gpu_scatter",
    [TUTTI_GPU_ALLTOALL] = "tutti_gpu_alltoall",
    [TUTTI_GPU_BARRIER] = "tutti_gpu_barrier",
    [TUTTI_GPU_SEND] = "tutti_gpu_send",
    [TUTTI_GPU_RECV] = "tutti_gpu_recv",
    [TUTTI_GPU_PUT_SIGNAL] = "tutti_gpu_put_signal",
    [TUTTI_GPU_WAIT_SIGNAL] = "tutti_gpu_wait_signal",
    [TUTTI_GPU_GET] = "tutti_gpu_get",
    [TUTTI_GPU_ATOMIC] = "tutti_gpu_atomic",
    [TUTTI_GPU_ALLTOALLV_DYNAMIC] = "tutti_gpu_alltoallv_dynamic",
    [WINDOW] = "tutti_gpu_window_create",
};

const char *tt_gpu_kind_name(tutti_gpu_kind kind)
{
    return (unsigned)kind <= WINDOW ? names[kind] : "tutti_gpu_group";
}

static bool reduces(tutti_gpu_kind kind)
{
    return kind == TUTTI_GPU_ALLREDUCE || kind == TUTTI_GPU_REDUCE ||
           kind == TUTTI_GPU_REDUCE_SCATTER;
}

static bool has_root(tutti_gpu_kind kind)
{
    return kind == TUTTI_GPU_REDUCE || kind == TUTTI_GPU_BROADCAST || kind == TUTTI_GPU_GATHER ||
           kind == TUTTI_GPU_SCATTER || !tt_gpu_is_collective(kind);
}

int tt_gpu_memory_kind(const struct tt_cuda *cu, const void *pointer)
{
    unsigned kind = 0;

    if (cu->pointer_attribute(&kind, TT_CUDA_POINTER_MEMORY, tt_cuda_address_of(pointer)))
        return 0;
    return (int)kind;
}

static tutti_status check_values(const tutti_gpu_op *op)
{
    const char *call = tt_gpu_kind_name(op->kind);
    const int nranks = tutti_comm_size(op->gpu->comm);
    const size_t elem = tutti_dtype_bytes(op->type);

    if (!elem)
        return tt_fail(TUTTI_ERR_INVALID, "%s: type is %d: must be 0 to %d", call, (int)op->type,
                       TUTTI_DTYPE_COUNT - 1);
    if (reduces(op->kind) && (unsigned)op->op >= TUTTI_REDOP_COUNT)
        return tt_fail(TUTTI_ERR_INVALID, "%s: op is %d: must be 0 to %d", call, (int)op->op,
                       TUTTI_REDOP_COUNT - 1);
    if (reduces(op->kind) && op->type >= TUTTI_F16 && op->op >= TUTTI_BAND && op->op <= TUTTI_BXOR)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s is not defined for %s", call,
                       tutti_redop_name(op->op), tutti_dtype_name(op->type));
    if (op->divisor > UINT32_MAX || (op->divisor && !(reduces(op->kind) && op->op == TUTTI_AVG)))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: divisor is %llu: must be at most 4294967295, and 0 unless op is avg",
                       call, (unsigned long long)op->divisor);
    if (reduces(op->kind) && op->op == TUTTI_PREMUL_SUM && !op->scale_from &&
        tt_reduce_scale_is_zero(op->scale))
        return tt_fail(TUTTI_ERR_INVALID, "%s: scale is 0: must not be 0 if op is premul_sum",
                       call);
    if (has_root(op->kind) && (op->root < 0 || op->root >= nranks))
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s is %d: must be 0 to %d", call,
                       tt_gpu_is_collective(op->kind) ? "root" : "peer", op->root, nranks - 1);
    if (op->count > SIZE_MAX / elem / (size_t)nranks)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: count %zu on each of %d ranks does not fit in the address space", call,
                       op->count, nranks);
    if (op->tag == TT_GPU_VERDICT_TAG)
        return tt_fail(TUTTI_ERR_INVALID, "%s: tag %u is reserved", call, op->tag);
    if (op->algo && strlen(op->algo) >= TT_GPU_ALGO_BYTES)
        return tt_fail(TUTTI_ERR_INVALID, "%s: unknown algorithm \"%.80s...\"", call, op->algo);
    return TUTTI_OK;
}

static tutti_status check_quant(const tutti_gpu_op *op)
{
    const char *call = tt_gpu_kind_name(op->kind);
    const bool is_float = op->type == TUTTI_F16 || op->type == TUTTI_BF16 ||
                          op->type == TUTTI_F32 || op->type == TUTTI_F64;

    if ((unsigned)op->quant >= TUTTI_QUANT_COUNT)
        return tt_fail(TUTTI_ERR_INVALID, "%s: quant is %d: must be 0 to %d", call, (int)op->quant,
                       TUTTI_QUANT_COUNT - 1);
    if (!op->quant)
        return op->error_feedback
                   ? tt_fail(TUTTI_ERR_INVALID,
                             "%s: error_feedback is set, but quant is TUTTI_QUANT_NONE", call)
                   : TUTTI_OK;
    if (!reduces(op->kind) && op->kind != TUTTI_GPU_ALLGATHER && op->kind != TUTTI_GPU_BROADCAST)
        return tt_fail(TUTTI_ERR_UNSUPPORTED, "%s: does not support quantization (quant is %s)",
                       call, tutti_quant_name(op->quant));
    if (reduces(op->kind) && op->op != TUTTI_SUM && op->op != TUTTI_AVG)
        return tt_fail(TUTTI_ERR_UNSUPPORTED, "%s: quantization supports only sum and avg, not %s",
                       call, tutti_redop_name(op->op));
    return is_float ? TUTTI_OK
                    : tt_fail(TUTTI_ERR_UNSUPPORTED,
                              "%s: type %s cannot be quantized: must be f16, bf16, f32 or f64",
                              call, tutti_dtype_name(op->type));
}

static bool has_windows(tutti_gpu *gpu)
{
    bool has;

    pthread_mutex_lock(&gpu->lock);
    has = gpu->rma != NULL;
    pthread_mutex_unlock(&gpu->lock);
    return has;
}

static tutti_status check_atomic(const tutti_gpu_op *op)
{
    const char *call = tt_gpu_kind_name(op->kind);
    const size_t bytes = tutti_dtype_bytes(op->type);

    if (op->kind != TUTTI_GPU_ATOMIC)
        return TUTTI_OK;
    if ((unsigned)op->atomic > TUTTI_ATOMIC_XOR)
        return tt_fail(TUTTI_ERR_INVALID, "%s: op is %d: must be 0 to %d", call, (int)op->atomic,
                       TUTTI_ATOMIC_XOR);
    if (op->type >= TUTTI_F16 || (bytes != 4 && bytes != 8))
        return tt_fail(TUTTI_ERR_INVALID, "%s: type is %s: must be an integer of 4 or 8 bytes",
                       call, tutti_dtype_name(op->type));
    if (op->offset % bytes)
        return tt_fail(TUTTI_ERR_INVALID, "%s: offset is %zu: must be a multiple of %zu", call,
                       op->offset, bytes);
    return TUTTI_OK;
}

/* Checks the window, the offset and the signal of a window operation or a wait. */
static tutti_status check_window_access(const tutti_gpu_op *op)
{
    const char *call = tt_gpu_kind_name(op->kind);
    const size_t bytes = op->count * tutti_dtype_bytes(op->type);
    const struct tutti_gpu_window *w = op->window;

    if (tt_gpu_is_collective(op->kind) || op->kind < TUTTI_GPU_PUT_SIGNAL)
        return TUTTI_OK;
    if (op->signal >= TUTTI_GPU_SIGNALS)
        return tt_fail(TUTTI_ERR_INVALID, "%s: signal is %u: must be 0 to %u", call, op->signal,
                       TUTTI_GPU_SIGNALS - 1);
    if (!has_windows(op->gpu))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: the tutti_gpu has no window (call tutti_gpu_window_create first)",
                       call);
    if (op->kind == TUTTI_GPU_WAIT_SIGNAL)
        return TUTTI_OK;
    if (!w)
        return bytes ? tt_fail(TUTTI_ERR_INVALID, "%s: window is NULL", call) : TUTTI_OK;
    if (w->gpu != op->gpu)
        return tt_fail(TUTTI_ERR_INVALID, "%s: the window belongs to another tutti_gpu", call);
    if (op->offset > w->bytes[op->root] || bytes > w->bytes[op->root] - op->offset)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: %zu bytes at offset %zu are outside the window of rank %d (%zu bytes)",
                       call, bytes, op->offset, op->root, (size_t)w->bytes[op->root]);
    return TUTTI_OK;
}

/* The allocation at an address. */
struct allocation {
    int kind;                   /* see tt_gpu_memory_kind */
    int device;                 /* -1: unknown */
    tt_cuda_address end;        /* 0: unknown */
    bool is_whole;              /* not mapped in pieces, so no other piece can follow it */
};

static struct allocation allocation_at(const struct tt_cuda *cu, tt_cuda_address at)
{
    static const int which[] = { TT_CUDA_POINTER_MEMORY, TT_CUDA_POINTER_DEVICE,
                                 TT_CUDA_POINTER_RANGE_START, TT_CUDA_POINTER_RANGE_SIZE,
                                 TT_CUDA_POINTER_IPC };
    unsigned kind = 0, ipc = 0;
    tt_cuda_address start = 0;
    size_t bytes = 0;
    int device = -1;
    void *out[] = { &kind, &device, &start, &bytes, &ipc };

    if (!cu->pointer_attributes(sizeof which / sizeof *which, which, out, at))
        return (struct allocation){
            .kind = (int)kind, .device = device, .end = start + bytes, .is_whole = bytes && ipc
        };
    kind = 0;       /* the driver lacks an attribute of this memory */
    if (cu->pointer_attribute(&kind, TT_CUDA_POINTER_MEMORY, at))
        return (struct allocation){ .device = -1 };
    if (cu->pointer_attribute(&device, TT_CUDA_POINTER_DEVICE, at))
        device = -1;
    return (struct allocation){ .kind = (int)kind, .device = device };
}

static tutti_status check_allocation(const tutti_gpu_op *op, const char *what, tt_cuda_address at,
                                     const struct allocation *a)
{
    const char *call = tt_gpu_kind_name(op->kind);

    if (!a->kind)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: %s: %p is not device memory (it is host memory, was freed, or lies "
                       "beyond the end of an allocation)",
                       call, what, (void *)(uintptr_t)at);
    if (a->kind == TT_CUDA_MEMORY_DEVICE && a->device >= 0 && a->device != op->gpu->device)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: %s: %p is memory of device %d, but the "
                       "communicator's device is %d",
                       call, what, (void *)(uintptr_t)at, a->device, op->gpu->device);
    return TUTTI_OK;
}

/* Checks all allocations from the first to the last byte: one, or adjacent mapped pieces. Without
 * this check, a stream would reject the copy when other ranks already wait for it. */
static tutti_status check_range(const tutti_gpu_op *op, const char *what, tt_cuda_address at,
                                tt_cuda_address last)
{
    for (;;) {
        const struct allocation a = allocation_at(op->gpu->cu, at);
        const tutti_status st = check_allocation(op, what, at, &a);

        if (st || at == last || a.end > last)
            return st;
        if (a.is_whole)
            return tt_fail(TUTTI_ERR_INVALID,
                           "%s: %s ends at %p, which is beyond the end of its allocation, %p",
                           tt_gpu_kind_name(op->kind), what, (void *)(uintptr_t)(last + 1),
                           (void *)(uintptr_t)a.end);
        at = a.end > at ? a.end : last;
    }
}

tutti_status tt_gpu_check_buffer(const tutti_gpu_op *op, const char *what, const void *buf,
                                 size_t bytes)
{
    if (!bytes)
        return TUTTI_OK;
    if (!buf)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s is NULL", tt_gpu_kind_name(op->kind), what);
    if (!tt_memory_can_be(buf, bytes))      /* the last byte could wrap into another allocation */
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s at %p with %zu bytes exceeds the address space",
                       tt_gpu_kind_name(op->kind), what, buf, bytes);
    return check_range(op, what, tt_cuda_address_of(buf), tt_cuda_address_of(buf) + bytes - 1);
}

tutti_status tt_gpu_check_window(tutti_gpu *gpu, const void *mem, size_t bytes)
{
    const tutti_gpu_op op = { .kind = WINDOW, .gpu = gpu };

    return tt_gpu_check_buffer(&op, "mem", mem, bytes);
}

/* Requires that src and dst are the same data (in place), or do not overlap. */
static tutti_status check_overlap(const tutti_gpu_op *op, size_t src_bytes, size_t dst_bytes)
{
    const uintptr_t src = (uintptr_t)op->src, dst = (uintptr_t)op->dst;
    const uintptr_t block = op->count * tutti_dtype_bytes(op->type);
    const uintptr_t mine = (uintptr_t)tutti_comm_rank(op->gpu->comm) * block;
    bool in_place = src == dst;

    if (!src_bytes || !dst_bytes || src + src_bytes <= dst || dst + dst_bytes <= src)
        return TUTTI_OK;
    if (op->kind == TUTTI_GPU_ALLGATHER || op->kind == TUTTI_GPU_GATHER)
        in_place = src == dst + mine;
    else if (op->kind == TUTTI_GPU_REDUCE_SCATTER || op->kind == TUTTI_GPU_SCATTER)
        in_place = dst == src + mine;
    return in_place
               ? TUTTI_OK
               : tt_fail(TUTTI_ERR_INVALID, "%s: src and dst overlap, but the call is not in place",
                         tt_gpu_kind_name(op->kind));
}

static tutti_status check_feedback_apart(const tutti_gpu_op *op, const struct tt_gpu_blocks *blocks)
{
    const size_t bytes = op->count * tutti_dtype_bytes(op->type);
    const size_t own = blocks->nsrc * op->count * sizeof(float);

    if (tt_overlap(op->error_feedback, own, op->src, blocks->nsrc * bytes) ||
        tt_overlap(op->error_feedback, own, op->dst, blocks->ndst * bytes))
        return tt_fail(TUTTI_ERR_INVALID, "%s: error_feedback (%zu bytes) overlaps src or dst",
                       tt_gpu_kind_name(op->kind), own);
    return TUTTI_OK;
}

static tutti_status check_buffers(const tutti_gpu_op *op)
{
    const tutti_comm *comm = op->gpu->comm;
    const struct tt_gpu_blocks blocks =
        tt_gpu_blocks_of(op, tutti_comm_rank(comm), tutti_comm_size(comm));
    const size_t bytes = op->count * tutti_dtype_bytes(op->type);
    tutti_status st = tt_gpu_check_buffer(op, "src", op->src, blocks.nsrc * bytes);

    if (!st)
        st = tt_gpu_check_buffer(op, "dst", op->dst, blocks.ndst * bytes);
    if (!st && op->error_feedback)
        st = tt_gpu_check_buffer(op, "error_feedback", op->error_feedback,
                                 blocks.nsrc * op->count * sizeof(float));
    if (!st && op->error_feedback)
        st = check_feedback_apart(op, &blocks);
    return st ? st : check_overlap(op, blocks.nsrc * bytes, blocks.ndst * bytes);
}

static tutti_status check_stream(const tutti_gpu_op *op)
{
    const struct tt_cuda *cu = op->gpu->cu;
    const char *call = tt_gpu_kind_name(op->kind);
    tt_cuda_context context = NULL;
    tt_cuda_result error;
    int capture = 0;

    error = cu->stream_capturing(op->stream, &capture);
    if (error)
        return tt_cuda_fail(cu, error, "%s: cannot use the stream %p", call, op->stream);
    if (capture == TT_CUDA_CAPTURE_ACTIVE && !cu->has_graphs)
        return tt_fail(TUTTI_ERR_UNSUPPORTED,
                       "%s: the stream %p is being captured, but the CUDA driver is too old for "
                       "operations in graphs (version 12.3 is needed)",
                       call, op->stream);
    if (capture == TT_CUDA_CAPTURE_ACTIVE && op->request)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: the stream %p is being captured: operations of a CUDA graph have no "
                       "request (set request to NULL)",
                       call, op->stream);
    if (capture != TT_CUDA_CAPTURE_NONE && capture != TT_CUDA_CAPTURE_ACTIVE)
        return tt_fail(TUTTI_ERR_INVALID, "%s: the stream %p belongs to an invalidated capture",
                       call, op->stream);
    error = cu->stream_context(op->stream, &context);
    if (error)
        return tt_cuda_fail(cu, error, "%s: cannot use the stream %p", call, op->stream);
    if (context != op->gpu->context)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: the stream %p belongs to another device or context than the "
                       "communicator (device %d)",
                       call, op->stream, op->gpu->device);
    return TUTTI_OK;
}

tutti_status tt_gpu_check(const tutti_gpu_op *op)
{
    tutti_status st = check_values(op);

    if (!st)
        st = check_quant(op);
    if (!st)
        st = check_window_access(op);
    if (!st)
        st = check_atomic(op);
    if (!st)
        st = check_buffers(op);
    if (!st)
        st = check_stream(op);
    return st;
}
