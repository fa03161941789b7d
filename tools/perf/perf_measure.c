#include "tools/perf/perf_measure.h"

#include <stdlib.h>
#include "base/clock.h"

#define TRIAL_NS (5 * TT_MS)        /* long enough to estimate the time of a call */
#define SAMPLES_NS (60 * TT_MS)
#define LOOPS_NS (30 * TT_MS)
#define ITERS_MIN 5
#define ITERS_MAX 10000
#define LOOPS_MIN 2
/* Warm-up runs of a long case, which put its buffers into huge pages (docs/memory.md), */
#define WARM_RUNS 16
#define WARM_NS (1000 * TT_MS)      /* but no more than fit into this time */

/* Runs n iterations with their barriers. *took_ns: the time on rank 0, broadcast to all ranks. */
static tutti_status trial(const struct perf_case *c, tutti_comm *comm, long n, uint64_t *took_ns)
{
    const uint64_t began_ns = tt_now_ns();
    tutti_status st = TUTTI_OK;

    for (long i = 0; i < n && !st; i++) {
        st = tutti_barrier(comm, NULL);
        if (!st)
            st = perf_case_run(c, comm);
    }
    *took_ns = tt_now_ns() - began_ns;
    return st ? st : tutti_broadcast(took_ns, took_ns, 1, TUTTI_U64, 0, comm, NULL);
}

static long fitting(uint64_t budget_ns, uint64_t each_ns, long min)
{
    const uint64_t n = budget_ns / (each_ns ? each_ns : 1);

    return n < (uint64_t)min ? min : n > ITERS_MAX ? ITERS_MAX : (long)n;
}

/* Returns the number of warm-up runs that are missing after `runs` runs. */
static long warming(long runs, uint64_t each_ns)
{
    const long fit = fitting(WARM_NS, each_ns, 0), left = WARM_RUNS - runs;

    return left < 0 ? 0 : left < fit ? left : fit;
}

tutti_status perf_choose(const struct perf_case *c, tutti_comm *comm, struct perf_effort *e)
{
    uint64_t took_ns = 0;
    long n = 1;
    tutti_status st;

    if (e->iters > 0) {
        e->warmup = e->warmup >= 0 ? e->warmup : ITERS_MIN;
        e->loops = e->iters;
        return TUTTI_OK;
    }
    for (;; n *= 2) {       /* also serves as warm-up */
        st = trial(c, comm, n, &took_ns);
        if (st)
            return st;
        if (took_ns >= TRIAL_NS || n >= ITERS_MAX)
            break;
    }
    e->iters = fitting(SAMPLES_NS, took_ns / (uint64_t)n, ITERS_MIN);
    e->loops = fitting(LOOPS_NS, took_ns / (uint64_t)n, LOOPS_MIN);
    if (e->warmup < 0)
        e->warmup = warming(2 * n - 1, took_ns / (uint64_t)n);
    return TUTTI_OK;
}

/* In a pingpong, the first rank of a pair measures the round trip, and half of it counts. */
static double share_of(const struct perf_case *c)
{
    if (c->coll->kind != PERF_PINGPONG)
        return 1;
    return c->rank % 2 == 0 ? 0.5 : 0;
}

/* Runs a barrier, then n calls. *us: the total time of the calls in microseconds. */
static tutti_status timed(const struct perf_case *c, tutti_comm *comm, long n,
                          struct perf_start *start, double *us)
{
    tutti_status st = tutti_barrier(comm, NULL);
    const uint64_t began_ns = perf_start_wait(start);

    for (long i = 0; i < n && !st; i++)
        st = perf_case_run(c, comm);
    *us = (double)(tt_now_ns() - began_ns) * 1e-3 * share_of(c);
    return st;
}

tutti_status perf_sample(const struct perf_case *c, tutti_comm *comm, const struct perf_effort *e,
                         double *us)
{
    tutti_status st = TUTTI_OK;

    for (long i = 0; i < e->warmup && !st; i++)
        st = perf_case_run(c, comm);
    for (long i = 0; i < e->iters && !st; i++)
        st = timed(c, comm, 1, e->start, &us[i]);
    us[e->iters] = 0;
    if (!st && e->loops > 0) {
        st = timed(c, comm, e->loops, e->start, &us[e->iters]);
        us[e->iters] /= (double)e->loops;
    }
    return st ? st
              : tutti_allreduce(us, us, (size_t)e->iters + 1, TUTTI_F64, TUTTI_MAX, comm, NULL);
}

static double per_call_us(uint64_t ns, uint64_t calls)
{
    return calls ? (double)ns * 1e-3 / (double)calls : 0;
}

tutti_status perf_sample_timed(const struct perf_case *c, tutti_comm *comm,
                               const struct perf_effort *e, double *us, struct perf_where *where,
                               bool *timed)
{
    tutti_times t = { .size = sizeof t };
    double mine[7];
    tutti_status st;

    st = tutti_comm_time(comm, 1);
    if (!st)
        st = perf_sample(c, comm, e, us);
    if (!st)
        st = tutti_comm_times(comm, &t);
    tutti_comm_time(comm, 0);
    if (st)
        return st;
    mine[0] = per_call_us(t.call_ns, t.calls);
    mine[1] = per_call_us(t.send_ns, t.calls);
    mine[2] = per_call_us(t.reduce_ns, t.calls);
    mine[3] = per_call_us(t.copy_ns, t.calls);
    mine[4] = per_call_us(t.wire_ns, t.calls);
    mine[5] = per_call_us(t.forward_ns, t.calls);
    mine[6] = (double)t.calls;
    where->most_in_flight = (double)t.most_in_flight;
    st = tutti_allreduce(mine, mine, 7, TUTTI_F64, TUTTI_AVG, comm, NULL);
    if (!st)
        st = tutti_allreduce(&where->most_in_flight, &where->most_in_flight, 1, TUTTI_F64,
                             TUTTI_MAX, comm, NULL);
    if (st)
        return st;
    *timed = mine[6] > 0;
    where->call_us = mine[0];
    where->send_us = mine[1];
    where->reduce_us = mine[2];
    where->copy_us = mine[3];
    where->wire_us = mine[4];
    where->forward_us = mine[5];
    where->wait_us = mine[0] - mine[1] - mine[2] - mine[3] - mine[4] - mine[5];
    return TUTTI_OK;
}

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

struct perf_times perf_summary(double *us, long iters)
{
    qsort(us, (size_t)iters, sizeof *us, ascending);
    return (struct perf_times){
        .median_us = (us[(iters - 1) / 2] + us[iters / 2]) / 2,
        .min_us = us[0],
        .max_us = us[iters - 1],
        .loop_us = us[iters],
    };
}
