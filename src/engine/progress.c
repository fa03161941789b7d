/* Progress and waiting. A blocking caller takes the progress lock and works in its own thread,
 * without a hand-off. The progress thread takes it if it has not been used for a while. See
 * docs/architecture.md, "A call, from the top". */
#include "engine/progress.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "engine/op_lists.h"
#include "engine/any.h"
#include "engine/connect.h"
#include "engine/context.h"
#include "engine/context_end.h"
#include "engine/cores.h"
#include "engine/exec_actions.h"
#include "engine/op.h"
#include "engine/peers.h"
#include "engine/profile.h"
#include "engine/failure.h"
#include "engine/receive.h"
#include "engine/rx_dispatch.h"
#include "reduce/float_env.h"

#define TIMER_NS (5 * TT_MS)            /* interval between checks of deadlines */
#define CLOCK_EVERY 256                 /* idle or busy polls between clock readings */
/* idle polls between returns of small amounts of credit: a peer rarely needs them, and they wake
 * sleepers */
#define CREDIT_EVERY 4096
/* maximum sleep of a waiter without the progress lock; also a safety net */
#define WAIT_NS (20 * TT_MS)
#define FIRST_MS 2                      /* maximum first sleep of a wait */
#define YIELDS 400                      /* yields of a waiter, after spinning, before it blocks */
/* the same, if ranks are oversubscribed and polls cost system calls */
#define YIELDS_OVERSUBSCRIBED 20
/* yields between clock readings: if other ranks need the core, each yield takes a time slice,
 * milliseconds */
#define YIELDS_PER_CLOCK 8
#define RETRY_MS 1                      /* sleep of a holder that has an action to retry */
#define RETRY_MS_MAX 20
#define BLOCK_MS 50                     /* maximum sleep: a safety net */
#define BLOCK_MS_MAX 1000               /* ... of oversubscribed ranks */
/* passes of the progress thread between checks of the control overlay */
#define CONTROL_EVERY 1024
/* time without use of the progress lock before the progress thread acquires it */
#define THREAD_MS 2
#define DONE_MAX 32
/* maximum messages from one peer before others are polled */
#define MAIL_AT_ONCE 256
#define MEMORY_POLLS 16                 /* polls of memory between full passes */
#define QUIET_EVERY 16                  /* passes between polls of a quiet wire */

/* Returns the time that a thread may sleep until due_ns, at most most_ns. If due_ns has passed, the
 * wait ends soon, and the sleep is short. */
static uint64_t sleep_ns(uint64_t now_ns, uint64_t due_ns, uint64_t most_ns)
{
    const uint64_t left_ns = due_ns > now_ns ? due_ns - now_ns : TT_MS;

    return left_ns < most_ns ? left_ns : most_ns;
}

/* Returns the earliest deadline of the client's waits. Resets it if it has passed; the remaining
 * waits set it again. */
static uint64_t guest_due_ns(struct tt_engine *e, uint64_t now_ns)
{
    uint64_t due_ns = atomic_load_explicit(&e->guest_due_ns, memory_order_relaxed), due = due_ns;

    if (due_ns <= now_ns)
        atomic_compare_exchange_strong(&e->guest_due_ns, &due, TT_NEVER);
    return due_ns;
}

/* ---- one round of progress ------------------------------------------------------------------- */

static void handle_link_up(struct tt_engine *e, struct tt_wire *w, const struct tt_done *d)
{
    struct tt_peer *p = tt_peer_of(e, d->peer);

    if (!p)
        tt_peer_lost(e, d->peer, "out of memory for this peer");
    if (!p || (p->state != TT_PEER_NONE && p->state != TT_PEER_CONNECTING))
        return;
    if (d->link.theirs.bytes != TT_LINK_BYTES) {
        tt_peer_lost(e, d->peer, "it runs another build of Tutti with a different link layout");
        return;
    }
    p->wire = w;
    p->state = TT_PEER_UP;
    p->anymem = d->link.anymem;
    p->round_trip_ns = d->link.round_trip_ns;
    if (p->round_trip_ns >= TT_MS)
        tt_log(TT_LOG_INFO, "rank %u has a round-trip time of %.3f ms", p->rank,
               (double)p->round_trip_ns / 1e6);
    for (uint32_t i = 0; i < e->nwires; i++)
        e->nlinks[i] += e->wire[i] == w;
    tt_mailbox_init(&p->mail, &d->link);
    p->next_up = e->up;
    e->up = p;
    tt_any_connected(e);
}

/* Reads messages from a peer. Their number is bounded, so that one peer cannot starve others. */
static bool read_mail(struct tt_engine *e, struct tt_peer *p)
{
    struct tt_mail mail;
    bool any = false;

    for (uint32_t n = 0; n < MAIL_AT_ONCE; n++) {
        const tutti_status st = tt_mail_next(&p->mail, &mail);

        if (st == TUTTI_PENDING)
            break;
        if (st || !tt_rx_dispatch(e, p, &mail)) {
            tt_peer_lost(e, p->rank, "a message from it was rejected");
            return true;
        }
        tt_mail_drop(&p->mail, &mail);
        any = true;
    }
    tt_mail_ack(&p->mail);
    return any;
}

static bool run_ops(struct tt_engine *e)
{
    bool any = false;

    for (struct tt_context *c = e->contexts, *next; c; c = next) {
        next = c->next;
        if (e->nunbegun)
            tt_ops_expose(c);
        for (struct tt_op *op = c->awake, *after; op; op = after) {
            const bool ran = tt_op_run(op);

            any |= ran;
            e->looks++;
            if (atomic_load_explicit(&c->status, memory_order_relaxed))
                break;          /* the list was freed */
            after = op->next_awake;
            if (!ran && !tt_op_is_over(op))
                tt_op_sleep(op);
        }
    }
    return any;
}

static void handle_link_ended(struct tt_engine *e, const struct tt_done *d)
{
    struct tt_peer *p = tt_peer_of(e, d->peer);

    if (!p) {
        tt_peer_lost(e, d->peer, "out of memory for this peer");
        return;
    }
    if (p->state == TT_PEER_UP) {
        while (read_mail(e, p))     /* messages sent before it left */
            ;
        run_ops(e);
    }
    if (p->state == TT_PEER_LEFT || p->state == TT_PEER_LOST)
        return;
    /* the link may not have been up; the peer's reason may still arrive */
    if (d->status == TUTTI_OK) {
        p->state = TT_PEER_LEFT;
        tt_peer_left(e, p);
    } else {
        tt_engine_read_reports(e);      /* a reason that the peer has sent takes precedence */
        tt_take_failures(e);
        tt_peer_lost(e, p->rank, "its connection closed");
    }
}

/* Returns whether a wire can be polled rarely: it has no link, or its arrivals are visible in
 * memory. The latter is not sufficient if memory is registered, because then the poll itself
 * transfers the data. */
static bool is_quiet(const struct tt_engine *e, uint32_t i)
{
    return (e->wire[i]->caps & TT_WIRE_CAP_INSTANT && !e->nregistered[i]) || e->nlinks[i] == 0;
}

/* Operations never request remote completion, only the client does. */
static void handle_completion(struct tt_engine *e, const struct tt_done *d)
{
    if (d->cookie >= TT_CLIENT_COOKIE)
        e->guest->done(e->guest->arg, d);
    else if (d->kind == TT_DONE_LOCAL)
        tt_op_sent(e, d->cookie);
}

static bool poll_wires(struct tt_engine *e)
{
    struct tt_done done[DONE_MAX];
    const bool look = e->passes++ % QUIET_EVERY == 0 || e->armed;
    bool any = false;

    e->armed = e->unfinished = false;
    for (uint32_t i = 0; i < e->nwires; i++) {
        struct tt_wire *w = e->wire[i];
        uint64_t began_ns;
        int n;

        if (!look && is_quiet(e, i))
            continue;
        began_ns = e->ntimed ? tt_now_ns() : 0;
        w->busy = e->busy;
        w->crowded = e->spins == 0;
        n = w->ops->poll(w, done, DONE_MAX);
        if (e->ntimed)
            tt_profile_polled(e, tt_now_ns() - began_ns, n > 0);
        for (int k = 0; k < n; k++)
            switch (done[k].kind) {
            case TT_DONE_LOCAL:
            case TT_DONE_REMOTE:
                handle_completion(e, &done[k]);
                break;
            case TT_DONE_LINK_UP:
                handle_link_up(e, w, &done[k]);
                break;
            case TT_DONE_LINK_LOST:
                handle_link_ended(e, &done[k]);
                break;
            default:
                break;
            }
        any |= n > 0;
    }
    return any;
}

static void pay_credit(struct tt_engine *e, uint32_t least)
{
    e->credit_due = false;
    for (struct tt_context *c = e->contexts; c; c = c->next)
        tt_context_send_credits(c, least);
}

static void check_timers(struct tt_engine *e)
{
    e->now_ns = tt_now_ns();
    if (e->now_ns < e->timer_ns)
        return;
    e->timer_ns = e->now_ns + TIMER_NS;
    tt_tick_calibrate(e->now_ns);
    tt_check_deadlines(e);
    if (tt_lane_board_is_due(&e->lane_board, e->now_ns))
        tt_lane_board_sample(e, e->now_ns);
}

/* Receives messages and data, and runs the operations. */
static bool receive_and_run(struct tt_engine *e)
{
    bool any = poll_wires(e);

    for (struct tt_peer *p = e->up, *next; p; p = next) {
        next = p->next_up;
        if (p->state == TT_PEER_UP)
            any |= read_mail(e, p);
    }
    return run_ops(e) || any;
}

#define DRAIN_PASSES_MAX 1000   /* a bound, since other ranks may send continuously */

/* Reports arrive over the control overlay, often before data that was sent earlier. Operations
 * whose data has arrived complete before reports fail the others. */
static void handle_reports(struct tt_engine *e)
{
    for (int i = 0; i < DRAIN_PASSES_MAX; i++) {
        e->passes = 0;          /* polls all wires */
        if (!receive_and_run(e))
            break;
    }
    tt_take_failures(e);
}

bool tt_engine_progress(struct tt_engine *e)
{
    bool any;

    if (atomic_load_explicit(&e->ntrouble, memory_order_relaxed) != e->trouble_seen)
        handle_reports(e);
    any = receive_and_run(e);
    if (e->guest)
        any |= e->guest->run(e->guest->arg);
    if (e->credit_due)
        pay_credit(e, TT_EAGER_CREDIT / 2);
    if (e->any_due)
        tt_any_send_due(e);
    if (e->endings_due)
        tt_context_retry_ended(e);
    e->busy = any;
    return any;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Returns whether memory contains an arrival from a peer. */
static bool has_arrivals(const struct tt_engine *e)
{
    for (const struct tt_peer *p = e->up; p; p = p->next_up)
        if (p->state == TT_PEER_UP && tt_mail_waits(&p->mail))
            return true;
    for (const struct tt_context *c = e->contexts; c; c = c->next)
        for (const struct tt_op *op = c->awake; op; op = op->next_awake)
            if (tt_op_has_flow_updates(op))
                return true;
    return e->guest && e->guest->has_news(e->guest->arg);
}

/* Returns whether there is an event that the wires do not report. Checked after arming. */
static bool has_unreported_events(const struct tt_engine *e)
{
    return has_arrivals(e) || atomic_load(&e->ntrouble) != e->trouble_seen || e->credit_due;
}

static bool arm(struct tt_engine *e)
{
    bool quiet = true;

    e->armed = true;

    for (uint32_t i = 0; i < e->nwires; i++)
        quiet &= e->wire[i]->ops->arm(e->wire[i]) >= 0;
    return quiet && !has_unreported_events(e);
}

static void drain_kick(struct tt_engine *e)
{
    uint64_t n;

    if (read(e->kick_fd, &n, sizeof n) < 0 && errno != EAGAIN)
        tt_fail_errno(errno, "cannot read the wake-up descriptor");
}

static int retry_ms(const struct tt_engine *e)
{
    return tt_cores_scaled_sleep_ms(e, RETRY_MS, RETRY_MS_MAX);
}

/* Returns the maximum time of a sleep, without regard to deadlines. A blocked action (no credit, no
 * room in a mailbox) may become possible without a wake-up. */
static int sleep_max_ms(const struct tt_engine *e, bool first)
{
    for (const struct tt_context *c = e->contexts; c; c = c->next)
        for (const struct tt_op *op = c->awake; op; op = op->next_awake)
            if (op->retry)
                return retry_ms(e);
    if (e->nunbegun || e->any_due || (e->guest && e->guest->is_stuck(e->guest->arg)))
        return retry_ms(e);
    if (e->endings_due)
        return e->endings_nap_ms;
    return first ? tt_cores_scaled_sleep_ms(e, FIRST_MS, BLOCK_MS)
                 : tt_cores_scaled_sleep_ms(e, BLOCK_MS, BLOCK_MS_MAX);
}

/* Like sleep_max_ms, but limited by the next deadline, at which deadlines are then checked. */
static int sleep_ms(struct tt_engine *e, bool first)
{
    const uint64_t most_ns = (uint64_t)sleep_max_ms(e, first) * TT_MS, now_ns = tt_now_ns();
    const uint64_t op_ns = tt_next_deadline_ns(e, now_ns), guest_ns = guest_due_ns(e, now_ns);

    if (op_ns < e->timer_ns)
        e->timer_ns = op_ns;
    return (int)((sleep_ns(now_ns, op_ns < guest_ns ? op_ns : guest_ns, most_ns) + TT_MS - 1) /
                 TT_MS);
}

/* Sleeps, holding the lock, until an event of a wire or thread, or a timeout. first: small
 * credits were not returned yet. */
static void sleep_holding_lock(struct tt_engine *e, bool first)
{
    struct epoll_event ev[4];
    int n = 0;

    atomic_store(&e->blocked, true);
    if (arm(e) && !atomic_load(&e->urgent))
        n = epoll_wait(e->all_epoll, ev, 4, sleep_ms(e, first));
    atomic_store(&e->blocked, false);
    for (int i = 0; i < n; i++)
        if (ev[i].data.fd == e->watch_fd) {
            e->control_readable = true;
            e->timer_ns = 0;    /* the event may be a response for an operation past its deadline */
        }
    if (n > 0 && tt_lane_board_is_due(&e->lane_board, e->now_ns))
        e->timer_ns = 0;        /* a query waits for the first sample */
    drain_kick(e);
}

/* Returns whether all arrivals are visible in memory. */
static bool arrivals_show_in_memory(const struct tt_engine *e)
{
    for (uint32_t i = 0; i < e->nwires; i++)
        if (!is_quiet(e, i))
            return false;
    return true;
}

/* Polls only memory for a while, which detects an arrival fastest. Returns the equivalent number of
 * polls. */
static uint32_t poll_memory(const struct tt_engine *e)
{
    if (!arrivals_show_in_memory(e)) {
        tt_relax();
        return 1;
    }
    for (uint32_t i = 0; i < MEMORY_POLLS && !has_arrivals(e); i++)
        tt_relax();
    return MEMORY_POLLS / 2;
}

/* Performs one idle step of a holder that has been idle for n polls. Returns its equivalent
 * number of polls. */
static uint32_t idle_step(struct tt_engine *e, uint32_t n)
{
    const uint32_t yields =
        (e->spins || !tt_cores_polls_cost_syscalls(e) ? YIELDS : YIELDS_OVERSUBSCRIBED) /
        tt_cores_oversubscription(e);
    const uint32_t awake = e->spins + (yields ? yields : 1);
    uint32_t took = 1;

    if (n < e->spins) {
        took = poll_memory(e);
    } else if (n < awake) {
        sched_yield();
        if (n % YIELDS_PER_CLOCK == 0)
            check_timers(e);
    } else {
        if (n > awake)
            pay_credit(e, 1);
        sleep_holding_lock(e, n == awake);
        check_timers(e);
    }
    if ((n + took) / CLOCK_EVERY != n / CLOCK_EVERY)
        check_timers(e);
    if ((n + took) / CREDIT_EVERY != n / CREDIT_EVERY)
        pay_credit(e, 1);
    return took;
}

bool tt_engine_work(struct tt_engine *e, bool (*done)(void *arg), void *arg)
{
    uint32_t idles = 0, busy = 0;

    while (!done(arg)) {
        if (tt_engine_progress(e)) {
            idles = 0;
            if (++busy % CLOCK_EVERY == 0)
                check_timers(e);
            if (e->yield_due) {
                e->yield_due = false;
                sched_yield();
            }
            continue;
        }
        if (atomic_load_explicit(&e->urgent, memory_order_relaxed))
            return false;
        idles += idle_step(e, idles);
    }
    return true;
}

/* Returns the time that a waiter without the lock sleeps. The holder checks the deadlines of
 * operations. */
static uint64_t wait_ns(struct tt_engine *e)
{
    const uint64_t now_ns = tt_now_ns();

    return sleep_ns(now_ns, guest_due_ns(e, now_ns), WAIT_NS);
}

void tt_engine_wait(struct tt_engine *e, bool (*done)(void *arg), void *arg)
{
    while (!done(arg)) {
        if (tt_progress_trylock(e)) {
            const bool over = tt_engine_work(e, done, arg);

            tt_progress_unlock(e);
            if (over)
                return;
            while (atomic_load(&e->urgent))
                sched_yield();
            continue;
        }
        tt_sleeper_enter(e);
        const uint32_t seen = atomic_load(&e->events);

        if (!done(arg) && atomic_load(&e->progress_lock))
            tt_sleeper_wait(&e->events, seen, wait_ns(e));
        tt_sleeper_leave(e);
    }
}

/* ---- the progress thread --------------------------------------------------------------------- */

static bool any_active(const struct tt_engine *e)
{
    if (e->nunbegun)
        return true;
    for (const struct tt_context *c = e->contexts; c; c = c->next)
        if (c->active)
            return true;
    return false;
}

/* Also reads the control overlay: while the progress thread makes progress, no other thread reads
 * it. */
static bool thread_may_stop(void *arg)
{
    struct tt_engine *e = arg;

    if (e->control_readable || ++e->thread_passes % CONTROL_EVERY == 0) {
        e->control_readable = false;
        tt_engine_read_reports(e);
    }
    return atomic_load(&e->stop) || !any_active(e);
}

#define ARM_ATTEMPTS_MAX 4               /* attempts to fall asleep, each after another pass */

/* Arms the wires. If events arrive meanwhile, handles them and retries, because a peer that
 * accesses this process's memory may wait for them. */
static bool arm_with_retries(struct tt_engine *e)
{
    for (int i = 0; i < ARM_ATTEMPTS_MAX; i++) {
        if (arm(e))
            return true;
        if (!e->expected)
            return false;
        tt_engine_progress(e);
    }
    return false;
}

/* Makes progress while operations run without a waiting thread. Then arms the wires, releases
 * the lock and sleeps until an event. Returns true if a peer accesses this process's memory and
 * must be served at once. */
static bool progress_while_unattended(struct tt_engine *e)
{
    struct epoll_event ev[4];
    uint32_t uses;
    int patience, n = 0;
    bool quiet, expected, called = false;

    if (!tt_progress_trylock(e))
        return false;
    while (!tt_engine_work(e, thread_may_stop, e) && atomic_load(&e->urgent)) {
        tt_progress_unlock(e);
        sched_yield();
        if (!tt_progress_trylock(e))
            return false;
    }
    tt_engine_progress(e);
    /* publishes the current state: probed ranks must not report completed operations */
    e->timer_ns = 0;
    check_timers(e);
    quiet = arm_with_retries(e);
    uses = atomic_load(&e->uses);
    patience = e->endings_due ? e->endings_nap_ms : 1000;
    if (e->guest && e->guest->is_stuck(e->guest->arg))
        patience = RETRY_MS;
    expected = e->expected > 0;
    tt_progress_unlock(e);
    atomic_store(&e->parked, true);
    tt_sleeper_barrier(e);
    if (quiet && uses == atomic_load(&e->uses))
        n = epoll_wait(e->all_epoll, ev, 4, atomic_load(&e->stop) ? 0 : patience);
    atomic_store(&e->parked, false);
    for (int i = 0; i < n; i++)
        called |= expected && ev[i].data.fd != e->kick_fd && ev[i].data.fd != e->watch_fd;
    return called;
}

/* Leaves operations to their callers for `ms`, or until the thread is summoned. Returns whether it
 * was summoned. */
static bool stand_by(struct tt_engine *e, int ms)
{
    struct epoll_event ev[4];
    const int n = epoll_wait(e->control_epoll, ev, 4, ms);
    bool summoned = false;
    uint64_t count;

    for (int i = 0; i < n; i++)
        summoned |= ev[i].data.fd == e->summon_fd;
    if (summoned && read(e->summon_fd, &count, sizeof count) < 0 && errno != EAGAIN)
        tt_fail_errno(errno, "cannot read the notification descriptor");
    if (n > summoned)
        tt_engine_read_reports(e);
    return summoned;
}

static void *progress_thread(void *arg)
{
    struct tt_engine *e = arg;
    uint32_t seen = atomic_load(&e->uses);
    bool called = false, summoned;

    (void)tt_float_env_enter();     /* do not inherit the creating thread's environment */
    while (!atomic_load(&e->stop)) {
        tt_engine_read_reports(e);
        summoned = stand_by(e, called ? 0 : tt_cores_scaled_sleep_ms(e, THREAD_MS, BLOCK_MS));
        if ((summoned || atomic_load(&e->uses) == seen) && !atomic_load(&e->progress_lock)) {
            called = progress_while_unattended(e);
            if (!atomic_load(&e->progress_lock))
                drain_kick(e);
        } else {
            called = false;
        }
        seen = atomic_load(&e->uses);
    }
    return NULL;
}

static bool epoll_add(int epoll, int fd)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

    return fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) == 0;
}

void tt_engine_set_cache(struct tt_engine *e, uint64_t bytes, uint32_t sharing)
{
    e->cache_share = tt_copy_cache_share(bytes, sharing, e->cores, e->cards.nlocal);
}

tutti_status tt_engine_start(struct tt_engine *e, int watch_fd, void (*alert)(void *arg), void *arg)
{
    sigset_t all, before;
    int err;

    tt_cores_choose_spins(e);
    tt_engine_log_unusable(e);
    e->watch_fd = watch_fd;
    e->alert = alert;
    e->alert_arg = arg;
    if (!epoll_add(e->control_epoll, watch_fd) || !epoll_add(e->all_epoll, watch_fd))
        return tt_fail_errno(errno, "cannot watch the control overlay");
    for (uint32_t i = 0; i < e->nwires; i++) {
        struct tt_done done[1];
        int fd;

        fd = e->wire[i]->ops->arm(e->wire[i]);
        if (fd < 0) {
            e->wire[i]->ops->poll(e->wire[i], done, 0);
            fd = e->wire[i]->ops->arm(e->wire[i]);
        }
        if (fd < 0)
            return tt_fail(TUTTI_ERR_SYSTEM,
                           "cannot start the progress thread: transport %s has unhandled events",
                           e->wire[i]->ops->name);
        if (!epoll_add(e->all_epoll, fd))
            return tt_fail_errno(errno, "transport %s: cannot add its descriptor to epoll",
                                 e->wire[i]->ops->name);
    }
    sigfillset(&all);
    /* signals belong to the application's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&e->thread, NULL, progress_thread, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err == EPERM)
        return tt_fail(TUTTI_ERR_SYSTEM,
                       "cannot start the progress thread: clone3 failed: Operation not permitted "
                       "(the sandbox must "
                       "return ENOSYS for clone3, so that the C library falls back to clone)");
    if (err)
        return tt_fail_errno(err, "cannot start the progress thread");
    e->thread_runs = true;
    return TUTTI_OK;
}

tutti_status tt_progress_init(struct tt_engine *e)
{
    int64_t nudge_ms = 0, spin_us = 0;
    tutti_status st;

    e->barrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    e->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    e->summon_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    e->all_epoll = epoll_create1(EPOLL_CLOEXEC);
    e->control_epoll = epoll_create1(EPOLL_CLOEXEC);
    if (e->kick_fd < 0 || e->summon_fd < 0 || e->all_epoll < 0 || e->control_epoll < 0 ||
        !epoll_add(e->all_epoll, e->kick_fd) || !epoll_add(e->control_epoll, e->summon_fd))
        return tt_fail_call(errno, "progress",
                            e->kick_fd < 0 || e->summon_fd < 0 ? "eventfd" : "epoll_create1");
    st = tt_param_get(TT_PARAM_PROBE_MS, &nudge_ms);
    if (!st)
        st = tt_param_get(TT_PARAM_SPIN_US, &spin_us);
    if (st)
        return st;
    e->probe_ns = (uint64_t)nudge_ms * TT_MS;
    e->spins = (uint32_t)spin_us * 20;      /* a poll takes about 50 ns */
    e->now_ns = tt_now_ns();
    atomic_store(&e->guest_due_ns, TT_NEVER);
    return TUTTI_OK;
}

void tt_progress_fini(struct tt_engine *e)
{
    if (e->thread_runs) {
        atomic_store(&e->stop, true);
        tt_progress_kick(e);
        pthread_join(e->thread, NULL);
    }
    if (e->kick_fd >= 0)
        close(e->kick_fd);
    if (e->summon_fd >= 0)
        close(e->summon_fd);
    if (e->all_epoll >= 0)
        close(e->all_epoll);
    if (e->control_epoll >= 0)
        close(e->control_epoll);
}
