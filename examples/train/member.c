#include "member.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static volatile sig_atomic_t stopped;

static void stop(int sig) { stopped = sig; }

/* ---- communication ---- */

tutti_status member_sync(struct member *m, tutti_sync_strategy strategy)
{
    m->state.strategy = strategy;
    return tutti_run_sync(m->run, &m->state, 0);
}

/* Prints the view. A newcomer receives the state, because its parameters or its step differ. A
 * member that was in the run before must not receive it: it would have diverged. Tests check for
 * this. */
static void print_view(const struct member *m)
{
    fprintf(stderr,
            "epoch %" PRIu64 ": %d members, from step %" PRIu64 " on; member %" PRIu64
            " %s the state\n",
            m->view.epoch, m->view.nranks, m->step, m->id, m->state.received ? "received" : "has");
}

tutti_status member_agree(struct member *m)
{
    tutti_status st;

    do {
        /* the minimum applies only until the first sync */
        const uint32_t least = m->state.revision ? 0 : (uint32_t)m->o.members;

        st = tutti_run_epoch(m->run, TUTTI_ADMIT, least, 0, -1, &m->view);
        if (!st && m->view.nranks > 0) {
            m->id = m->view.members[m->view.rank].id;
            st = member_sync(m, TUTTI_SYNC_POPULAR);
        }
    } while (st == TUTTI_ERR_PEER_LOST);    /* a member was lost: retry without it */
    if (!st && m->view.nranks > 0) {
        worker_take(&m->w, &m->u);
        print_view(m);
    }
    return st;
}

tutti_status member_mean(struct member *m, real *delta)
{
    return tutti_run_allreduce(m->run, delta, delta, m->u.n + 1, TUTTI_F32, TUTTI_AVG, 0);
}

tutti_status member_report(struct member *m, uint64_t step, double loss)
{
    const tutti_status st = tutti_run_view(m->run, &m->view);   /* smaller if members were lost
                                                                 meanwhile */

    if (st || m->view.rank != 0)
        return st;
    printf("%" PRIu64 " %.7f", step, loss);
    for (int r = 0; r < m->view.nranks; r++)
        printf(" %" PRIu64, m->view.members[r].id);
    printf("\n");
    fflush(stdout);
    return TUTTI_OK;
}

tutti_status member_poll(struct member *m, int *meet)
{
    tutti_news news = { .size = sizeof news };
    tutti_status st = TUTTI_OK;

    if (stopped && !m->told++)
        st = tutti_run_leave(m->run);
    if (!st)
        st = tutti_run_poll(m->run, &news);
    *meet = news.newcomers || news.leaving;
    return st;
}

/* ---- the program ---- */

/* Fowler, Noll and Vo's hash (FNV-1a), to compare the final states of members. */
static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *byte = data;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ byte[i]) * 0x100000001b3u;
    return h;
}

static uint64_t hash_state(const struct member *m)
{
    const uint64_t h = hash(0xcbf29ce484222325u, m->u.global, m->u.n * sizeof(real));

    return hash(h, m->u.velocity, m->u.n * sizeof(real));
}

/* Prints the final state and leaves after all members have arrived. Before a member knows that the
 * last exchange is FINAL, it would treat a departed member as lost, and retry without it. */
static tutti_status end(struct member *m)
{
    const uint64_t h = hash_state(m);
    const int left = m->view.nranks == 0;
    const tutti_status st = left ? TUTTI_OK : member_sync(m, TUTTI_SYNC_POPULAR);

    if (!st)
        fprintf(stderr, "member %" PRIu64 " %s after step %" PRIu64 " with state %016" PRIx64 "\n",
                m->id, left ? "left" : "ended", m->step, h);
    return st;
}

static void describe_state(struct member *m)
{
    m->arrays[0] = (tutti_array){ .size = sizeof(tutti_array),
                                  .name = "global",
                                  .data = m->u.global,
                                  .count = m->u.n,
                                  .type = TUTTI_F32 };
    m->arrays[1] = (tutti_array){ .size = sizeof(tutti_array),
                                  .name = "velocity",
                                  .data = m->u.velocity,
                                  .count = m->u.n,
                                  .type = TUTTI_F32 };
    m->arrays[2] = (tutti_array){
        .size = sizeof(tutti_array), .name = "step", .data = &m->step, .count = 1, .type = TUTTI_U64
    };
    m->state = (tutti_state){ .size = sizeof m->state, .arrays = m->arrays, .narrays = 3 };
}

static tutti_status join(struct member *m, tutti_status (*train)(struct member *m))
{
    tutti_status st = tutti_run_join(&m->run, NULL);

    if (st)
        return st;
    st = train(m);
    if (!st)
        st = end(m);
    tutti_run_destroy(m->run);
    return st;
}

int member_main(int argc, char **argv, const char *about, tutti_status (*train)(struct member *m))
{
    struct member m = { .view = { .size = sizeof m.view } };
    tutti_status st = TUTTI_ERR_NOMEM;

    options_parse(&m.o, argc, argv, TRAINS_APART | TRAINS_ELASTIC, about);
    if (!text_load(&m.t, m.o.text))
        return 2;
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    if (worker_init(&m.w, &m.t, m.o.seed)) {
        if (outer_init(&m.u, &m.w)) {
            describe_state(&m);
            st = join(&m, train);
            outer_free(&m.u);
        }
        worker_free(&m.w);
    }
    text_free(&m.t);
    return st ? 1 : 0;      /* the failure has been printed */
}
