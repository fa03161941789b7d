/* One instant at which all ranks of a machine begin. A barrier lets ranks go one after the other, in an order of its own: whoever
 * waits for a rank that was let go first has a start that is not the operation's. So that contestants with different barriers can be
 * compared, the ranks then agree on an instant through a file that all of them map (bench/peers/PROTOCOL.md). Only libc is used here, as the peers
 * of the benchmark are compiled with it, too. */
#ifndef TUTTI_TOOLS_PERF_START_H
#define TUTTI_TOOLS_PERF_START_H

#include <stdint.h>

struct perf_start {
    struct perf_start_memory *memory;   /* NULL: there is no file, and perf_start_wait returns at once */
    uint64_t rounds, nranks;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Maps dir/start, where there is one. 0, or -1 with errno set: it is there, but cannot be used. */
int perf_start_open(struct perf_start *s, const char *dir, uint32_t nranks);
void perf_start_close(struct perf_start *s);

/* Called by every rank, each on a core of its own: ranks look without rest. Returns the instant, which has just come, or the time now
 * (CLOCK_MONOTONIC, ns). s NULL: as without a file. */
uint64_t perf_start_wait(struct perf_start *s);

#ifdef __cplusplus
}
#endif

#endif
