#include "tools/perf/perf_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "comm/comm.h"
#include "trace/json.h"
#include "trace/svg.h"

#define BARRIERS 9          /* to compare the clocks of hosts */

/* The data that each rank sends to all ranks. */
struct report {
    uint64_t nevents, lost;
    uint64_t host;
    uint64_t after_ns[BARRIERS];    /* the rank's clock after each barrier */
};

static bool say(const struct perf_trace *t, tutti_status st)
{
    fprintf(stderr, "tutti perf: rank %u: --trace failed: %s: %s\n", t->comm->rank,
            tutti_status_name(st), tutti_last_error());
    return false;
}

bool perf_trace_begin(struct perf_trace *t, tutti_comm *comm, const char *file)
{
    int32_t err = 0;
    tutti_status st;

    *t = (struct perf_trace){ .comm = comm, .file = file };
    if (!file)
        return true;
    if (comm->rank == 0) {
        t->to = fopen(file, "w");
        err = t->to ? 0 : errno;
        if (err)
            fprintf(stderr, "tutti perf: --trace: cannot write %s: %s\n", file, strerror(err));
    }
    st = tutti_broadcast(&err, &err, 1, TUTTI_I32, 0, comm, NULL);
    if (!st && !err)
        st = tt_trace_start(PERF_TRACE_DEPTH);
    if (!st && !err)
        st = tutti_barrier(comm, NULL);     /* messages after it are traced at both ends */
    if (st)
        say(t, st);
    if (st || err)
        perf_trace_leave(t);
    return !st && !err;
}

void perf_trace_leave(struct perf_trace *t)
{
    tt_trace_stop();
    if (t->to)
        fclose(t->to);
    t->to = NULL;
}

/* ---- clocks ---- */

/* Compares the clocks of hosts: all ranks leave a barrier at about the same time, within one or two
 * latencies. */
static tutti_status take_times(const struct perf_trace *t, uint64_t after_ns[BARRIERS])
{
    tutti_status st = TUTTI_OK;

    for (int i = 0; i < BARRIERS && !st; i++) {
        st = tutti_barrier(t->comm, NULL);
        after_ns[i] = tt_now_ns();
    }
    return st;
}

static int ascending(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Returns the offset of a rank's clock from that of rank 0. Processes of one host use the same
 * clock. */
static int64_t ahead_of(const struct report *r, const struct report *zero)
{
    int64_t ahead[BARRIERS];

    if (r->host == zero->host)
        return 0;
    for (int i = 0; i < BARRIERS; i++)
        ahead[i] = (int64_t)(r->after_ns[i] - zero->after_ns[i]);
    qsort(ahead, BARRIERS, sizeof *ahead, ascending);
    return ahead[BARRIERS / 2];
}

/* ---- gathering the events ---- */

/* Gathers the events of all ranks on rank 0, in rank order. The caller frees *events. */
static tutti_status gather(const struct perf_trace *t, const struct tt_trace_event *mine,
                           const struct report *reports, struct tt_trace_event **events)
{
    size_t *counts = calloc(t->comm->nranks, sizeof *counts), all = 0;
    tutti_status st;

    *events = NULL;
    if (!counts)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the counts of %u ranks",
                       t->comm->nranks);
    for (uint32_t r = 0; r < t->comm->nranks; r++) {
        counts[r] = reports[r].nevents * sizeof **events;
        all += counts[r];
    }
    if (t->comm->rank == 0)
        *events = malloc(all + 1);
    if (t->comm->rank == 0 && !*events)
        st = tt_fail(TUTTI_ERR_NOMEM, "out of memory for %zu bytes of events", all);
    else
        st = tutti_gatherv(mine, *events, counts, NULL, TUTTI_U8, 0, t->comm, NULL);
    free(counts);
    return st;
}

/* ---- the file ---- */

static void report_lost_events(const struct perf_trace *t, const struct report *reports)
{
    uint64_t most = 0;

    for (uint32_t r = 0; r < t->comm->nranks; r++)
        most = reports[r].lost > most ? reports[r].lost : most;
    if (most)
        fprintf(stderr,
                "tutti perf: --trace %s: incomplete trace: up to %llu events per rank are missing "
                "(a rank keeps its newest %u events; reduce --max or --iters)\n",
                t->file, (unsigned long long)most, PERF_TRACE_DEPTH);
}

static bool is_picture(const char *file)
{
    const size_t n = strlen(file);

    return n >= 4 && strcmp(file + n - 4, ".svg") == 0;
}

/* Writes the file, on rank 0. */
static tutti_status write_file(const struct perf_trace *t, const struct report *reports,
                               const struct tt_trace_event *events, const char *what)
{
    const uint32_t nranks = t->comm->nranks;
    struct tt_timeline_rank *ranks = calloc(nranks, sizeof *ranks);
    uint64_t *lost = calloc(nranks, sizeof *lost);
    struct tt_timeline timeline = { .rows = NULL };
    tutti_status st =
        ranks && lost ? TUTTI_OK : tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u ranks", nranks);

    for (uint32_t r = 0; r < nranks && !st; r++) {
        ranks[r] = (struct tt_timeline_rank){ .events = events,
                                              .nevents = (uint32_t)reports[r].nevents,
                                              .ahead_ns = ahead_of(&reports[r], &reports[0]) };
        lost[r] = reports[r].lost;
        events += reports[r].nevents;
    }
    if (!st)
        st = tt_timeline_init(&timeline, ranks, nranks);
    if (!st && timeline.nsegments == 0)
        fprintf(stderr,
                "tutti perf: --trace %s: empty trace: no transport with lanes (tcp, verbs, ofi) "
                "carried data\n",
                t->file);
    if (!st && is_picture(t->file))
        st = tt_timeline_write_svg(&timeline, what, t->to);
    else if (!st)
        tt_timeline_write_json(&timeline, lost, nranks, t->to);
    if (!st && (fflush(t->to) != 0 || ferror(t->to)))
        st = tt_fail_errno(errno, "cannot write %s", t->file);
    tt_timeline_fini(&timeline);
    free(ranks);
    free(lost);
    return st;
}

bool perf_trace_end(struct perf_trace *t, const char *what)
{
    struct report mine = { .nevents = 0 }, *reports = NULL;
    struct tt_trace_event *events = NULL, *all = NULL;
    tutti_status st;

    if (!t->file)
        return true;
    st = tutti_barrier(t->comm, NULL);      /* messages before it are traced at both ends */
    tt_trace_stop();
    events = malloc(PERF_TRACE_DEPTH * sizeof *events);
    reports = calloc(t->comm->nranks, sizeof *reports);
    if (!st && (!events || !reports))
        st = tt_fail(TUTTI_ERR_NOMEM, "out of memory for a trace");
    if (!st) {
        mine.host = tt_layout_host(&t->comm->layout, t->comm->rank);
        mine.nevents = tt_trace_read(events, &mine.lost);
        st = take_times(t, mine.after_ns);
    }
    if (!st)
        st = tutti_allgather(&mine, reports, sizeof mine, TUTTI_U8, t->comm, NULL);
    if (!st)
        st = gather(t, events, reports, &all);
    if (!st && t->comm->rank == 0) {
        report_lost_events(t, reports);
        st = write_file(t, reports, all, what);
    }
    free(events);
    free(reports);
    free(all);
    perf_trace_leave(t);
    return st ? say(t, st) : true;
}
