#include "comm/thread_guard.h"

#include <linux/membarrier.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* States of tt_thread_guard.owner; no thread has these numbers. */
#define SHARED ((uintptr_t)1)       /* all threads enter through `slow` */
#define CHANGING ((uintptr_t)2)     /* the owner may not have noticed the change to SHARED yet */

_Thread_local char tt_thread_guard_here;

static long barrier_of_all(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

/* Makes the entry shared. Afterwards, a call of its owner is visible in `fast`, or the owner
 * sees that it must use `slow`. */
static void guard_share(struct tt_thread_guard *e, uintptr_t owner)
{
    if (owner == SHARED)
        return;
    atomic_compare_exchange_strong(&e->owner, &owner, CHANGING);
    barrier_of_all(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    owner = CHANGING;
    atomic_compare_exchange_strong(&e->owner, &owner, SHARED);
}

/* Makes the first thread the owner. Without membarrier in the kernel, the entry is shared
 * instead. */
static uintptr_t entry_own(struct tt_thread_guard *e, uintptr_t self)
{
    const bool barrier = barrier_of_all(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
    uintptr_t owner = 0;

    if (!atomic_compare_exchange_strong(&e->owner, &owner, barrier ? self : SHARED))
        return owner;
    if (barrier)
        atomic_store(&e->first, self);
    return barrier ? self : SHARED;
}

const char *tt_thread_guard_take_slow(struct tt_thread_guard *e, uintptr_t self, const char *call)
{
    uintptr_t owner = atomic_load(&e->owner);
    const char *other = NULL;

    if (!owner) {
        owner = entry_own(e, self);
        if (owner == self)
            return tt_thread_guard_take(e, call);
    }
    if (atomic_load(&e->slow_thread) == self ||
        (atomic_load(&e->first) == self && atomic_load(&e->fast))) {
        e->nested++;
        return NULL;
    }
    guard_share(e, owner);
    if (!atomic_compare_exchange_strong(&e->slow, &other, call))
        return other;
    other = atomic_load(&e->fast);
    if (other) {
        atomic_store(&e->slow, NULL);
        return other;
    }
    atomic_store(&e->slow_thread, self);
    return NULL;
}
