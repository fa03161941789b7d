/* train_diloco_elastic without waits for the network: members take the next inner steps while their
 * deltas are in flight, and apply the mean one exchange later. Start a coordinator, then any number
 * of members at any time.
 *
 *     tutti coordinator --journal none &
 *     TUTTI_COORDINATOR=localhost:29401 ./train_diloco_async TEXT [--steps N] [--inner H] ...
 *
 * A round: H inner steps; wait for the mean of the previous round; delta = global - local, and
 * start its all-reduce; apply the mean of the previous round; local = global. The membership
 * changes only at this point. If members are waiting, all members wait for the all-reduce in flight
 * without applying it, and agree on an epoch. Newcomers receive the outer state, which does not
 * include that mean yet, and take the round's inner steps with all others. They have no mean to
 * apply then, so the others send them the state after applying it. If a member is killed, only its
 * contribution to the mean in flight is lost.
 *
 * Output, --replay (with --delay), and signals are as in train_diloco_elastic. Delayed means
 * require smaller outer steps (docs/training.md). The order of steps is that of asynchronous DiLoCo
 * with membership changes in PCCL (technical report, 2025). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "member.h"

static const char about[] = "Trains a character model of a text by asynchronous DiLoCo in a run "
                            "whose members join, fail and leave (TUTTI_COORDINATOR, TUTTI_RUN).";

struct rounds {
    struct member *m;
    real *delta[2];         /* [n + 1] each: one is in flight, the other is the mean of the
                               previous round */
    unsigned next;          /* index of the one in flight, or of the next one */
    const real *earlier;    /* a mean that has not been applied; NULL: none */
    int joined;             /* only some members have such a mean, because newcomers have joined
                               since */
    pthread_t thread;       /* state of the all-reduce in flight: */
    int flies;
    tutti_status landed;    /* result of the operation */
    uint64_t step;          /* step before its start */
};

static void *fly(void *argument)
{
    struct rounds *r = argument;

    r->landed = member_mean(r->m, r->delta[r->next]);
    return NULL;
}

static tutti_status launch(struct rounds *r)
{
    const int err = pthread_create(&r->thread, NULL, fly, r);

    if (err) {
        fprintf(stderr, "cannot start the exchange thread: %s\n", strerror(err));
        return TUTTI_ERR_SYSTEM;
    }
    r->flies = 1;
    return TUTTI_OK;
}

/* Waits for the all-reduce in flight, if any. Does not apply the mean. */
static tutti_status land(struct rounds *r)
{
    if (!r->flies)
        return TUTTI_OK;
    pthread_join(r->thread, NULL);
    r->flies = 0;
    if (r->landed)
        return r->landed;
    r->earlier = r->delta[r->next];
    r->next ^= 1;
    return member_report(r->m, r->step, (double)r->earlier[r->m->u.n]);
}

static void apply(struct rounds *r)
{
    if (r->earlier)
        outer_step(&r->m->u, r->earlier, &r->m->o);
    r->earlier = NULL;
}

/* Agrees on a view between two rounds, and detects newcomers. */
static tutti_status agree_on_view(struct rounds *r)
{
    enum { HAS = 1, LACKS = 2 };
    uint64_t all = 0;
    tutti_status st = land(r);

    if (!st)
        st = member_agree(r->m);
    if (st || r->m->view.nranks == 0)
        return st;
    st = tutti_run_agree(r->m->run, r->earlier ? HAS : LACKS, 0, &all);
    r->joined = all == 0;
    return st == TUTTI_ERR_PEER_LOST ? TUTTI_OK : st;       /* `all` is of the remaining members;
                                                               the next mean excludes the lost
                                                               one */
}

/* Incumbents have applied their mean. Newcomers, who do not have it, receive the resulting
 * state. */
static tutti_status bring_newcomers_up(struct rounds *r, int incumbent)
{
    const tutti_status st = member_sync(r->m, incumbent ? TUTTI_SYNC_SEND : TUTTI_SYNC_RECEIVE);

    r->joined = 0;
    /* All incumbents were lost since the round began, and their mean with them. The newcomers have
     * equal states and continue. */
    if (!incumbent && (st == TUTTI_ERR_INVALID || st == TUTTI_ERR_PEER_LOST))
        return TUTTI_OK;
    return st;
}

/* Runs one round. *news: the result of member_poll while no all-reduce was in flight. */
static tutti_status take_round(struct rounds *r, int *news)
{
    struct member *m = r->m;
    const uint64_t n = inner_count(&m->o, m->step);
    const double loss = inner_steps(&m->o, &m->t, &m->w, m->step, n, m->id);
    tutti_status st = land(r);
    const int joined = r->joined, incumbent = r->earlier != NULL;

    if (!st)
        st = member_poll(m, news);
    if (st)
        return st;
    outer_delta(&m->u, &m->w, r->delta[r->next]);
    r->delta[r->next][m->u.n] = (real)loss;
    m->step += n;
    r->step = m->step;
    if (!joined)
        st = launch(r);
    apply(r);
    if (!st && joined) {
        st = bring_newcomers_up(r, incumbent);
        if (!st)
            st = launch(r);     /* start it now: a run cannot sync while an operation is in
                                   flight */
    }
    worker_take(&m->w, &m->u);
    return st;
}

static tutti_status train_rounds(struct rounds *r)
{
    struct member *m = r->m;
    tutti_status st = TUTTI_OK;
    int news = 1;

    while (!st && m->step < m->o.steps) {
        if (news)
            st = agree_on_view(r);
        if (st || m->view.nranks == 0)
            break;
        st = take_round(r, &news);
    }
    if (!st)
        st = land(r);
    if (!st && m->view.nranks > 0)
        apply(r);
    if (r->flies)
        pthread_join(r->thread, NULL);      /* after an error; its memory is freed next */
    return st;
}

static tutti_status train(struct member *m)
{
    real *delta = calloc(2 * (m->u.n + 1), sizeof *delta);
    struct rounds r = { .m = m, .delta = { delta, delta + m->u.n + 1 } };
    tutti_status st;

    if (!delta) {
        fprintf(stderr, "out of memory for %zu parameters\n", m->u.n);
        return TUTTI_ERR_NOMEM;
    }
    st = train_rounds(&r);
    free(delta);
    return st;
}

int main(int argc, char **argv)
{
    return member_main(argc, argv, about, train);
}
