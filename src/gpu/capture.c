/* Nodes of units in graphs. */
#include "gpu/capture.h"

#include <stdlib.h>

#include "gpu/captured.h"
#include "gpu/check.h"
#include "gpu/direct.h"
#include "gpu/exchange.h"
#include "gpu/pinned.h"

/* Held while nodes are added, so that units have the same order in all streams and chains. */
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

tutti_status tt_gpu_capture_stream(struct tt_gpu_unit *u, const struct tt_cuda *cu,
                                   tt_cuda_stream stream)
{
    int status = TT_CUDA_CAPTURE_NONE;
    tt_cuda_graph graph = NULL;
    uint64_t id = 0;
    tt_cuda_result error = 0;

    if (cu->has_graphs)
        error = cu->capture_info(stream, &status, &id, &graph, NULL, NULL, NULL);
    if (error)
        return tt_cuda_fail(cu, error, "gpu: cannot use the stream %p", (void *)stream);
    if (status == TT_CUDA_CAPTURE_NONE)
        id = 0;
    if (u->nstreams && u->capture != id)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_gpu_group: the streams %p and %p of one communicator are not in the "
                       "same capture",
                       u->streams[0], (void *)stream);
    u->is_captured = status != TT_CUDA_CAPTURE_NONE;
    u->capture = id;
    u->graph = graph;
    return TUTTI_OK;
}

static void free_unit(tutti_gpu *gpu, struct tt_gpu_unit *u)
{
    tt_gpu_direct_untake(gpu, u);
    tt_gpu_unit_free(u);
}

/* Makes a captured unit that belongs to the graph. On error u is freed. */
static tutti_status give_to_graph(struct tt_gpu_captured **out, tutti_gpu *gpu,
                                  struct tt_gpu_unit *u)
{
    const int mode = tt_cuda_capture_relax(gpu->cu);
    tt_cuda_object object;
    tt_cuda_result error;
    tutti_status st;

    u->can_exchange = tt_gpu_exchange_fits(gpu, u);
    st = tt_gpu_captured_create(out, gpu, u);
    tt_cuda_capture_restore(gpu->cu, mode);
    if (st) {
        free_unit(gpu, u);
        return st;
    }
    error = gpu->cu->object_create(&object, tt_gpu_captured_handle(*out, 0), tt_gpu_captured_drop,
                                   1, TT_CUDA_OBJECT_NO_SYNC);
    if (error) {
        tt_gpu_captured_drop(tt_gpu_captured_handle(*out, 0));
    } else {
        error = gpu->cu->graph_retain(u->graph, object, 1, TT_CUDA_OBJECT_MOVE);
        if (error)
            gpu->cu->object_release(object, 1);
    }
    return error ? tt_cuda_fail(gpu->cu, error, "gpu: cannot attach an object to a CUDA graph")
                 : TUTTI_OK;
}

/* Adds the nodes of a stream that precede the operation, or those that follow it. */
static tt_cuda_result add_nodes(const tutti_gpu *gpu, const struct tt_gpu_captured *c,
                                uint32_t stream, bool end)
{
    tt_cuda_stream handle = c->unit->streams[stream];
    tt_cuda_result error = 0;

    if (end)
        error = gpu->cu->stream_wait_value(handle, c->word_address, c->generation, 0);
    if (!error && end && c->unit->can_exchange)
        error =
            gpu->cu->launch_host(handle, tt_gpu_captured_depart, tt_gpu_captured_handle(c, stream));
    if (!error && c->unit->memory)
        error = tt_gpu_direct_copy(gpu, c->unit, c->unit->memory->mem, end);
    if (!error && !end)
        error =
            gpu->cu->launch_host(handle, tt_gpu_captured_arrive, tt_gpu_captured_handle(c, stream));
    return error;
}

static tutti_status add_all(struct tt_gpu_captured **c, tutti_gpu **gpu, size_t n, bool end)
{
    for (size_t i = 0; i < n; i++) {
        /* the driver may discard a graph that it refuses to extend, and the unit with it */
        const char *name = tt_gpu_kind_name(c[i]->unit->items[0].op.kind);
        tutti_status st = tt_gpu_enter(gpu[i]);
        tt_cuda_result error = 0;

        if (st)
            return st;
        for (uint32_t k = 0; !error && k < c[i]->unit->nstreams; k++)
            error = add_nodes(gpu[i], c[i], k, end);
        tt_gpu_leave(gpu[i]);
        if (error)
            return tt_cuda_fail(gpu[i]->cu, error,
                                "%s: cannot add the operation to the capture of its stream", name);
    }
    return TUTTI_OK;
}

/* Creates all captured units; *made is the number of units that graphs own. */
static tutti_status give_all(struct tt_gpu_captured **c, struct tt_gpu_unit **unit, tutti_gpu **gpu,
                             size_t n, size_t *made)
{
    for (size_t i = 0; i < n; i++) {
        tutti_status st = tt_gpu_enter(gpu[i]);

        if (st)
            return st;
        *made = i + 1;
        st = give_to_graph(&c[i], gpu[i], unit[i]);
        tt_gpu_leave(gpu[i]);
        if (st)
            return st;
    }
    return TUTTI_OK;
}

tutti_status tt_gpu_capture_add(struct tt_gpu_unit **unit, tutti_gpu **gpu, size_t n)
{
    struct tt_gpu_captured **c = calloc(n, sizeof(struct tt_gpu_captured *));
    tutti_status st;
    size_t made = 0;

    st = c ? give_all(c, unit, gpu, n, &made)
           : tt_fail(TUTTI_ERR_NOMEM, "tutti_gpu_group: out of memory");
    for (size_t i = made; i < n; i++)
        free_unit(gpu[i], unit[i]);
    pthread_mutex_lock(&order);
    if (!st)
        st = add_all(c, gpu, n, false);
    if (!st)
        st = add_all(c, gpu, n, true);
    for (size_t i = 0; i < n && !st; i++)
        tt_gpu_captured_attach(c[i], gpu[i]);
    pthread_mutex_unlock(&order);
    free(c);
    return st;
}
