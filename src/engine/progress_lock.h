/* The progress lock, and the sleepers that wait for it or for an operation. */
#ifndef TT_ENGINE_PROGRESS_LOCK_H
#define TT_ENGINE_PROGRESS_LOCK_H

#include "engine/state.h"

/* Pauses between two polls of memory. */
static inline void tt_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Acquires the progress lock; wakes its holder if that sleeps. Callers must not wait for a peer
 * while holding it, except through tt_engine_work and tt_engine_wait. */
void tt_progress_lock(struct tt_engine *e);
/* As tt_progress_lock, until due_ns. Returns false if the lock was not free. */
bool tt_progress_lock_until(struct tt_engine *e, uint64_t due_ns);
bool tt_progress_trylock(struct tt_engine *e);
void tt_progress_unlock(struct tt_engine *e);
/* Wakes sleepers, because an operation ended. */
void tt_engine_wake(struct tt_engine *e);
/* Wakes a holder that sleeps, or the progress thread. */
void tt_progress_kick(struct tt_engine *e);
/* Wakes the progress thread, which then advances the operations that no thread waits for. The
 * caller does not hold the progress lock. */
void tt_engine_summon(struct tt_engine *e);

/* A thread that will sleep enters, checks its condition, sleeps on `word` while it has the value
 * `seen`, and leaves. */
void tt_sleeper_enter(struct tt_engine *e);
void tt_sleeper_leave(struct tt_engine *e);
void tt_sleeper_wait(atomic_uint *word, uint32_t seen, uint64_t timeout_ns);
/* The store-load barrier of a sleeper. */
void tt_sleeper_barrier(const struct tt_engine *e);

/* Reads the reports of the control overlay. tt_take_failures processes them. With or without the
 * lock. */
static inline void tt_engine_read_reports(struct tt_engine *e)
{
    if (e->alert)
        e->alert(e->alert_arg);
}

#endif
