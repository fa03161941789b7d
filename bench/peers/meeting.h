/* Barriers and maxima of a contestant that has none of its own: through memory that its ranks, processes of one machine, share. */
#ifndef BENCH_MEETING_H
#define BENCH_MEETING_H

#include <stddef.h>

#define MEETING_RANKS_MAX 64

struct meeting_memory;

struct meeting {
    int rank, nranks;
    struct meeting_memory *memory;
};

/* In dir, which the ranks have in common; ends the process if that cannot be. nranks is at most MEETING_RANKS_MAX. */
void meeting_open(struct meeting *m, const char *dir, int rank, int nranks);
/* As peer_ops wants them; ctx begins with a struct meeting. */
void meeting_barrier(void *ctx);
void meeting_max(void *ctx, double *values, size_t n);

#endif
