/* The thread that runs a proxy, and the pausing of blocks of the CPU device. */
#include "device/device.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/engine_client.h"
#include "reduce/float_env.h"
#include "window/handle.h"

#define YIELDS 100              /* idle passes before the thread sleeps */
#define YIELDS_BUSY 1000        /* such passes while commands are blocked */
#define SLEEP_NS (10 * TT_MS)   /* maximum sleep: the clock visible to blocks must advance */
/* interval between polls if there are no wake-ups, or while commands are blocked */
#define POLL_NS 50000ull
#define EAGER_POLLS 16          /* polls before such a thread yields its core */
/* time after the last trigger in which a thread without wake-ups polls without a pause */
#define EAGER_NS TT_MS
#define PAUSES 64               /* pauses of a block between polls of memory, ... */
#define REST_YIELDS 2000        /* ... and yields before it sleeps */

static struct tt_engine *engine_of(const tutti_device *d)
{
    return d->window->home->engine;
}

static void nap(uint64_t ns)
{
    const struct timespec ts = { .tv_sec = 0, .tv_nsec = (long)ns };

    nanosleep(&ts, NULL);
}

/* ---- the thread ---- */

/* Notifies the window that the device waits for room, or no longer does, so that other threads make
 * progress for it. The caller holds the progress lock. */
static void set_stuck(tutti_device *d, bool stuck)
{
    if (d->stuck == stuck)
        return;
    d->stuck = stuck;
    d->window->home->nattempts += stuck ? 1u : -1u;
}

/* Sets the status first, so that blocks see it before the answers and the room that follow. */
static void end_device(tutti_device *d, tutti_status st)
{
    pthread_mutex_lock(&d->lock);
    snprintf(d->why, sizeof d->why, "%s", tutti_last_error());
    __atomic_store_n(d->status, (uint64_t)st, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&d->lock);
    tt_proxy_fail(&d->proxy, st);
    tt_engine_client_enter(engine_of(d));
    set_stuck(d, false);
    tt_engine_client_leave(engine_of(d));
}

/* Returns errors that end the device, apart from the proxy's. */
static tutti_status check_end(const tutti_device *d)
{
    if (atomic_load_explicit(&d->aborted, memory_order_relaxed))
        return tt_fail(TUTTI_ERR_ABORTED, "device aborted: tutti_device_abort was called");
    return tt_window_status(d->window);
}

/* Passes commands to the window. */
static tutti_status pass_commands(tutti_device *d, uint64_t now_ns, bool *any)
{
    bool moved = false;
    tutti_status st;

    tt_engine_client_enter(engine_of(d));
    tt_engine_client_gather(engine_of(d), true);    /* signals of a group are short and
                                                       consecutive */
    st = tt_proxy_step(&d->proxy, now_ns, &moved);
    tt_engine_client_gather(engine_of(d), false);
    set_stuck(d, d->proxy.busy != NULL);
    tt_engine_client_leave(engine_of(d));
    if (!moved)
        tt_engine_client_progress(engine_of(d));
    *any |= moved;
    return st;
}

/* Applies another mode, or other lanes, when no earlier commands are pending. */
static void apply_change(tutti_device *d)
{
    uint32_t change = atomic_load_explicit(&d->change, memory_order_acquire);

    if (!change || !tt_proxy_is_idle(&d->proxy) || tt_proxy_has_trigger(&d->proxy))
        return;
    change = atomic_exchange(&d->change, 0);
    if (!change)                /* withdrawn meanwhile */
        return;
    d->proxy.conf.mode = (tutti_device_mode)(change & 0xff);
    d->sink.lanes = (tutti_device_lanes)(change >> 8 & 0xff);
}

/* Sleeps until a wake-up. Blocks fill a slot, and then wake the thread if `asleep` is set; the
 * thread sets it, and then checks the slot. The barrier ensures that one side sees the other's
 * store. */
static void sleep_until_woken(tutti_device *d)
{
    const struct timespec ts = { .tv_sec = 0, .tv_nsec = (long)SLEEP_NS };

    __atomic_store_n(&d->asleep, 1, __ATOMIC_SEQ_CST);
    __sync_synchronize();
    if (!tt_proxy_has_trigger(&d->proxy) && !atomic_load(&d->stop) && !atomic_load(&d->aborted) &&
        !atomic_load(&d->change))
        syscall(SYS_futex, &d->asleep, FUTEX_WAIT_PRIVATE, 1, &ts, NULL, 0);
    __atomic_store_n(&d->asleep, 0, __ATOMIC_SEQ_CST);
}

/* Returns whether blocks wait, or have just put something, on a device that can neither wake
 * this thread nor make progress. Low latency is then worth a core. */
static bool polls_eagerly(tutti_device *d, uint64_t now_ns)
{
    uint64_t pulse;

    if (!d->conf.polls)
        return false;
    pulse = __atomic_load_n(d->view.pulse, __ATOMIC_RELAXED);
    if (pulse != d->pulse_seen)
        d->eager_ns = now_ns + EAGER_NS;
    d->pulse_seen = pulse;
    return now_ns < d->eager_ns;
}

/* Pauses after `idle` consecutive passes without work. */
static void pause_idle(tutti_device *d, uint64_t now_ns, uint32_t idle)
{
    const bool eager = polls_eagerly(d, now_ns);

    if (eager)
        tt_engine_client_progress(engine_of(d));
    if (eager && idle % EAGER_POLLS != 0)
        return;
    if (eager || idle < (tt_proxy_is_idle(&d->proxy) ? YIELDS : YIELDS_BUSY))
        sched_yield();
    else if (!d->conf.polls && tt_proxy_is_idle(&d->proxy))
        sleep_until_woken(d);
    else
        nap(POLL_NS);
}

static void *proxy_thread(void *arg)
{
    tutti_device *d = arg;
    uint32_t idle = 0;

    (void)tt_float_env_enter();     /* not the environment of the creating thread */
    for (;;) {
        const bool stops = atomic_load(&d->stop);
        const uint64_t now_ns = tt_now_ns();
        tutti_status st;
        bool any;

        __atomic_store_n(d->clock_ms, (now_ns - d->began_ns) / TT_MS, __ATOMIC_RELEASE);
        any = tt_proxy_take(&d->proxy, &st) > 0;
        if (!st && !d->proxy.failed)
            st = check_end(d);
        if (!st && !tt_proxy_is_idle(&d->proxy))
            st = pass_commands(d, now_ns, &any);
        if (st && !d->proxy.failed)
            end_device(d, st);
        apply_change(d);
        if (stops && !any && tt_proxy_is_idle(&d->proxy))
            return NULL;
        if (any) {
            idle = 0;
            d->eager_ns = now_ns + EAGER_NS;
        } else {
            pause_idle(d, now_ns, idle++);
        }
    }
}

tutti_status tt_device_start(tutti_device *d)
{
    sigset_t all, before;
    int err;

    d->began_ns = tt_now_ns();
    sigfillset(&all);
    /* signals must be handled by the application's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&d->thread, NULL, proxy_thread, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        return tt_fail_errno(err, "device: cannot start the proxy thread");
    d->runs = true;
    return TUTTI_OK;
}

void tt_device_stop(tutti_device *d)
{
    if (!d->runs)
        return;
    atomic_store(&d->stop, true);
    tutti_device_wake(d);
    pthread_join(d->thread, NULL);
    d->runs = false;
    tt_engine_client_enter(engine_of(d));
    set_stuck(d, false);
    tt_engine_client_leave(engine_of(d));
}

/* ---- for blocks of the CPU device ---- */

void tutti_device_wake(tutti_device *d)
{
    if (__atomic_exchange_n(&d->asleep, 0, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &d->asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Called by a waiting block, which may need progress or a core. It makes progress if no other
 * thread does, unless the device simulates a GPU, whose hosts rely on the proxy and the progress
 * thread. Then it yields or sleeps. */
void tutti_device_rest(tutti_device *d, uint32_t turn)
{
    if (turn < PAUSES) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        return;
    }
    if (d && !d->conf.polls)
        tt_engine_client_progress(engine_of(d));
    if (turn < REST_YIELDS)
        sched_yield();
    else
        nap(POLL_NS);
}
