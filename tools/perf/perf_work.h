/* Computation of a known amount, to measure what a non-blocking call hides. Uses only libc, because
 * the other measured programs are also compiled with it. */
#ifndef TUTTI_TOOLS_PERF_WORK_H
#define TUTTI_TOOLS_PERF_WORK_H

#ifdef __cplusplus
extern "C" {
#endif

/* Computes `units` times the same chain of floating-point operations, about a microsecond each,
 * without memory. Any thread. */
void perf_work(unsigned long units);

#ifdef __cplusplus
}
#endif

#endif
