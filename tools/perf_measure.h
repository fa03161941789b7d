/* How long a call takes. An iteration is barrier, clock, call, clock, and its value the slowest rank's. All functions here are
 * collective. */
#ifndef TUTTI_TOOLS_PERF_MEASURE_H
#define TUTTI_TOOLS_PERF_MEASURE_H

#include "perf_case.h"
#include "perf_start.h"

struct perf_effort {
    long warmup;    /* runs before that, not measured */
    long iters;     /* measured iterations */
    long loops;     /* runs of the back-to-back measurement; 0: none */
    struct perf_start *start;   /* where ranks agree on when to begin, after the barrier; NULL: as soon as the barrier lets them */
};

/* Completes an effort: iters 0, and then loops, are chosen so that a case takes about a tenth of a second; warmup below 0, too.
 * The clock of rank 0 decides, for all ranks alike. Runs the case a few times. */
tutti_status perf_choose(const struct perf_case *c, tutti_comm *comm, struct perf_effort *e);

/* us[0 .. iters) become the values of the iterations in microseconds, us[iters] the mean of a back-to-back run; the same on
 * all ranks. */
tutti_status perf_sample(const struct perf_case *c, tutti_comm *comm, const struct perf_effort *e, double *us);

/* Where the time of a call went, in microseconds: mean over ranks, and over the calls of a sample. */
struct perf_where {
    double call_us, send_us, forward_us, reduce_us, copy_us, wire_us, wait_us;
    double most_in_flight;      /* bytes on their way from one rank to another at once, over all of them; 0: nothing bounds them */
};

/* As perf_sample, with timers. *timed: false where calls were too short for timers to see. */
tutti_status perf_sample_timed(const struct perf_case *c, tutti_comm *comm, const struct perf_effort *e, double *us,
                               struct perf_where *where, bool *timed);

/* What is printed of the samples. */
struct perf_times {
    double median_us, min_us, max_us, loop_us;
};

/* Sorts us[0 .. iters). us[iters] is the loop's. Local. */
struct perf_times perf_summary(double *us, long iters);

#endif
