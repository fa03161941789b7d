/* train_ddp in a run whose members join, fail and leave: the examples of a step are shared out among whoever is there.
 *
 *     tutti coordinator --journal none &
 *     TUTTI_COORDINATOR=localhost:29401 ./train_elastic TEXT [--steps N] ...        as many as you like, whenever you like; once
 *                                                 all have gone, with a new coordinator: this one knows the state that they left
 *
 *     epoch -> sync -> (forward and backward -> all-reduce: the average -> step) ... -> epoch -> ...
 *
 * A step whose all-reduce lost a member did not happen: its input is restored on all, they agree on who is left, and look at the step's
 * examples once more, all of them. So every step is over its whole batch, and the losses are those of train_alone whoever comes and goes, up to the
 * order of additions. Who is rank 0 of the view prints them, and each on stderr its views. With SIGINT or SIGTERM a member leaves after its step. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/elastic.h>
#include "train.h"

static const char about[] = "Trains a character model of a text in a run whose members join, fail and leave (TUTTI_COORDINATOR, TUTTI_RUN).";

static volatile sig_atomic_t stopped;

static void stop(int sig) { stopped = sig; }

struct training {
    const struct options *o;
    const struct text *t;
    struct worker w;
    uint64_t step;          /* the next one: with parameters and velocity what members have alike */
    tutti_run *run;
    tutti_view view;
    tutti_array arrays[3];
    tutti_state state;
    int told;               /* that it leaves */
};

static void describe_state(struct training *x)
{
    x->arrays[0] = (tutti_array){
        .size = sizeof(tutti_array), .name = "parameters", .data = x->w.param, .count = x->w.n, .type = TUTTI_F32
    };
    x->arrays[1] = (tutti_array){
        .size = sizeof(tutti_array), .name = "velocity", .data = x->w.velocity, .count = x->w.n, .type = TUTTI_F32
    };
    x->arrays[2] =
        (tutti_array){ .size = sizeof(tutti_array), .name = "step", .data = &x->step, .count = 1, .type = TUTTI_U64 };
    x->state = (tutti_state){ .size = sizeof x->state, .arrays = x->arrays, .narrays = 3 };
}

/* One step of whoever is in the view. A batch need not divide by the members, so some have an example more than others; each takes its sums over what
 * a member has on average, so that their average is that of the batch. */
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

/* Steps until the view is to change, or all are done. */
static tutti_status steps_of_view(struct training *x)
{
    tutti_news news = { .size = sizeof news };
    tutti_status st = tutti_run_sync(x->run, &x->state, 0); /* newcomers receive what the others have */

    if (!st)
        fprintf(stderr, "epoch %" PRIu64 ": %d members, from step %" PRIu64 " on; member %" PRIu64 " %s the state\n",
                x->view.epoch, x->view.nranks, x->step, x->view.members[x->view.rank].id,
                x->state.received ? "received" : "has");
    while (!st && x->step < x->o->steps) {
        if (stopped && !x->told++)
            tutti_run_leave(x->run);
        st = step(x);
        if (!st)
            st = tutti_run_poll(x->run, &news);     /* the same on all members */
        if (news.newcomers || news.leaving || news.lost)
            break;
    }
    return st;
}

static tutti_status train(struct training *x)
{
    tutti_status st = TUTTI_OK;

    while (!st && x->step < x->o->steps) {
        st = tutti_run_epoch(x->run, TUTTI_ADMIT, x->view.epoch ? 0 : (uint32_t)x->o->members, 0, -1, &x->view);
        if (!st && x->view.nranks == 0)
            return TUTTI_OK;        /* it has left */
        if (!st)
            st = steps_of_view(x);
        if (st == TUTTI_ERR_PEER_LOST)
            st = TUTTI_OK;          /* what was under way is as before it began */
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
    return st ? 1 : 0;      /* what failed has been said */
}
