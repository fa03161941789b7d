/* The progress lock: its holder makes progress for the whole process. Sleepers wait on a futex,
 * the progress thread on a descriptor. */
#include "engine/progress_lock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

void tt_sleeper_wait(atomic_uint *word, uint32_t seen, uint64_t timeout_ns)
{
    const struct timespec ts = { .tv_sec = (time_t)(timeout_ns / TT_SECOND),
                                 .tv_nsec = (long)(timeout_ns % TT_SECOND) };

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
}

/* Store-load ordering between sleepers and wakers. A sleeper increments the count of sleepers,
 * then checks its condition. A waker changes the state (ends an operation or releases the lock),
 * then reads the count. A store-load barrier is needed on one side; the sleeper issues it, with
 * membarrier, which keeps the fast path free. If the kernel has no membarrier, the waker issues
 * a fence. */
void tt_sleeper_barrier(const struct tt_engine *e)
{
    if (e->barrier)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

void tt_sleeper_enter(struct tt_engine *e)
{
    atomic_fetch_add(&e->sleepers, 1);
    tt_sleeper_barrier(e);
}

void tt_sleeper_leave(struct tt_engine *e)
{
    atomic_fetch_sub(&e->sleepers, 1);
}

void tt_engine_wake(struct tt_engine *e)
{
    if (e->barrier)
        atomic_signal_fence(memory_order_seq_cst);
    else
        __sync_synchronize();
    if (atomic_load_explicit(&e->sleepers, memory_order_relaxed) == 0)
        return;
    atomic_fetch_add(&e->events, 1);
    syscall(SYS_futex, &e->events, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void tt_progress_kick(struct tt_engine *e)
{
    const uint64_t one = 1;

    if (write(e->kick_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        tt_fail_errno(errno, "cannot wake the progress thread");
}

void tt_engine_summon(struct tt_engine *e)
{
    const uint64_t one = 1;

    if (write(e->summon_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        tt_fail_errno(errno, "cannot notify the progress thread");
}

bool tt_progress_trylock(struct tt_engine *e)
{
    int free = 0;

    if (atomic_load_explicit(&e->progress_lock, memory_order_relaxed) ||
        !atomic_compare_exchange_strong_explicit(&e->progress_lock, &free, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    atomic_store_explicit(&e->uses, atomic_load_explicit(&e->uses, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    return true;
}

bool tt_progress_lock_until(struct tt_engine *e, uint64_t due_ns)
{
    bool locked = true;

    if (tt_progress_trylock(e))
        return true;
    atomic_fetch_add(&e->urgent, 1);
    for (;;) {
        uint32_t seen;

        if (atomic_load(&e->blocked))
            tt_progress_kick(e);
        if (tt_progress_trylock(e))
            break;
        if (due_ns != TT_NEVER && tt_now_ns() >= due_ns) {
            locked = false;
            break;
        }
        tt_sleeper_enter(e);
        seen = atomic_load(&e->events);
        if (atomic_load(&e->progress_lock))
            tt_sleeper_wait(&e->events, seen, TT_MS);
        tt_sleeper_leave(e);
    }
    atomic_fetch_sub(&e->urgent, 1);
    return locked;
}

void tt_progress_lock(struct tt_engine *e)
{
    tt_progress_lock_until(e, TT_NEVER);
}

/* Returns whether a wire may have arrivals without a wake-up. */
static bool has_silent_arrivals(const struct tt_engine *e)
{
    for (uint32_t i = 0; i < e->nwires; i++)
        if (e->wire[i]->unheard)
            return true;
    return false;
}

/* Peers do not send wake-ups while the wires are being polled. Therefore a parked progress
 * thread must be woken here if work remains. */
void tt_progress_unlock(struct tt_engine *e)
{
    const bool parked = atomic_load_explicit(&e->parked, memory_order_relaxed);
    const bool busy = e->nexposed > 0 || e->nunbegun > 0 || e->unfinished ||
                      (e->expected > 0 && !e->armed) || (parked && has_silent_arrivals(e));

    atomic_store_explicit(&e->progress_lock, 0, memory_order_release);
    tt_engine_wake(e);
    if (busy && atomic_load_explicit(&e->parked, memory_order_relaxed) &&
        atomic_exchange(&e->parked, false))
        tt_progress_kick(e);
}
