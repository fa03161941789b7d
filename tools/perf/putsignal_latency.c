#include "tools/perf/putsignal_latency.h"

#include <sched.h>
#include "base/clock.h"
#include "base/status.h"
#include "comm/comm.h"

/* Each kind uses one cache line: its flag or signal, followed by the 8 bytes, so that both are
 * transferred in one line. */
#define LINE_BYTES 64u
#define BYTES sizeof(uint64_t)
#define LOOKS 20000u        /* polls of a thread before it yields its core */

struct game {
    tutti_comm *comm;
    tutti_window *window;
    tutti_device *device[PUTSIGNAL_BALLS];  /* NULL for FLAG, and on ranks other than 0 and 1 */
    uint64_t *mine, *theirs;                /* the windows of this rank and of the other rank */
    uint64_t turn[PUTSIGNAL_BALLS];         /* the current values of the words */
    uint32_t trips;
};

/* One round of one kind. The first trip synchronizes both ranks and is not timed. */
struct rally {
    const struct game *g;
    enum putsignal_ball ball;
    uint64_t first, end;
    uint64_t began_ns, ended_ns;
};

static uint32_t word_of(enum putsignal_ball ball)
{
    return ball * LINE_BYTES / (uint32_t)sizeof(uint64_t);
}

/* ---- the plain flag ---- */

static void await(const uint64_t *word, uint64_t value)
{
    for (uint32_t looks = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) != value; looks++)
        if (looks % LOOKS == 0)
            sched_yield();
}

static void rally_flag(struct rally *r)
{
    const struct game *g = r->g;
    const uint64_t *mine = g->mine + word_of(PUTSIGNAL_FLAG);
    uint64_t *theirs = g->theirs + word_of(PUTSIGNAL_FLAG);
    const bool serves = g->comm->rank == 0;

    for (uint64_t i = r->first; i < r->end; i++) {
        if (i == r->first + 1)
            r->began_ns = tt_now_ns();
        if (!serves)
            await(mine, i);
        __atomic_store_n(theirs, i, __ATOMIC_RELEASE);
        if (serves)
            await(mine, i);
    }
    r->ended_ns = tt_now_ns();
}

/* ---- devices ---- */

/* Puts the 8 bytes behind the signal, which is set to the index of the put. A signal from the
 * other rank implies that the preceding put of this rank has arrived. */
static tutti_status rally_device(const tutti_device_view *view, uint32_t block, uint32_t nblocks,
                                 void *arg)
{
    struct rally *r = arg;
    const uint32_t other = 1 - r->g->comm->rank;
    const size_t word = word_of(r->ball) * sizeof(uint64_t);
    const bool serves = other == 1;
    tutti_status st = TUTTI_OK;
    uint64_t sent = 0;

    (void)block, (void)nblocks;
    for (uint64_t i = r->first; i < r->end && !st; i++) {
        if (i == r->first + 1)
            r->began_ns = tt_now_ns();
        if (!serves)
            st = tutti_device_wait(view, word, TUTTI_EQUAL, i, NULL);
        sent = i;
        if (!st)
            st = tutti_device_put_signal(view, other, word + BYTES, &sent, BYTES, TUTTI_SIGNAL_SET,
                                         word, i);
        if (!st && serves)
            st = tutti_device_wait(view, word, TUTTI_EQUAL, i, NULL);
    }
    r->ended_ns = tt_now_ns();
    if (!st)
        st = tutti_device_flush(view, other);
    if (!st && r->g->mine[word_of(r->ball) + 1] != sent)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "wrong data: the received bytes of put %llu differ from the sent bytes",
                       (unsigned long long)sent);
    return st;
}

/* Runs one round of one kind between ranks 0 and 1. *us: half of a round trip, in microseconds. */
static tutti_status rally(struct game *g, enum putsignal_ball ball, double *us)
{
    struct rally r = {
        .g = g, .ball = ball, .first = g->turn[ball] + 1, .end = g->turn[ball] + g->trips + 2
    };
    tutti_status st = TUTTI_OK;

    if (ball == PUTSIGNAL_FLAG)
        rally_flag(&r);
    else
        st = tutti_device_run(g->device[ball], 1, rally_device, &r);
    *us = (double)(r.ended_ns - r.began_ns) * 1e-3 / (2.0 * g->trips);
    g->turn[ball] = r.end - 1;
    return st;
}

/* ---- all rounds ---- */

static tutti_status make_devices(struct game *g)
{
    tutti_device_conf conf = { .size = sizeof conf };
    tutti_status st = tutti_device_create(g->window, &conf, &g->device[PUTSIGNAL_DIRECT]);

    conf.no_direct = 1;
    return st ? st : tutti_device_create(g->window, &conf, &g->device[PUTSIGNAL_PROXY]);
}

static tutti_status prepare(struct game *g)
{
    const bool plays = g->comm->rank < 2;
    void *mine = NULL, *theirs = NULL;
    tutti_status st = tutti_window_create(g->comm, NULL, PUTSIGNAL_BALLS * LINE_BYTES, &g->window);

    if (!st)
        st = tutti_window_memory(g->window, &mine, NULL);
    if (!st && plays)
        st = tutti_window_pointer(g->window, 1 - (int)g->comm->rank, &theirs);
    if (!st && plays && !theirs)
        st = tt_fail(
            TUTTI_ERR_UNSUPPORTED,
            "cannot run --latency: ranks 0 and 1 have no memory that both can map (run both on one "
            "host, over shm)");
    g->mine = mine;
    g->theirs = theirs;
    return st || !plays ? st : make_devices(g);
}

tutti_status putsignal_latency(tutti_comm *comm, uint32_t nrounds, uint32_t trips,
                               struct putsignal_latency *out)
{
    struct game g = { .comm = comm, .trips = trips };
    tutti_status st = prepare(&g);

    *out = (struct putsignal_latency){ .nrounds = nrounds };
    /* the first round warms up */
    for (uint32_t i = 0; i < (nrounds + 1) * PUTSIGNAL_BALLS && !st; i++) {
        const uint32_t round = i / PUTSIGNAL_BALLS, ball = i % PUTSIGNAL_BALLS;
        double us = 0;

        st = tutti_barrier(comm, NULL);
        if (!st && comm->rank < 2)
            st = rally(&g, (enum putsignal_ball)ball, &us);
        if (!st)
            st = tutti_broadcast(&us, &us, 1, TUTTI_F64, 0, comm, NULL);
        if (round > 0)
            out->us[ball][round - 1] = us;
    }
    for (int ball = 0; ball < PUTSIGNAL_BALLS; ball++)
        tutti_device_destroy(g.device[ball]);
    tutti_window_free(g.window);
    return st;
}
