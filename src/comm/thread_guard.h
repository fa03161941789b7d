/* Only one thread at a time may use a communicator. An entry detects a second thread, which gets an
 * error instead of corrupting the communicator.
 *
 * The first thread that enters becomes the owner: it stores the name of its call in `fast`, with
 * ordinary stores. The first call of another thread ends this permanently: from then on all threads
 * enter by a compare-and-swap on `slow`. A membarrier(2) of the other thread replaces the
 * store-load barrier that the owner does not issue.
 *
 * Threads: any. Calls of one thread may nest. */
#ifndef TT_COMM_THREAD_GUARD_H
#define TT_COMM_THREAD_GUARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct tt_thread_guard {
    atomic_uintptr_t owner;         /* thread that may enter through `fast`, or a state; zero: no
                                       thread has entered yet */
    atomic_uintptr_t first;         /* thread that writes `fast`; set once */
    _Atomic(const char *) fast;     /* call of `first` in progress; NULL: none */
    _Atomic(const char *) slow;     /* call of another thread, or of any once the entry is shared */
    atomic_uintptr_t slow_thread;   /* thread of `slow` */
    uint32_t nested;                /* calls nested in the current one; used only by its thread */
};

extern _Thread_local char tt_thread_guard_here
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Returns an ID of the calling thread, unique among live threads. */
static inline uintptr_t tt_thread_guard_thread(void)
{
    return (uintptr_t)&tt_thread_guard_here;
}

/* The slow path of tt_thread_guard_take. */
const char *tt_thread_guard_take_slow(struct tt_thread_guard *e, uintptr_t self, const char *call);

/* Begins `call`, a string that must be valid until its end. Returns NULL on success;
 * tt_thread_guard_leave ends it. Otherwise returns the call of another thread that is in
 * progress. */
static inline const char *tt_thread_guard_take(struct tt_thread_guard *e, const char *call)
{
    const uintptr_t self = tt_thread_guard_thread();

    if (atomic_load_explicit(&e->owner, memory_order_relaxed) == self) {
        if (atomic_load_explicit(&e->fast, memory_order_relaxed)) {
            e->nested++;
            return NULL;
        }
        atomic_store_explicit(&e->fast, call, memory_order_relaxed);
        /* Pairs with the membarrier in tt_thread_guard_take_slow. */
        atomic_signal_fence(memory_order_seq_cst);
        if (atomic_load_explicit(&e->owner, memory_order_relaxed) == self)
            return NULL;
        atomic_store_explicit(&e->fast, NULL, memory_order_release);
    }
    return tt_thread_guard_take_slow(e, self, call);
}

static inline void tt_thread_guard_leave(struct tt_thread_guard *e)
{
    if (e->nested) {
        e->nested--;
    } else if (atomic_load_explicit(&e->slow_thread, memory_order_relaxed) ==
               tt_thread_guard_thread()) {
        atomic_store_explicit(&e->slow_thread, 0, memory_order_relaxed);
        atomic_store_explicit(&e->slow, NULL, memory_order_release);
    } else {
        atomic_store_explicit(&e->fast, NULL, memory_order_release);
    }
}

#endif
