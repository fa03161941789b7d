/* train_diloco in a run whose members join, fail and leave: the mean is of those who are there.
 *
 *     tutti coordinator --journal none &
 *     TUTTI_COORDINATOR=localhost:29401 ./train_diloco_elastic TEXT [--steps N] [--inner H] ...      as many as you like, whenever you like
 *
 * What a member learnt since the last exchange is lost with it, and nothing else: the all-reduce goes on with the others' deltas. A newcomer receives
 * the outer state. The first member of the view prints, after each exchange, the mean loss of the steps before it and who took part; train_alone --replay
 * plays that run in one process. With SIGINT or SIGTERM a member leaves after its exchange. */
#include <stdio.h>
#include <stdlib.h>
#include "member.h"

static const char about[] =
    "Trains a character model of a text by DiLoCo in a run whose members join, fail and leave (TUTTI_COORDINATOR, TUTTI_RUN).";

/* One round: H steps and their exchange. */
static tutti_status exchange(struct member *m, real *delta)
{
    const uint64_t n = inner_count(&m->o, m->step);
    tutti_status st;

    delta[m->u.n] = (real)inner_steps(&m->o, &m->t, &m->w, m->step, n, m->id);
    outer_delta(&m->u, &m->w, delta);
    st = member_mean(m, delta);
    if (st)
        return st;
    outer_step(&m->u, delta, &m->o);
    worker_take(&m->w, &m->u);
    m->step += n;
    return member_tell(m, m->step, (double)delta[m->u.n]);
}

static tutti_status train(struct member *m)
{
    real *delta = malloc((m->u.n + 1) * sizeof *delta);
    tutti_status st = TUTTI_OK;
    int meet = 1;

    if (!delta) {
        fprintf(stderr, "out of memory for %zu parameters\n", m->u.n);
        return TUTTI_ERR_NOMEM;
    }
    while (!st && m->step < m->o.steps) {
        if (meet)
            st = member_meet(m);
        if (st || m->view.nranks == 0)
            break;
        st = exchange(m, delta);
        if (!st)
            st = member_poll(m, &meet);
    }
    free(delta);
    return st;
}

int main(int argc, char **argv)
{
    return member_main(argc, argv, about, train);
}
