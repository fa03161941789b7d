/* Barriers and maxima for contestants without their own, through memory shared by the ranks, which
 * are processes of one machine. */
#ifndef BENCH_MEETING_H
#define BENCH_MEETING_H

#include <stddef.h>

#define MEETING_RANKS_MAX 64

struct meeting_memory;

struct meeting {
    int rank, nranks;
    struct meeting_memory *memory;
};

/* Maps a file in dir, which is common to the ranks. Ends the process on an error. nranks is at most
 * MEETING_RANKS_MAX. */
void meeting_open(struct meeting *m, const char *dir, int rank, int nranks);
/* For peer_ops; ctx must begin with a struct meeting. */
void meeting_barrier(void *ctx);
void meeting_max(void *ctx, double *values, size_t n);

#endif
