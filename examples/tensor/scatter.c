/* Product and reduce-scatter: the steps of gather.c in reverse. Example: rank 0, with 2 hosts of
 * 4 ranks each.
 *
 *   first  panel by panel, the rows of the other host's chunks: the product for ranks 6 and 7 (2S)
 *          goes to rank 2; that for rank 5 (S), plus the part received from rank 2, to rank 1; that
 *          for rank 4 (S), plus the received parts, is the sum of this host and is put to rank 4
 *   then   the own host's chunks likewise, while the link is busy: 2S to rank 2, S to rank 1, S for
 *          this rank
 *   last   add the data from rank 4
 *
 * The window has separate space for the received chunks of each step, so no rank waits for
 * space. */
#include <stdlib.h>

#include "gemm.h"
#include "tensor.h"

/* Returns the place, in chunks, of the data received in the step of that width. Places are ordered
 * by step width, first those of this host's chunks, then those of the other host's. The last place
 * is for the data from the other host. */
static size_t place(const struct layer *l, const struct span *s, size_t width)
{
    return (s->host == l->here ? 0 : l->per_host - 1) + width - 1;
}
static size_t last_place(const struct layer *l) { return 2 * (l->per_host - 1); }

tutti_status scatter_init(struct work *s, const struct layer *l)
{
    const size_t chunk_bytes = l->chunk * l->columns * sizeof *s->y, inner = l->inner / l->nranks;
    tutti_status st;
    void *mem;

    *s = (struct work){ .layer = l };
    st = tutti_window_create(l->comm, NULL, SIGNALS_BYTES + (last_place(l) + 1) * chunk_bytes,
                             &s->window);
    if (!st)
        st = tutti_window_memory(s->window, &mem, NULL);
    if (st)
        return st;
    s->arrived = (float *)(void *)((uint8_t *)mem + SIGNALS_BYTES);
    s->x = calloc(l->rows * inner, sizeof *s->x);
    s->w = calloc(inner * l->columns, sizeof *s->w);
    s->y = calloc(l->rows * l->columns, sizeof *s->y);
    return s->x && s->w && s->y ? TUTTI_OK : TUTTI_ERR_NOMEM;
}

void scatter_fini(struct work *s)
{
    tutti_window_free(s->window);
    free(s->x);
    free(s->w);
    free(s->y);
}

/* Returns the index of a row of a chunk in Y, or in the chunks of the window. */
static size_t at(const struct layer *l, size_t chunk, size_t row)
{
    return (chunk * l->chunk + row) * l->columns;
}

/* Puts the span's rows of the chunks [first, first + n) of its host to a place of another rank's
 * window. */
static tutti_status put(struct work *k, const struct span *s, size_t first, size_t n, size_t to,
                        size_t to_place, size_t step, uint64_t *counter)
{
    const struct layer *l = k->layer;
    const size_t row = l->columns * sizeof *k->y;
    const tutti_rows rows = {
        .rows = n,
        .row_bytes = s->rows * row,
        .src_stride = l->chunk * row,
        .stride = l->chunk * row,
    };
    const tutti_rma rma = {
        .size = sizeof rma, .signal_op = TUTTI_SIGNAL_SET, .signal_value = k->turn,
        .signal_offset = SIGNAL(s->panel, step), .counter = counter,
    };

    return tutti_window_put_rows(k->window, (int)to,
                                 SIGNALS_BYTES + at(l, to_place, s->row) * sizeof *k->y,
                                 k->y + at(l, s->host + first, s->row), &rows, &rma);
}

/* Adds the span's rows of n chunks at a place of the window to the chunks from `first` on. */
static void add(struct work *k, const struct span *s, size_t first, size_t n, size_t from_place)
{
    const struct layer *l = k->layer;

    for (size_t i = 0; i < n; i++) {
        float *restrict sum = k->y + at(l, s->host + first + i, s->row);
        const float *restrict more = k->arrived + at(l, from_place + i, s->row);

        for (size_t j = 0; j < s->rows * l->columns; j++)
            sum[j] += more[j];
    }
}

static void multiply(struct work *k, const struct span *s, size_t first, size_t n)
{
    const struct layer *l = k->layer;
    const size_t inner = l->inner / l->nranks, times = s->rows == l->chunk ? 1 : n;

    for (size_t i = 0; i < times; i++) {
        const size_t chunk = s->host + first + i;

        gemm(s->rows * n / times, l->columns, inner, k->x + (chunk * l->chunk + s->row) * inner,
             inner, k->w, l->columns, k->y + at(l, chunk, s->row), l->columns);
    }
}

/* Adds the data that other ranks of this host sent for these chunks, in the steps wider than
 * `width`, widest first. */
static tutti_status collect(struct work *k, const struct span *s, size_t first, size_t n,
                            size_t width)
{
    const struct layer *l = k->layer;
    tutti_status st = TUTTI_OK;

    for (size_t w = l->per_host / 2; w > width && !st; w /= 2) {
        st = work_wait(k, s, step_of(w));
        if (!st)
            add(k, s, first, n, place(l, s, w) + first - (l->local & ~(w - 1)));
    }
    return st;
}

/* Recursive halving: ends with the sum over this host's ranks of this rank's chunk. Each step puts
 * half of the remaining chunks to the rank at the step's distance. */
static tutti_status tree(struct work *k, const struct span *s, struct parts parts)
{
    const struct layer *l = k->layer;
    tutti_status st = TUTTI_OK;

    for (size_t width = l->per_host / 2; width > 0 && !st; width /= 2) {
        const size_t theirs = (l->local & ~(width - 1)) ^ width;

        if (parts.computes)
            multiply(k, s, theirs, width);
        if (parts.moves)
            st = collect(k, s, theirs, width, width);
        if (!st && parts.moves)
            st = put(k, s, theirs, width, l->here + (l->local ^ width), place(l, s, width),
                     step_of(width), NULL);
    }
    if (!st && parts.computes)
        multiply(k, s, l->local, 1);
    return st || !parts.moves ? st : collect(k, s, l->local, 1, 0);
}

tutti_status scatter_run(struct work *k, struct parts parts)
{
    const struct layer *l = k->layer;
    const size_t npanels = l->there == l->here ? 0 : l->panels;
    const struct span own = local_span(l);
    const uint64_t sent = k->sent + npanels;
    tutti_status st = TUTTI_OK;

    k->turn += parts.moves;
    for (size_t p = 0; p < npanels && !st; p++) {
        const struct span s = panel_span(l, p);

        st = tree(k, &s, parts);
        if (!st && parts.moves)
            st = put(k, &s, l->local, 1, partner_of(l), last_place(l), 0, &k->sent);
    }
    if (!st)
        st = tree(k, &own, parts);
    for (size_t p = 0; p < npanels && parts.moves && !st; p++) {
        struct span s = panel_span(l, p);

        s.host = l->here;
        st = work_wait(k, &s, 0);
        if (!st)
            add(k, &s, l->local, 1, last_place(l));
    }
    return st || !parts.moves ? st : tutti_window_wait_counter(k->window, &k->sent, sent, 0);
}
