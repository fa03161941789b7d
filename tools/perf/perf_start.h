/* Common start time of all ranks on a machine. A barrier releases ranks one by one, in an order
 * that depends on its algorithm, and this affects the measured operation. To compare libraries with
 * different barriers, the ranks then agree on a start time, through a file mapped by all of them
 * (bench/peers/PROTOCOL.md). Uses only libc, because the other measured programs are also compiled
 * with it. */
#ifndef TUTTI_TOOLS_PERF_START_H
#define TUTTI_TOOLS_PERF_START_H

#include <stdint.h>

struct perf_start {
    struct perf_start_memory *memory;   /* NULL: no file; perf_start_wait returns at once */
    uint64_t rounds, nranks;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Maps dir/start, if it exists. Returns 0, or -1 with errno if the file exists but cannot be
 * mapped. */
int perf_start_open(struct perf_start *s, const char *dir, uint32_t nranks);
void perf_start_close(struct perf_start *s);

/* Waits for the common start time. Called by every rank, each on a different core, because it
 * polls. Returns the start time, which has just passed; without a file, or if s is NULL, the
 * current time (CLOCK_MONOTONIC, ns). */
uint64_t perf_start_wait(struct perf_start *s);

#ifdef __cplusplus
}
#endif

#endif
