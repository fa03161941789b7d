/* One layer of a model that is spread over ranks (tensor parallelism), on two hosts:
 *
 *   gather    Y[rows][columns / n] = X[rows][inner] W[inner][columns / n]: each rank has its columns of W and `rows / n` rows of X, its *chunk*;
 *             the other chunks of X are gathered.
 *   scatter   Y[rows][columns] = the sum over ranks of X[rows][inner / n] W[inner / n][columns], of which each rank gets its chunk of rows.
 *
 * Both exchange chunks by windows while they compute, in the order of a tree: within a host by recursive doubling (or halving), between the
 * hosts with the rank of the same place on the other one, so that each chunk crosses the link once in each direction. What crosses is cut into
 * *panels* of rows, each with a signal of its own.
 *
 * The idea is that of section 5.2 of "Collective Communication for 100k+ GPUs" (arXiv 2510.20171). */
#ifndef TENSOR_H
#define TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/rma.h>

#define STEPS_MAX 6             /* of a tree: 64 ranks of a host */
#define PANELS_MAX 64

/* Of all ranks alike, but for rank, local and hosts. */
struct layer {
    tutti_comm *comm;
    size_t rank, nranks, per_host;
    size_t local;               /* its place on its host */
    size_t here, there;         /* the first rank of this host, and of the other; they are the same if there is none */
    size_t rows, inner, columns, panels;
    size_t chunk;               /* rows of a chunk */
};

/* What is done: both overlap; one alone is for comparison. */
struct parts {
    bool moves, computes;
};

/* One of the two, on this rank. Signals of the window are words at its beginning: those of panel p at SIGNAL(p, step), those of the own host's tree at
 * SIGNAL(PANELS_MAX, step). */
#define SIGNAL(panel, step) (8 * ((panel) * (STEPS_MAX + 1) + (step)))
#define SIGNALS_BYTES ((size_t)4096)
_Static_assert(SIGNAL(PANELS_MAX + 1, 0) <= SIGNALS_BYTES, "all signals are there");

struct work {
    const struct layer *layer;
    tutti_window *window;
    uint64_t turn;              /* value of the signals: grows by one with each exchange */
    uint64_t sent;              /* panels whose source is reusable */
    float *x, *w, *y;
    float *arrived;             /* scatter: in the window, what the others add */
};

/* Some rows of each chunk of one host: [row, row + rows), whose signals are those of `panel`. */
struct span {
    size_t host;                /* its first rank */
    size_t row, rows, panel;
};

/* The span of panel p of the other host's chunks, and of all rows of the own host's. */
static inline struct span panel_span(const struct layer *l, size_t p)
{
    const size_t rows = l->chunk / l->panels;

    return (struct span){ .host = l->there, .row = p * rows, .rows = rows, .panel = p };
}
static inline struct span local_span(const struct layer *l)
{
    return (struct span){ .host = l->here, .rows = l->chunk, .panel = PANELS_MAX };
}
/* The number of the tree's step in which so many chunks go to the rank of that distance; 0 is what comes from the other host. */
static inline size_t step_of(size_t width) { return (size_t)__builtin_ctzl(width) + 1; }
/* Until the step's signal of the span is up. */
static inline tutti_status work_wait(struct work *k, const struct span *s, size_t step)
{
    return tutti_window_wait(k->window, SIGNAL(s->panel, step), TUTTI_EQUAL, k->turn, 0, NULL);
}
/* The rank of the same place on the other host. */
static inline size_t partner_of(const struct layer *l) { return l->there + l->local; }

/* ---- gather.c: x is all of X, in the window ---- */

tutti_status gather_init(struct work *g, const struct layer *l);
void gather_fini(struct work *g);
/* One exchange and product. All ranks, with a barrier since the last one. */
tutti_status gather_run(struct work *g, struct parts parts);

/* ---- scatter.c: y is all rows of this rank's part of the sum, and then, in those of its chunk, of the whole sum ---- */

tutti_status scatter_init(struct work *s, const struct layer *l);
void scatter_fini(struct work *s);
tutti_status scatter_run(struct work *s, struct parts parts);

#endif
