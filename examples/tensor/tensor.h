/* One layer of a model distributed over ranks (tensor parallelism), on two hosts:
 *
 *   gather    Y[rows][columns / n] = X[rows][inner] W[inner][columns / n]: each rank has its
 *             columns of W and `rows / n` rows of X, its *chunk*; the other chunks of X are
 *             gathered.
 *   scatter   Y[rows][columns] = the sum over ranks of X[rows][inner / n] W[inner / n][columns];
 *             each rank gets its chunk of rows.
 *
 * Both exchange chunks through windows during the computation, in the order of a tree: within a
 * host by recursive doubling (or halving), and between hosts with the rank at the same place on the
 * other host. So each chunk crosses the link once in each direction. Data for the link is divided
 * into *panels* of rows, each with a separate signal.
 *
 * Source: section 5.2 of "Collective Communication for 100k+ GPUs" (arXiv 2510.20171). */
#ifndef TENSOR_H
#define TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/rma.h>

#define STEPS_MAX 6             /* steps of a tree: 64 ranks per host */
#define PANELS_MAX 64

/* Equal on all ranks, except rank, local and hosts. */
struct layer {
    tutti_comm *comm;
    size_t rank, nranks, per_host;
    size_t local;               /* this rank's index on its host */
    size_t here, there;         /* first rank of this host, and of the other one; equal if there
                                   is one host */
    size_t rows, inner, columns, panels;
    size_t chunk;               /* rows of a chunk */
};

/* The parts to run: both overlap; one alone is for comparison. */
struct parts {
    bool moves, computes;
};

/* A gather or scatter on this rank. The window begins with the signal words: SIGNAL(p, step) of
 * panel p, and SIGNAL(PANELS_MAX, step) of the own host's tree. */
#define SIGNAL(panel, step) (8 * ((panel) * (STEPS_MAX + 1) + (step)))
#define SIGNALS_BYTES ((size_t)4096)
_Static_assert(SIGNAL(PANELS_MAX + 1, 0) <= SIGNALS_BYTES, "all signals are there");

struct work {
    const struct layer *layer;
    tutti_window *window;
    uint64_t turn;              /* current value of the signals; each exchange increments it */
    uint64_t sent;              /* number of panels whose source can be reused */
    float *x, *w, *y;
    float *arrived;             /* scatter: received data, in the window */
};

/* The rows [row, row + rows) of each chunk of one host; their signals are those of `panel`. */
struct span {
    size_t host;                /* first rank of the host */
    size_t row, rows, panel;
};

/* Return the span of panel p of the other host's chunks, and of all rows of the own host's. */
static inline struct span panel_span(const struct layer *l, size_t p)
{
    const size_t rows = l->chunk / l->panels;

    return (struct span){ .host = l->there, .row = p * rows, .rows = rows, .panel = p };
}
static inline struct span local_span(const struct layer *l)
{
    return (struct span){ .host = l->here, .rows = l->chunk, .panel = PANELS_MAX };
}
/* Returns the index of the tree's step that puts `width` chunks to the rank at that distance. Step
 * 0 is the data from the other host. */
static inline size_t step_of(size_t width) { return (size_t)__builtin_ctzl(width) + 1; }
/* Waits for the signal of the span's step. */
static inline tutti_status work_wait(struct work *k, const struct span *s, size_t step)
{
    return tutti_window_wait(k->window, SIGNAL(s->panel, step), TUTTI_EQUAL, k->turn, 0, NULL);
}
/* Returns the rank with the same local index on the other host. */
static inline size_t partner_of(const struct layer *l) { return l->there + l->local; }

/* ---- gather.c: x is all of X, in the window ---- */

tutti_status gather_init(struct work *g, const struct layer *l);
void gather_fini(struct work *g);
/* Runs one exchange and product. Collective; requires a barrier since the last run. */
tutti_status gather_run(struct work *g, struct parts parts);

/* ---- scatter.c: y is this rank's part of the sum, and finally, in the rows of its chunk, the
 * whole sum ---- */

tutti_status scatter_init(struct work *s, const struct layer *l);
void scatter_fini(struct work *s);
tutti_status scatter_run(struct work *s, struct parts parts);

#endif
