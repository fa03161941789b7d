/* train_diloco in a run whose members join, fail and leave: the mean is over the current members.
 * Start a coordinator, then any number of members at any time.
 *
 *     tutti coordinator --journal none &
 *     TUTTI_COORDINATOR=localhost:29401 ./train_diloco_elastic TEXT [--steps N] [--inner H] ...
 *
 * If a member fails, only its progress since the last exchange is lost: the all-reduce continues
 * with the other deltas. A newcomer receives the outer state. After each exchange, the first member
 * of the view prints the mean loss of the steps before it, and the contributors; train_alone
 * --replay repeats that run in one process. On SIGINT or SIGTERM a member leaves after its
 * exchange. */
#include <stdio.h>
#include <stdlib.h>
#include "member.h"

static const char about[] = "Trains a character model of a text by DiLoCo in a run whose members "
                            "join, fail and leave (TUTTI_COORDINATOR, TUTTI_RUN).";

/* Runs one round: H steps and their exchange. */
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
    return member_report(m, m->step, (double)delta[m->u.n]);
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
            st = member_agree(m);
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
