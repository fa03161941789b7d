/* Distributed data parallel training: each rank computes the gradient of its share of a batch, and
 * one all-reduce sums the gradients.
 *
 *     tutti run -n 4 -- ./train_ddp TEXT [--steps N] ...
 *
 * Rank 0 prints the loss before each step. It equals that of train_alone, up to the order of
 * additions (docs/training.md). */
#include <stdio.h>
#include <tutti/tutti.h>
#include "train.h"

static const char about[] =
    "Trains a character model of a text on all ranks, with one all-reduce of gradients per step.";

static tutti_status train(const struct options *o, const struct text *t, struct worker *w,
                          tutti_comm *comm)
{
    const int rank = tutti_comm_rank(comm), nranks = tutti_comm_size(comm);
    tutti_status st = tutti_broadcast(w->param, w->param, w->n, TUTTI_F32, 0, comm, NULL);

    for (uint64_t step = 0; step < o->steps && !st; step++) {
        const struct batch mine = share_of(o, step, (uint64_t)rank, (uint64_t)nranks);

        worker_look(w, t, &mine, (double)o->batch);
        st = tutti_allreduce(w->gradient, w->gradient, w->n + 1, TUTTI_F32, TUTTI_SUM, comm, NULL);
        if (st)
            break;
        if (rank == 0)
            curve_print(step, (double)w->gradient[w->n]);
        worker_step(w, o);
    }
    return st;
}

int main(int argc, char **argv)
{
    struct options o;
    struct text t;
    struct worker w;
    tutti_comm *comm;
    tutti_status st;

    options_parse(&o, argc, argv, TRAINS_TOGETHER, about);
    if (!text_load(&t, o.text))
        return 2;
    if (!worker_init(&w, &t, o.seed))
        return 1;
    st = tutti_comm_create(&comm, NULL);
    if (!st) {
        st = train(&o, &t, &w, comm);
        tutti_comm_destroy(comm);
    }
    worker_free(&w);
    text_free(&t);
    return st ? 1 : 0;      /* the failure has been printed */
}
