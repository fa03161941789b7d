/* The progress lock, waiting, and the progress thread. */
#ifndef TT_ENGINE_PROGRESS_H
#define TT_ENGINE_PROGRESS_H

#include "engine/state.h"

/* Pauses between two polls of memory. */
static inline void tt_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Takes the progress lock; wakes its holder if that sleeps. Callers must not wait for a peer
 * while holding it, except through tt_engine_work and tt_engine_wait. */
void tt_progress_lock(struct tt_engine *e);
/* As tt_progress_lock, until due_ns. Returns false if the lock was not free. */
bool tt_progress_lock_until(struct tt_engine *e, uint64_t due_ns);
bool tt_progress_trylock(struct tt_engine *e);
void tt_progress_unlock(struct tt_engine *e);
/* Runs one pass: wires, mailboxes, operations, and timers at intervals. Returns whether anything
 * happened. The caller holds the lock. */
bool tt_engine_progress(struct tt_engine *e);
/* Counts `bytes` that an operation has moved in memory. True: it must leave the rest to the next
 * pass, so that wires are polled, and other ranks get the core, in between. */
bool tt_engine_count_work(struct tt_engine *e, uint64_t bytes);
/* Wakes sleepers, because an operation ended. */
void tt_engine_wake(struct tt_engine *e);
/* Makes progress, with the lock that the caller holds, until done (true) or until another thread
 * needs it (false). */
bool tt_engine_work(struct tt_engine *e, bool (*done)(void *arg), void *arg);
/* Makes progress or waits until done(arg). */
void tt_engine_wait(struct tt_engine *e, bool (*done)(void *arg), void *arg);
/* Reads the reports of the control overlay. tt_take_failures processes them. With or without the
 * lock. */
void tt_engine_read_reports(struct tt_engine *e);
/* Connects to p over the first wire that reaches it. The caller holds the lock. */
void tt_peer_connect(struct tt_engine *e, struct tt_peer *p);

tutti_status tt_progress_init(struct tt_engine *e);
void tt_progress_fini(struct tt_engine *e);

/* Wakes the progress thread, which then advances the operations that no thread waits for. The
 * caller does not hold the progress lock. */
void tt_engine_summon(struct tt_engine *e);

#endif
