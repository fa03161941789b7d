/* Progress, waiting, and the progress thread. */
#ifndef TT_ENGINE_PROGRESS_H
#define TT_ENGINE_PROGRESS_H

#include "engine/progress_lock.h"

/* Runs one pass: wires, mailboxes, operations, and timers at intervals. Returns whether anything
 * happened. The caller holds the lock. */
bool tt_engine_progress(struct tt_engine *e);
/* Makes progress until done(arg) (true), or until another thread needs the lock (false). The caller
 * holds the lock. */
bool tt_engine_work(struct tt_engine *e, bool (*done)(void *arg), void *arg);
/* Makes progress or waits until done(arg). */
void tt_engine_wait(struct tt_engine *e, bool (*done)(void *arg), void *arg);

tutti_status tt_progress_init(struct tt_engine *e);
void tt_progress_fini(struct tt_engine *e);

#endif
