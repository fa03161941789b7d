/* train_diloco_elastic whose members never wait for the network: while their deltas are on the way they take the next inner steps, and what comes of
 * an exchange is applied one exchange later.
 *
 *     tutti coordinator --journal none &
 *     TUTTI_COORDINATOR=localhost:29401 ./train_diloco_async TEXT [--steps N] [--inner H] ...        as many as you like, whenever you like
 *
 * A round: H inner steps; wait for the mean of the round before; delta = global - local, and its all-reduce begins; apply the mean of the round before;
 * local = global. Only then may members come and go: if some wait, the members wait for the all-reduce in flight without applying it, and agree on an
 * epoch; newcomers receive the outer state, which that mean is not in yet, and take the round's inner steps with all others. They have no mean to apply
 * then, so the others send them what they have after applying theirs. A member that is killed is out of the mean that is on its way, and of nothing else.
 *
 * Output, --replay (with --delay), and signals are as with train_diloco_elastic. A mean that comes late wants smaller outer steps (docs/training.md). The
 * order of things is that of asynchronous DiLoCo with churn in PCCL (technical report, 2025). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "member.h"

static const char about[] =
    "Trains a character model of a text by asynchronous DiLoCo in a run whose members join, fail and leave (TUTTI_COORDINATOR, TUTTI_RUN).";

struct rounds {
    struct member *m;
    real *delta[2];         /* [n + 1] each: one is on its way, the other is the mean of the round before */
    unsigned next;          /* which is the one on its way, or to go next */
    const real *earlier;    /* a mean that has not been applied; NULL: none */
    int joined;             /* of the members some have such a mean and some have not, as they came after it */
    pthread_t thread;       /* of the one on its way: */
    int flies;
    tutti_status landed;    /* what became of it */
    uint64_t step;          /* after which it began */
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

/* Waits for what is on its way, if anything is. It is not applied. */
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
    return member_tell(r->m, r->step, (double)r->earlier[r->m->u.n]);
}

static void apply(struct rounds *r)
{
    if (r->earlier)
        outer_step(&r->m->u, r->earlier, &r->m->o);
    r->earlier = NULL;
}

/* The members come together between two rounds, and find out whether newcomers are among them. */
static tutti_status meet(struct rounds *r)
{
    enum { HAS = 1, LACKS = 2 };
    uint64_t all = 0;
    tutti_status st = land(r);

    if (!st)
        st = member_meet(r->m);
    if (st || r->m->view.nranks == 0)
        return st;
    st = tutti_run_agree(r->m->run, r->earlier ? HAS : LACKS, 0, &all);
    r->joined = all == 0;
    return st == TUTTI_ERR_PEER_LOST ? TUTTI_OK : st;       /* `all` is of those who are left; the next mean is without the lost one */
}

/* The incumbents have applied their mean; the newcomers, who never had it, receive what came of it. */
static tutti_status bring_newcomers_up(struct rounds *r, int incumbent)
{
    const tutti_status st = member_sync(r->m, incumbent ? TUTTI_SYNC_SEND : TUTTI_SYNC_RECEIVE);

    r->joined = 0;
    /* All incumbents were lost since the round began, and that mean with them. The newcomers have one state, and go on with it. */
    if (!incumbent && (st == TUTTI_ERR_INVALID || st == TUTTI_ERR_PEER_LOST))
        return TUTTI_OK;
    return st;
}

/* One round. *news: what member_poll said while nothing was on its way. */
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
            st = launch(r);     /* now: a run does not sync while an operation is on its way */
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
            st = meet(r);
        if (st || m->view.nranks == 0)
            break;
        st = take_round(r, &news);
    }
    if (!st)
        st = land(r);
    if (!st && m->view.nranks > 0)
        apply(r);
    if (r->flies)
        pthread_join(r->thread, NULL);      /* after an error; its memory is to be freed */
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
