/* At a deadline the stopped rank is blamed, and no other, for any chain of waits. Only one of the
 * waiting ranks, the asker, has a deadline. It starts last, when the victim has already stopped. So
 * nothing depends on the speed of the ranks. */
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "calls.h"
#include "job.h"
#include "support/unit.h"

#define SEED 20260404
#define SOON_MS 400             /* timeout of the asker: shorter than the silence that is blamed */

static const char *const wires[] = { "shm", "tcp" };
#define NWIRES (sizeof wires / sizeof *wires)

enum { FLAG_STOPPED, FLAG_BEGUN };

struct stop {
    uint32_t nranks, victim, asker;
    enum tt_coll_kind kind;
    const char *algo;
    bool enters;                /* the victim starts the call, and stops in it */
};

static void stop_here(struct rank *r)
{
    r->board->dies[r->rank] = 1;
    kill(getpid(), SIGSTOP);
}

static void await_stop(const struct job *job, struct job_board *board)
{
    const struct stop *s = job->arg;

    if (job_await_stop(board, s->victim))
        job_raise(board, FLAG_STOPPED);
}

/* Only calls with an explicit timeout have a near deadline; all ranks are connected with each
 * other. */
static void open_all(struct rank *r)
{
    uint8_t byte[JOB_RANKS_MAX] = { 0 }, all[JOB_RANKS_MAX];

    setenv("TUTTI_TIMEOUT_MS", "3600000", 1);
    setenv("TUTTI_TCP_SILENCE_S", "0", 1);
    job_open_restoring(r);
    CHECK_OK(r, tutti_alltoall(byte, all, 1, TUTTI_U8, r->comm, NULL));
    job_meet(r);
}

/* The victim is blamed, and this rank reports its operation. */
static void check_blame(struct rank *r, tutti_status st, uint32_t victim, const char *in)
{
    char guilty[64], was[96], late[96];
    const char *why = tutti_last_error();

    CHECK_STATUS(r, st, TUTTI_ERR_PEER_LOST);
    snprintf(guilty, sizeof guilty, "rank %u does not respond: ", victim);
    snprintf(was, sizeof was, "rank %u was in %s(", r->rank, in);
    snprintf(late, sizeof late, "rank %u reached its deadline in %s(", r->rank, in);
    if (strncmp(why, guilty, strlen(guilty)) != 0 || (!strstr(why, was) && !strstr(why, late)) ||
        !strstr(why, ", operation "))
        job_fail(r, __FILE__, __LINE__, "\"%s\" does not blame rank %u, or does not tell of %s",
                 why, victim, in);
}

/* ---- chains ---- */

/* Each rank receives from the next one; the last one has stopped. */
static void chain_role(struct rank *r)
{
    const struct stop *s = r->job->arg;
    tutti_request *request;
    const tutti_call how = { .size = sizeof how,
                             .request = &request,
                             .timeout_ms = r->rank == s->asker ? SOON_MS : -1 };
    uint64_t word;

    open_all(r);
    job_step(r, "chain of %u ranks", r->nranks);
    if (r->rank == s->victim)
        stop_here(r);
    CHECK(r, job_await(r->board, FLAG_STOPPED, 1));
    if (r->rank == s->asker)
        CHECK(r, job_await(r->board, FLAG_BEGUN, r->nranks - 2));
    CHECK_OK(r, tutti_recv(&word, 1, TUTTI_U64, (int)r->rank + 1, r->comm, &how));
    job_raise(r->board, FLAG_BEGUN);
    check_blame(r, tutti_wait(request), s->victim, "recv");
    job_close(r);
}

static void last_rank_of_chain_is_blamed(void **state)
{
    static const struct stop stops[] = { { .nranks = 2, .victim = 1 },
                                         { .nranks = 3, .victim = 2 },
                                         { .nranks = 6, .victim = 5 } };

    (void)state;
    for (uint32_t i = 0; i < NWIRES * sizeof stops / sizeof *stops; i++) {
        const struct stop *s = &stops[i / NWIRES];
        const struct job job = {
            .wires = wires[i % NWIRES],
            .nranks = s->nranks,
            .seed = SEED,
            .arg = s,
            .direct = await_stop,
        };

        if (unit_has_turn(i + i / NWIRES, 2))
            job_run(&job, chain_role);
    }
}

/* ---- collectives ---- */

static void collective_role(struct rank *r)
{
    const struct stop *s = r->job->arg;
    const int64_t timeout_ms = r->rank == s->asker ? SOON_MS : -1;
    const struct call c = {
        .kind = s->kind,
        .type = TUTTI_I32,
        .op = TUTTI_SUM,
        .count = 60,
        .nranks = r->nranks,
        .in_place = true,
        .algo = s->algo,
        .timeout_ms = timeout_ms,
        .salt = 1,
    };
    const tutti_call how = { .size = sizeof how, .timeout_ms = timeout_ms };
    char why[CALL_TEXT_BYTES];
    struct call_side side;
    tutti_status st;

    open_all(r);
    call_init(&side, &c, r->rank);
    job_step(r, "%s, %s, rank %u stops", tt_coll_name(s->kind), s->algo, s->victim);
    if (r->rank == s->victim) {
        if (s->enters)          /* sends what does not depend on other ranks */
            CHECK_OK(r, call_go(&side, r->comm, true));
        for (int i = 0; i < 100 && s->enters; i++)
            CHECK_STATUS(r, tutti_test(side.request), TUTTI_PENDING);
        stop_here(r);
    }
    CHECK(r, job_await(r->board, FLAG_STOPPED, 1));
    if (r->rank == s->asker)
        CHECK(r, job_await(r->board, FLAG_BEGUN, r->nranks - 2));
    CHECK_OK(r, call_go(&side, r->comm, true));
    job_raise(r->board, FLAG_BEGUN);
    st = tutti_wait(side.request);
    if (st == TUTTI_OK && !call_is_right(&side, why))
        job_fail(r, __FILE__, __LINE__, "returned OK, but %s", why);
    if (st != TUTTI_OK && !call_is_restored(&side, why))
        job_fail(r, __FILE__, __LINE__, "not restored: %s", why);
    if (st == TUTTI_OK)
        CHECK_STATUS(r, tutti_barrier(r->comm, &how), TUTTI_ERR_PEER_LOST);
    else
        check_blame(r, st, s->victim, tt_coll_name(s->kind));
    CHECK(r, job_names(tutti_last_error(), s->victim));
    call_fini(&side);
    job_close(r);
}

static void stopped_rank_in_collective_is_blamed(void **state)
{
    static const struct stop stops[] = {
        { 5, 0, 4, TT_BROADCAST, "chain", false },
        { 5, 2, 3, TT_BARRIER, "dissemination", true },
        { 4, 1, 0, TT_ALLREDUCE, "ring", true },
        { 6, 3, 2, TT_ALLGATHER, "ring", true },
        { 3, 0, 2, TT_ALLREDUCE, "doubling", true },
        { 6, 5, 1, TT_BARRIER, "dissemination", false },
        { 6, 4, 0, TT_ALLREDUCE, "rabenseifner", true },
    };

    (void)state;
    for (uint32_t i = 0; i < NWIRES * sizeof stops / sizeof *stops; i++) {
        const struct stop *s = &stops[i / NWIRES];
        const struct job job = {
            .wires = wires[i % NWIRES],
            .nranks = s->nranks,
            .seed = SEED,
            .arg = s,
            .direct = await_stop,
        };

        if (unit_has_turn(i + i / NWIRES, 2))
            job_run(&job, collective_role);
    }
}

/* ---- ranks with several operations ---- */

#define EXPOSED 16              /* operations of a communicator that are visible to other ranks */

/* An operation that has not started waits for earlier ones. */
static void queue_role(struct rank *r)
{
    const struct stop *s = r->job->arg;
    tutti_request *request[EXPOSED + 1];
    float x[EXPOSED + 1] = { 0 }, y[EXPOSED + 1];

    open_all(r);
    job_step(r, "%d operations", EXPOSED + 1);
    if (r->rank == s->victim)
        stop_here(r);
    CHECK(r, job_await(r->board, FLAG_STOPPED, 1));
    for (uint32_t i = 0; i <= EXPOSED; i++) {
        const tutti_call how = { .size = sizeof how,
                                 .request = &request[i],
                                 .timeout_ms = i == EXPOSED && r->rank == s->asker ? SOON_MS : -1 };

        if (i == EXPOSED && r->rank == s->asker)
            CHECK(r, job_await(r->board, FLAG_BEGUN, r->nranks - 2));
        CHECK_OK(r, tutti_allreduce(&x[i], &y[i], 1, TUTTI_F32, TUTTI_SUM, r->comm, &how));
    }
    job_raise(r->board, FLAG_BEGUN);
    for (uint32_t i = 0; i <= EXPOSED; i++)
        check_blame(r, tutti_wait(request[i]), s->victim, "allreduce");
    job_close(r);
}

static void queued_operation_blames_the_same_rank(void **state)
{
    static const struct stop s = { .nranks = 3, .victim = 2 };

    (void)state;
    for (uint32_t i = 0; i < NWIRES; i++) {
        const struct job job = {
            .wires = wires[i], .nranks = s.nranks, .seed = SEED, .arg = &s, .direct = await_stop
        };

        job_run(&job, queue_role);
    }
}

#define AWAKE 3                 /* a responding rank without calls */

/* Rank 1 waits for the stopped rank and, in a newer communicator, for a rank that responds. The
 * asker reports both. */
static void aside_role(struct rank *r)
{
    const struct stop *s = r->job->arg;
    tutti_request *request, *aside;
    const tutti_call how = { .size = sizeof how,
                             .request = &request,
                             .timeout_ms = r->rank == s->asker ? SOON_MS : -1 },
                     ever = { .size = sizeof ever, .request = &aside, .timeout_ms = -1 };
    tutti_comm *other;
    uint64_t word, more;

    open_all(r);
    CHECK_OK(r, tutti_comm_dup(r->comm, &other));
    job_meet(r);
    job_step(r, "an operation aside");
    if (r->rank == s->victim)
        stop_here(r);
    CHECK(r, job_await(r->board, FLAG_STOPPED, 1));
    if (r->rank == 1)
        CHECK_OK(r, tutti_recv(&more, 1, TUTTI_U64, AWAKE, other, &ever));
    if (r->rank == s->asker)
        CHECK(r, job_await(r->board, FLAG_BEGUN, 1));
    if (r->rank == AWAKE) {
        while (tutti_comm_status(r->comm) == TUTTI_OK)
            usleep(1000);
        CHECK_STATUS(r, tutti_comm_status(r->comm), TUTTI_ERR_PEER_LOST);
    } else {
        CHECK_OK(r,
                 tutti_recv(&word, 1, TUTTI_U64, r->rank == 1 ? (int)s->victim : 1, r->comm, &how));
        job_raise(r->board, FLAG_BEGUN);
        check_blame(r, tutti_wait(request), s->victim, "recv");
    }
    tutti_comm_destroy(other);
    if (r->rank == 1)
        CHECK(r, tutti_wait(aside) != TUTTI_OK);
    job_close(r);
}

static void all_pending_operations_are_reported(void **state)
{
    static const struct stop s = { .nranks = 4, .victim = 2 };

    (void)state;
    for (uint32_t i = 0; i < NWIRES; i++) {
        const struct job job = {
            .wires = wires[i], .nranks = s.nranks, .seed = SEED, .arg = &s, .direct = await_stop
        };

        job_run(&job, aside_role);
    }
}

/* In a broadcast along a chain, rank 1 waits for the root, which responds but does not call. Rank 1
 * also waits for the stopped rank, but in another operation, which does not block the broadcast. */
static void innocent_role(struct rank *r)
{
    const struct stop *s = r->job->arg;
    tutti_request *request, *aside;
    const tutti_call how = {
        .size = sizeof how,
        .request = &request,
        .algo = "chain",
        .timeout_ms = r->rank == s->asker ? SOON_MS : -1,
    };
    const tutti_call ever = { .size = sizeof ever, .request = &aside, .timeout_ms = -1 };
    tutti_comm *other;
    uint64_t word = 0, more;

    open_all(r);
    CHECK_OK(r, tutti_comm_dup(r->comm, &other));
    job_meet(r);
    job_step(r, "a broadcast whose root does not come");
    if (r->rank == s->victim)
        stop_here(r);
    CHECK(r, job_await(r->board, FLAG_STOPPED, 1));
    if (r->rank == 1)
        CHECK_OK(r, tutti_recv(&more, 1, TUTTI_U64, (int)s->victim, other, &ever));
    if (r->rank == s->asker)
        CHECK(r, job_await(r->board, FLAG_BEGUN, 1));
    if (r->rank == 0) {
        while (tutti_comm_status(r->comm) == TUTTI_OK)
            usleep(1000);
        CHECK_STATUS(r, tutti_comm_status(r->comm), TUTTI_ERR_TIMEOUT);
    } else {
        CHECK_OK(r, tutti_broadcast(&word, &word, 1, TUTTI_U64, 0, r->comm, &how));
        job_raise(r->board, FLAG_BEGUN);
        CHECK_STATUS(r, tutti_wait(request), TUTTI_ERR_TIMEOUT);
        CHECK(r, strstr(tutti_last_error(), "rank 2 reached its deadline in broadcast("));
        CHECK(
            r,
            strstr(
                tutti_last_error(),
                "waiting for rank 1; rank 0 responds, but was in no collective, send or receive") &&
                !job_names(tutti_last_error(), s->victim));
        CHECK(r, r->rank != 1 || strstr(tutti_last_error(), "rank 1 was in broadcast("));
    }
    tutti_comm_destroy(other);
    if (r->rank == 1)
        CHECK(r, tutti_wait(aside) != TUTTI_OK);
    job_close(r);
}

static void wait_in_another_operation_is_irrelevant(void **state)
{
    static const struct stop s = { .nranks = 4, .victim = 3, .asker = 2 };

    (void)state;
    for (uint32_t i = 0; i < NWIRES; i++) {
        const struct job job = {
            .wires = wires[i], .nranks = s.nranks, .seed = SEED, .arg = &s, .direct = await_stop
        };

        job_run(&job, innocent_role);
    }
}

/* ---- three communicators, with deadlines in sequence or at the same time ---- */

#define GRID 8u                 /* ranks; the last one never calls */
#define ABSENT (GRID - 1)
/* all blocked calls start this long before the first deadline, or the round is void */
#define MARGIN_MS 100
#define ROUNDS_VOID_MAX 20

/* The deadline of rank r: base_ms + r * step_ms. */
struct round {
    int64_t base_ms, step_ms;
    bool leaves;                /* a failed rank destroys its communicators, and exits */
};

static const struct round rounds[] = {
    { 500, 0, false }, { 500, 40, false }, { 800, -40, false },
    { 500, 0, false }, { 500, 3, false },  { 500, 0, true },
};
#define NROUNDS (sizeof rounds / sizeof *rounds)

/* Start time of the blocked call, its deadline, the time at which the rank left (0: has not), and
 * queue_ns at the start of the round. */
enum { WORD_BEGAN, WORD_LATE, WORD_LEFT, WORD_QUEUED };

static int64_t deadline_of(const struct round *d, uint32_t rank)
{
    return d->base_ms + (int64_t)rank * d->step_ms;
}

/* Returns whether `why` states that rank i does not respond. */
static bool is_mute(const char *why, uint32_t i)
{
    char mute[40];

    snprintf(mute, sizeof mute, "rank %u does not respond:", i);
    return strstr(why, mute) != NULL;
}

/* ---- ranks that get no processor ----
 * A rank whose threads wait for a processor for too long does not respond, and is reported so. The
 * kernel counts these times. The job is then void, and runs again. */

#define QUEUE_MAX_NS (400 * TT_MS)      /* less than any silence that is reported */
#define JOBS_VOID_MAX 20

static _Atomic uint32_t *job_is_void;   /* shared with the ranks */

/* Returns the total time that the threads of a process have waited for a processor. */
static uint64_t queue_ns(pid_t pid)
{
    unsigned long long all = 0, ran, waited;
    char pattern[64];
    glob_t found;

    snprintf(pattern, sizeof pattern, "/proc/%d/task/*/schedstat", (int)pid);
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "r");

        if (file && fscanf(file, "%llu %llu", &ran, &waited) == 2)
            all += waited;
        if (file)
            fclose(file);
    }
    globfree(&found);
    return all;
}

/* Waits for SIGKILL, which the test sends when only ranks that are expected to die remain. */
static _Noreturn void wait_for_end(void)
{
    for (;;)
        pause();
}

/* Does not return if the job is void: `why` states that a rank does not respond, but that rank had
 * no processor in this round; or another rank has detected this. */
static void leave_void_job(struct rank *r, const char *why)
{
    for (uint32_t i = 0; i < GRID && !*job_is_void; i++)
        if (is_mute(why, i) &&
            queue_ns(r->board->pid[i]) > r->board->word[i][WORD_QUEUED] + QUEUE_MAX_NS)
            *job_is_void = 1;
    if (!*job_is_void)
        return;
    for (uint32_t i = 0; i < GRID; i++)
        r->board->dies[i] = SIGKILL;
    wait_for_end();
}

/* ---- rounds ---- */

/* Checks that `why` reports the absent rank as in no operation, and no other rank as that or as not
 * responding. Exception: a rank that left before this one failed, at failed_ns, cannot respond. */
static void check_absent(struct rank *r, const char *why, uint64_t failed_ns)
{
    static const char in_nothing[] = " responds, but was in no collective, send or receive";
    char absent[80];

    for (uint32_t i = 0; i < ABSENT; i++) {
        const uint64_t left = r->board->word[i][WORD_LEFT];

        if (left && left < failed_ns && is_mute(why, i))
            return;
    }
    snprintf(absent, sizeof absent, "rank %u%s", ABSENT, in_nothing);
    if (!strstr(why, absent))
        job_fail(r, __FILE__, __LINE__, "\"%s\" does not name rank %u", why, ABSENT);
    for (uint32_t i = 0; i < ABSENT; i++) {
        char other[80];

        snprintf(other, sizeof other, "rank %u%s", i, in_nothing);
        if (strstr(why, other) || is_mute(why, i))
            job_fail(r, __FILE__, __LINE__, "\"%s\" names rank %u, which is innocent", why, i);
    }
}

/* The call has succeeded, unless the job is void. */
static void check_done(struct rank *r, tutti_status st)
{
    if (st != TUTTI_OK)
        leave_void_job(r, tutti_last_error());
    CHECK_OK(r, st);
}

/* Sums along each dimension of the 2 x 2 x 2 ranks, up to the sum that blocks. Returns the result
 * of the blocked call. */
static tutti_status get_stuck(struct rank *r, tutti_comm *const comm[3], const struct round *d)
{
    const uint32_t stuck = r->rank == 6 ? 0 : r->rank >= 4 ? 1 : 2;
    const tutti_call how = { .size = sizeof how, .timeout_ms = deadline_of(d, r->rank) },
                     ever = { .size = sizeof ever, .timeout_ms = -1 };
    float x = 1, y;

    for (uint32_t i = 0; i < stuck; i++)
        check_done(r, tutti_allreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, comm[i], &ever));
    r->board->word[r->rank][WORD_BEGAN] = tt_now_ns();
    r->board->word[r->rank][WORD_LATE] = tt_now_ns() + (uint64_t)how.timeout_ms * TT_MS;
    return tutti_allreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, comm[stuck], &how);
}

/* Returns whether the round is valid: all blocked calls began MARGIN_MS before the first
 * deadline. */
static bool counts(const struct rank *r)
{
    uint64_t first = UINT64_MAX, last = 0;

    for (uint32_t i = 0; i < ABSENT; i++) {
        const uint64_t began = r->board->word[i][WORD_BEGAN], late = r->board->word[i][WORD_LATE];

        last = began > last ? began : last;
        first = late < first ? late : first;
    }
    return last + MARGIN_MS * TT_MS <= first;
}

/* Waits until the flag was raised `times` times, or the job is void. */
static void await_failures(struct rank *r, uint32_t times)
{
    const bool all = job_await(r->board, FLAG_BEGUN, times);

    leave_void_job(r, "");
    CHECK(r, all);
}

/* A rank whose call failed enters a barrier at once, and waits there for the absent rank. The
 * barrier is a repeated call, and completes when the absent rank enters it, after all others have
 * failed. */
static void await_absent(struct rank *r, uint32_t nrounds)
{
    const tutti_call ever = { .size = sizeof ever, .timeout_ms = -1 };

    if (r->rank != ABSENT)
        job_raise(r->board, FLAG_BEGUN);
    else
        await_failures(r, ABSENT * nrounds);
    check_done(r, tutti_barrier(r->comm, &ever));
}

/* nrounds: number of rounds so far, with this one. */
static bool try_round(struct rank *r, const struct round *d, uint32_t nrounds)
{
    const tutti_call ever = { .size = sizeof ever, .timeout_ms = -1 };
    tutti_comm *comm[3];
    char why[1024];
    uint64_t failed_ns = 0;
    bool good;

    for (uint32_t i = 0; i < 3; i++)
        check_done(r, tutti_comm_split(r->comm, (int)(r->rank & ~(1u << i)), 0, &comm[i]));
    check_done(r, tutti_barrier(r->comm, &ever));
    r->board->word[r->rank][WORD_QUEUED] = queue_ns(getpid());
    job_meet(r);
    if (r->rank != ABSENT) {
        const tutti_status st = get_stuck(r, comm, d);

        failed_ns = tt_now_ns();
        snprintf(why, sizeof why, "%s", tutti_last_error());
        leave_void_job(r, why);
        CHECK(r, st == TUTTI_ERR_TIMEOUT || (d->leaves && st == TUTTI_ERR_PEER_LOST));
    }
    if (d->leaves && r->rank != ABSENT) {
        r->board->word[r->rank][WORD_LEFT] = tt_now_ns();
        for (uint32_t i = 0; i < 3; i++)
            tutti_comm_destroy(comm[i]);
        job_close(r);
    }
    if (!d->leaves)
        await_absent(r, nrounds);
    job_meet(r);
    good = counts(r);
    if (good && r->rank != ABSENT)
        check_absent(r, why, failed_ns);
    job_meet(r);                /* the next round changes the checked values */
    for (uint32_t i = 0; i < 3 && r->comm; i++)
        tutti_comm_destroy(comm[i]);
    return good;
}

static void grid_role(struct rank *r)
{
    uint32_t total = 0;

    setenv("TUTTI_TIMEOUT_MS", "3600000", 1);
    setenv("TUTTI_LOG", "none", 1);
    job_open(r);
    for (uint32_t i = 0; i < NROUNDS; i++) {
        uint32_t tries = 1;

        job_step(r, "round %u", i);
        while (!try_round(r, &rounds[i], ++total) && !rounds[i].leaves)
            CHECK(r, ++tries < ROUNDS_VOID_MAX);
    }
    job_close(r);
}

/* A long test has more than 100 rounds, `make test` has 12. */
static uint32_t jobs_per_wire(void)
{
    const uint32_t all = (50 + NROUNDS - 1) / NROUNDS;

    return unit_share() > 2 ? 1 : all / unit_share();
}

static void recently_failed_rank_is_not_blamed(void **state)
{
    (void)state;
    job_is_void =
        mmap(NULL, sizeof *job_is_void, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal((void *)job_is_void, MAP_FAILED);
    for (uint32_t i = 0; i < NWIRES * jobs_per_wire(); i++) {
        const struct job job = { .wires = wires[i % NWIRES], .nranks = GRID, .seed = SEED };
        uint32_t tries = 0;

        do {
            *job_is_void = 0;
            job_run(&job, grid_role);
        } while (*job_is_void && ++tries < JOBS_VOID_MAX);
        assert_false(*job_is_void);
    }
    munmap((void *)job_is_void, sizeof *job_is_void);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_rank_of_chain_is_blamed),
        cmocka_unit_test(stopped_rank_in_collective_is_blamed),
        cmocka_unit_test(queued_operation_blames_the_same_rank),
        cmocka_unit_test(all_pending_operations_are_reported),
        cmocka_unit_test(wait_in_another_operation_is_irrelevant),
        cmocka_unit_test(recently_failed_rank_is_not_blamed),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
