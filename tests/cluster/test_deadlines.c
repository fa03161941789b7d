/* Deadlines of milliseconds: checks the requested sleep time of waiting threads, which does not
 * depend on the machine's speed. */
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "job.h"
#include "support/unit.h"
#include "tutti/rma.h"

#define SEED 20261129
#define DEADLINE_MS 20          /* far less than a sleep without a deadline */
#define TRIES 20                /* a busy machine may reach the deadline before the first sleep */

static const char *const wires[] = { "shm", "tcp" };
#define NWIRES (sizeof wires / sizeof *wires)

static atomic_int sleeps, longest_ms;   /* of the observed threads */
static _Thread_local bool watches;

/* Replaces the C library's function. */
int epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
    if (watches) {
        atomic_fetch_add(&sleeps, 1);
        if (timeout_ms < 0 || timeout_ms > atomic_load(&longest_ms))
            atomic_store(&longest_ms, timeout_ms < 0 ? INT32_MAX : timeout_ms);
    }
    return epoll_pwait(fd, events, max, timeout_ms, NULL);
}

/* Deadline of the i-th try: longer after some tries, because a busy machine may reach a short
 * deadline without a sleep. */
static int deadline_of(int i)
{
    return DEADLINE_MS << (i / 4 < 10 ? i / 4 : 10);
}

/* No sleep lasts beyond the deadline; one millisecond is the granularity of epoll_wait. */
static void check_sleeps(struct rank *r, int deadline_ms)
{
    if (atomic_load(&longest_ms) > deadline_ms + 1)
        job_fail(r, __FILE__, __LINE__, "a sleep of %d ms with a deadline of %d ms",
                 atomic_load(&longest_ms), deadline_ms);
}

/* A call with a deadline that passes, in rank 0. try: below TRIES. */
struct call {
    struct rank *r;
    tutti_comm *comm[TRIES];    /* a communicator fails with its call */
    tutti_window *window;
    tutti_request *request;
};
typedef tutti_status call_fn(struct call *c, int try, int64_t timeout_ms);

/* Makes calls until one has slept. */
static void check_call(struct call *c, const char *name, call_fn *call, tutti_status expected)
{
    job_step(c->r, "%s", name);
    atomic_store(&sleeps, 0);
    atomic_store(&longest_ms, 0);
    for (int i = 0; i < TRIES && !atomic_load(&sleeps); i++) {
        tutti_status st;

        watches = true;
        st = call(c, i, deadline_of(i));
        watches = false;
        CHECK_STATUS(c->r, st, expected);
        check_sleeps(c->r, deadline_of(i));
    }
    CHECK(c->r, atomic_load(&sleeps) > 0);
}

static void open_quietly(struct rank *r)
{
    setenv("TUTTI_LOG", "none", 1);
    setenv("TUTTI_SPIN_US", "0", 1);
    job_open(r);
}

/* ---- collectives and receives ---- */

static tutti_status allreduce(struct call *c, int try, int64_t timeout_ms)
{
    const tutti_call soon = { .size = sizeof soon, .timeout_ms = timeout_ms };
    float x = 1, y;

    return tutti_allreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, c->comm[try], &soon);
}

static tutti_status receive(struct call *c, int try, int64_t timeout_ms)
{
    const tutti_call soon = { .size = sizeof soon, .timeout_ms = timeout_ms };
    float x;

    return tutti_recv(&x, 1, TUTTI_F32, 1, c->comm[try], &soon);
}

static void check_communicators(struct rank *r, const char *name, call_fn *call)
{
    struct call c = { .r = r };

    open_quietly(r);
    for (int i = 0; i < TRIES; i++)
        CHECK_OK(r, tutti_comm_dup(r->comm, &c.comm[i]));
    job_meet(r);
    if (r->rank == 0)
        check_call(&c, name, call, TUTTI_ERR_TIMEOUT);
    job_meet(r);
    for (int i = 0; i < TRIES; i++)
        tutti_comm_destroy(c.comm[i]);
    job_close(r);
}

static void collectives_role(struct rank *r)
{
    check_communicators(r, "allreduce", allreduce);
}

static void receives_role(struct rank *r)
{
    check_communicators(r, "recv", receive);
}

static tutti_status test_for(struct call *c, int try, int64_t timeout_ms)
{
    (void)try;
    return tutti_test_for(c->request, timeout_ms);
}

static void requests_role(struct rank *r)
{
    struct call c = { .r = r };
    const tutti_call later = { .size = sizeof later, .request = &c.request };
    float x = 1;

    open_quietly(r);
    if (r->rank == 0) {
        CHECK_OK(r, tutti_recv(&x, 1, TUTTI_F32, 1, r->comm, &later));
        check_call(&c, "test_for", test_for, TUTTI_PENDING);
    }
    job_meet(r);
    if (r->rank == 0)
        CHECK_OK(r, tutti_wait(c.request));
    else
        CHECK_OK(r, tutti_send(&x, 1, TUTTI_F32, 0, r->comm, NULL));
    job_close(r);
}

/* ---- windows ---- */

static tutti_status wait_signal(struct call *c, int try, int64_t timeout_ms)
{
    (void)try;
    return tutti_window_wait(c->window, 0, TUTTI_EQUAL, 1, timeout_ms, NULL);
}

static tutti_status wait_counter(struct call *c, int try, int64_t timeout_ms)
{
    static const uint64_t counter;

    (void)try;
    return tutti_window_wait_counter(c->window, &counter, 1, timeout_ms);
}

static void windows_role(struct rank *r)
{
    struct call c = { .r = r };

    open_quietly(r);
    CHECK_OK(r, tutti_window_create(r->comm, NULL, 64, &c.window));
    job_meet(r);
    if (r->rank == 0) {
        check_call(&c, "window_wait", wait_signal, TUTTI_ERR_TIMEOUT);
        check_call(&c, "window_wait_counter", wait_counter, TUTTI_ERR_TIMEOUT);
    }
    job_meet(r);
    CHECK_OK(r, tutti_window_free(c.window));
    job_close(r);
}

static tutti_status get(struct call *c, int try, int64_t timeout_ms)
{
    static uint64_t got[TRIES];
    const tutti_rma soon = { .size = sizeof soon, .timeout_ms = timeout_ms };

    return tutti_window_get(c->window, 1, 8, &got[try], sizeof got[try], &soon);
}

static tutti_status quiet(struct call *c, int try, int64_t timeout_ms)
{
    (void)try;
    return tutti_window_quiet(c->window, 1, timeout_ms);
}

/* Rank 1 is stopped during the calls. */
static void stopped_role(struct rank *r)
{
    struct call c = { .r = r };

    open_quietly(r);
    CHECK_OK(r, tutti_window_create(r->comm, NULL, 64, &c.window));
    if (r->rank == 0)
        CHECK_OK(r, tutti_window_signal(c.window, 1, 0, TUTTI_SIGNAL_SET, 1));
    else
        CHECK_OK(r, tutti_window_wait(c.window, 0, TUTTI_EQUAL, 1, 0, NULL));
    CHECK_OK(r, tutti_window_quiet(c.window, TUTTI_ALL_RANKS, 0));
    job_meet(r);
    if (r->rank == 0) {
        CHECK(r, job_await(r->board, 0, 1));
        check_call(&c, "window_get", get, TUTTI_ERR_TIMEOUT);
        CHECK_OK(r, tutti_window_signal(c.window, 1, 0, TUTTI_SIGNAL_SET, 2));
        check_call(&c, "window_quiet", quiet, TUTTI_ERR_TIMEOUT);
        job_raise(r->board, 1);
        CHECK_OK(r, tutti_window_quiet(c.window, 1, 0));
    } else {
        kill(getpid(), SIGSTOP);
    }
    job_meet(r);
    CHECK_OK(r, tutti_window_free(c.window));
    job_close(r);
}

static void over_wires(void (*role)(struct rank *))
{
    for (uint32_t i = 0; i < NWIRES; i++) {
        const struct job job = { .wires = wires[i], .nranks = 2, .seed = SEED };

        job_run(&job, role);
    }
}

static void no_sleep_exceeds_the_call_deadline(void **state)
{
    (void)state;
    over_wires(collectives_role);
}

static void no_sleep_exceeds_the_receive_deadline(void **state)
{
    (void)state;
    over_wires(receives_role);
}

static void no_sleep_exceeds_the_time_of_a_test(void **state)
{
    (void)state;
    over_wires(requests_role);
}

static void no_sleep_exceeds_the_deadline_of_a_window(void **state)
{
    (void)state;
    over_wires(windows_role);
}

/* Over tcp: mapped memory can be read while its owner is stopped. */
static void no_sleep_exceeds_the_deadline_for_a_stopped_rank(void **state)
{
    const struct job job = { .wires = "tcp", .nranks = 2, .seed = SEED, .direct = job_go_on_after };

    (void)state;
    job_run(&job, stopped_role);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_sleep_exceeds_the_call_deadline),
        cmocka_unit_test(no_sleep_exceeds_the_receive_deadline),
        cmocka_unit_test(no_sleep_exceeds_the_time_of_a_test),
        cmocka_unit_test(no_sleep_exceeds_the_deadline_of_a_window),
        cmocka_unit_test(no_sleep_exceeds_the_deadline_for_a_stopped_rank),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
