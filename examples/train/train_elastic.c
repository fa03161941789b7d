/* train_ddp in a run whose members join, fail and leave: the examples of a step are divided among
 * the current members. Start a coordinator, then any number of members at any time. When all
 * members have left, a new run needs a new coordinator, because this one keeps the version of their
 * final state.
 *
 *     tutti coordinator --journal none &
 *     TUTTI_COORDINATOR=localhost:29401 ./train_elastic TEXT [--steps N] ...
 *
 *     epoch -> sync -> (forward and backward -> all-reduce: the average -> step) ... -> epoch ->
 *     ...
 *
 * A step whose all-reduce loses a member has no effect: its input is restored on all members, they
 * agree on a new view, and repeat the step with all its examples. So every step uses its whole
 * batch, and the losses equal those of train_alone for any membership, up to the order of
 * additions. Rank 0 of the view prints them; each member prints its views to stderr. On SIGINT or
 * SIGTERM a member leaves after its step. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/elastic.h>
#include "train.h"

static const char about[] = "Trains a character model of a text in a run whose members join, fail "
                            "and leave (TUTTI_COORDINATOR, TUTTI_RUN).";

static volatile sig_atomic_t stopped;

static void stop(int sig) { stopped = sig; }

struct training {
    const struct options *o;
    const struct text *t;
    struct worker w;
    uint64_t step;          /* the next step; shared by all members, with parameters and velocity */
    tutti_run *run;
    tutti_view view;
    tutti_array arrays[3];
    tutti_state state;
    int told;               /* its notice to leave was sent */
};

static void describe_state(struct training *x)
{
    x->arrays[0] = (tutti_array){ .size = sizeof(tutti_array),
                                  .name = "parameters",
                                  .data = x->w.param,
                                  .count = x->w.n,
                                  .type = TUTTI_F32 };
    x->arrays[1] = (tutti_array){ .size = sizeof(tutti_array),
                                  .name = "velocity",
                                  .data = x->w.velocity,
                                  .count = x->w.n,
                                  .type = TUTTI_F32 };
    x->arrays[2] = (tutti_array){
        .size = sizeof(tutti_array), .name = "step", .data = &x->step, .count = 1, .type = TUTTI_U64
    };
    x->state = (tutti_state){ .size = sizeof x->state, .arrays = x->arrays, .narrays = 3 };
}

/* Runs one step of the current members. The batch may not divide evenly. Each member divides its
 * sums by the average number of examples per member, so that the average over members is that of
 * the batch. */
static tutti_status step(struct training *x)
{
    const uint64_t rank = (uint64_t)x->view.rank, nranks = (uint64_t)x->view.nranks;
    const struct batch mine = share_of(x->o, x->step, rank, nranks);
    tutti_elastic average = { .size = sizeof average,
                              .coll = TUTTI_ALLREDUCE,
                              .src = x->w.gradient,
                              .dst = x->w.gradient,
                              .count = x->w.n + 1,
                              .type = TUTTI_F32,
                              .op = TUTTI_AVG };
    tutti_status st;

    worker_look(&x->w, x->t, &mine, (double)x->o->batch / (double)nranks);
    st = tutti_run_collective(x->run, &average);
    if (st)
        return st;
    if (rank == 0)
        curve_print(x->step, (double)x->w.gradient[x->w.n]);
    worker_step(&x->w, x->o);
    x->step++;
    return TUTTI_OK;
}

/* Runs steps until the view must change, or all steps are done. */
static tutti_status steps_of_view(struct training *x)
{
    tutti_news news = { .size = sizeof news };
    tutti_status st = tutti_run_sync(x->run, &x->state, 0); /* newcomers receive the state of the
                                                               others */

    if (!st)
        fprintf(stderr,
                "epoch %" PRIu64 ": %d members, from step %" PRIu64 " on; member %" PRIu64
                " %s the state\n",
                x->view.epoch, x->view.nranks, x->step, x->view.members[x->view.rank].id,
                x->state.received ? "received" : "has");
    while (!st && x->step < x->o->steps) {
        if (stopped && !x->told++)
            tutti_run_leave(x->run);
        st = step(x);
        if (!st)
            st = tutti_run_poll(x->run, &news);     /* equal on all members */
        if (news.newcomers || news.leaving || news.lost)
            break;
    }
    return st;
}

static tutti_status train(struct training *x)
{
    tutti_status st = TUTTI_OK;

    while (!st && x->step < x->o->steps) {
        st = tutti_run_epoch(x->run, TUTTI_ADMIT, x->view.epoch ? 0 : (uint32_t)x->o->members, 0,
                             -1, &x->view);
        if (!st && x->view.nranks == 0)
            return TUTTI_OK;        /* this member has left */
        if (!st)
            st = steps_of_view(x);
        if (st == TUTTI_ERR_PEER_LOST)
            st = TUTTI_OK;          /* the state is that before the step */
    }
    return st;
}

int main(int argc, char **argv)
{
    struct options o;
    struct text t;
    struct training x = { .o = &o, .t = &t, .view = { .size = sizeof x.view } };
    tutti_status st;

    options_parse(&o, argc, argv, TRAINS_TOGETHER | TRAINS_ELASTIC, about);
    if (!text_load(&t, o.text))
        return 2;
    if (!worker_init(&x.w, &t, o.seed))
        return 1;
    describe_state(&x);
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    st = tutti_run_join(&x.run, NULL);
    if (!st) {
        st = train(&x);
        tutti_run_destroy(x.run);
    }
    worker_free(&x.w);
    text_free(&t);
    return st ? 1 : 0;      /* the failure has been printed */
}
