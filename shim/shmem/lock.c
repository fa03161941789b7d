/* Queue locks of J. M. Mellor-Crummey and M. L. Scott, "Algorithms for Scalable Synchronization on
 * Shared-Memory Multiprocessors" (ACM TOCS 9(1), 1991). A waiting PE polls only its own word, and
 * the previous owner passes the lock to it.
 *
 * A lock consists of two words of 4 bytes:
 * - tail, used on the lock's home PE, which depends on the address: the last PE in the queue,
 *   or 0 if the queue is empty;
 * - link, one per PE: the next PE in the queue, and the bits HANDED (the previous owner passed the
 *   lock to this PE) and TAKEN. It is 0 while the PE is not in the queue.
 * PEs are counted from 1.
 *
 * Each PE has at most one place in the queue. The thread that set TAKEN in its PE's link has that
 * place; other threads of the PE wait until TAKEN is cleared. */
#include <sched.h>

#include "move.h"
#include "watch.h"

#define HANDED (1u << 31)
#define TAKEN (1u << 30)        /* a thread of this PE holds the lock, or waits in the queue */
#define NEXT (TAKEN - 1)        /* mask: the next PE in the queue */

struct word {
    uint32_t tail, link;
};
_Static_assert(sizeof(struct word) == sizeof(long), "a lock is a long");

static struct word *word_of(const char *call, long *lock)
{
    sh_place_of(call, "lock", lock, sizeof *lock);
    if ((uintptr_t)lock % sizeof *lock)
        sh_die(call, "lock = %p is misaligned: must be a multiple of %zu", (void *)lock,
               sizeof *lock);
    return (struct word *)(void *)lock;
}

/* Returns the home PE. The locks of an array are distributed over all PEs. */
static int home_of(const char *call, long *lock)
{
    return (int)(sh_place_of(call, "lock", lock, sizeof *lock).offset / sizeof *lock %
                 (size_t)sh_job.n);
}

static uint32_t my_number(void) { return (uint32_t)sh_job.me + 1; }

static bool is_handed(const volatile void *ivar, int cmp, const void *value)
{
    (void)cmp;
    (void)value;
    return __atomic_load_n((const volatile uint32_t *)ivar, __ATOMIC_ACQUIRE) & HANDED;
}

static bool has_next(const volatile void *ivar, int cmp, const void *value)
{
    (void)cmp;
    (void)value;
    return __atomic_load_n((const volatile uint32_t *)ivar, __ATOMIC_ACQUIRE) & NEXT;
}

static bool is_not_taken(const volatile void *ivar, int cmp, const void *value)
{
    (void)cmp;
    (void)value;
    return !(__atomic_load_n((const volatile uint32_t *)ivar, __ATOMIC_ACQUIRE) & TAKEN);
}

static struct sh_watch watch_of(const char *call, const uint32_t *link,
                                bool (*compares)(const volatile void *ivar, int cmp,
                                                 const void *value))
{
    return (struct sh_watch){
        .call = call,
        .ivars = link,
        .nelems = 1,
        .bytes = sizeof *link,
        .cmp = SHMEM_CMP_NE,
        .values = link,
        .compares = compares,
    };
}

static void wait_for(const char *call, const uint32_t *link,
                     bool (*compares)(const volatile void *ivar, int cmp, const void *value))
{
    const struct sh_watch watch = watch_of(call, link, compares);

    sh_wait_all(&watch);
}

/* ---- the threads of a PE ---- */

static uint32_t nwaiting;       /* threads that wait for another thread of this PE */

/* Tries to get this PE's place in the queue. Returns false if another thread of this PE has it. */
static bool queue_try_enter(struct word *w)
{
    return !(__atomic_fetch_or(&w->link, TAKEN, __ATOMIC_ACQ_REL) & TAKEN);
}

static void queue_enter(const char *call, struct word *w)
{
    if (queue_try_enter(w))
        return;
    __atomic_fetch_add(&nwaiting, 1, __ATOMIC_SEQ_CST);
    while (!queue_try_enter(w))
        wait_for(call, &w->link, is_not_taken);
    __atomic_fetch_sub(&nwaiting, 1, __ATOMIC_SEQ_CST);
}

/* Releases this PE's place in the queue. No other PE writes to the link at this time. Adding 0 to
 * an own word has no effect except that it wakes the threads waiting on this PE. */
static void queue_leave(const char *call, struct word *w)
{
    __atomic_store_n(&w->link, 0, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&nwaiting, __ATOMIC_SEQ_CST))
        sh_check(call, tutti_window_signal(sh_job.heap.window, sh_job.me,
                                           offsetof(struct sh_head, exit), TUTTI_SIGNAL_ADD, 0));
}

/* ---- the queue of PEs ---- */

void shmem_set_lock(long *lock)
{
    struct word *w = word_of(__func__, lock);
    uint32_t before;

    queue_enter(__func__, w);
    before = (uint32_t)sh_fetch(__func__, SHMEM_CTX_DEFAULT, &w->tail, 4, TUTTI_ATOMIC_SWAP,
                                my_number(), 0, home_of(__func__, lock));
    if (!before)
        return;
    sh_change(__func__, SHMEM_CTX_DEFAULT, &w->link, 4, TUTTI_ATOMIC_OR, my_number(),
              (int)before - 1);
    wait_for(__func__, &w->link, is_handed);
}

int shmem_test_lock(long *lock)
{
    struct word *w = word_of(__func__, lock);
    const struct sh_watch watch = watch_of(__func__, &w->link, is_not_taken);

    if (!queue_try_enter(w)) {
        sh_test_all(&watch);    /* makes progress for callers that poll in a loop, */
        sched_yield();          /* and yields the core to the owner of the lock */
        return 1;
    }
    if (sh_fetch(__func__, SHMEM_CTX_DEFAULT, &w->tail, 4, TUTTI_ATOMIC_COMPARE_SWAP, my_number(),
                 0, home_of(__func__, lock)) == 0)
        return 0;
    queue_leave(__func__, w);
    sched_yield();
    return 1;
}

void shmem_clear_lock(long *lock)
{
    struct word *w = word_of(__func__, lock);
    const int home = home_of(__func__, lock);
    uint32_t next = __atomic_and_fetch(&w->link, ~HANDED, __ATOMIC_ACQ_REL);

    if (!(next & TAKEN))
        sh_die(__func__, "lock = %p is not held by this PE", (void *)lock);
    next &= NEXT;
    shmem_quiet();
    if (!next) {
        const uint32_t last = (uint32_t)sh_fetch(__func__, SHMEM_CTX_DEFAULT, &w->tail, 4,
                                                 TUTTI_ATOMIC_COMPARE_SWAP, 0, my_number(), home);

        if (last == my_number()) {
            queue_leave(__func__, w);
            return;
        }
        wait_for(__func__, &w->link, has_next);
        next = __atomic_load_n(&w->link, __ATOMIC_ACQUIRE) & NEXT;
    }
    queue_leave(__func__, w);
    sh_change(__func__, SHMEM_CTX_DEFAULT, &w->link, 4, TUTTI_ATOMIC_OR, HANDED, (int)next - 1);
}
