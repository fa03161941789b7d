/* Deadlines of milliseconds: checks the requested sleep time of waiting threads, which does not
 * depend on the machine's speed. */
#include <stdlib.h>
#include <sys/epoll.h>
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

static void collectives_role(struct rank *r)
{
    tutti_comm *comm[TRIES];
    float x = 1, y;

    setenv("TUTTI_LOG", "none", 1);
    setenv("TUTTI_SPIN_US", "0", 1);
    job_open(r);
    for (int i = 0; i < TRIES; i++)
        CHECK_OK(r, tutti_comm_dup(r->comm, &comm[i]));
    job_meet(r);
    for (int i = 0; i < TRIES && r->rank == 0 && !atomic_load(&sleeps); i++) {
        const tutti_call soon = { .size = sizeof soon, .timeout_ms = deadline_of(i) };

        watches = true;
        CHECK_STATUS(r, tutti_allreduce(&x, &y, 1, TUTTI_F32, TUTTI_SUM, comm[i], &soon),
                     TUTTI_ERR_TIMEOUT);
        watches = false;
        check_sleeps(r, deadline_of(i));
    }
    CHECK(r, r->rank != 0 || atomic_load(&sleeps) > 0);
    job_meet(r);
    for (int i = 0; i < TRIES; i++)
        tutti_comm_destroy(comm[i]);
    job_close(r);
}

static void windows_role(struct rank *r)
{
    tutti_window *window;

    setenv("TUTTI_LOG", "none", 1);
    setenv("TUTTI_SPIN_US", "0", 1);
    job_open(r);
    CHECK_OK(r, tutti_window_create(r->comm, NULL, 64, &window));
    job_meet(r);
    for (int i = 0; i < TRIES && r->rank == 0 && !atomic_load(&sleeps); i++) {
        watches = true;
        CHECK_STATUS(r, tutti_window_wait(window, 0, TUTTI_EQUAL, 1, deadline_of(i), NULL),
                     TUTTI_ERR_TIMEOUT);
        watches = false;
        check_sleeps(r, deadline_of(i));
    }
    CHECK(r, r->rank != 0 || atomic_load(&sleeps) > 0);
    job_meet(r);
    CHECK_OK(r, tutti_window_free(window));
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

static void no_sleep_exceeds_the_signal_deadline(void **state)
{
    (void)state;
    over_wires(windows_role);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_sleep_exceeds_the_call_deadline),
        cmocka_unit_test(no_sleep_exceeds_the_signal_deadline),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
