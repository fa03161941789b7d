/* Measures the duration of a call. An iteration is: barrier, clock, call, clock. Its value is the
 * duration on the slowest rank. All functions here are collective. */
#ifndef TUTTI_TOOLS_PERF_MEASURE_H
#define TUTTI_TOOLS_PERF_MEASURE_H

#include "tools/perf/perf_case.h"
#include "tools/perf/perf_start.h"

struct perf_effort {
    long warmup;    /* unmeasured runs before the iterations */
    long iters;     /* measured iterations */
    long loops;     /* runs of the back-to-back measurement; 0: none */
    struct perf_start *start;   /* shared start time after the barrier; NULL: start when the
                                   barrier returns */
};

/* Chooses the values that are not set: iters (0) and loops, so that a case takes about 0.1 s, and
 * warmup (negative). Rank 0's clock decides for all ranks. Runs the case several times. */
tutti_status perf_choose(const struct perf_case *c, tutti_comm *comm, struct perf_effort *e);

/* Measures. us[0 .. iters) receive the durations of the iterations in microseconds, us[iters] the
 * mean of a back-to-back run. They are equal on all ranks. */
tutti_status perf_sample(const struct perf_case *c, tutti_comm *comm, const struct perf_effort *e,
                         double *us);

/* Time of a call by phase, in microseconds: mean over ranks and over the calls of a sample. */
struct perf_where {
    double call_us, send_us, forward_us, reduce_us, copy_us, wire_us, wait_us;
    double most_in_flight;      /* maximum number of bytes in flight between two ranks, over all
                                   pairs; 0: unlimited */
};

/* Like perf_sample, with phase timers. *timed is false if the calls were too short for the
 * timers. */
tutti_status perf_sample_timed(const struct perf_case *c, tutti_comm *comm,
                               const struct perf_effort *e, double *us, struct perf_where *where,
                               bool *timed);

/* Printed statistics of the samples. */
struct perf_times {
    double median_us, min_us, max_us, loop_us;
};

/* Sorts us[0 .. iters) and summarizes it. us[iters] is the back-to-back mean. Local. */
struct perf_times perf_summary(double *us, long iters);

#endif
