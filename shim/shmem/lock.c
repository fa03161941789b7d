/* Locks, by the queue of J. M. Mellor-Crummey and M. L. Scott, "Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors" (ACM TOCS 9(1), 1991):
 * who waits looks only at its own word, and gets the lock from who had it before.
 *
 * A lock is two words of 4 bytes. The first is used at the lock's home, a PE that its address chooses: the last PE of the queue, 0 for none. The second is each PE's own:
 * who comes after it, and a bit by which the one before hands it the lock; it is 0 while the PE is not in the queue. PEs are counted from 1. */
#include "move.h"
#include "watch.h"

#define HANDED (1u << 31)

struct word {
    uint32_t tail, link;
};
_Static_assert(sizeof(struct word) == sizeof(long), "a lock is a long");

static struct word *word_of(const char *call, long *lock)
{
    sh_place_of(call, "lock", lock, sizeof *lock);
    if ((uintptr_t)lock % sizeof *lock)
        sh_die(call, "lock = %p is not a multiple of %zu", (void *)lock, sizeof *lock);
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
    return __atomic_load_n((const volatile uint32_t *)ivar, __ATOMIC_ACQUIRE) & ~HANDED;
}

static void wait_for(const char *call, const uint32_t *link,
                     bool (*compares)(const volatile void *ivar, int cmp, const void *value))
{
    const struct sh_watch watch = {
        .call = call,
        .ivars = link,
        .nelems = 1,
        .bytes = sizeof *link,
        .cmp = SHMEM_CMP_NE,
        .values = link,
        .compares = compares,
    };

    sh_wait_all(&watch);
}

void shmem_set_lock(long *lock)
{
    struct word *w = word_of(__func__, lock);
    const uint32_t before = (uint32_t)sh_fetch(__func__, SHMEM_CTX_DEFAULT, &w->tail, 4, TUTTI_ATOMIC_SWAP, mine(), 0,
                                               home_of(__func__, lock));

    if (!before)
        return;
    sh_change(__func__, SHMEM_CTX_DEFAULT, &w->link, 4, TUTTI_ATOMIC_OR, mine(), (int)before - 1);
    wait_for(__func__, &w->link, is_handed);
}

int shmem_test_lock(long *lock)
{
    struct word *w = word_of(__func__, lock);

    return sh_fetch(__func__, SHMEM_CTX_DEFAULT, &w->tail, 4, TUTTI_ATOMIC_COMPARE_SWAP, mine(), 0,
                    home_of(__func__, lock)) != 0;
}

void shmem_clear_lock(long *lock)
{
    struct word *w = word_of(__func__, lock);
    const int home = home_of(__func__, lock);
    uint32_t next = __atomic_and_fetch(&w->link, ~HANDED, __ATOMIC_ACQ_REL), last;

    shmem_quiet();
    if (!next) {
        last = (uint32_t)sh_fetch(__func__, SHMEM_CTX_DEFAULT, &w->tail, 4, TUTTI_ATOMIC_COMPARE_SWAP, 0, mine(), home);
        if (last == mine())
            return;
        if (!last)
            sh_die(__func__, "lock = %p is not held", (void *)lock);
        wait_for(__func__, &w->link, has_next);
        next = __atomic_load_n(&w->link, __ATOMIC_ACQUIRE);
    }
    __atomic_store_n(&w->link, 0, __ATOMIC_RELEASE);
    sh_change(__func__, SHMEM_CTX_DEFAULT, &w->link, 4, TUTTI_ATOMIC_OR, HANDED, (int)next - 1);
}
