/* Locks, by the queue of J. M. Mellor-Crummey and M. L. Scott, "Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors" (ACM TOCS 9(1), 1991):
 * who waits looks only at its own word, and gets the lock from who had it before.
 *
 * A lock is two words of 4 bytes. The first is used at the lock's home, a PE that its address chooses: the last PE of the queue, 0 for none. The second is each PE's own:
 * who comes after it, and a bit by which the one before hands it the lock; it is 0 while the PE is not in the queue. PEs are counted from 1.
 *
 * The queue is one of PEs: of the threads of a PE one at a time is in it, who has set a third bit in its PE's word. The others wait for that, and come after. */
#include <sched.h>

#include "move.h"
#include "watch.h"

#define HANDED (1u << 31)
#define TAKEN (1u << 30)        /* a thread of this PE has the lock, or queues for it */
#define NEXT (TAKEN - 1)        /* the PE that comes after */

struct word {
    uint32_t tail, link;
};
_Static_assert(sizeof(struct word) == sizeof(long), "a lock is a long");

static struct word *word_of(const char *call, long *lock)
{
    sh_place_of(call, "lock", lock, sizeof *lock);
    if ((uintptr_t)lock % sizeof *lock)
        sh_die(call, "lock = %p is misaligned: must be a multiple of %zu", (void *)lock, sizeof *lock);
    return (struct word *)(void *)lock;
}

/* Locks of an array are spread over PEs. */
static int home_of(const char *call, long *lock)
{
    return (int)(sh_place_of(call, "lock", lock, sizeof *lock).offset / sizeof *lock % (size_t)sh_job.n);
}

static uint32_t mine(void) { return (uint32_t)sh_job.me + 1; }

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

static bool is_left(const volatile void *ivar, int cmp, const void *value)
{
    (void)cmp;
    (void)value;
    return !(__atomic_load_n((const volatile uint32_t *)ivar, __ATOMIC_ACQUIRE) & TAKEN);
}

static struct sh_watch watch_of(const char *call, const uint32_t *link,
                                bool (*compares)(const volatile void *ivar, int cmp, const void *value))
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

static uint32_t nwaiting;       /* threads that wait for another one of this PE */

/* Whether no other thread of this PE is in the queue; then this one is, as far as they can see. */
static bool enter(struct word *w)
{
    return !(__atomic_fetch_or(&w->link, TAKEN, __ATOMIC_ACQ_REL) & TAKEN);
}

static void enter_in_turn(const char *call, struct word *w)
{
    if (enter(w))
        return;
    __atomic_fetch_add(&nwaiting, 1, __ATOMIC_SEQ_CST);
    while (!enter(w))
        wait_for(call, &w->link, is_left);
    __atomic_fetch_sub(&nwaiting, 1, __ATOMIC_SEQ_CST);
}

/* Nobody changes this PE's word any more. Adding nothing to a word of one's own changes nothing, and wakes who waits here. */
static void leave(const char *call, struct word *w)
{
    __atomic_store_n(&w->link, 0, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&nwaiting, __ATOMIC_SEQ_CST))
        sh_check(call, tutti_window_signal(sh_job.heap.window, sh_job.me, offsetof(struct sh_head, exit),
                                           TUTTI_SIGNAL_ADD, 0));
}

/* ---- the queue of PEs ---- */

void shmem_set_lock(long *lock)
{
    struct word *w = word_of(__func__, lock);
    uint32_t before;

    enter_in_turn(__func__, w);
    before = (uint32_t)sh_fetch(__func__, SHMEM_CTX_DEFAULT, &w->tail, 4, TUTTI_ATOMIC_SWAP, mine(), 0,
                                home_of(__func__, lock));
    if (!before)
        return;
    sh_change(__func__, SHMEM_CTX_DEFAULT, &w->link, 4, TUTTI_ATOMIC_OR, mine(), (int)before - 1);
    wait_for(__func__, &w->link, is_handed);
}

int shmem_test_lock(long *lock)
{
    struct word *w = word_of(__func__, lock);
    const struct sh_watch watch = watch_of(__func__, &w->link, is_left);

    if (!enter(w)) {
        sh_test_all(&watch);    /* who calls this without end makes progress, */
        sched_yield();          /* and leaves the core to who has the lock */
        return 1;
    }
    if (sh_fetch(__func__, SHMEM_CTX_DEFAULT, &w->tail, 4, TUTTI_ATOMIC_COMPARE_SWAP, mine(), 0,
                 home_of(__func__, lock)) == 0)
        return 0;
    leave(__func__, w);
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
        const uint32_t last =
            (uint32_t)sh_fetch(__func__, SHMEM_CTX_DEFAULT, &w->tail, 4, TUTTI_ATOMIC_COMPARE_SWAP, 0, mine(), home);

        if (last == mine()) {
            leave(__func__, w);
            return;
        }
        wait_for(__func__, &w->link, has_next);
        next = __atomic_load_n(&w->link, __ATOMIC_ACQUIRE) & NEXT;
    }
    leave(__func__, w);
    sh_change(__func__, SHMEM_CTX_DEFAULT, &w->link, 4, TUTTI_ATOMIC_OR, HANDED, (int)next - 1);
}
