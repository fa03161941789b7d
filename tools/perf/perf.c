/* tutti perf: measures and checks collectives, over sizes, out of place and in place. */
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/status.h"
#include "comm/comm.h"
#include "comm/plugins.h"
#include "tools/failed.h"
#include "perf_a2av.h"
#include "tools/perf/perf_check.h"
#include "tools/perf/perf_interactive.h"
#include "tools/perf/perf_launch.h"
#include "tools/perf/perf_options.h"
#include "tools/perf/perf_print.h"
#include "tools/perf/perf_putsignal.h"
#include "tools/perf/perf_own.h"
#include "tools/perf/perf_rooms.h"
#include "tools/perf/perf_trace.h"

#define NRANKS_DEFAULT 2
#define SIZES_MAX 64        /* sizes from 1 byte on, each twice the previous one */

struct sweep {
    const struct perf_options *o;
    tutti_comm *comm;
    uint32_t rank, nranks;
    char wire[32];
    struct perf_rooms rooms;
    struct perf_printer printer;
    bool refused;               /* a loaded algorithm was rejected, and the error was reported */
};

/* ---- selection of measurements ---- */

static bool is_wanted(const struct perf_options *o, const struct perf_coll *coll)
{
    if (o->coll)
        return coll == o->coll;
    return coll->kind < TT_COLL_KINDS && (!o->algo || perf_algo_exists(coll, o->algo));
}

static bool is_pass_wanted(const struct perf_options *o, const struct perf_coll *coll,
                           bool in_place)
{
    return in_place ? o->in_place && coll->in_place : o->out_of_place;
}

/* Lists the sizes of the larger buffer after rounding, without duplicates. Returns their number. */
static uint32_t sizes_of(const struct sweep *s, const struct perf_coll *coll,
                         size_t sizes[SIZES_MAX])
{
    uint32_t n = 0;

    for (size_t bytes = s->o->min_bytes; bytes <= s->o->max_bytes && n < SIZES_MAX;
         bytes *= s->o->factor) {
        const size_t rounded = perf_rounded_bytes(coll, s->o->dtype, s->nranks, bytes);

        if (n == 0 || rounded != sizes[n - 1])
            sizes[n++] = rounded;
        if (bytes > SIZE_MAX / s->o->factor)
            break;
    }
    return n;
}

/* Returns the case of a pass, for perf_case_init. */
static struct perf_case case_of(const struct sweep *s, const struct perf_coll *coll, bool in_place)
{
    const struct perf_options *o = s->o;

    return (struct perf_case){ .coll = coll,
                               .rank = s->rank,
                               .nranks = s->nranks,
                               .root = o->root,
                               .dtype = o->dtype,
                               .op = o->op,
                               .in_place = in_place,
                               .quant = o->quant,
                               .algo = coll->kind < TT_COLL_KINDS ? o->algo : NULL };
}

/* Returns the memory that the library allocates for the largest call. */
static uint64_t call_bytes(struct sweep *s)
{
    size_t sizes[SIZES_MAX];
    uint64_t most = 0;

    for (size_t i = 0; i < 2 * perf_ncolls; i++) {
        const struct perf_coll *coll = &perf_colls[i / 2];
        struct perf_case c = case_of(s, coll, i % 2);
        uint64_t bytes;

        if (!is_wanted(s->o, coll) || !is_pass_wanted(s->o, coll, i % 2) ||
            !perf_case_init(&c, sizes[sizes_of(s, coll, sizes) - 1]))
            continue;
        bytes = perf_own_call(&c, s->comm, &s->refused);
        perf_case_fini(&c);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Counts the measurements and finds the size of the largest buffer. */
static void count_work(struct sweep *s, size_t *largest)
{
    size_t sizes[SIZES_MAX];

    *largest = 0;
    for (size_t i = 0; i < perf_ncolls; i++) {
        const struct perf_coll *coll = &perf_colls[i];
        uint32_t n;

        if (!is_wanted(s->o, coll))
            continue;
        n = sizes_of(s, coll, sizes);
        s->printer.ntotal +=
            n * ((uint32_t)is_pass_wanted(s->o, coll, false) + is_pass_wanted(s->o, coll, true));
        if (sizes[n - 1] > *largest)
            *largest = sizes[n - 1];
    }
}

/* ---- measuring ---- */

/* *wrong: the number of wrong elements on all ranks. */
static tutti_status check(const struct sweep *s, const struct perf_case *c, uint64_t *wrong)
{
    const uint64_t mine = perf_check_wrong(c);

    return tutti_allreduce(&mine, wrong, 1, TUTTI_U64, TUTTI_SUM, s->comm, NULL);
}

/* Runs the call once on known input, and counts the wrong elements. */
static tutti_status first_run(const struct sweep *s, const struct perf_case *c, uint64_t *wrong)
{
    tutti_status st;

    perf_check_fill(c);
    st = perf_case_run(c, s->comm);
    if (st || !s->o->check)
        return st;
    perf_check_spoil(c, s->o->spoil);
    return check(s, c, wrong);
}

/* Measures a case, with a check before. Out of place, the input is unchanged, so the result is also
 * checked afterwards. */
static tutti_status measure(const struct sweep *s, const struct perf_case *c, struct perf_row *row)
{
    struct perf_effort effort = s->o->effort;
    uint64_t again = 0;
    tutti_status st;
    double *us;

    st = first_run(s, c, &row->wrong);
    if (!st)
        st = perf_choose(c, s->comm, &effort);
    if (st)
        return st;
    us = malloc(((size_t)effort.iters + 1) * sizeof *us);
    if (!us)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %ld samples", effort.iters);
    st = s->o->timers ? perf_sample_timed(c, s->comm, &effort, us, &row->where, &row->timed)
                      : perf_sample(c, s->comm, &effort, us);
    if (!st && s->o->check && !c->in_place)
        st = check(s, c, &again);
    if (!st) {
        row->times = perf_summary(us, effort.iters);
        row->iters = effort.iters;
        row->wrong = row->wrong > again ? row->wrong : again;
        row->measured = true;
    }
    free(us);
    return st;
}

static void report_failure(const struct sweep *s, const struct perf_case *c, tutti_status st)
{
    char who[32], what[96];

    snprintf(who, sizeof who, "tutti perf: rank %u", s->rank);
    snprintf(what, sizeof what, "%s of %zu bytes, %s", c->coll->name, perf_case_bytes(c),
             c->in_place ? "in place" : "out of place");
    tool_failed(who, what, st);
}

/* Measures one size, in place or out of place. *row stays unmeasured if the forced algorithm does
 * not support the call. */
static tutti_status pass(struct sweep *s, struct perf_case *c, size_t bytes, struct perf_row *row)
{
    tutti_status st;

    if (!perf_case_init(c, bytes))
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the counts of %u ranks", c->nranks);
    *row = (struct perf_row){ .c = c,
                              .wire = s->wire,
                              .algo = perf_case_algo(c, s->comm, &s->refused) };
    perf_case_place(c, s->rooms.one, s->rooms.other);
    if (s->rank == 0)
        perf_print_progress(&s->printer, c);
    if (!row->algo) {
        if (s->rank == 0)
            perf_print_skipped(&s->printer, c);
        return TUTTI_OK;
    }
    st = measure(s, c, row);
    if (st)
        report_failure(s, c, st);
    return st;
}

static tutti_status one_size(struct sweep *s, const struct perf_coll *coll, size_t bytes)
{
    const struct perf_options *o = s->o;
    struct perf_case cases[2] = { 0 };
    struct perf_row rows[2] = { 0 };
    tutti_status st = TUTTI_OK;

    for (int i = 0; i < 2 && !st; i++) {
        cases[i] = case_of(s, coll, i == 1);
        if (is_pass_wanted(o, coll, i == 1))
            st = pass(s, &cases[i], bytes, &rows[i]);
    }
    if (!st && s->rank == 0 && (rows[0].measured || rows[1].measured))
        perf_print_rows(&s->printer, rows);
    perf_case_fini(&cases[0]);
    perf_case_fini(&cases[1]);
    return st;
}

static tutti_status all_sizes(struct sweep *s, const struct perf_coll *coll)
{
    size_t sizes[SIZES_MAX];
    const uint32_t n = sizes_of(s, coll, sizes);
    tutti_status st = TUTTI_OK;

    if (s->rank == 0)
        perf_print_columns(&s->printer, coll);
    for (uint32_t i = 0; i < n && !st; i++)
        st = one_size(s, coll, sizes[i]);
    return st;
}

/* ---- a rank ---- */

/* Names the wires to all peers: "shm", "tcp", or "shm+tcp" if they differ; "self" without peers. */
static void name_wires(struct sweep *s)
{
    snprintf(s->wire, sizeof s->wire, "%s", s->nranks == 1 ? "self" : "");
    for (uint32_t r = 0; r < s->nranks; r++) {
        const char *name = tt_engine_wire_of(s->comm->world->engine, s->comm->ranks[r]);
        const size_t n = strlen(s->wire);

        if (r != s->rank && !strstr(s->wire, name) && n + strlen(name) + 2 <= sizeof s->wire)
            sprintf(s->wire + n, "%s%s", n ? "+" : "", name);
    }
}

static tutti_status print_start(struct sweep *s)
{
    char mine[PERF_PLACE_BYTES], host[65] = "?";
    char(*all)[PERF_PLACE_BYTES] = calloc(s->nranks, sizeof *all);
    tutti_status st;

    if (!all)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u ranks", s->nranks);
    memset(mine, 0, sizeof mine);
    gethostname(host, sizeof host - 1);
    snprintf(mine, sizeof mine, "Pid %6d on %s", (int)getpid(), host);
    st = tutti_allgather(mine, all, sizeof mine, TUTTI_U8, s->comm, NULL);
    if (!st && s->rank == 0)
        perf_print_start(&s->printer, s->nranks, s->wire, (const char(*)[PERF_PLACE_BYTES])all);
    free(all);
    return st;
}

static int sweep(const struct perf_options *o, tutti_comm *comm)
{
    struct sweep s = { .o = o,
                       .comm = comm,
                       .rank = (uint32_t)tutti_comm_rank(comm),
                       .nranks = (uint32_t)tutti_comm_size(comm) };
    struct perf_trace trace;
    bool traced;
    size_t largest;
    tutti_status st;

    s.printer = (struct perf_printer){ .o = o, .out = stdout, .progress = isatty(STDERR_FILENO) };
    count_work(&s, &largest);
    name_wires(&s);
    st = perf_rooms_init(&s.rooms, comm, largest, call_bytes(&s), o->mem_alloc);
    if (!st)
        st = print_start(&s);
    if (st)
        tool_failed("tutti perf", NULL, st);
    traced = !st && perf_trace_begin(&trace, comm, o->trace);
    for (size_t i = 0; i < perf_ncolls && traced && !st; i++)
        if (is_wanted(o, &perf_colls[i]))
            st = all_sizes(&s, &perf_colls[i]);
    if (traced && st)
        perf_trace_leave(&trace);
    else if (traced)
        traced = perf_trace_end(&trace, o->coll ? o->coll->name : "all collectives");
    if (!st && traced && s.rank == 0)
        perf_print_end(&s.printer);
    perf_rooms_fini(&s.rooms);
    /* only rank 0 has the number of wrong elements and of measurements, and includes them in its
     * status */
    return st || !traced || s.printer.wrong ||
                   (s.rank == 0 && s.printer.ntotal && !s.printer.nmeasured)
               ? 1
               : 0;
}

/* Checks the options that depend on the number of ranks. */
static bool suits(const struct perf_options *o, uint32_t nranks, bool speak)
{
    const bool pairs = o->coll && o->coll->kind >= TT_COLL_KINDS;
    const bool no_root = o->root >= nranks, alone = pairs && nranks < 2;

    if (no_root && speak)
        fprintf(stderr, "tutti perf: --root %u: must be a rank from 0 to %u\n", o->root,
                nranks - 1);
    else if (alone && speak)
        fprintf(stderr, "tutti perf: too few ranks: 1 (use at least 2)\n");
    return !no_root && !alone;
}

/* Runs the measurements in a process that is a rank. */
static int run_as_rank(const struct perf_options *o)
{
    const tutti_conf conf = { .size = sizeof conf, .wires = o->wire };
    tutti_comm *comm;
    int status = 2;
    tutti_status st;

    st = tutti_comm_create(&comm, &conf);
    if (st) {
        tool_failed("tutti perf", NULL, st);
        return 1;
    }
    if (o->interactive)
        status = perf_interactive(o->interactive, comm);
    else if (suits(o, (uint32_t)tutti_comm_size(comm), tutti_comm_rank(comm) == 0))
        status = sweep(o, comm);
    tutti_comm_destroy(comm);
    return status;
}

int tool_perf_main(int argc, char **argv)
{
    struct perf_options o;
    uint32_t nranks, there;

    if (argc > 1 && strcmp(argv[1], "putsignal") == 0)
        return perf_putsignal_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], "a2av") == 0)
        return perf_a2av_main(argc, argv);
    if (tt_plugins_load() != TUTTI_OK)      /* loads their names, which are values of --algo */
        return 2;
    perf_options_parse(&o, argc, argv);
    nranks = o.nranks ? o.nranks : NRANKS_DEFAULT;
    there = perf_job_ranks();
    if (there && o.nranks && o.nranks != there) {
        fprintf(stderr, "tutti perf: --ranks %u differs from the %u rank%s of the current job\n",
                o.nranks, there, TT_PLURAL(there));
        return 2;
    }
    if (there)
        return run_as_rank(&o);
    if (!suits(&o, nranks, true))
        return 2;
    return nranks == 1 ? run_as_rank(&o) : perf_launch(nranks, argc, argv);
}
