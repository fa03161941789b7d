/* What the micro benchmarks share: a clock and a median. */
#ifndef BENCH_MICRO_H
#define BENCH_MICRO_H

#include <stdlib.h>
#include <time.h>

/* The thread's own time: what else runs on the machine does not count. */
static inline double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts samples[n]. */
static inline double median(double *samples, size_t n)
{
    qsort(samples, n, sizeof samples[0], by_value);
    return samples[n / 2];
}

#endif
