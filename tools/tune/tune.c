/* tutti tune: measures which algorithms and segments are fastest, and writes a tune file for later
 * jobs. */
#include "tools/tool.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/status.h"
#include "comm/comm.h"
#include "comm/plugins.h"
#include "tools/failed.h"
#include "tools/perf/perf_launch.h"
#include "tools/perf/perf_rooms.h"
#include "tools/tune/tune_options.h"
#include "tools/tune/tune_race.h"
#include "tools/tune/tune_show.h"

#define NRANKS_DEFAULT 2
#define INTERRUPTED 130     /* the exit status */

struct tuning {
    const struct tune_options *o;
    tutti_comm *comm;
    uint32_t rank, nranks;
    struct perf_rooms rooms;
    struct tt_tunefile file;        /* the results so far; the same on all ranks */
    uint32_t rows_cap;
    bool over, progress;
    /* For the estimate of the remaining time: numbers of sizes, and expected times. */
    uint32_t ndone, ntotal;
    double weight_done, weight_total, weight_now;
    uint64_t began_ns;
    const struct perf_case *now;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* ---- the file ---- */

/* Returns the name of the file while it is incomplete. */
static void name_part(char out[PATH_MAX], const char *path)
{
    snprintf(out, PATH_MAX, "%s.part", path);
}

/* Checks before the measurement that the file can be written. */
static bool can_write(const char *path)
{
    char copy[PATH_MAX];
    const size_t n = strlen(path);

    if (n + sizeof ".part" > sizeof copy)
        fprintf(stderr,
                "tutti tune: --output: the path is too long: %zu bytes (the maximum is %zu)\n", n,
                sizeof copy - sizeof ".part");
    else if (path[n - 1] == '/')
        fprintf(stderr, "tutti tune: --output %s: is a directory (use a file name)\n", path);
    else if (access(dirname(strcpy(copy, path)), W_OK | X_OK) != 0)
        fprintf(stderr, "tutti tune: --output %s: cannot write to directory %s: %s\n", path, copy,
                strerror(errno));
    else
        return true;
    return false;
}

static tutti_status write_part(const struct tuning *t)
{
    char part[PATH_MAX];
    tutti_status st;
    FILE *f;

    name_part(part, t->o->out);
    f = fopen(part, "w");
    if (!f)
        return tt_fail_errno(errno, "cannot write %s", part);
    st = tt_tunefile_write(&t->file, f, part);
    if (fclose(f) != 0 && !st)
        st = tt_fail_errno(errno, "cannot write %s", part);
    return st;
}

/* Writes the file under a temporary name and renames it, so that no job reads an incomplete
 * file. */
static tutti_status write_file(const struct tuning *t)
{
    tutti_status st = write_part(t);
    char part[PATH_MAX];

    name_part(part, t->o->out);
    if (!st && rename(part, t->o->out) != 0)
        st = tt_fail_errno(errno, "cannot rename %s to %s", part, t->o->out);
    if (!st)
        printf("# %s: %u row%s%s; jobs use it with TUTTI_TUNE_FILE=%s\n", t->o->out, t->file.nrows,
               TT_PLURAL(t->file.nrows), t->file.complete ? "" : ", INCOMPLETE", t->o->out);
    return st;
}

static tutti_status begin_file(struct tuning *t)
{
    const time_t now = time(NULL);
    struct tt_tunefile *f = &t->file;
    struct tm utc;

    *f = (struct tt_tunefile){ .nranks = t->nranks,
                               .host_of = calloc(t->nranks, sizeof *f->host_of) };
    if (!f->host_of)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u ranks", t->nranks);
    for (uint32_t r = 0; r < t->nranks; r++)
        f->host_of[r] = tt_layout_host(&t->comm->layout, r);
    snprintf(f->tutti, sizeof f->tutti, "%s", tutti_version());
    snprintf(f->wires, sizeof f->wires, "%s", tt_tunes_wires(t->comm));
    strftime(f->date, sizeof f->date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    if (gethostname(f->host, sizeof f->host - 1) != 0 || !f->host[0])
        strcpy(f->host, "unknown");
    return TUTTI_OK;
}

/* ---- progress ---- */

static void print_time_left(const struct tuning *t, double share)
{
    const double done = t->weight_done + share * t->weight_now,
                 passed_s = (double)(tt_now_ns() - t->began_ns) * 1e-9;
    const double left_s = done > 0 ? passed_s * (t->weight_total - done) / done : 0;

    if (done <= 0 || passed_s < 0.5)
        return;
    if (left_s < 100)
        fprintf(stderr, "; about %.0f s left", left_s);
    else
        fprintf(stderr, "; about %.0f min left", left_s / 60);
}

static void print_round(void *arg, uint32_t done, uint32_t of, uint32_t ncandidates)
{
    const struct tuning *t = arg;

    if (!t->progress)
        return;
    fprintf(stderr, "\r\033[K%u of %u: %s, %zu bytes, round %u of %u with %u candidates",
            t->ndone + 1, t->ntotal, t->now->coll->name, perf_case_bytes(t->now), done + 1, of,
            ncandidates);
    print_time_left(t, (double)done / of);
}

static void clear_progress(const struct tuning *t)
{
    if (t->progress)
        fputs("\r\033[K", stderr);
}

static bool is_interrupted(void *arg)
{
    (void)arg;
    return interrupted != 0;
}

/* ---- the sweep ---- */

static tutti_status add_rows(struct tuning *t, struct tune_race *race)
{
    struct tt_tunefile *f = &t->file;

    if (t->rows_cap < f->nrows + TUNE_CANDIDATES_MAX) {
        const uint32_t cap = 2 * t->rows_cap + TUNE_CANDIDATES_MAX;
        struct tt_tune_row *row = realloc(f->row, cap * sizeof *row);

        if (!row)
            return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u rows", cap);
        f->row = row;
        t->rows_cap = cap;
    }
    const uint32_t n = tune_race_rows(race, f->row + f->nrows);

    if (f->nrows + n > TT_TUNE_ROWS_MAX)
        return tt_fail(TUTTI_ERR_INVALID,
                       "too many rows for a tune file: the maximum is %u (use fewer sizes)",
                       TT_TUNE_ROWS_MAX);
    clear_progress(t);
    if (t->rank == 0)
        tune_show_size(f->row + f->nrows, n, t->nranks, stdout);
    f->nrows += n;
    return t->rank == 0 ? write_part(t) : TUTTI_OK;
}

static tutti_status one_size(struct tuning *t, struct perf_case *c)
{
    struct tune_race *race = calloc(1, sizeof *race);
    tutti_status st;

    if (!race)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a measurement");
    race->c = t->now = c;
    race->comm = t->comm;
    race->rounds = t->o->rounds;
    race->is_over = is_interrupted;
    race->round = print_round;
    race->arg = t;
    perf_case_place(c, t->rooms.one, t->rooms.other);
    t->weight_now = tune_race_weight(c, t->comm, t->o->rounds);
    st = tune_race_run(race, &t->over);
    if (!st && !t->over)
        st = add_rows(t, race);
    t->weight_done += t->weight_now;
    t->ndone++;
    free(race);
    return st;
}

static size_t next_size(const struct tune_options *o, size_t bytes)
{
    return bytes > SIZE_MAX / o->factor ? SIZE_MAX : bytes * o->factor;
}

/* Calls visit for each selected collective and size, until it fails. Sizes that round to the same
 * value are visited once. */
static tutti_status sweep(struct tuning *t,
                          tutti_status (*visit)(struct tuning *t, struct perf_case *c),
                          void (*begin)(const struct tuning *t, const struct perf_coll *coll))
{
    tutti_status st = TUTTI_OK;

    for (size_t i = 0; i < perf_ncolls; i++) {
        const struct perf_coll *coll = &perf_colls[i];
        size_t last = 0;

        if (coll->kind >= TT_COLL_KINDS || !t->o->wanted[coll->kind] || t->over)
            continue;
        begin(t, coll);
        for (size_t bytes = t->o->min_bytes; bytes <= t->o->max_bytes && !st && !t->over;
             bytes = next_size(t->o, bytes)) {
            struct perf_case c = { .coll = coll,
                                   .rank = t->rank,
                                   .nranks = t->nranks,
                                   .dtype = TUTTI_F32,
                                   .op = TUTTI_SUM };
            const size_t rounded = perf_rounded_bytes(coll, c.dtype, t->nranks, bytes);

            if (rounded == last)
                continue;
            last = rounded;
            if (!perf_case_init(&c, bytes))
                return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the counts of %u ranks",
                               t->nranks);
            st = visit(t, &c);
            perf_case_fini(&c);
        }
        if (st)
            return st;
    }
    return TUTTI_OK;
}

static tutti_status look_at(struct tuning *t, struct perf_case *c)
{
    const size_t bytes = perf_case_bytes(c);

    t->weight_total += tune_race_weight(c, t->comm, t->o->rounds);
    t->ntotal++;
    t->rooms.bytes = bytes > t->rooms.bytes ? bytes : t->rooms.bytes;
    return TUTTI_OK;
}

static void print_no_data(const struct tuning *t, const struct perf_coll *coll)
{
    (void)t;
    (void)coll;
}

static void print_columns(const struct tuning *t, const struct perf_coll *coll)
{
    if (t->rank != 0)
        return;
    clear_progress(t);
    tune_show_columns((enum tt_coll_kind)coll->kind, stdout);
}

static tutti_status measure_all(struct tuning *t)
{
    tutti_status st = sweep(t, look_at, print_no_data);

    if (!st)
        st = perf_rooms_init(&t->rooms, t->comm, t->rooms.bytes, 0, false);
    if (st)
        return st;
    t->began_ns = tt_now_ns();
    st = sweep(t, one_size, print_columns);
    clear_progress(t);
    t->file.complete = !st && !t->over;
    return st;
}

/* Measures, and writes the results so far even after a failure. */
static tutti_status tune(struct tuning *t)
{
    tutti_status st = begin_file(t), written = TUTTI_OK;

    if (st)
        return st;
    t->file.complete = true;        /* otherwise the header prints "INCOMPLETE" */
    if (t->rank == 0)
        tune_show_head(&t->file, stdout);
    t->file.complete = false;
    st = measure_all(t);
    if (st)
        tool_failed("tutti tune", NULL, st);
    if (t->rank == 0 && t->file.nrows > 0) {
        tune_show_summary(&t->file, stdout);
        written = write_file(t);
    }
    return st ? st : written;
}

static void catch_signals(void)
{
    struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}

/* This process is a rank. */
static int run_as_rank(const struct tune_options *o)
{
    const tutti_conf conf = { .size = sizeof conf, .wires = o->wire };
    struct tuning t = { .o = o };
    tutti_status st;
    int status;

    unsetenv("TUTTI_TUNE_FILE");    /* the baseline is the choice without a tune file */
    st = tutti_comm_create(&t.comm, &conf);
    if (st) {
        tool_failed("tutti tune", NULL, st);
        return 1;
    }
    t.rank = (uint32_t)tutti_comm_rank(t.comm);
    t.nranks = (uint32_t)tutti_comm_size(t.comm);
    t.progress = t.rank == 0 && isatty(STDERR_FILENO);
    catch_signals();
    if (t.rank == 0 && !can_write(o->out))
        status = 2;
    else
        status = tune(&t) ? 1 : t.over ? INTERRUPTED : 0;
    perf_rooms_fini(&t.rooms);
    tutti_comm_destroy(t.comm);
    free(t.file.host_of);
    free(t.file.row);
    return status;
}

static int show(const struct tune_options *o)
{
    struct tt_tunefile *f;
    tutti_status st = tt_tunefile_load(&f, o->show, NULL, NULL);
    int kind = 0;

    if (st)
        return 1;
    while (o->plot && !o->wanted[kind])
        kind++;
    if (o->plot)
        st = tune_plot(f, (enum tt_coll_kind)kind, o->plot);
    else
        tune_show(f, stdout);
    tt_tunefile_free(f);
    return st ? 1 : 0;
}

int tool_tune_main(int argc, char **argv)
{
    struct tune_options o;
    uint32_t nranks, there;

    if (tt_plugins_load() != TUTTI_OK)      /* loaded algorithms are also candidates */
        return 2;
    tune_options_parse(&o, argc, argv);
    if (o.show)
        return show(&o);
    nranks = o.nranks ? o.nranks : NRANKS_DEFAULT;
    there = perf_job_ranks();
    if (there == 1) {
        fprintf(stderr, "tutti tune: too few ranks: 1 (use at least 2)\n");
        return 2;
    }
    if (there && o.nranks && o.nranks != there) {
        fprintf(stderr, "tutti tune: --ranks %u differs from the %u ranks of the current job\n",
                o.nranks, there);
        return 2;
    }
    if (there)
        return run_as_rank(&o);
    return can_write(o.out) ? perf_launch(nranks, argc, argv) : 2;
}
