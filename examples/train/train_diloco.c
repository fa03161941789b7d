/* Training with rare communication (DiLoCo). From common parameters, each rank trains on its own
 * examples for some steps. Then one all-reduce computes the mean of the parameter changes, and an
 * outer Nesterov step updates the common parameters.
 *
 *     tutti run -n 4 -- ./train_diloco TEXT [--steps N] [--inner H] ...
 *
 * After each exchange, rank 0 prints the mean loss of all workers' steps since the last one. The
 * curve equals that of train_alone --workers 4, up to the order of additions. */
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>
#include "diloco.h"

static const char about[] = "Trains a character model of a text on all ranks, which average their "
                            "parameters every --inner steps (DiLoCo).";

/* delta[n + 1]; the last element is the loss. */
static tutti_status train(const struct options *o, const struct text *t, struct worker *w,
                          struct outer *u, real *delta, tutti_comm *comm)
{
    const int rank = tutti_comm_rank(comm);
    tutti_status st = tutti_broadcast(u->global, u->global, u->n, TUTTI_F32, 0, comm, NULL);

    for (uint64_t step = 0; step < o->steps && !st;) {
        const uint64_t n = inner_count(o, step);

        worker_take(w, u);
        delta[u->n] = (real)inner_steps(o, t, w, step, n, (uint64_t)rank);
        outer_delta(u, w, delta);
        st = tutti_allreduce(delta, delta, u->n + 1, TUTTI_F32, TUTTI_AVG, comm, NULL);
        if (st)
            break;
        outer_step(u, delta, o);
        step += n;
        if (rank == 0)
            curve_print(step, (double)delta[u->n]);
    }
    return st;
}

/* Creates the outer state, then the communicator. */
static tutti_status run(const struct options *o, const struct text *t, struct worker *w)
{
    real *delta = malloc((w->n + 1) * sizeof *delta);
    tutti_status st = TUTTI_ERR_NOMEM;
    struct outer u;
    tutti_comm *comm;

    if (!delta)
        fprintf(stderr, "out of memory for %zu parameters\n", w->n);
    else if (outer_init(&u, w)) {
        st = tutti_comm_create(&comm, NULL);
        if (!st) {
            st = train(o, t, w, &u, delta, comm);
            tutti_comm_destroy(comm);
        }
        outer_free(&u);
    }
    free(delta);
    return st;
}

int main(int argc, char **argv)
{
    struct options o;
    struct text t;
    struct worker w;
    tutti_status st;

    options_parse(&o, argc, argv, TRAINS_APART, about);
    if (!text_load(&t, o.text))
        return 2;
    if (!worker_init(&w, &t, o.seed))
        return 1;
    st = run(&o, &t, &w);
    worker_free(&w);
    text_free(&t);
    return st ? 1 : 0;      /* the failure has been printed */
}
