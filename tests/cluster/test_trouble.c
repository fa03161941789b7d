/* Errors seen by ranks on failures: ranks that die, stop, abort, or are late. */
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "boot/flood.h"
#include "calls.h"
#include "job.h"
#include "support/unit.h"

#define SEED 20260403
#define MIB ((size_t)1 << 20)

static const char *const wires[] = { "shm", "tcp" };
#define NWIRES (sizeof wires / sizeof *wires)

/* ---- without timers ---- */

/* far more than a rank has; the lowest numbers are allocated first */
#define DESCRIPTORS_MAX 1024

/* A communicator whose calls can end only by an event: their deadline is an hour away, and no
 * connection ends because of silence. Data connections have no keepalive then
 * (TUTTI_TCP_SILENCE_S), and those of the control overlay, which would have 15 s, lose theirs here,
 * when all of them are established. So a call returns only because of a notification. This verifies
 * that notifications of deaths and aborts arrive within a second: no deadline or silence is waited
 * for in between, only messages. Their latency is printed if it is long, but fails no test, because
 * any machine may be slow. */
static void open_without_timers(struct rank *r, bool restores)
{
    const int off = 0;
    uint32_t neighbours[TT_FLOOD_LINKS_MAX], nlinks = 0;

    setenv("TUTTI_TIMEOUT_MS", "3600000", 1);
    setenv("TUTTI_TCP_SILENCE_S", "0", 1);
    if (restores)
        job_open_restoring(r);
    else
        job_open(r);
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        struct sockaddr_storage peer;
        socklen_t bytes = sizeof peer;

        if (setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &off, sizeof off) == 0 &&
            setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &off, sizeof off) == 0)
            nlinks += getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0;
    }
    CHECK(r, nlinks >= tt_flood_neighbours(r->rank, r->nranks, neighbours));
}

static void log_latency(const struct rank *r, uint64_t since_ns, const char *what)
{
    const uint64_t late_ns = tt_now_ns() - since_ns;

    if (late_ns > TT_SECOND / 2)
        print_message("rank %u returned %.2f s after %s\n", r->rank, (double)late_ns / 1e9, what);
}

/* ---- deaths ---- */

struct death {
    uint32_t victim;
    enum tt_coll_kind kind;
    const char *algo;
    size_t count;
    bool enters;                /* the victim starts the call in which it dies */
    tutti_redop op;
};

#define WORD_DIED 0             /* of the victim: time of death */

static void die(struct rank *r, int sig)
{
    r->board->dies[r->rank] = 1;
    r->board->word[r->rank][WORD_DIED] = tt_now_ns();
    kill(getpid(), sig);
}

/* Checks the state of a survivor. */
static void check_survivor(struct rank *r, struct call_side *s, tutti_status st, uint32_t victim,
                           bool restores)
{
    char why[CALL_TEXT_BYTES];

    if (st == TUTTI_OK && !call_is_right(s, why))
        job_fail(r, __FILE__, __LINE__, "returned OK, but %s", why);
    if (st == TUTTI_OK)
        return;
    CHECK_STATUS(r, st, TUTTI_ERR_PEER_LOST);
    CHECK(r, job_names(tutti_last_error(), victim));
    if (restores && !call_is_restored(s, why))
        job_fail(r, __FILE__, __LINE__, "not restored: %s", why);
}

static void die_or_survive(struct rank *r, bool restores)
{
    const struct death *d = r->job->arg;
    struct call c = {
        .kind = d->kind, .type = TUTTI_F32, .op = d->op, .count = d->count, .nranks = r->nranks,
        .root = r->nranks - 1, .in_place = true, .algo = d->algo, .salt = r->job->seed,
    };
    struct call_side s;
    tutti_status st;

    open_without_timers(r, restores);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    call_init(&s, &c, r->rank);
    job_step(r, "%s, rank %u dies", tt_coll_name(d->kind), d->victim);
    if (r->rank == d->victim) {
        if (d->enters)
            CHECK_OK(r, call_go(&s, r->comm, true));
        for (uint64_t polls = tt_prng_below(&r->prng, 60); d->enters && polls > 0; polls--)
            tutti_test(s.request);
        die(r, SIGKILL);
    }
    st = call_go(&s, r->comm, tt_prng_below(&r->prng, 2));
    if (st == TUTTI_OK && s.request)
        st = tutti_wait(s.request);
    check_survivor(r, &s, st, d->victim, restores);
    for (int i = 0; st == TUTTI_OK && i < 1000; i++)
        st = tutti_barrier(r->comm, NULL);      /* the victim cannot have taken part in all of
                                                   them */
    CHECK_STATUS(r, st, TUTTI_ERR_PEER_LOST);
    CHECK(r, job_names(tutti_last_error(), d->victim));
    log_latency(r, r->board->word[d->victim][WORD_DIED], "the death");
    call_fini(&s);
    job_close(r);
}

static void death_role(struct rank *r)
{
    die_or_survive(r, true);
}

static void plain_death_role(struct rank *r)
{
    die_or_survive(r, false);
}

static void survivors_have_result_or_restored_input(void **state)
{
    static const struct death deaths[] = {
        { 0, TT_ALLREDUCE, NULL, 1000000, true, TUTTI_SUM },
        { 1, TT_ALLREDUCE, "ring", 1000000, true, TUTTI_SUM },
        { 2, TT_ALLREDUCE, "ring", 300000, true, TUTTI_SUM },
        { 1, TT_ALLREDUCE, "rabenseifner", 1000000, true, TUTTI_SUM },
        { 2, TT_ALLREDUCE, "ring", 1000000, false, TUTTI_SUM },
        { 0, TT_ALLREDUCE, NULL, 10, false, TUTTI_SUM },
        { 2, TT_ALLREDUCE, "ring", 1000000, false, TUTTI_PREMUL_SUM },
        { 1, TT_ALLREDUCE, "rabenseifner", 1000000, true, TUTTI_PREMUL_SUM },
        { 0, TT_REDUCE, "chain", 1000000, true, TUTTI_PREMUL_SUM },
        { 1, TT_REDUCE_SCATTER, NULL, 200000, true, TUTTI_SUM },
        { 0, TT_ALLTOALL, NULL, 200000, true, TUTTI_SUM },
        { 0, TT_ALLTOALLV, NULL, 300000, true, TUTTI_SUM },
        { 1, TT_ALLTOALLV, "two_level", 300000, true, TUTTI_SUM },
        { 1, TT_ALLGATHER, "ring", 200000, true, TUTTI_SUM },
        { 0, TT_BROADCAST, "chain", 1000000, true, TUTTI_SUM },
        { 0, TT_REDUCE, "chain", 1000000, true, TUTTI_SUM },
        { 1, TT_GATHER, NULL, 300000, true, TUTTI_SUM },
        { 1, TT_BARRIER, NULL, 0, false, TUTTI_SUM },
        { 0, TT_SCATTER, NULL, 100000, false, TUTTI_SUM },
    };

    (void)state;
    for (uint32_t i = 0; i < NWIRES * 2 * sizeof deaths / sizeof *deaths; i++) {
        const struct death *d = &deaths[i / NWIRES / 2];
        const uint32_t nranks = 2 + (i / NWIRES + i / 4) % 4;
        const struct job job = {
            .wires = wires[i % NWIRES], .nranks = nranks > d->victim ? nranks : d->victim + 1,
            .seed = job_seed(SEED) + i, .arg = d,
        };

        if (unit_has_turn(i + i / 4, 4))
            job_run(&job, death_role);
    }
}

static void survivors_without_restore_have_result_or_error(void **state)
{
    static const struct death deaths[] = {
        { 1, TT_ALLREDUCE, "rabenseifner", 1000000, true, TUTTI_SUM },
        { 0, TT_ALLTOALL, NULL, 200000, true, TUTTI_SUM },
    };

    (void)state;
    for (uint32_t i = 0; i < NWIRES * sizeof deaths / sizeof *deaths; i++) {
        const struct job job = { .wires = wires[i % NWIRES],
                                 .nranks = 3,
                                 .seed = job_seed(SEED) + i,
                                 .arg = &deaths[i / NWIRES] };

        job_run(&job, plain_death_role);
    }
}

/* ---- wait graphs at a death ---- */

/* so that the control overlay does not connect all pairs: the third rank has no link to this one */
#define CIRCLE_RANKS 6

struct loss {
    const char *what;
    uint32_t victim;
    bool waited_for;            /* all wait for the victim; otherwise the others wait for each
                                   other, and the victim has no connections */
};

#define FLAG_WAITING 0

static void loss_role(struct rank *r)
{
    const struct loss *l = r->job->arg;
    const uint32_t to_the_right = (r->rank + 1) % r->nranks == l->victim ? 2 : 1;
    tutti_request *request;
    const tutti_call how = { .size = sizeof how, .request = &request };
    uint64_t word;
    tutti_status st;

    open_without_timers(r, false);
    if (l->waited_for)
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    job_step(r, "%s: rank %u dies", l->what, l->victim);
    if (r->rank == l->victim) {
        CHECK(r, job_await(r->board, FLAG_WAITING, r->nranks - 1));
        die(r, SIGKILL);
    }
    CHECK_OK(r, tutti_recv(&word, 1, TUTTI_U64,
                           (int)(l->waited_for ? l->victim : (r->rank + to_the_right) % r->nranks),
                           r->comm, &how));
    job_raise(r->board, FLAG_WAITING);
    if (tt_prng_below(&r->prng, 2))     /* without calls: the progress thread is notified; otherwise
                                           during a call */
        while (tutti_comm_status(r->comm) == TUTTI_OK)
            usleep(1000);
    st = tutti_wait(request);
    CHECK_STATUS(r, st, TUTTI_ERR_PEER_LOST);
    CHECK(r, job_names(tutti_last_error(), l->victim));
    CHECK_STATUS(r, tutti_barrier(r->comm, NULL), TUTTI_ERR_PEER_LOST);
    log_latency(r, r->board->word[l->victim][WORD_DIED], "the death");
    job_close(r);
}

static void death_notification_needs_no_timer(void **state)
{
    static const struct loss losses[] = {
        { "waited for", 0, true },
        { "waited for", 3, true },
        { "nobody's neighbour", 0, false },
        { "nobody's neighbour", 4, false },
    };

    (void)state;
    for (uint32_t i = 0; i < NWIRES * sizeof losses / sizeof *losses; i++) {
        const struct job job = {
            .wires = wires[i % NWIRES],
            .nranks = CIRCLE_RANKS,
            .seed = job_seed(SEED) + i,
            .arg = &losses[i / NWIRES],
        };

        if (unit_has_turn(i + i / NWIRES, 2))
            job_run(&job, loss_role);
    }
}

/* ---- stopped ranks ---- */

#define STOP_TIMEOUT_MS 2500    /* its last two seconds are used to find the unresponsive rank */

struct stop {
    uint32_t victim, nranks;
    enum tt_coll_kind kind;
    const char *algo;
    bool enters;                /* the victim starts the call in which it stops */
};

/* Only a neighbour waits for the stopped rank itself; other late ranks wait for the neighbour. The
 * deadline is that of the call, and no other is near. A rank that stops during a call may have
 * finished its part for some peers: they have their result, and detect the failure in the next
 * call, so ranks reach their deadlines at different times. */
static void stop_role(struct rank *r)
{
    const struct stop *d = r->job->arg;
    const tutti_call soon = { .size = sizeof soon, .timeout_ms = STOP_TIMEOUT_MS };
    struct call c = {
        .kind = d->kind,
        .type = TUTTI_F32,
        .op = TUTTI_SUM,
        .count = 500000,
        .nranks = r->nranks,
        .in_place = true,
        .algo = d->algo,
        .timeout_ms = STOP_TIMEOUT_MS,
        .salt = r->job->seed,
    };
    char why[CALL_TEXT_BYTES];
    struct call_side s;
    tutti_status st;

    open_without_timers(r, true);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    job_meet(r);
    call_init(&s, &c, r->rank);
    job_step(r, "%s, rank %u stops", tt_coll_name(d->kind), d->victim);
    if (r->rank == d->victim) {
        if (d->enters)
            CHECK_OK(r, call_go(&s, r->comm, true));
        for (uint64_t polls = tt_prng_below(&r->prng, 60); d->enters && polls > 0; polls--)
            tutti_test(s.request);
        die(r, SIGSTOP);
    }
    st = call_go(&s, r->comm, false);
    if (st == TUTTI_OK && !call_is_right(&s, why))
        job_fail(r, __FILE__, __LINE__, "returned OK, but %s", why);
    if (st != TUTTI_OK && !call_is_restored(&s, why))
        job_fail(r, __FILE__, __LINE__, "not restored: %s", why);
    if (st == TUTTI_OK)
        st = tutti_barrier(r->comm, &soon);
    CHECK_STATUS(r, st, TUTTI_ERR_PEER_LOST);
    CHECK(r, job_names(tutti_last_error(), d->victim));
    job_step(r, "destroy, rank %u stopped", d->victim);
    job_close(r);
    call_fini(&s);
}

static void stopped_rank_is_named_at_deadline(void **state)
{
    static const struct stop stops[] = {
        { 0, 2, TT_ALLREDUCE, "ring", false },    { 1, 3, TT_ALLREDUCE, "ring", false },
        { 0, 5, TT_ALLREDUCE, "ring", false },    { 1, 4, TT_ALLREDUCE, "ring", true },
        { 2, 5, TT_BROADCAST, "binomial", true }, { 2, 4, TT_REDUCE, "binomial", true },
        { 1, 4, TT_ALLTOALL, NULL, true },
    };

    (void)state;
    for (uint32_t i = 0; i < NWIRES * sizeof stops / sizeof *stops; i++) {
        const struct stop *d = &stops[i / NWIRES];
        const struct job job = {
            .wires = wires[i % NWIRES], .nranks = d->nranks, .seed = job_seed(SEED) + i, .arg = d
        };

        if (d->enters && i % NWIRES != i / NWIRES % NWIRES)
            continue;           /* one transport each: a job takes as long as its deadline */
        if (unit_has_turn(i + i / NWIRES, 2))
            job_run(&job, stop_role);
    }
}

/* ---- deadlines ---- */

static void deadline_role(struct rank *r)
{
    float x = 1, y;
    const tutti_call how = { .size = sizeof how, .timeout_ms = 300 };
    const uint64_t begin_ns = tt_now_ns();
    const char *sentence;
    tutti_status st = TUTTI_OK;

    open_without_timers(r, false);
    for (uint32_t i = 0; i < 7; i++)
        CHECK_OK(r, tutti_allreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, r->comm, NULL));
    if (r->rank == 1) {
        CHECK(r, job_await(r->board, 0, 1));
        for (int i = 0; i < 3 && !st; i++)  /* the first one may still complete with data that has
                                               arrived */
            st = tutti_allreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, r->comm, NULL);
        CHECK_STATUS(r, st, TUTTI_ERR_TIMEOUT);
        job_close(r);
        return;
    }
    CHECK_STATUS(r, tutti_allreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, r->comm, &how),
                 TUTTI_ERR_TIMEOUT);
    CHECK(r, tt_now_ns() - begin_ns >= 300 * TT_MS);
    sentence = tutti_last_error();
    CHECK(r, strstr(sentence, "allreduce") && strstr(sentence, "operation 7"));
    CHECK(r, strstr(sentence, "round") && (strstr(sentence, "wait") || strstr(sentence, "put")));
    CHECK(r, job_names(sentence, 0) && job_names(sentence, 1));
    job_raise(r->board, 0);
    job_close(r);
}

static void deadline_message_names_operation_and_peer(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWIRES; w++) {
        const struct job job = { .wires = wires[w], .nranks = 2, .seed = SEED };

        job_run(&job, deadline_role);
    }
}

/* ---- aborts ---- */

#if defined(__SANITIZE_THREAD__)        /* fewer with TSan, which is slowest; ASan checks for
                                           leaks */
#define ABORTS 16
#else
#define ABORTS 100
#endif
#define IN_FLIGHT 16

static void *abort_there(void *comm)
{
    return (void *)(intptr_t)tutti_comm_abort(comm);
}

/* The last rank makes none of these calls, so they can end only by the abort. */
static void abort_once(struct rank *r, uint32_t round, float *room, size_t count)
{
    tutti_request *request[IN_FLIGHT] = { NULL };
    const bool aborts = r->rank == round % r->nranks;
    const bool calls = r->rank + 1 < r->nranks;
    uint64_t begin_ns;
    pthread_t thread;

    job_step(r, "round %u: open", round);
    open_without_timers(r, false);
    job_step(r, "round %u: start", round);
    for (uint32_t i = 0; i < IN_FLIGHT && calls; i++) {
        const tutti_call how = { .size = sizeof how, .request = &request[i] };

        CHECK_OK(r, tutti_allreduce(room + i * count, room + i * count, i % 2 ? 10 : count,
                                    TUTTI_F32, TUTTI_SUM, r->comm, &how));
    }
    job_meet(r);
    begin_ns = tt_now_ns();
    job_step(r, "round %u: abort", round);
    if (aborts)
        CHECK(r, pthread_create(&thread, NULL, abort_there, r->comm) == 0);
    job_step(r, "round %u: wait", round);
    if (round % 2)
        for (uint32_t i = 0; i < IN_FLIGHT && calls; i++)
            CHECK_STATUS(r, tutti_wait(request[i]), TUTTI_ERR_ABORTED);
    while (tutti_comm_status(r->comm) == TUTTI_OK)  /* ranks without calls are notified, too */
        sched_yield();
    CHECK_STATUS(r, tutti_comm_status(r->comm), TUTTI_ERR_ABORTED);
    if (aborts)
        CHECK(r, pthread_join(thread, NULL) == 0);
    job_meet(r);
    job_step(r, "round %u: destroy", round);
    job_close(r);
    if (round % 2 == 0)
        for (uint32_t i = 0; i < IN_FLIGHT && calls; i++)
            CHECK_STATUS(r, tutti_wait(request[i]), TUTTI_ERR_ABORTED);
    log_latency(r, begin_ns, "the abort");
}

static void abort_role(struct rank *r)
{
    const size_t count = 100000;
    float *room = job_have(r, calloc(IN_FLIGHT * count, sizeof *room));
    uint32_t descriptors = 0;

    for (uint32_t round = 0; round < ABORTS; round++) {
        abort_once(r, round, room, count);
        if (round == 0)
            descriptors = job_descriptors();
        CHECK(r, job_descriptors() == descriptors);
        CHECK(r, job_await_no_thread());
        job_check_all(r, (const uint8_t *)room, IN_FLIGHT * count * sizeof *room, 0);
    }
    free(room);
}

static void hundred_aborts_leak_nothing(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWIRES; w++) {
        const struct job job = { .wires = wires[w], .nranks = 2 + (uint32_t)w, .seed = SEED };

        job_run(&job, abort_role);
    }
}

/* ---- aborts within one job ---- */

#define LONG_ROUNDS (unit_share() > 1 ? 50 : 100)
#define LONG_OPS 8              /* of a round; half of them use two flows with each peer */
#define LONG_COUNT 100000
/* freed memory stays mapped for a while */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LONG_GROWS_MAX (320 * MIB)
#else
#define LONG_GROWS_MAX (64 * MIB)       /* the operations of a round need some 8 MiB of buffers */
#endif

struct aborts {
    const char *wires, *cma, *lanes;
};

static uint64_t mapped_bytes(struct rank *r)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    CHECK(r, f && fscanf(f, "%lu", &pages) == 1);
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* In every other round the last rank calls nothing, so that memory opened by the others stays
 * open. */
static void abort_long(struct rank *r, uint32_t round, float *room)
{
    const bool calls = round % 2 || r->rank + 1 < r->nranks;
    tutti_request *request[LONG_OPS] = { NULL };
    tutti_comm *comm;
    tutti_status st;

    if (round % 3)
        CHECK_OK(r, tutti_comm_dup(r->comm, &comm));
    else
        CHECK_OK(r, tutti_comm_split(r->comm, 0, -(int)r->rank, &comm));
    for (uint32_t i = 0; i < LONG_OPS && calls; i++) {
        const tutti_call how = { .size = sizeof how, .request = &request[i] };
        float *src = room + (size_t)i * 2 * r->nranks * LONG_COUNT,
              *dst = src + (size_t)r->nranks * LONG_COUNT;

        if (i % 2)
            st = tutti_allreduce(src, dst, LONG_COUNT, TUTTI_F32, TUTTI_SUM, comm, &how);
        else
            st = tutti_alltoall(src, dst, LONG_COUNT, TUTTI_F32, comm, &how);
        if (st != TUTTI_ERR_ABORTED)
            CHECK_OK(r, st);
    }
    for (uint64_t polls = tt_prng_below(&r->prng, 100); polls > 0 && calls; polls--)
        tutti_test(request[0]);
    if (r->rank == round % r->nranks)
        CHECK_OK(r, tutti_comm_abort(comm));
    for (uint32_t i = 0; i < LONG_OPS; i++) {
        st = request[i] ? tutti_wait(request[i]) : TUTTI_OK;
        CHECK(r, st == TUTTI_OK || st == TUTTI_ERR_ABORTED);
    }
    tutti_comm_destroy(comm);
}

static void abort_long_role(struct rank *r)
{
    const struct aborts *a = r->job->arg;
    float *room = job_have(r, calloc((size_t)LONG_OPS * 2 * r->nranks * LONG_COUNT, sizeof *room));
    uint64_t before = 0;

    mallopt(M_ARENA_MAX, 1); /* a second arena, for a thread that finds the first one in use, would
                                take 64 MiB of addresses */
    setenv("TUTTI_CMA", a->cma, 1);
    setenv("TUTTI_LANES", a->lanes, 1);
    job_open(r);
    for (uint32_t round = 0; round < LONG_ROUNDS; round++) {
        job_step(r, "round %u", round);
        abort_long(r, round, room);
        if (round == LONG_ROUNDS / 2)       /* other ranks may lag: by now the number of rounds open
                                               at once has reached its maximum */
            before = mapped_bytes(r);
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (mapped_bytes(r) > before + LONG_GROWS_MAX)
        job_fail(r, __FILE__, __LINE__, "memory grew from %llu to %llu MiB",
                 (unsigned long long)(before / MIB), (unsigned long long)(mapped_bytes(r) / MIB));
    for (uint32_t i = 0; i < LONG_OPS; i++) {
        float *src = room + (size_t)i * 2 * LONG_COUNT, *dst = src + LONG_COUNT;

        job_step(r, "long operation %u", i);
        for (size_t k = 0; k < LONG_COUNT; k++)
            src[k] = (float)(r->rank + k % 100);
        CHECK_OK(r, tutti_allreduce(src, dst, LONG_COUNT, TUTTI_F32, TUTTI_SUM, r->comm, NULL));
        for (size_t k = 0; k < LONG_COUNT; k++)
            CHECK(r, dst[k] == (float)(r->nranks * (r->nranks - 1) / 2 + r->nranks * (k % 100)));
    }
    free(room);
}

static void aborted_operations_release_their_memory(void **state)
{
    static const struct aborts how[] = {
        { "shm", "0", "1" }, { "shm", "2", "1" }, { "tcp", "0", "1" }, { "tcp", "0", "4" },
    };

    (void)state;
    for (uint32_t i = 0; i < 2 * sizeof how / sizeof *how; i++) {
        const struct aborts *a = &how[i / 2];
        const struct job job = {
            .wires = a->wires, .nranks = 2 + i % 2, .seed = job_seed(SEED) + i, .arg = a
        };

        if (unit_has_turn(i + i / 2, 2))
            job_run(&job, abort_long_role);
    }
}

/* ---- no writes after return ---- */

#define LATE_ROUNDS (unit_share() > 1 ? 4 : 12)   /* fewer if each is slow */
#define LATE_BYTES (24 * MIB)
#define LATE_FEWER_BYTES (3 * MIB)      /* received by direct copy if possible */

struct late {
    bool allocated;
    size_t bytes;
};

enum { FLAG_BEGUN, FLAG_STOPPED, FLAG_REUSED, FLAG_RESUMED, FLAG_CHECKED };

/* Stops rank 1, the writer, during its transfer, and continues it when rank 0 has its buffer
 * back. */
static void stop_and_go(const struct job *job, struct job_board *board)
{
    (void)job;
    for (uint32_t i = 1; i <= LATE_ROUNDS; i++) {
        if (!job_await(board, FLAG_BEGUN, i))
            return;
        kill(board->pid[1], SIGSTOP);
        if (!job_await_stop(board, 1))
            return;
        job_raise(board, FLAG_STOPPED);
        if (!job_await(board, FLAG_REUSED, i))
            return;
        kill(board->pid[1], SIGCONT);
        job_raise(board, FLAG_RESUMED);
    }
}

static void writer(struct rank *r, tutti_comm *comm, uint8_t *buf, uint32_t round)
{
    const struct late *l = r->job->arg;
    tutti_request *request;
    const tutti_call how = { .size = sizeof how, .request = &request };
    tutti_status st = tutti_send(buf, l->bytes, TUTTI_U8, 0, comm, &how);
    uint64_t polls = 3 * round;

    CHECK_OK(r, st);
    while ((st = tutti_test(request)) == TUTTI_PENDING)
        if (polls-- == 0)
            job_raise(r->board, FLAG_BEGUN);
    if (polls < UINT64_MAX / 2)
        job_raise(r->board, FLAG_BEGUN);
    tutti_wait(request);
    CHECK(r, st == TUTTI_OK || st == TUTTI_ERR_ABORTED);
    CHECK(r, job_await(r->board, FLAG_RESUMED, round));
    CHECK(r, tutti_comm_status(comm) == TUTTI_OK || tutti_comm_status(comm) == TUTTI_ERR_ABORTED);
}

static void reader(struct rank *r, tutti_comm *comm, uint8_t *buf, uint32_t round)
{
    const struct late *l = r->job->arg;
    tutti_request *request;
    const tutti_call how = { .size = sizeof how, .request = &request };
    tutti_status st;

    CHECK_OK(r, tutti_recv(buf, l->bytes, TUTTI_U8, 1, comm, &how));
    CHECK(r, job_await(r->board, FLAG_STOPPED, round));
    CHECK_OK(r, tutti_comm_abort(comm));
    st = tutti_wait(request);
    CHECK(r, st == TUTTI_OK || st == TUTTI_ERR_ABORTED);
    memset(buf, 0xee, l->bytes);
    job_raise(r->board, FLAG_REUSED);
}

static void late_role(struct rank *r)
{
    const struct late *l = r->job->arg;
    uint8_t *buf = NULL;

    if (l->bytes == LATE_FEWER_BYTES)
        setenv("TUTTI_CMA", "2", 1);
    job_open(r);
    if (l->allocated)
        CHECK_OK(r, tutti_mem_alloc(r->comm, l->bytes, (void **)&buf));
    else
        buf = job_have(r, malloc(l->bytes));
    for (uint32_t round = 1; round <= LATE_ROUNDS; round++) {
        tutti_comm *comm;

        job_step(r, "round %u", round);
        CHECK_OK(r, tutti_comm_dup(r->comm, &comm));
        memset(buf, 0x11, l->bytes);
        if (r->rank == 0)
            reader(r, comm, buf, round);
        else
            writer(r, comm, buf, round);
        job_meet(r);            /* the writer was continued */
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
        if (r->rank == 0)
            job_check_all(r, buf, l->bytes, 0xee);
        tutti_comm_destroy(comm);
    }
    if (l->allocated)
        CHECK_OK(r, tutti_mem_free(r->comm, buf));
    else
        free(buf);
}

static void late_writer_spares_an_aborted_buffer(void **state)
{
    static const struct late how[] = { { false, LATE_BYTES },
                                       { true, LATE_BYTES },
                                       { false, LATE_FEWER_BYTES } };

    (void)state;
    for (uint32_t i = 0; i < NWIRES * 3; i++) {
        const struct job job = {
            .wires = wires[i % NWIRES],
            .nranks = 2,
            .seed = SEED,
            .arg = &how[i / NWIRES],
            .direct = stop_and_go,
        };

        job_run(&job, late_role);
    }
}

#define STANDSTILL_MS 4000      /* the deadline; the stop is longer */

/* Rank 0 is stopped while it waits: that time must not be attributed to rank 1. */
static void standstill_role(struct rank *r)
{
    uint8_t buf[100000] = { 0 };
    tutti_request *request;
    const tutti_call how = { .size = sizeof how, .request = &request, .timeout_ms = STANDSTILL_MS };

    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (r->rank == 0) {
        CHECK_OK(r, tutti_recv(buf, sizeof buf, TUTTI_U8, 1, r->comm, &how));
        for (uint64_t until_ns = tt_now_ns() + 100 * TT_MS; tt_now_ns() < until_ns;)
            CHECK(r, tutti_test(request) == TUTTI_PENDING);
        kill(getpid(), SIGSTOP);
        CHECK_OK(r, tutti_wait(request));
    } else {
        CHECK(r, job_await(r->board, 0, 1));
        CHECK_OK(r, tutti_send(buf, sizeof buf, TUTTI_U8, 0, r->comm, NULL));
    }
}

static void resume_late(const struct job *job, struct job_board *board)
{
    (void)job;
    if (!job_await_stop(board, 0))
        return;
    usleep((STANDSTILL_MS + 500) * 1000);
    kill(board->pid[0], SIGCONT);
    usleep(200000);             /* meanwhile it reads the clock */
    job_raise(board, 0);
}

static void stopped_waiter_blames_no_rank(void **state)
{
    const struct job job = { .wires = "shm", .nranks = 2, .seed = SEED, .direct = resume_late };

    (void)state;
    job_run(&job, standstill_role);
}

/* ---- two halves of one allocation ---- */

#define HALF_BYTES MIB

struct halves {
    size_t at;                  /* offset of the second half; at least HALF_BYTES */
};

/* Rank 0 receives into both halves, with two communicators, of which one is aborted. */
static void halves_role(struct rank *r)
{
    const struct halves *h = r->job->arg;
    tutti_comm *comm[2];
    tutti_request *request[2];
    uint8_t *buf;

    job_open(r);
    CHECK_OK(r, tutti_mem_alloc(r->comm, h->at + HALF_BYTES, (void **)&buf));
    memset(buf, r->rank ? 0x77 : 0x11, h->at + HALF_BYTES);
    for (int i = 0; i < 2; i++)
        CHECK_OK(r, tutti_comm_dup(r->comm, &comm[i]));
    for (int i = 0; i < 2 && r->rank == 0; i++) {
        const tutti_call how = { .size = sizeof how, .request = &request[i] };

        CHECK_OK(r, tutti_recv(buf + (i ? h->at : 0), HALF_BYTES, TUTTI_U8, 1, comm[i], &how));
    }
    for (int i = 0; i < 40; i++)
        CHECK_OK(r, tutti_barrier(r->comm, NULL));      /* by now both halves are open */
    if (r->rank == 0) {
        CHECK_OK(r, tutti_comm_abort(comm[0]));
        CHECK_STATUS(r, tutti_wait(request[0]), TUTTI_ERR_ABORTED);
        job_check_all(r, buf, HALF_BYTES, 0x11);
    }
    job_meet(r);
    if (r->rank == 0) {
        const tutti_status st = tutti_wait(request[1]);

        CHECK(r, st == TUTTI_OK || (st == TUTTI_ERR_ABORTED && h->at % 4096));
        if (st == TUTTI_OK)
            job_check_all(r, buf + h->at, HALF_BYTES, 0x77);
    } else {
        const tutti_status st = tutti_send(buf + h->at, HALF_BYTES, TUTTI_U8, 0, comm[1], NULL);

        CHECK(r, st == TUTTI_OK || (st == TUTTI_ERR_ABORTED && h->at % 4096));
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    for (int i = 0; i < 2; i++)
        tutti_comm_destroy(comm[i]);
    CHECK_OK(r, tutti_mem_free(r->comm, buf));
}

static void revoked_memory_affects_no_other_communicator(void **state)
{
    static const struct halves where[] = { { HALF_BYTES },
                                           { HALF_BYTES + 65536 },
                                           { HALF_BYTES + 100 } };

    (void)state;
    for (uint32_t i = 0; i < NWIRES * 3; i++) {
        const struct job job = {
            .wires = wires[i % NWIRES],
            .nranks = 2,
            .seed = job_seed(SEED),
            .arg = &where[i / NWIRES],
        };

        job_run(&job, halves_role);
    }
}

#define NEXT_COUNT ((1u << 17) + 100)   /* the next one begins in the page in which this one ends */
#define NEXT_OPS 4u
#define NEXT_ROUNDS (unit_share() > 1 ? 5 : 25)

/* Several operations of one communicator in adjacent memory, in place, aborted at a random
 * point. */
static void adjacent_role(struct rank *r)
{
    float *buf;

    job_open_restoring(r);
    CHECK_OK(r, tutti_mem_alloc(r->comm, NEXT_OPS * NEXT_COUNT * sizeof *buf, (void **)&buf));
    for (uint32_t round = 0; round < NEXT_ROUNDS; round++) {
        tutti_request *request[NEXT_OPS];
        tutti_comm *comm;

        job_step(r, "round %u", round);
        CHECK_OK(r, tutti_comm_dup(r->comm, &comm));
        for (uint32_t i = 0; i < NEXT_OPS * NEXT_COUNT; i++)
            buf[i] = 1;
        job_meet(r);
        for (uint32_t i = 0; i < NEXT_OPS; i++) {
            const tutti_call how = { .size = sizeof how, .request = &request[i], .algo = "ring" };
            float *at = buf + i * NEXT_COUNT;
            const tutti_status st =
                tutti_allreduce(at, at, NEXT_COUNT, TUTTI_F32, TUTTI_SUM, comm, &how);

            CHECK(r, st == TUTTI_OK || st == TUTTI_ERR_ABORTED);
            if (st)
                request[i] = NULL;
        }
        for (uint32_t polls = r->rank ? 0 : 2 * round; polls > 0; polls--)
            if (request[NEXT_OPS - 1])
                tutti_test(request[NEXT_OPS - 1]);
        if (r->rank == 0)
            CHECK_OK(r, tutti_comm_abort(comm));
        for (uint32_t i = 0; i < NEXT_OPS; i++) {
            const tutti_status st = request[i] ? tutti_wait(request[i]) : TUTTI_ERR_ABORTED;
            const float right = st ? 1 : 2;

            CHECK(r, st == TUTTI_OK || st == TUTTI_ERR_ABORTED);
            for (uint32_t k = 0; k < NEXT_COUNT; k++)
                if (buf[i * NEXT_COUNT + k] != right)
                    job_fail(r, __FILE__, __LINE__, "element %u of operation %u (%s) is %g", k, i,
                             tutti_status_name(st), (double)buf[i * NEXT_COUNT + k]);
        }
        CHECK_OK(r, tutti_barrier(r->comm, NULL));
        tutti_comm_destroy(comm);
        if (round % 5 == 4) {       /* revoked memory is not opened again: use new memory */
            CHECK_OK(r, tutti_mem_free(r->comm, buf));
            CHECK_OK(r,
                     tutti_mem_alloc(r->comm, NEXT_OPS * NEXT_COUNT * sizeof *buf, (void **)&buf));
        }
    }
    CHECK_OK(r, tutti_mem_free(r->comm, buf));
}

static void adjacent_aborted_operations_restore_input(void **state)
{
    const struct job job = { .wires = "shm", .nranks = 2, .seed = SEED };

    (void)state;
    job_run(&job, adjacent_role);
}

/* The two ranks have no common transport; the first call reports this. */
static void no_wire_role(struct rank *r)
{
    uint8_t byte = 0;

    setenv("TUTTI_WIRES", r->rank ? "tcp" : "shm", 1);
    job_open(r);
    CHECK_SAYS(r, tutti_broadcast(&byte, &byte, 1, TUTTI_U8, 0, r->comm, NULL), TUTTI_ERR_PEER_LOST,
               "no transport");
}

static void missing_common_transport_is_reported(void **state)
{
    const struct job job = { .wires = "shm", .nranks = 2, .seed = SEED };

    (void)state;
    job_run(&job, no_wire_role);
}

/* ---- regular end ---- */

/* each includes a start-up; six cover all kinds */
#define LEAVE_ROUNDS (unit_share() > 1 ? 6 : 15)

/* Each rank leaves when its own part has completed, without waiting for the others, which may still
 * be in their last call. */
static void leave_role(struct rank *r)
{
    for (uint32_t round = 0; round < LEAVE_ROUNDS; round++) {
        const struct call c = {
            .kind = round % 3 ? TT_BROADCAST : TT_ALLREDUCE,
            .type = TUTTI_I32,
            .count = round % 2 ? 10 : 300000,
            .nranks = r->nranks,
            .salt = round,
        };
        char why[CALL_TEXT_BYTES];
        struct call_side s;

        job_step(r, "round %u: open", round);
        job_open(r);
        job_step(r, "round %u: %s", round, tt_coll_name(c.kind));
        call_init(&s, &c, r->rank);
        CHECK_OK(r, call_go(&s, r->comm, false));
        if (!call_is_right(&s, why))
            job_fail(r, __FILE__, __LINE__, "%s", why);
        call_fini(&s);
        job_step(r, "round %u: destroy", round);
        job_close(r);
        job_meet(r);            /* only one start-up at a time at a rendezvous */
    }
}

static void early_exit_is_no_error(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWIRES * 3; i++) {
        const struct job job = { .wires = wires[i % NWIRES],
                                 .nranks = 2 + i / NWIRES,
                                 .seed = SEED };

        job_run(&job, leave_role);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_have_result_or_restored_input),
        cmocka_unit_test(survivors_without_restore_have_result_or_error),
        cmocka_unit_test(death_notification_needs_no_timer),
        cmocka_unit_test(stopped_rank_is_named_at_deadline),
        cmocka_unit_test(deadline_message_names_operation_and_peer),
        cmocka_unit_test(hundred_aborts_leak_nothing),
        cmocka_unit_test(aborted_operations_release_their_memory),
        cmocka_unit_test(stopped_waiter_blames_no_rank),
        cmocka_unit_test(revoked_memory_affects_no_other_communicator),
        cmocka_unit_test(adjacent_aborted_operations_restore_input),
        cmocka_unit_test(missing_common_transport_is_reported),
        cmocka_unit_test(late_writer_spares_an_aborted_buffer),
        cmocka_unit_test(early_exit_is_no_error),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
