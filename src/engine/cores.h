/* Processors that the ranks of a host share. */
#ifndef TT_ENGINE_CORES_H
#define TT_ENGINE_CORES_H

#include "engine/state.h"

/* ranks per core up to which waiters yield and sleep as usual; with more, they yield less and
 * sleep longer */
#define TT_CORES_RANKS_USUAL 4u

/* Returns the factor by which the ranks per core exceed TT_CORES_RANKS_USUAL; at least 1. */
static inline uint32_t tt_cores_oversubscription(const struct tt_engine *e)
{
    return e->ranks_per_core > TT_CORES_RANKS_USUAL ? e->ranks_per_core / TT_CORES_RANKS_USUAL : 1;
}
/* Scales a sleep of `ms` by the oversubscription, up to `most_ms`, so that the wake-ups of all its
 * ranks do not fill a core. */
int tt_cores_scaled_sleep_ms(const struct tt_engine *e, uint32_t ms, uint32_t most_ms);
/* Returns whether a poll costs system calls. */
bool tt_cores_polls_cost_syscalls(const struct tt_engine *e);
/* Disables spinning unless every local rank has its own core. */
void tt_cores_choose_spins(struct tt_engine *e);
/* Implements tt_engine_count_work for oversubscribed ranks. */
bool tt_cores_count_work(struct tt_engine *e, uint64_t bytes);
/* Counts `bytes` that an operation has copied or reduced. True: the operation must defer its
 * remaining work to the next pass, so that wires are polled and other ranks can use the core in
 * between. */
static inline bool tt_engine_count_work(struct tt_engine *e, uint64_t bytes)
{
    return !e->spins && tt_cores_count_work(e, bytes);
}

#endif
