#include "windows.h"

#include <stdio.h>

static void *create(void *arg)
{
    struct creator *c = arg;

    c->status = tutti_gpu_window_create(c->w->gpu[c->rank], c->mem, c->bytes, &c->window);
    snprintf(c->why, sizeof c->why, "%s", tutti_last_error());
    return NULL;
}

void windows_create(struct creator *c, struct world *w, void *const *mem, const size_t *bytes)
{
    for (int r = 0; r < w->n; r++) {
        c[r] = (struct creator){ .w = w, .rank = r, .mem = mem[r], .bytes = bytes[r] };
        assert_int_equal(pthread_create(&c[r].thread, NULL, create, &c[r]), 0);
    }
    for (int r = 0; r < w->n; r++)
        pthread_join(c[r].thread, NULL);
}

void windows_open(struct windows *ws, struct world *w, const size_t *bytes)
{
    struct creator c[WORLD_RANKS];

    for (int r = 0; r < w->n; r++)
        ws->mem[r] = world_alloc(w, r, bytes[r], 0);
    windows_create(c, w, ws->mem, bytes);
    for (int r = 0; r < w->n; r++) {
        assert_ok(c[r].status);
        ws->window[r] = c[r].window;
    }
}

void windows_close(struct windows *ws, struct world *w)
{
    for (int r = 0; r < w->n; r++) {
        assert_ok(tutti_gpu_window_free(ws->window[r]));
        world_free(w, r, ws->mem[r]);
    }
}
