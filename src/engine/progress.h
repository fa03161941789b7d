/* The baton, waiting, and the progress thread. */
#ifndef TT_ENGINE_PROGRESS_H
#define TT_ENGINE_PROGRESS_H

#include "engine/state.h"

/* What a thread does between two looks at memory. */
static inline void tt_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Takes the baton, waking its holder if that sleeps. Never held across a wait for a peer by its takers below this level. */
void tt_baton_take(struct tt_engine *e);
bool tt_baton_try(struct tt_engine *e);
void tt_baton_give(struct tt_engine *e);
/* Everything once: wires, mailboxes, operations, timers now and then. True if anything happened. Under the baton. */
bool tt_engine_progress(struct tt_engine *e);
/* An operation has moved so many bytes in memory. True: it shall leave the rest for the next pass, so that wires are looked at, and other
 * ranks get the core, in between. */
bool tt_engine_worked(struct tt_engine *e, uint64_t bytes);
/* An operation ended: who sleeps on it must look. */
void tt_engine_wake(struct tt_engine *e);
/* Works with the baton, which the caller holds, until done (true) or until another thread needs it (false). */
bool tt_engine_work(struct tt_engine *e, bool (*done)(void *arg), void *arg);
/* Takes and progresses until done(arg). */
void tt_engine_wait(struct tt_engine *e, bool (*done)(void *arg), void *arg);
/* Takes what the control overlay has to tell; tt_take_trouble has the rest. With the baton or without it. */
void tt_engine_hear(struct tt_engine *e);
/* A link to p is wanted: connects over the first wire that reaches it. Under the baton. */
void tt_peer_connect(struct tt_engine *e, struct tt_peer *p);

tutti_status tt_progress_init(struct tt_engine *e);
void tt_progress_fini(struct tt_engine *e);

#endif
