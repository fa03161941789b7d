/* train_ddp in a run whose members come, fail and leave: the examples of a step are shared out among whoever is there.
 *
 *     tutti coordinator --journal none &
 *     TUTTI_COORDINATOR=localhost:29401 ./train_elastic TEXT [--steps N] ...        as many as you like, whenever you like
 *
 * A step whose all-reduce lost a member did not happen: its input is restored on all, they agree on who is left, and look at the step's
 * examples once more, all of them. So every step is over its whole batch, and the losses are those of train_alone whoever comes and goes, up to the
 * order of additions. Who is rank 0 of the view prints them, and on stderr each view. With SIGINT or SIGTERM a member leaves after its step. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/elastic.h>
#include "train.h"

static const char about[] = "Trains a character model of a text in a run whose members come, fail and leave (TUTTI_COORDINATOR, TUTTI_RUN).";

static volatile sig_atomic_t stopped;

static void stop(int sig) { stopped = sig; }

/* What members have alike. */
struct training {
    const struct options *o;
    const struct text *t;
    struct worker w;
    uint64_t step;          /* the next one */
    tutti_run *run;
    tutti_view view;
    int told;               /* that it leaves */
};

static tutti_status perform(struct training *x, tutti_coll coll, void *mem, size_t count, tutti_dtype type,
                            tutti_redop op, int root)
{
    tutti_elastic e = {
        .size = sizeof e, .coll = coll, .src = mem, .dst = mem, .count = count, .type = type, .op = op, .root = root
    };

    return tutti_run_collective(x->run, &e);
}

/* Of those that are farthest, the first rank gives the others what it has. A newcomer is at step 0 with parameters that count for nothing. */
static tutti_status share_state(struct training *x)
{
    uint64_t ahead = x->step << 16 | (0xffffu - (uint64_t)x->view.rank);
    int from;
    tutti_status st = perform(x, TUTTI_ALLREDUCE, &ahead, 1, TUTTI_U64, TUTTI_MAX, 0);

    if (st)
        return st;
    from = (int)(0xffffu - (ahead & 0xffffu));
    st = perform(x, TUTTI_BROADCAST, x->w.param, x->w.n, TUTTI_F32, TUTTI_SUM, from);
    if (!st)
        st = perform(x, TUTTI_BROADCAST, x->w.velocity, x->w.n, TUTTI_F32, TUTTI_SUM, from);
    if (!st)
        x->step = ahead >> 16;
    return st;
}

/* One step of whoever is in the view. */
static tutti_status step(struct training *x)
{
    const struct batch mine = share_of(x->o, x->step, (uint64_t)x->view.rank, (uint64_t)x->view.nranks);
    tutti_status st;

    worker_look(&x->w, x->t, &mine, x->o->batch);
    st = perform(x, TUTTI_ALLREDUCE, x->w.gradient, x->w.n + 1, TUTTI_F32, TUTTI_SUM, 0);
    if (st)
        return st;
    if (x->view.rank == 0)
        curve_print(x->step, (double)x->w.gradient[x->w.n]);
    worker_step(&x->w, x->o);
    x->step++;
    return TUTTI_OK;
}

/* Steps until the view is to change, or all are done. */
static tutti_status steps_of_view(struct training *x)
{
    tutti_news news = { .size = sizeof news };
    tutti_status st = share_state(x);

    if (!st && x->view.rank == 0)
        fprintf(stderr, "epoch %llu: %d members, from step %llu on\n", (unsigned long long)x->view.epoch,
                x->view.nranks, (unsigned long long)x->step);
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
