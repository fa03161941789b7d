/* The service thread, which keeps a member alive while its program computes: connections to the
 * coordinator and other members, timers. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "reduce/float_env.h"
#include "session/run.h"

#define EVENTS 64

static uint64_t next_ns(const tutti_run *run)
{
    const uint64_t of[] = { tt_member_next_ns(&run->m), tt_link_next_ns(run),
                            tt_peers_next_ns(run),      tt_state_next_ns(run),
                            tt_measure_next_ns(run),    tt_round_next_ns(run) };
    uint64_t least = TT_NEVER;

    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i] < least)
            least = of[i];
    return least;
}

/* Rounded up, so that the thread does not wake shortly before a timer is due. */
static int poll_timeout_ms(const tutti_run *run, uint64_t now_ns)
{
    const uint64_t next = next_ns(run), left_ns = next > now_ns ? next - now_ns : 0;

    if (next == TT_NEVER || left_ns > 60 * TT_SECOND)
        return 60000;
    return (int)((left_ns + TT_MS - 1) / TT_MS);
}

static void one_event(tutti_run *run, void *data, uint64_t now_ns)
{
    uint64_t count;

    if (data == &run->wake_fd) {
        if (read(run->wake_fd, &count, sizeof count) < 0)
            return; /* the counter is already 0 */
    } else if (data == &run->link) {
        tt_link_event(run);
    } else if (data == &run->acceptor) {
        tt_peers_accept(run, now_ns);
    } else {
        tt_peers_event(run, data);
    }
}

static void service_turn(tutti_run *run, const struct epoll_event *ev, int n)
{
    const uint64_t now_ns = tt_now_ns();

    for (int i = 0; i < n; i++)
        one_event(run, ev[i].data.ptr, now_ns);
    tt_view_comms_read_reports(run);
    tt_link_tick(run, tt_now_ns());
    tt_peers_tick(run, tt_now_ns());
    tt_state_tick(run);
    tt_measure_tick(run);
    tt_round_tick(run, tt_now_ns());
    tt_operation_tick(run, tt_now_ns());
    if (tt_member_next_ns(&run->m) <= tt_now_ns())
        tt_member_tick(&run->m, tt_now_ns());
}

static void *service_thread(void *arg)
{
    tutti_run *run = arg;
    struct epoll_event ev[EVENTS];
    int n = 0;

    (void)tt_float_env_enter();     /* not the floating-point environment of the creating thread */
    tt_run_lock(run);
    while (!run->ending) {
        int patience;

        service_turn(run, ev, n > 0 ? n : 0);
        tt_link_settle(run);
        tt_peers_settle(run);
        patience = poll_timeout_ms(run, tt_now_ns());
        tt_run_unlock(run);
        n = epoll_wait(run->epoll, ev, EVENTS, patience);
        tt_run_lock(run);
    }
    tt_run_unlock(run);
    return NULL;
}

tutti_status tt_service_start(tutti_run *run)
{
    sigset_t all, before;
    int err;

    if (!tt_poller_watch(run, run->wake_fd, EPOLLIN, &run->wake_fd))
        return tt_fail_errno(errno, "cannot watch the run's wake-up descriptor");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals belong to the application's threads */
    err = pthread_create(&run->thread, NULL, service_thread, run);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        return tt_fail_errno(err, "cannot start the run's thread");
    run->thread_runs = true;
    return TUTTI_OK;
}

void tt_service_stop(tutti_run *run)
{
    if (!run->thread_runs)
        return;
    tt_run_lock(run);
    run->ending = true;
    tt_run_wake(run);
    tt_run_unlock(run);
    pthread_join(run->thread, NULL);
    run->thread_runs = false;
}
