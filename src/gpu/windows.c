/* The calls that create and free windows. */
#include <stdlib.h>

#include "gpu/check.h"
#include "gpu/pieces.h"
#include "gpu/rma.h"

struct creation {
    tutti_gpu *gpu;
    void *mem;
    size_t bytes;
    struct tutti_gpu_window *window;
};

static void free_window(struct tutti_gpu_window *w)
{
    if (!w)
        return;
    free(w->pieces);
    free(w->bytes);
    free(w);
}

/* Checks the memory and allocates the window. Local. */
static tutti_status prepare_window(struct creation *c)
{
    struct tutti_gpu_window *w;
    tutti_status st = tt_gpu_check_window(c->gpu, c->mem, c->bytes);

    if (st)
        return st;
    w = calloc(1, sizeof *w);
    if (w)
        w->bytes = calloc((size_t)tutti_comm_size(c->gpu->comm), sizeof *w->bytes);
    if (!w || !w->bytes) {
        free_window(w);
        return tt_fail(TUTTI_ERR_NOMEM, "tutti_gpu_window_create: out of memory");
    }
    st = tt_gpu_pieces_create(&w->pieces, c->gpu->cu, c->mem, c->bytes);
    if (st) {
        free_window(w);
        return st;
    }
    w->gpu = c->gpu;
    w->mem = c->mem;
    w->bytes[tutti_comm_rank(c->gpu->comm)] = c->bytes;
    c->window = w;
    return TUTTI_OK;
}

/* Runs in the worker, which uses the communicator. */
static tutti_status create_window(tutti_comm *comm, void *arg)
{
    struct creation *c = arg;
    const tutti_status st = prepare_window(c);

    (void)comm;
    return tt_gpu_rma_add(c->gpu, c->window, st);
}

tutti_status tutti_gpu_window_create(tutti_gpu *gpu, void *mem, size_t bytes,
                                     tutti_gpu_window **out)
{
    struct creation c = { .gpu = gpu, .mem = mem, .bytes = bytes };
    tutti_status st;

    if (!gpu || !out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_gpu_window_create: %s is NULL",
                       gpu ? "out" : "gpu");
    st = tutti_gpu_run(gpu, create_window, &c);
    if (st) {
        free_window(c.window);
        return st;
    }
    *out = c.window;
    return TUTTI_OK;
}

tutti_status tutti_gpu_window_free(tutti_gpu_window *window)
{
    if (!window)
        return TUTTI_OK;
    tt_gpu_rma_remove(window);
    free_window(window);
    return TUTTI_OK;
}
