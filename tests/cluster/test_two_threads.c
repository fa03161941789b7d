/* Several threads that call concurrently on one communicator, which tutti.h forbids. Each call
 * returns within its deadline: OK, INVALID with a message that names the call in progress, or, when
 * the ranks are out of step, the resulting error. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "job.h"
#include "support/unit.h"
#include "tutti/rma.h"

#define SEED 20261128
#define DEADLINE_MS "10000"     /* of start-up and of calls without an explicit timeout */
#define CALL_MS 2000
#define CALLS 400               /* per thread */
#define COUNT 700
#define KINDS 12

struct threads {
    uint32_t n;
};

static const char *const wires[] = { "shm", "tcp" };
#define NWIRES (sizeof wires / sizeof *wires)

struct worker {
    struct rank *r;
    tutti_comm *comm;
    uint32_t seed, refused, ended;
    pthread_barrier_t *start;
    pthread_t thread;
    float src[2 * COUNT], dst[2 * COUNT];
};

static tutti_status wait_for(tutti_status st, tutti_request **request)
{
    return st ? st : tutti_wait(*request);
}

/* Makes one call of a kind; the memory belongs to the thread. */
static tutti_status call_one(struct worker *w, uint32_t kind)
{
    static const size_t counts[2] = { 3, 5 };
    tutti_request *request = NULL;
    const tutti_call now = { .size = sizeof now, .timeout_ms = CALL_MS },
                     later = { .size = sizeof later, .request = &request, .timeout_ms = CALL_MS };
    const int peer = 1 - (int)w->r->rank;
    const tutti_p2p both[2] = {
        { .is_recv = 0, .peer = peer, .buf = w->src, .count = 4, .type = TUTTI_F32 },
        { .is_recv = 1, .peer = peer, .buf = w->dst, .count = 4, .type = TUTTI_F32 }
    };
    tutti_window *window;
    tutti_comm *other;
    tutti_status st;

    switch (kind) {
    case 0:
        return tutti_allreduce(w->src, w->dst, 2, TUTTI_F32, TUTTI_SUM, w->comm, &now);
    case 1:
        return tutti_allreduce(w->src, w->dst, COUNT, TUTTI_F32, TUTTI_SUM, w->comm, &now);
    case 2:
        return wait_for(
            tutti_allreduce(w->src, w->dst, COUNT, TUTTI_F32, TUTTI_SUM, w->comm, &later),
            &request);
    case 3:
        return tutti_barrier(w->comm, &now);
    case 4:
        return tutti_group(both, 2, w->comm, &now);
    case 5:
        return wait_for(tutti_group(both, 2, w->comm, &later), &request);
    case 6:
        return tutti_allgatherv(w->src, w->dst, counts, NULL, TUTTI_F32, w->comm, &now);
    case 7:
        return tutti_alltoall(w->src, w->dst, 9, TUTTI_F32, w->comm, &now);
    case 8:
        return tutti_broadcast(w->src, w->src, 100, TUTTI_F32, 0, w->comm, &now);
    case 9:
        return w->r->rank ? tutti_recv(w->dst, 6, TUTTI_F32, peer, w->comm, &now)
                          : tutti_send(w->src, 6, TUTTI_F32, peer, w->comm, &now);
    case 10:
        st = tutti_comm_dup(w->comm, &other);
        if (!st)
            tutti_comm_destroy(other);
        return st;
    default:
        st = tutti_window_create(w->comm, NULL, 64, &window);
        return st ? st : tutti_window_free(window);
    }
}

/* Returns whether a call may return st; *refused: because another thread was in a call. */
static bool may_end_so(tutti_status st, const char *why, bool *refused)
{
    *refused = st == TUTTI_ERR_INVALID && strstr(why, ": another thread is in tutti_");
    return st == TUTTI_OK || *refused || st == TUTTI_ERR_TIMEOUT || st == TUTTI_ERR_MISMATCH ||
           st == TUTTI_ERR_ABORTED || st == TUTTI_ERR_PEER_LOST || st == TUTTI_ERR_PROTOCOL;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct tt_prng prng;

    tt_prng_init(&prng, w->seed);
    pthread_barrier_wait(w->start);
    for (int i = 0; i < CALLS && tutti_comm_status(w->comm) == TUTTI_OK; i++) {
        const tutti_status st = call_one(w, (uint32_t)tt_prng_below(&prng, KINDS));
        bool refused;

        if (!may_end_so(st, tutti_last_error(), &refused))
            job_fail(w->r, __FILE__, __LINE__, "a call ended as %s: %s", tutti_status_name(st),
                     tutti_last_error());
        w->refused += refused;
        w->ended++;
    }
    return NULL;
}

/* All threads of a rank draw the same calls, so that the ranks are in step for a while. Returns the
 * number of refused calls. */
static uint32_t run_threads(struct rank *r, tutti_comm *comm, uint32_t n, uint32_t round)
{
    struct worker *w = job_have(r, calloc(n, sizeof *w));
    pthread_barrier_t start;
    uint32_t refused = 0;

    CHECK(r, pthread_barrier_init(&start, NULL, n) == 0);
    for (uint32_t i = 0; i < n; i++) {
        w[i].r = r;
        w[i].comm = comm;
        w[i].seed = SEED + round;
        w[i].start = &start;
        CHECK(r, pthread_create(&w[i].thread, NULL, work, &w[i]) == 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        CHECK(r, pthread_join(w[i].thread, NULL) == 0);
        CHECK(r, w[i].ended > 0 || tutti_comm_status(comm) != TUTTI_OK);
        refused += w[i].refused;
    }
    pthread_barrier_destroy(&start);
    free(w);
    return refused;
}

/* Ranks get out of step on the communicator shared by the threads; its parent communicator still
 * works. */
static void threads_role(struct rank *r)
{
    const struct threads *t = r->job->arg;
    uint32_t refused = 0, mine = r->rank + 1, sum = 0;

    setenv("TUTTI_TIMEOUT_MS", DEADLINE_MS, 1);
    setenv("TUTTI_LOG", "none", 1);
    job_open(r);
    for (uint32_t round = 0; round < 3; round++) {
        tutti_comm *comm;

        CHECK_OK(r, tutti_comm_dup(r->comm, &comm));
        job_step(r, "%u threads, round %u", t->n, round);
        refused += run_threads(r, comm, t->n, round);
        job_meet(r);
        tutti_comm_destroy(comm);
        CHECK_OK(r, tutti_allreduce(&mine, &sum, 1, TUTTI_U32, TUTTI_SUM, r->comm, NULL));
        CHECK(r, sum == r->nranks * (r->nranks + 1) / 2);
    }
    atomic_store(&r->board->word[r->rank][0], refused);
    job_meet(r);
    CHECK(r, atomic_load(&r->board->word[0][0]) + atomic_load(&r->board->word[1][0]) > 0);
    job_close(r);
}

static void concurrent_calls_end_or_are_refused(void **state)
{
    static const struct threads threads[] = { { 2 }, { 8 } };

    (void)state;
    for (uint32_t i = 0; i < NWIRES * 2; i++) {
        const struct job job = {
            .wires = wires[i % NWIRES], .nranks = 2, .seed = SEED, .arg = &threads[i / NWIRES]
        };

        job_run(&job, threads_role);
    }
}

/* ---- one call in progress ---- */

static void *receive(void *arg)
{
    struct worker *w = arg;
    tutti_status st;

    do                          /* await_call's broadcast may be in progress */
        st = tutti_recv(w->dst, COUNT, TUTTI_F32, 1, w->comm, NULL);
    while (st == TUTTI_ERR_INVALID &&
           strstr(tutti_last_error(), "another thread is in tutti_broadcast"));
    CHECK_OK(w->r, st);
    return NULL;
}

/* Waits until `call` is in progress in another thread: until then, a broadcast with an invalid root
 * is refused because of the root. */
static void await_call(struct rank *r, const char *call)
{
    float x;

    do
        CHECK_STATUS(r, tutti_broadcast(&x, &x, 1, TUTTI_F32, 99, r->comm, NULL),
                     TUTTI_ERR_INVALID);
    while (!strstr(tutti_last_error(), call));
}

enum { FLAG_REFUSED };

static void blocked_role(struct rank *r)
{
    static struct worker w;
    tutti_request *request = NULL;
    const tutti_call later = { .size = sizeof later, .request = &request };
    const tutti_p2p op = { .peer = 1, .buf = w.src, .count = 1, .type = TUTTI_F32 };
    static const char refused[] = ": another thread is in tutti_recv on this communicator";
    tutti_window *window;
    tutti_comm *other;
    void *mem;
    float x = 0;

    setenv("TUTTI_LOG", "none", 1);
    job_open(r);
    w = (struct worker){ .r = r, .comm = r->comm };
    if (r->rank == 0) {
        CHECK_OK(r, tutti_recv(&x, 1, TUTTI_F32, 1, r->comm, &later));
        CHECK(r, pthread_create(&w.thread, NULL, receive, &w) == 0);
        await_call(r, "another thread is in tutti_recv");
        CHECK_SAYS(r, tutti_barrier(r->comm, NULL), TUTTI_ERR_INVALID, refused);
        CHECK_SAYS(r, tutti_send(&x, 1, TUTTI_F32, 1, r->comm, NULL), TUTTI_ERR_INVALID, refused);
        CHECK_SAYS(r, tutti_group(&op, 1, r->comm, NULL), TUTTI_ERR_INVALID, refused);
        CHECK_SAYS(r, tutti_comm_dup(r->comm, &other), TUTTI_ERR_INVALID, refused);
        CHECK_SAYS(r, tutti_window_create(r->comm, NULL, 8, &window), TUTTI_ERR_INVALID, refused);
        CHECK_OK(r, tutti_comm_status(r->comm));        /* calls that any thread may make still
                                                           work */
        CHECK_STATUS(r, tutti_test(request), TUTTI_PENDING);
        CHECK_OK(r, tutti_mem_alloc(r->comm, 4096, &mem));
        CHECK_OK(r, tutti_mem_free(r->comm, mem));
        job_raise(r->board, FLAG_REFUSED);
        CHECK_OK(r, tutti_wait(request));
        CHECK(r, x == 7 && pthread_join(w.thread, NULL) == 0);
    } else {
        x = 7;
        CHECK(r, job_await(r->board, FLAG_REFUSED, 1));
        CHECK_OK(r, tutti_send(&x, 1, TUTTI_F32, 0, r->comm, NULL));
        CHECK_OK(r, tutti_send(w.src, COUNT, TUTTI_F32, 0, r->comm, NULL));
    }
    for (int i = 0; i < 3; i++)
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_close(r);
}

static void refused_call_changes_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES; i++) {
        const struct job job = { .wires = wires[i], .nranks = 2, .seed = SEED };

        job_run(&job, blocked_role);
    }
}

/* ---- groups ---- */

#define GROUP_THREADS 6
#define GROUPS 48

/* Group i of three ranks: two of them, or all three, in changing order. */
static int list_of(uint32_t i, int *list)
{
    for (uint32_t k = 0; k < 3; k++)
        list[k] = (int)((i + k) % 3);
    return i % 4 == 3 ? 3 : 2;
}

/* Creates and uses each group of this thread that contains this rank. */
static void *create_groups(void *arg)
{
    struct worker *w = arg;
    const uint32_t rank = w->r->rank;

    for (uint32_t i = w->seed; i < GROUPS; i += GROUP_THREADS) {
        uint32_t word[2] = { i, rank }, all[2 * 3];
        int list[3];
        const int n = list_of(i, list);
        tutti_comm *group;

        if (n == 2 && (uint32_t)list[0] != rank && (uint32_t)list[1] != rank)
            continue;
        CHECK_OK(w->r, tutti_comm_create_group(w->comm, list, n, i, &group));
        CHECK_OK(w->r, tutti_allgather(word, all, 2, TUTTI_U32, group, NULL));
        for (int k = 0; k < n; k++)
            CHECK(w->r, all[2 * k] == i && all[2 * k + 1] == (uint32_t)list[k]);
        tutti_comm_destroy(group);
    }
    return NULL;
}

/* The threads start in another order on each rank. */
static void groups_role(struct rank *r)
{
    struct worker w[GROUP_THREADS];

    job_open(r);
    for (uint32_t i = 0; i < GROUP_THREADS; i++) {
        w[i] =
            (struct worker){ .r = r, .comm = r->comm, .seed = (i + 2 * r->rank) % GROUP_THREADS };
        CHECK(r, pthread_create(&w[i].thread, NULL, create_groups, &w[i]) == 0);
    }
    for (uint32_t i = 0; i < GROUP_THREADS; i++)
        CHECK(r, pthread_join(w[i].thread, NULL) == 0);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_close(r);
}

static void threads_create_groups_in_any_order(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES; i++) {
        const struct job job = { .wires = wires[i], .nranks = 3, .seed = SEED };

        job_run(&job, groups_role);
    }
}

/* ---- one thread after another ---- */

#define TURNS 200

static void *take_turns(void *arg)
{
    struct worker *w = arg;
    uint32_t mine = 1, sum;

    for (int i = 0; i < TURNS; i++) {
        CHECK_OK(w->r, tutti_allreduce(&mine, &sum, 1, TUTTI_U32, TUTTI_SUM, w->comm, NULL));
        CHECK(w->r, sum == w->r->nranks);
    }
    return NULL;
}

static void turns_role(struct rank *r)
{
    struct worker w = { .r = r };

    job_open(r);
    w.comm = r->comm;
    for (int i = 0; i < 5; i++) {
        CHECK(r, pthread_create(&w.thread, NULL, take_turns, &w) == 0 &&
                     pthread_join(w.thread, NULL) == 0);
        take_turns(&w);
    }
    job_close(r);
}

static void successive_threads_are_not_refused(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES; i++) {
        const struct job job = { .wires = wires[i], .nranks = 2, .seed = SEED };

        job_run(&job, turns_role);
    }
}

/* ---- a thread waits for requests, and another one makes calls of their shape ---- */

#define HANDED 1000
#define SUMS 16         /* elements: short calls, whose operations are cached */

struct handed {
    struct rank *r;
    _Atomic(tutti_request *) request;       /* taken by the waiting thread, which sets NULL */
};

static void *wait_for_handed(void *arg)
{
    struct handed *h = arg;

    for (int i = 0; i < HANDED; i++) {
        tutti_request *request;

        while (!(request = atomic_load(&h->request)))
            sched_yield();
        CHECK_OK(h->r, tutti_wait(request));
        atomic_store(&h->request, NULL);
    }
    return NULL;
}

static void handed_role(struct rank *r)
{
    static float in[SUMS], out[2][SUMS];
    struct handed h = { .r = r };
    tutti_request *request;
    const tutti_call later = { .size = sizeof later, .request = &request };
    pthread_t waiter;

    job_open(r);
    CHECK(r, pthread_create(&waiter, NULL, wait_for_handed, &h) == 0);
    for (int i = 0; i < HANDED; i++) {
        const size_t n = 1 + (size_t)(i % SUMS);    /* another shape than before */

        in[n - 1] = (float)i;
        CHECK_OK(r, tutti_allreduce(in, out[1], n, TUTTI_F32, TUTTI_SUM, r->comm, NULL));
        /* the operation of the second call of a shape is cached when its request completes */
        CHECK_OK(r, tutti_allreduce(in, out[0], n, TUTTI_F32, TUTTI_SUM, r->comm, &later));
        atomic_store(&h.request, request);
        CHECK_OK(r, tutti_allreduce(in, out[1], n, TUTTI_F32, TUTTI_SUM, r->comm, NULL));
        while (atomic_load(&h.request))
            sched_yield();
        CHECK(r, out[0][n - 1] == (float)i * (float)r->nranks);
        CHECK(r, memcmp(out[0], out[1], n * sizeof *in) == 0);
    }
    CHECK(r, pthread_join(waiter, NULL) == 0);
    job_close(r);
}

static void waits_beside_calls_of_same_shape(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES; i++) {
        const struct job job = { .wires = wires[i], .nranks = 2, .seed = SEED };

        job_run(&job, handed_role);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_beside_calls_of_same_shape),
        cmocka_unit_test(refused_call_changes_nothing),
        cmocka_unit_test(threads_create_groups_in_any_order),
        cmocka_unit_test(successive_threads_are_not_refused),
        cmocka_unit_test(concurrent_calls_end_or_are_refused),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
