/* Turns operations into units: checks them, reserves pinned memory, and adds the units to their
 * streams and to the queue. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/options.h"
#include "gpu/capture.h"
#include "gpu/check.h"
#include "gpu/direct.h"
#include "gpu/dynamic.h"
#include "gpu/request.h"
#include "gpu/rma.h"
#include "gpu/scalar.h"
#include "gpu/staged.h"
#include "gpu/start.h"

/* The units of a call, one per tutti_gpu. */
struct units {
    struct tt_gpu_unit **unit;
    tutti_gpu **gpu;
    size_t n;
};

static void free_unit(tutti_gpu *gpu, struct tt_gpu_unit *u)
{
    tt_gpu_direct_untake(gpu, u);
    for (size_t i = 0; i < u->nitems; i++)
        if (u->items[i].request)
            tt_gpu_request_cancel(u->items[i].request);
    tt_gpu_unit_free(u);
}

static void free_units(struct units *us)
{
    for (size_t i = 0; i < us->n; i++)
        if (us->unit[i])
            free_unit(us->gpu[i], us->unit[i]);
    free(us->unit);
    free(us->gpu);
}

static tutti_status add_stream(struct tt_gpu_unit *u, const struct tt_cuda *cu, void *stream)
{
    tutti_status st;

    for (uint32_t i = 0; i < u->nstreams; i++)
        if (u->streams[i] == stream)
            return TUTTI_OK;
    st = tt_gpu_capture_stream(u, cu, stream);
    if (st)
        return st;
    if (u->nstreams == TT_GPU_STREAMS_MAX)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_gpu_group: too many streams for one communicator: the maximum is %u",
                       TT_GPU_STREAMS_MAX);
    u->streams[u->nstreams++] = stream;
    return TUTTI_OK;
}

/* Checks an operation and adds it to the unit, which has room for it. */
static tutti_status add_item(struct tt_gpu_unit *u, const tutti_gpu_op *op)
{
    struct tt_gpu_item *item = &u->items[u->nitems];
    tutti_status st = tt_gpu_check(op);

    if (!st)
        st = add_stream(u, op->gpu->cu, op->stream);
    if (st)
        return st;
    item->op = *op;
    item->window = op->window ? op->window->id : TT_GPU_NO_WINDOW;
    if (op->algo)
        strcpy(item->algo, op->algo);       /* tt_gpu_check has checked its length */
    if (op->op == TUTTI_PREMUL_SUM && op->scale_from &&
        tt_gpu_memory_kind(op->gpu->cu, op->scale_from) != TT_CUDA_MEMORY_DEVICE)
        tt_gpu_scalar_take(&item->op);
    if (op->kind == TUTTI_GPU_ALLTOALLV_DYNAMIC)
        st = tt_gpu_dynamic_take(item, op);
    if (st)
        return st;
    u->nitems++;
    if (op->request) {
        item->request = tt_gpu_request_create();
        if (!item->request)
            return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory", tt_gpu_kind_name(op->kind));
    }
    return TUTTI_OK;
}

/* Pinned memory of an operation. */
static size_t bytes_of(const tutti_gpu *gpu, const struct tt_gpu_item *item)
{
    if (item->op.kind == TUTTI_GPU_PUT_SIGNAL)
        return tt_gpu_rma_bytes(gpu);
    if (item->op.kind == TUTTI_GPU_ALLTOALLV_DYNAMIC)
        return tt_gpu_dynamic_bytes(item);
    return tt_gpu_is_collective(item->op.kind)
               ? tt_gpu_staged_bytes(gpu, &item->op) + sizeof(uint64_t)
               : 0;
}

/* Reserves the pinned memory of a unit: collectives use it in turn, then all sends and receives at
 * once. */
static tutti_status reserve_memory(tutti_gpu *gpu, struct tt_gpu_unit *u)
{
    size_t bytes = tt_gpu_p2p_bytes(gpu, u->items, u->nitems);
    tutti_status st = TUTTI_OK;

    u->direct_bytes = tt_gpu_direct_bytes(gpu, u);
    if (u->is_captured)
        tt_gpu_direct_take_captured(gpu, u);
    else
        st = tt_gpu_direct_take(gpu, u);
    if (st || u->slot || u->memory)
        return st;
    for (size_t i = 0; i < u->nitems; i++) {
        const size_t own = bytes_of(gpu, &u->items[i]);

        bytes = own > bytes ? own : bytes;
    }
    u->arena_bytes = bytes;
    return tt_gpu_reserve(gpu, bytes);
}

/* Makes the unit of one gpu from its operations in ops[n]. */
static tutti_status make_unit(struct tt_gpu_unit *u, tutti_gpu *gpu, const tutti_gpu_op *ops,
                              size_t n)
{
    tutti_status st = tt_gpu_failure(gpu);

    if (!st)
        st = tt_gpu_enter(gpu);
    if (st)
        return st;
    for (size_t i = 0; i < n && !st; i++)
        if (ops[i].gpu == gpu)
            st = add_item(u, &ops[i]);
    if (!st)
        st = reserve_memory(gpu, u);
    tt_gpu_leave(gpu);
    return st;
}

static size_t count_of(tutti_gpu *gpu, const tutti_gpu_op *ops, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += ops[i].gpu == gpu;
    return count;
}

static bool is_listed(const struct units *us, const tutti_gpu *gpu)
{
    for (size_t i = 0; i < us->n; i++)
        if (us->gpu[i] == gpu)
            return true;
    return false;
}

static tutti_status make_units(struct units *us, const tutti_gpu_op *ops, size_t n)
{
    us->unit = calloc(n, sizeof(struct tt_gpu_unit *));
    us->gpu = calloc(n, sizeof(tutti_gpu *));
    if (!us->unit || !us->gpu)
        goto nomem;
    for (size_t i = 0; i < n; i++) {
        struct tt_gpu_unit *u;
        tutti_status st;

        if (is_listed(us, ops[i].gpu))
            continue;
        u = calloc(1, sizeof *u);
        if (!u)
            goto nomem;
        us->unit[us->n] = u;
        us->gpu[us->n++] = ops[i].gpu;
        u->items = calloc(count_of(ops[i].gpu, ops, n), sizeof *u->items);
        if (!u->items)
            goto nomem;
        st = make_unit(u, ops[i].gpu, ops, n);
        if (st)
            return st;
    }
    return TUTTI_OK;
nomem:
    return tt_fail(TUTTI_ERR_NOMEM, "tutti_gpu_group: out of memory");
}

/* Sets *captured if the units are captured: all of them must be, or none. */
static tutti_status check_captures(const struct units *us, bool *captured)
{
    size_t n = 0;

    for (size_t i = 0; i < us->n; i++)
        n += us->unit[i]->is_captured;
    *captured = n > 0;
    if (n && n < us->n)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_gpu_group: the streams of %zu of %zu communicators are being "
                       "captured, but those of the others are not",
                       n, us->n);
    return TUTTI_OK;
}

/* Stores the requests in the caller's variables, when nothing can fail any more. */
static void set_requests(const struct units *us)
{
    for (size_t i = 0; i < us->n; i++)
        for (size_t k = 0; k < us->unit[i]->nitems; k++)
            if (us->unit[i]->items[k].request)
                *us->unit[i]->items[k].op.request = us->unit[i]->items[k].request;
}

/* Reads the operations of a program that may be built for another release of the library. */
static tutti_status take_ops(tutti_gpu_op *mine, const tutti_gpu_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const void *op = (const char *)ops + i * ops->size;
        tutti_status st = tt_options_take(&mine[i], sizeof *mine, sizeof *mine, op,
                                          "tutti_gpu_group", "op", "tutti_gpu_op");

        if (!st)
            st = tt_options_enum("tutti_gpu_group", "op.kind", (int)mine[i].kind,
                                 TUTTI_GPU_KIND_COUNT - 1);
        if (!st && !mine[i].gpu)
            st = tt_fail(TUTTI_ERR_INVALID, "%s: gpu is NULL", tt_gpu_kind_name(mine[i].kind));
        if (!st && mine[i].kind == TUTTI_GPU_BARRIER)
            mine[i].count = 0;
        if (!st && mine[i].kind == TUTTI_GPU_WAIT_SIGNAL)
            mine[i].type = TUTTI_U8;
        if (!st && mine[i].kind == TUTTI_GPU_ATOMIC)
            mine[i].count = 1;
        if (st)
            return st;
    }
    return TUTTI_OK;
}

tutti_status tutti_gpu_group(const tutti_gpu_op *ops, size_t n)
{
    struct units us = { 0 };
    tutti_gpu_op *mine;
    bool captured = false;
    tutti_status st;

    if (!n)
        return TUTTI_OK;
    if (!ops)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_gpu_group: ops is NULL");
    if (!tt_array_can_be(ops, n, sizeof *ops))
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_gpu_group: %zu operations do not fit in the address space", n);
    mine = calloc(n, sizeof *mine);
    if (!mine)
        return tt_fail(TUTTI_ERR_NOMEM, "tutti_gpu_group: out of memory");
    st = take_ops(mine, ops, n);
    if (!st)
        st = make_units(&us, mine, n);
    if (!st)
        st = check_captures(&us, &captured);
    if (st) {
        free_units(&us);
    } else {
        set_requests(&us);
        st = captured ? tt_gpu_capture_add(us.unit, us.gpu, us.n)
                      : tt_gpu_start(us.unit, us.gpu, us.n);
        free(us.unit);
        free(us.gpu);
    }
    free(mine);
    return st;
}

tutti_status tutti_gpu_run(tutti_gpu *gpu, tutti_status (*job)(tutti_comm *comm, void *arg),
                           void *arg)
{
    struct tt_gpu_job call = { .job = job, .arg = arg };
    struct tt_gpu_unit *u;
    tutti_gpu_request *request;
    tutti_status st, ended;

    if (!gpu || !job)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_gpu_run: %s is NULL", gpu ? "job" : "gpu");
    u = calloc(1, sizeof *u);
    request = u ? tt_gpu_request_create() : NULL;
    if (!request) {
        free(u);
        return tt_fail(TUTTI_ERR_NOMEM, "tutti_gpu_run: out of memory");
    }
    u->job = &call;
    u->job_request = request;
    st = tt_gpu_start(&u, &gpu, 1);
    ended = tutti_gpu_wait(request);
    return st ? st : ended;
}
