/* Shared by micro benchmarks of two processes: words to wait on, and a clock. */
#ifndef BENCH_MICRO_PAIR_H
#define BENCH_MICRO_PAIR_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

/* In a separate cache line, written by one side. */
struct word {
    _Alignas(64) _Atomic uint64_t v;
};

static inline void say(struct word *w, uint64_t value)
{
    atomic_store_explicit(&w->v, value, memory_order_release);
}

static inline void await(struct word *w, uint64_t value)
{
    while (atomic_load_explicit(&w->v, memory_order_acquire) < value)
        __builtin_ia32_pause();
}

static inline uint64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
