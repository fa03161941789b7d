/* Processors that the ranks of a host share: whether waiters spin, and when ranks yield. */
#include "engine/cores.h"

#include <sched.h>
#include <unistd.h>

/* bytes that a rank copies or reduces before it yields its core, if ranks are oversubscribed */
#define YIELD_BYTES (128u << 10)

int tt_cores_scaled_sleep_ms(const struct tt_engine *e, uint32_t ms, uint32_t most_ms)
{
    const uint64_t all = (uint64_t)ms * tt_cores_oversubscription(e);

    return (int)(all < most_ms ? all : most_ms);
}

bool tt_cores_polls_cost_syscalls(const struct tt_engine *e)
{
    for (uint32_t i = 0; i < e->nwires; i++)
        if (e->nlinks[i] && !(e->wire[i]->caps & TT_WIRE_CAP_INSTANT))
            return true;
    return false;
}

uint32_t tt_engine_cores(void)
{
    cpu_set_t set;
    uint32_t cores = 1;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cores = (uint32_t)CPU_COUNT(&set);
    if (cores < (uint32_t)sysconf(_SC_NPROCESSORS_ONLN) && cores == 1)
        cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);        /* one core per rank */
    return cores;
}

void tt_cores_choose_spins(struct tt_engine *e)
{
    const uint32_t cores = e->cores ? e->cores : tt_engine_cores();

    if (e->cards.nlocal > cores)
        e->spins = 0;
    e->ranks_per_core = e->cards.nlocal / cores;
    for (uint32_t i = 0; i < e->nwires; i++)
        e->wire[i]->sleepy = e->ranks_per_core > TT_CORES_RANKS_USUAL;
}

void tt_engine_set_cores(struct tt_engine *e, uint32_t cores)
{
    e->cores = cores;
}

/* If ranks are oversubscribed, a rank with data to send may wait for a core while another copies or
 * reduces data. The network is idle meanwhile. Therefore this work is divided into slices, with a
 * yield after each. Without a network, this gains nothing. */
bool tt_cores_count_work(struct tt_engine *e, uint64_t bytes)
{
    if (!tt_cores_polls_cost_syscalls(e))
        return false;
    e->moved_bytes += bytes;
    if (e->moved_bytes < YIELD_BYTES)
        return false;
    e->moved_bytes = 0;
    e->yield_due = true;
    return true;
}
