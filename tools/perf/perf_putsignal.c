#include "tools/perf/perf_putsignal.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "tools/failed.h"
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "tools/perf/perf_launch.h"
#include "tools/perf/perf_trace.h"
#include "tools/perf/putsignal_burst.h"
#include "tools/perf/putsignal_latency.h"

#define NRANKS_DEFAULT 2
#define BLOCKS_MAX 1024u

struct options {
    struct putsignal_options common;
    uint32_t nranks;            /* 0: not given */
    const char *wire, *trace;   /* NULL: the library selects; no trace */
    tutti_device_lanes lanes;
    uint32_t nblocks, nrounds, iters, trips, spoil;
    bool check, latency;
};

static tutti_device_lanes lanes_of(struct argp_state *state, const char *arg)
{
    for (int l = 0; l < TUTTI_DEVICE_LANES; l++)
        if (strcmp(arg, tutti_device_lanes_name((tutti_device_lanes)l)) == 0)
            return (tutti_device_lanes)l;
    argp_error(state, "--lanes %s: must be sequenced, pinned or round-robin", arg);
    return TUTTI_DEVICE_SEQUENCED;
}

static void take_lanes(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->lanes = lanes_of(state, arg);
}

static const struct option_row option_rows[] = {
    { "ranks", 'n', "N", 1, OPTION_INTEGER(struct options, nranks, 2, 65536),
      "number of ranks to start on this host (default 2). In a job, the job's ranks are used, and "
      "N must equal their number" },
    { "wire", 0, "shm,tcp", 1, OPTION_WIRES(struct options, wire),
      "allowed transports (default: all usable ones except verbs and ofi)" },
    { "lanes", 0, "POLICY", 2, OPTION_CALL(take_lanes),
      "distribution of transfers over lanes: sequenced (default), pinned or round-robin" },
    { "blocks", 0, "N", 2, OPTION_INTEGER(struct options, nblocks, 1, BLOCKS_MAX),
      "threads that emulate device blocks and share the transfers of a source (default 4; at "
      "most one per transfer is used)" },
    { "rounds", 0, "N", 2, OPTION_INTEGER(struct options, nrounds, 1, PUTSIGNAL_ROUNDS_MAX),
      "rounds; each measures every mode once (default 5)" },
    { "iters", 0, "N", 2, OPTION_INTEGER(struct options, iters, 1, PUTSIGNAL_ROUNDS_MAX),
      "timed bursts per mode and round, after one untimed burst; their median is the result "
      "(default 3)" },
    { "check", 0, NULL, 3, OPTION_FLAG(struct options, check),
      "before each measurement of a mode, run an extra burst and verify its data as signals "
      "arrive" },
    { "latency", 0, NULL, 4, OPTION_FLAG(struct options, latency),
      "measure the one-way latency (half of the round-trip time) of an 8-byte put with a signal "
      "between ranks 0 and 1. The baseline is a flag that is written to the same memory without "
      "Tutti" },
    { "trips", 0, "N", 4, OPTION_INTEGER(struct options, trips, 1, 100000000),
      "with --latency: round trips per round (default 10000)" },
    { "trace", 0, "FILE", 4, OPTION_TEXT(struct options, trace),
      "write a timeline of every segment on every lane, as in `tutti perf`" },
    { "spoil", 0, "N", 4, OPTION_INTEGER(struct options, spoil, 0, 1u << 30), NULL },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .common = &putsignal_command_line,
    .common_at = offsetof(struct options, common),
    .doc =
        "Measures bursts of puts with signals that devices send through their proxies, in each "
        "mode.\vStarts new ranks, or uses those of the current job. In a burst, each source puts "
        "to the ranks of other hosts in turn (on a single host: to the other ranks). Each put is "
        "followed by a signal. A burst ends when all data has arrived; its time is the time of the "
        "slowest source. The time of a mode in a round is the median of its bursts. The tool "
        "prints the median over rounds, and the speed relative to puts without signals in the same "
        "round (median and range). Drains, fences and signals are counted at the proxy of rank 0, "
        "per burst. With two or more sizes, the time per transfer is fitted as alpha + beta * "
        "bytes. docs/one-sided.md explains the modes.\n\n"
        "Exit status: 0 on success, 1 if a call failed or a byte was wrong, 2 on a usage error.\n\n"
        "Examples:\n"
        "  tutti perf putsignal -n 4 --wire tcp --concurrency 96\n"
        "  tutti perf putsignal --latency\n",
};

/* ---- bursts ---- */

struct sweep {
    const struct options *o;
    tutti_comm *comm;
    struct putsignal_row *rows; /* of all cases so far */
    uint32_t nrows;
    uint64_t wrong;
    bool headed;
};

/* Prints the --concurrency values that are below --blocks. Each block needs at least one
 * transfer. */
static void print_few(const struct putsignal_options *c, uint32_t nblocks)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->ntransfers; i++)
        if (c->transfers[i] < nblocks)
            printf("%s%llu",
                   n++ ? ", "
                       : "# fewer transfers than --blocks, so only one block per transfer is used: "
                         "--concurrency ",
                   (unsigned long long)c->transfers[i]);
    if (n)
        putchar('\n');
}

static void print_head(struct sweep *s, const struct putsignal_burst *b)
{
    if (s->headed || s->o->common.json)
        return;
    s->headed = true;
    printf("# tutti %s perf putsignal: %u ranks on %u host%s, transport %s, lanes %s\n",
           tutti_version(), b->c.nranks, b->c.nhosts, b->c.nhosts == 1 ? "" : "s",
           putsignal_wire(b), tutti_device_lanes_name(b->lanes));
    printf("# %u source%s with %u block%s, %u round%s, %u burst%s per mode and round; speed is "
           "relative to puts without signals\n",
           b->c.nsources, b->c.nsources == 1 ? "" : "s", s->o->nblocks,
           s->o->nblocks == 1 ? "" : "s", s->o->nrounds, TT_PLURAL(s->o->nrounds), s->o->iters,
           TT_PLURAL(s->o->iters));
    print_few(&s->o->common, s->o->nblocks);
    putsignal_print_columns(stdout);
}

/* Runs the checked burst and the timed bursts of one mode in one round. */
static tutti_status one_turn(struct sweep *s, struct putsignal_burst *b, struct putsignal_row *row,
                             enum tt_putsignal_mode mode)
{
    struct putsignal_turn turn = { .us = 0 };
    uint64_t wrong = 0;
    tutti_status st = TUTTI_OK;

    if (s->o->check)
        st = putsignal_check(b, mode, s->o->spoil, &wrong);
    row->wrong += wrong;
    s->wrong += wrong;
    if (!st)
        st = putsignal_turn(b, mode, s->o->iters, &turn);
    if (st)
        return st;
    row->us[row->nrounds++] = turn.us;
    row->drains = turn.drains;
    row->fences = turn.fences;
    row->signals = turn.signals;
    return TUTTI_OK;
}

/* Runs all rounds of all modes. Each round begins with a different mode. */
static tutti_status all_turns(struct sweep *s, struct putsignal_burst *b,
                              struct putsignal_row *rows)
{
    const bool *wanted = s->o->common.modes;
    tutti_status st = TUTTI_OK;

    for (int m = 0; m < TT_PUTSIGNAL_MODES; m++)
        rows[m] = (struct putsignal_row){ .c = b->c,
                                          .nblocks = b->nblocks,
                                          .mode = tt_putsignal_mode_name((enum tt_putsignal_mode)m),
                                          .checked = s->o->check };
    for (uint32_t round = 0; round < s->o->nrounds && !st; round++)
        for (uint32_t i = 0; i < TT_PUTSIGNAL_MODES && !st; i++) {
            const uint32_t m = (round + i) % TT_PUTSIGNAL_MODES;

            if (wanted[m])
                st = one_turn(s, b, &rows[m], (enum tt_putsignal_mode)m);
        }
    for (int m = 0; m < TT_PUTSIGNAL_MODES; m++)
        memcpy(rows[m].only_us, rows[TT_PUTSIGNAL_PUT_ONLY].us, sizeof rows[m].only_us);
    return st;
}

static tutti_status one_case(struct sweep *s, uint32_t transfers, uint64_t bytes)
{
    const uint32_t nranks = (uint32_t)tutti_comm_size(s->comm);
    const struct putsignal_conf conf = {
        .c = { .nsources = s->o->common.nsources ? s->o->common.nsources : nranks,
               .transfers = transfers,
               .group = s->o->common.group,
               .bytes = bytes },
        .nblocks = s->o->nblocks,
        .lanes = s->o->lanes,
    };
    struct putsignal_row rows[TT_PUTSIGNAL_MODES];
    struct putsignal_burst b;
    tutti_status st = putsignal_burst_init(&b, s->comm, &conf);

    if (!st)
        st = all_turns(s, &b, rows);
    if (!st && b.rank == 0)
        print_head(s, &b);
    for (int m = 0; m < TT_PUTSIGNAL_MODES && !st; m++) {
        if (!s->o->common.modes[m])
            continue;
        s->rows[s->nrows++] = rows[m];
        if (b.rank == 0)
            putsignal_print_row(stdout, &rows[m], s->o->common.json);
    }
    putsignal_burst_fini(&b);
    return st;
}

static tutti_status all_cases(struct sweep *s)
{
    const struct putsignal_options *c = &s->o->common;
    tutti_status st = TUTTI_OK;

    s->rows = calloc((size_t)c->ntransfers * c->nbytes * TT_PUTSIGNAL_MODES, sizeof *s->rows);
    if (!s->rows)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the results");
    for (uint32_t t = 0; t < c->ntransfers && !st; t++)
        for (uint32_t i = 0; i < c->nbytes && !st; i++)
            st = one_case(s, (uint32_t)c->transfers[t], c->bytes[i]);
    if (!st && tutti_comm_rank(s->comm) == 0)
        putsignal_print_fits(stdout, s->rows, s->nrows, c->json);
    free(s->rows);
    return st;
}

/* ---- latency ---- */

static void print_ball(const struct options *o, const struct putsignal_latency *l,
                       enum putsignal_ball ball)
{
    static const char *const names[] = {
        [PUTSIGNAL_FLAG] = "flag", [PUTSIGNAL_DIRECT] = "direct", [PUTSIGNAL_PROXY] = "proxy",
    };
    const double us = putsignal_median(l->us[ball], l->nrounds);
    double times[PUTSIGNAL_ROUNDS_MAX], ratio;
    struct json_object *all, *samples;

    for (uint32_t i = 0; i < l->nrounds; i++)
        times[i] = l->us[ball][i] / l->us[PUTSIGNAL_FLAG][i];
    ratio = putsignal_median(times, l->nrounds);
    if (!o->common.json) {
        printf("%-8s %12.4f %12.2f\n", names[ball], us, ratio);
        return;
    }
    all = json_object_new_object();
    samples = json_object_new_array();
    for (uint32_t i = 0; i < l->nrounds; i++)
        json_object_array_add(samples, json_object_new_double(l->us[ball][i]));
    json_object_object_add(all, "what", json_object_new_string("latency"));
    json_object_object_add(all, "how", json_object_new_string(names[ball]));
    json_object_object_add(all, "time_us", json_object_new_double(us));
    json_object_object_add(all, "ratio", json_object_new_double(ratio));
    json_object_object_add(all, "samples_us", samples);
    printf("%s\n", json_object_to_json_string_ext(all, JSON_C_TO_STRING_SPACED));
    json_object_put(all);
}

static tutti_status latency(const struct options *o, tutti_comm *comm)
{
    struct putsignal_latency l;
    const tutti_status st = putsignal_latency(comm, o->nrounds, o->trips, &l);

    if (st || tutti_comm_rank(comm) != 0)
        return st;
    if (!o->common.json)
        printf("# tutti %s perf putsignal --latency: 8 bytes and a signal, %u round%s of %u round "
               "trip%s; ratio: time relative to a flag, median over rounds\n"
               "#%-7s %12s %12s\n",
               tutti_version(), o->nrounds, TT_PLURAL(o->nrounds), o->trips, TT_PLURAL(o->trips),
               "how", "half trip us", "ratio");
    for (int ball = 0; ball < PUTSIGNAL_BALLS; ball++)
        print_ball(o, &l, (enum putsignal_ball)ball);
    return TUTTI_OK;
}

/* ---- a rank ---- */

/* Checks the options that depend on the number of ranks. */
static bool suits(const struct options *o, uint32_t nranks, bool speak)
{
    if (nranks < 2 && speak)
        fprintf(stderr, "tutti perf putsignal: too few ranks: 1 (use at least 2)\n");
    if (nranks >= 2 && o->common.nsources > nranks && speak)
        fprintf(stderr,
                "tutti perf putsignal: --sources %u: must be 1 to %u (the number of ranks)\n",
                o->common.nsources, nranks);
    return nranks >= 2 && o->common.nsources <= nranks;
}

/* This process is a rank. */
static int run_as_rank(const struct options *o)
{
    const tutti_conf conf = { .size = sizeof conf, .wires = o->wire };
    struct sweep s = { .o = o };
    struct perf_trace trace;
    bool traced;
    tutti_status st = tutti_comm_create(&s.comm, &conf);

    if (st) {
        tool_failed("tutti perf putsignal", NULL, st);
        return 1;
    }
    if (!suits(o, (uint32_t)tutti_comm_size(s.comm), tutti_comm_rank(s.comm) == 0)) {
        tutti_comm_destroy(s.comm);
        return 2;
    }
    traced = perf_trace_begin(&trace, s.comm, o->trace);
    if (traced)
        st = o->latency ? latency(o, s.comm) : all_cases(&s);
    if (traced && st)
        perf_trace_leave(&trace);
    else if (traced)
        traced = perf_trace_end(&trace, "puts with signals");
    if (st)
        tool_failed("tutti perf putsignal", NULL, st);
    tutti_comm_destroy(s.comm);
    return st || !traced || s.wrong ? 1 : 0;
}

int perf_putsignal_main(int argc, char **argv)
{
    static char name[] = "tutti perf putsignal";
    struct options o = {
        .common = putsignal_defaults(), .nblocks = 4, .nrounds = 5, .iters = 3, .trips = 10000
    };
    char *const verb = argv[1];
    uint32_t nranks, there;

    argv[1] = name;
    command_line_read(&command, &o, argc - 1, argv + 1);
    argv[1] = verb;             /* the started ranks parse it again */
    nranks = o.nranks ? o.nranks : NRANKS_DEFAULT;
    there = perf_job_ranks();
    if (there && o.nranks && o.nranks != there) {
        fprintf(stderr,
                "tutti perf putsignal: --ranks %u differs from the %u rank%s of the current job\n",
                o.nranks, there, TT_PLURAL(there));
        return 2;
    }
    if (there)
        return run_as_rank(&o);
    return suits(&o, nranks, true) ? perf_launch(nranks, argc, argv) : 2;
}
