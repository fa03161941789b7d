/* Shared by the micro benchmarks: a clock and a median. */
#ifndef BENCH_MICRO_H
#define BENCH_MICRO_H

#include <stdlib.h>
#include <time.h>

/* CPU time of the thread, which excludes other programs on the machine. */
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

/* Returns the median; sorts samples[n]. */
static inline double median(double *samples, size_t n)
{
    qsort(samples, n, sizeof samples[0], by_value);
    return samples[n / 2];
}

#endif
