/* Hybrid sharding (HSDP) in a run whose replica groups join, fail and leave: the members of a group
 * share one copy of the model, and groups train in data parallel. Start a coordinator, then any
 * number of groups at any time. A group of two:
 *
 *     tutti coordinator --journal none &
 *     export TUTTI_COORDINATOR=localhost:29401
 *     ./train_hsdp TEXT --group 0 --role 0 &
 *     ./train_hsdp TEXT --group 0 --role 1 &
 *
 * A step: the members of a group gather the parameters, and each computes the gradient of its share
 * of the step's examples, which are divided among all members of all groups. They reduce-scatter
 * the gradient within the group. Role k sums its part with role k of the other groups, by the
 * ring with bounded bytes in flight. Then each member updates its part; no member stores more of
 * the parameters and velocity than its part.
 *
 * If a group loses a member, the whole group leaves the view. The step has no effect: the others
 * agree on a new view and repeat its examples. The remaining members of the group wait until
 * another process fills the empty role; then the group is admitted, and each of its members
 * receives its part from the same role of another group. So the losses equal those of train_alone
 * for any membership, up to the order of additions. The last role of the first group prints them,
 * and each member prints its views to stderr. On SIGINT or SIGTERM a member leaves, after its step
 * or during its wait; a second signal ends it at once. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/elastic.h>
#include <unistd.h>
#include "train.h"

static const char about[] =
    "Trains a character model of a text, sharded over the members of replica groups that join, "
    "fail and leave (TUTTI_COORDINATOR, TUTTI_RUN).";

struct training {
    struct options o;
    struct text t;
    struct worker whole;            /* during a step: all parameters, and the gradient followed
                                       by the loss; no velocity */
    struct worker part;             /* part of this role; the last role's part also has the loss */
    size_t params[ROLES_MAX];       /* [roles]: parameters of each role, */
    size_t sums[ROLES_MAX];         /* and the same with the loss */
    uint64_t step;                  /* the next step */
    _Atomic(tutti_run *) run;       /* NULL: not created yet */
    tutti_view view;
    tutti_array arrays[3];
    tutti_state state;
};

/* ---- the end ---- */

static void endings(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

/* A thread that sends the notice to leave on a signal, also while the member waits for admission.
 * It is cancelled at the end. */
static void *await_end(void *arg)
{
    struct training *x = arg;
    sigset_t set;
    int sig, was;

    endings(&set);
    sigwait(&set, &sig);
    if (x->run) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
        tutti_run_leave(x->run);
        pthread_setcancelstate(was, NULL);
        sigwait(&set, &sig);
    }
    _exit(128 + sig);
}

/* ---- a step ---- */

static tutti_status perform(struct training *x, tutti_coll coll, tutti_scope scope, const void *src,
                            void *dst, const size_t *counts)
{
    const size_t own = counts[x->o.role];
    tutti_elastic e = { .size = sizeof e,
                        .coll = coll,
                        .scope = scope,
                        .src = src,
                        .dst = dst,
                        .counts = scope == TUTTI_SCOPE_GROUP ? counts : NULL,
                        .count = scope == TUTTI_SCOPE_ROLE ? own : 0,
                        .type = TUTTI_F32,
                        .op = TUTTI_SUM,
                        .algo = scope == TUTTI_SCOPE_ROLE ? "ftar" : NULL };

    return tutti_run_collective(x->run, &e);
}

static int is_printing(const struct training *x)
{
    return (uint64_t)x->view.rank + 1 == x->o.roles;    /* ranks are in the order of groups and
                                                           roles */
}

static tutti_status step(struct training *x)
{
    const struct batch mine =
        share_of(&x->o, x->step, (uint64_t)x->view.rank, (uint64_t)x->view.nranks);
    struct worker *const part = &x->part;
    tutti_status st;

    st = perform(x, TUTTI_ALLGATHERV, TUTTI_SCOPE_GROUP, part->param, x->whole.param, x->params);
    if (st)
        return st;
    worker_look(&x->whole, &x->t, &mine, (double)x->o.batch);
    st = perform(x, TUTTI_REDUCE_SCATTERV, TUTTI_SCOPE_GROUP, x->whole.gradient, part->gradient,
                 x->sums);
    if (!st)
        st = perform(x, TUTTI_ALLREDUCE, TUTTI_SCOPE_ROLE, part->gradient, part->gradient, x->sums);
    if (st)
        return st;
    if (is_printing(x))
        curve_print(x->step, (double)part->gradient[part->n]);
    worker_step(part, &x->o);
    x->step++;
    return TUTTI_OK;
}

/* ---- views ---- */

static void print_view(const struct training *x)
{
    fprintf(stderr,
            "epoch %" PRIu64 ": %" PRIu64 " groups, from step %" PRIu64 " on; role %" PRIu64
            " of group %" PRIu64 " %s its part\n",
            x->view.epoch, (uint64_t)x->view.nranks / x->o.roles, x->step, x->o.role, x->o.group,
            x->state.received ? "received" : "has");
}

/* Checks that all roles have the same step, because roles sync separately. If no group remained
 * complete, all copies of a part may be lost, and its new member starts from step 0. */
static tutti_status check_parts(struct training *x)
{
    uint64_t steps[] = { x->step, ~x->step };       /* reduced to the maximum, and to the
                                                       complement of the minimum */
    tutti_elastic e = { .size = sizeof e,
                        .coll = TUTTI_ALLREDUCE,
                        .src = steps,
                        .dst = steps,
                        .count = 2,
                        .type = TUTTI_U64,
                        .op = TUTTI_MAX };
    const tutti_status st = tutti_run_collective(x->run, &e);

    if (st || steps[0] == ~steps[1])
        return st;
    fprintf(stderr,
            "the state of a role is lost: no group was complete (the states are of steps %" PRIu64
            " to %" PRIu64 ")\n",
            ~steps[1], steps[0]);
    return TUTTI_ERR_ABORTED;
}

/* Agrees on the groups of the view; members with old state receive their part from the same role of
 * another group. */
static tutti_status agree_on_view(struct training *x)
{
    const uint32_t least = x->view.epoch ? 0 : (uint32_t)x->o.members;
    tutti_status st = tutti_run_epoch(x->run, TUTTI_ADMIT, least, 0, -1, &x->view);

    if (st || x->view.nranks == 0)
        return st;
    st = tutti_run_sync(x->run, &x->state, 0);
    if (!st)
        print_view(x);
    return st ? st : check_parts(x);
}

/* Runs steps until the view must change, or all steps are done. */
static tutti_status steps_of_view(struct training *x)
{
    tutti_news news = { .size = sizeof news };
    tutti_status st = TUTTI_OK;

    while (!st && x->step < x->o.steps && !news.newcomers && !news.leaving && !news.lost) {
        st = step(x);
        if (!st)
            st = tutti_run_poll(x->run, &news);     /* equal on all members */
    }
    return st;
}

static tutti_status train(struct training *x)
{
    tutti_status st = TUTTI_OK;

    while (!st && x->step < x->o.steps) {
        st = agree_on_view(x);
        if (!st && x->view.nranks == 0)
            return TUTTI_OK;        /* this member has left */
        if (!st)
            st = steps_of_view(x);
        if (st == TUTTI_ERR_PEER_LOST)
            st = TUTTI_OK;          /* the state is that before the step */
    }
    return st;
}

/* ---- the program ---- */

static void describe_state(struct training *x)
{
    x->arrays[0] = (tutti_array){ .size = sizeof(tutti_array),
                                  .name = "parameters",
                                  .data = x->part.param,
                                  .count = x->part.n,
                                  .type = TUTTI_F32 };
    x->arrays[1] = (tutti_array){ .size = sizeof(tutti_array),
                                  .name = "velocity",
                                  .data = x->part.velocity,
                                  .count = x->part.n,
                                  .type = TUTTI_F32 };
    x->arrays[2] = (tutti_array){
        .size = sizeof(tutti_array), .name = "step", .data = &x->step, .count = 1, .type = TUTTI_U64
    };
    x->state = (tutti_state){
        .size = sizeof x->state, .arrays = x->arrays, .narrays = 3, .scope = TUTTI_SYNC_ROLE
    };
}

/* Initializes all parts from the initial model of train_alone. Returns false, after a message, if
 * out of memory. */
static int share_out(struct training *x)
{
    const size_t n = model_size(x->t.nsymbols), roles = x->o.roles, role = x->o.role,
                 first = n * role / roles;

    for (size_t k = 0; k < roles; k++) {
        x->params[k] = n * (k + 1) / roles - n * k / roles;
        x->sums[k] = x->params[k] + (k + 1 == roles);
    }
    x->whole = (struct worker){ .n = n,
                                .param = malloc(n * sizeof(real)),
                                .gradient = malloc((n + 1) * sizeof(real)) };
    if (!worker_room(&x->part, x->params[role]))
        return 0;
    if (!x->whole.param || !x->whole.gradient) {
        fprintf(stderr, "out of memory for %zu parameters\n", n);
        return 0;
    }
    model_draw(x->whole.param, x->t.nsymbols, x->o.seed);
    memcpy(x->part.param, x->whole.param + first, x->part.n * sizeof(real));
    describe_state(x);
    return 1;
}

static tutti_status join(struct training *x)
{
    const tutti_run_conf conf = { .size = sizeof conf,
                                  .group = (uint32_t)x->o.group,
                                  .role = (uint32_t)x->o.role,
                                  .nroles = (uint32_t)x->o.roles };
    tutti_run *run;
    tutti_status st = tutti_run_join(&run, &conf);

    if (st)
        return st;
    x->run = run;
    st = train(x);
    if (!st)
        fprintf(stderr, "role %" PRIu64 " of group %" PRIu64 " %s after step %" PRIu64 "\n",
                x->o.role, x->o.group, x->view.nranks ? "ended" : "left", x->step);
    return st;
}

int main(int argc, char **argv)
{
    struct training x = { .view = { .size = sizeof x.view } };
    tutti_status st = TUTTI_ERR_NOMEM;
    sigset_t set;
    pthread_t ender;

    options_parse(&x.o, argc, argv, TRAINS_TOGETHER | TRAINS_ELASTIC | TRAINS_IN_GROUPS, about);
    if (!text_load(&x.t, x.o.text))
        return 2;
    endings(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);     /* inherited by the threads of the library */
    if (!share_out(&x)) {
        /* the function has printed the error */
    } else if (pthread_create(&ender, NULL, await_end, &x) != 0) {
        fprintf(stderr, "cannot start the signal thread\n");
    } else {
        st = join(&x);
        pthread_cancel(ender);
        pthread_join(ender, NULL);
        tutti_run_destroy(x.run);
    }
    worker_free(&x.whole);
    worker_free(&x.part);
    text_free(&x.t);
    return st ? 1 : 0;      /* the failure has been printed */
}
