/* Training where ranks meet seldom (DiLoCo): each trains on examples of its own for some steps, from parameters that all have; then one
 * all-reduce brings the mean of how far they moved, and an outer step of Nesterov moves the shared parameters.
 *
 *     tutti run -n 4 -- ./train_diloco TEXT [--steps N] [--inner H] ...
 *
 * Rank 0 prints the mean loss of all workers' steps since the last exchange, after each. The curve is that of train_alone --workers 4, up
 * to the order of additions. A. Douillard and others, "DiLoCo: Distributed Low-Communication Training of Language Models", 2023. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include "train.h"

static const char about[] = "Trains a character model of a text on all ranks, which exchange what they learnt every --inner steps.";

/* What all ranks have alike, [n] each; delta has the loss behind it. */
struct outer {
    real *global, *velocity, *delta;
};

static int outer_init(struct outer *u, const struct worker *w)
{
    u->global = malloc(w->n * sizeof(real));
    u->velocity = calloc(w->n, sizeof(real));
    u->delta = malloc((w->n + 1) * sizeof(real));
    return u->global && u->velocity && u->delta;
}

static void outer_free(struct outer *u)
{
    free(u->global);
    free(u->velocity);
    free(u->delta);
}

/* The inner steps from `step` on; the mean of their losses. */
static double inner_steps(const struct options *o, const struct text *t, struct worker *w, uint64_t step, uint64_t n,
                          uint64_t rank)
{
    double loss = 0;

    for (uint64_t i = 0; i < n; i++) {
        const struct batch mine = { .seed = o->seed, .step = step + i, .first = rank * o->batch, .count = o->batch };

        worker_look(w, t, &mine, o->batch);
        loss += (double)w->gradient[w->n] / (double)n;
        worker_step(w, o);
    }
    return loss;
}

static tutti_status train(const struct options *o, const struct text *t, struct worker *w, struct outer *u,
                          tutti_comm *comm)
{
    const int rank = tutti_comm_rank(comm);
    tutti_status st = tutti_broadcast(w->param, w->param, w->n, TUTTI_F32, 0, comm, NULL);

    memcpy(u->global, w->param, w->n * sizeof(real));
    for (uint64_t step = 0; step < o->steps && !st;) {
        const uint64_t n = o->inner < o->steps - step ? o->inner : o->steps - step;

        u->delta[w->n] = (real)inner_steps(o, t, w, step, n, (uint64_t)rank);
        for (size_t i = 0; i < w->n; i++)
            u->delta[i] = u->global[i] - w->param[i];
        st = tutti_allreduce(u->delta, u->delta, w->n + 1, TUTTI_F32, TUTTI_AVG, comm, NULL);
        if (st)
            break;
        outer_step(u->global, u->velocity, u->delta, w->n, o);
        memcpy(w->param, u->global, w->n * sizeof(real));
        step += n;
        if (rank == 0)
            curve_print(step, (double)u->delta[w->n]);
    }
    return st;
}

int main(int argc, char **argv)
{
    struct options o;
    struct text t;
    struct worker w;
    struct outer u;
    tutti_comm *comm;
    tutti_status st = TUTTI_ERR_NOMEM;

    options_parse(&o, argc, argv, about);
    if (!text_load(&t, o.text))
        return 2;
    if (!worker_init(&w, &t, o.seed))
        return 1;
    if (!outer_init(&u, &w))
        fprintf(stderr, "no memory for %zu parameters\n", w.n);
    else if (!(st = tutti_comm_create(&comm, NULL))) {
        st = train(&o, &t, &w, &u, comm);
        tutti_comm_destroy(comm);
    }
    outer_free(&u);
    worker_free(&w);
    text_free(&t);
    return st ? 1 : 0;      /* what failed has been said */
}
