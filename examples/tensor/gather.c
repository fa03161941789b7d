/* All-gather and product. Example: rank 0, with 2 hosts of 4 ranks each.
 *
 *   first  start to put the own chunk, panel by panel, to rank 4; rank 4 does the same
 *   s1     put the own chunk to rank 1 and receive its chunk; meanwhile compute the product of the
 *          own chunk (S)
 *   s2     put two chunks to rank 2 and receive two; meanwhile compute the product of rank 1's
 *          chunk (S), then those of rank 2's chunks (2S)
 *   last   panel by panel, the data from rank 4: the same tree with ranks 1 to 3, whose panels come
 *          from their partners
 *
 * So the link is busy during the product of this host's chunks, and during all panels of the other
 * host's product except the last. */
#include <stdlib.h>

#include "gemm.h"
#include "tensor.h"

/* Returns the index of a row of a chunk in X. */
static size_t at(const struct layer *l, size_t rank, size_t row)
{
    return (rank * l->chunk + row) * l->inner;
}

tutti_status gather_init(struct work *g, const struct layer *l)
{
    const size_t columns = l->columns / l->nranks;
    tutti_status st;
    void *mem;

    *g = (struct work){ .layer = l };
    st = tutti_window_create(l->comm, NULL, SIGNALS_BYTES + l->rows * l->inner * sizeof *g->x,
                             &g->window);
    if (!st)
        st = tutti_window_memory(g->window, &mem, NULL);
    if (st)
        return st;
    g->x = (float *)(void *)((uint8_t *)mem + SIGNALS_BYTES);
    g->w = calloc(l->inner * columns, sizeof *g->w);
    g->y = calloc(l->rows * columns, sizeof *g->y);
    return g->w && g->y ? TUTTI_OK : TUTTI_ERR_NOMEM;
}

void gather_fini(struct work *g)
{
    tutti_window_free(g->window);
    free(g->w);
    free(g->y);
}

/* Puts the span's rows of the chunks [first, first + n) of its host to the same offset of another
 * rank's window. */
static tutti_status put(struct work *g, const struct span *s, size_t first, size_t n, size_t to,
                        size_t step, uint64_t *counter)
{
    const struct layer *l = g->layer;
    const size_t from = at(l, s->host + first, s->row), row = l->inner * sizeof *g->x;
    const tutti_rows rows = {
        .rows = n,
        .row_bytes = s->rows * row,
        .src_stride = l->chunk * row,
        .stride = l->chunk * row,
    };
    const tutti_rma rma = {
        .size = sizeof rma, .signal_op = TUTTI_SIGNAL_SET, .signal_value = g->turn,
        .signal_offset = SIGNAL(s->panel, step), .counter = counter,
    };

    return tutti_window_put_rows(g->window, (int)to, SIGNALS_BYTES + from * sizeof *g->x,
                                 g->x + from, &rows, &rma);
}

/* Computes the product of the span's rows of these chunks. Whole chunks are one product. */
static void multiply(struct work *g, const struct span *s, size_t first, size_t n)
{
    const struct layer *l = g->layer;
    const size_t columns = l->columns / l->nranks, times = s->rows == l->chunk ? 1 : n;

    for (size_t i = 0; i < times; i++) {
        const size_t chunk = s->host + first + i;

        gemm(s->rows * n / times, columns, l->inner, g->x + at(l, chunk, s->row), l->inner, g->w,
             columns, g->y + (chunk * l->chunk + s->row) * columns, columns);
    }
}

/* Recursive doubling: starts with the chunk of this rank and ends with all chunks of the host. Each
 * step puts all available chunks to the rank at the step's distance, while the product of the
 * chunks received last is computed. */
static tutti_status tree(struct work *g, const struct span *s, struct parts parts)
{
    const struct layer *l = g->layer;
    size_t fresh = l->local, nfresh = 1;
    tutti_status st = TUTTI_OK;

    for (size_t width = 1; width < l->per_host && !st; width *= 2) {
        const size_t have = l->local & ~(width - 1);

        if (parts.moves)
            st = put(g, s, have, width, l->here + (l->local ^ width), step_of(width), NULL);
        if (!st && parts.computes)
            multiply(g, s, fresh, nfresh);
        if (!st && parts.moves)
            st = work_wait(g, s, step_of(width));
        fresh = have ^ width;
        nfresh = width;
    }
    if (!st && parts.computes)
        multiply(g, s, fresh, nfresh);
    return st;
}

tutti_status gather_run(struct work *g, struct parts parts)
{
    const struct layer *l = g->layer;
    const size_t npanels = l->there == l->here ? 0 : l->panels;
    const struct span own = local_span(l);
    const uint64_t sent = g->sent + npanels;
    tutti_status st = TUTTI_OK;

    g->turn += parts.moves;
    for (size_t p = 0; p < npanels && parts.moves && !st; p++) {
        struct span s = panel_span(l, p);

        s.host = l->here;
        st = put(g, &s, l->local, 1, partner_of(l), 0, &g->sent);
    }
    if (!st)
        st = tree(g, &own, parts);
    for (size_t p = 0; p < npanels && !st; p++) {
        const struct span s = panel_span(l, p);

        if (parts.moves)
            st = work_wait(g, &s, 0);
        if (!st)
            st = tree(g, &s, parts);
    }
    return st || !parts.moves ? st : tutti_window_wait_counter(g->window, &g->sent, sent, 0);
}
