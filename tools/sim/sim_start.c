#include "tools/sim/sim_start.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/status.h"
#include "sim/net_topo.h"
#include "tools/command_line.h"
#include "tools/option_values.h"

#define RANKS_MAX (1u << 20)
#define RANK_BYTES 12288.0      /* memory of the simulation per rank */
#define PLACE_MIN 31u
#define GROWTH_MIN 64u          /* minimum of ranks for the comparison with a quarter of them */

/* ---- options ---- */

static void take_plant(void *options, struct argp_state *state, char *arg)
{
    struct sim_start_options *o = options;

    if (strcmp(arg, "loop") == 0)
        o->plant = TT_START_PLANT_LOOP;
    else if (strcmp(arg, "quadratic") == 0)
        o->plant = TT_START_PLANT_QUADRATIC;
    else
        argp_error(state, "--plant %s: must be loop or quadratic", arg);
}

static void check_together(void *options, struct argp_state *state)
{
    const struct sim_start_options *o = options;

    if (o->cyclic && o->topo)
        argp_error(state, "--cyclic and --topo exclude each other");
    if (o->place_bytes && o->place_bytes < PLACE_MIN)
        argp_error(state, "--place-bytes %u: must be 0, or from %u to %u", o->place_bytes,
                   PLACE_MIN, TT_TREE_PLACE_MAX);
    if (o->ngroups > o->nranks)
        argp_error(state, "--split %u: must be at most the number of ranks (%u)", o->ngroups,
                   o->nranks);
}

static const struct option_row option_rows[] = {
    { "ranks", 'n', "N", 1, OPTION_INTEGER(struct sim_start_options, nranks, 2, RANKS_MAX),
      "number of ranks (default 1024)" },
    { "ranks-per-host", 0, "N", 1, OPTION_INTEGER(struct sim_start_options, per_host, 1, 4096),
      "ranks of each host (default 8, or those of --topo)" },
    { "topo", 0, "NAME|FILE", 1, OPTION_TEXT(struct sim_start_options, topo),
      "description of the machine: a built-in name or a file (docs/topology.md); its latencies and "
      "rates replace the minimum latency of 5 us, but for a split" },
    { "cyclic", 0, NULL, 1, OPTION_FLAG(struct sim_start_options, cyclic),
      "assign ranks to hosts in turn, but for a split (default: consecutive ranks)" },
    { "children", 0, "N", 1,
      OPTION_INTEGER(struct sim_start_options, children_max, 2, RANKS_MAX),
      "leaders that connect to one server (default 128; jobs have 8, as they send address records; "
      "with --ranks-per-host 1 and at least as many as ranks, all connect to the root)" },
    { "place-bytes", 0, "N", 1,
      OPTION_INTEGER(struct sim_start_options, place_bytes, 0, TT_TREE_PLACE_MAX),
      "size of the place of a rank; 0: none (default 60)" },
    { "constants-bytes", 0, "N", 1,
      OPTION_INTEGER(struct sim_start_options, constants_bytes, 1, TT_TREE_CONSTANTS_MAX),
      "size of the constants of rank 0 (default 600)" },
    { "latency-us", 0, "T", 2, OPTION_REAL(struct sim_start_options, latency_us, 0.001, 1e6),
      "maximum random part of the latency of a message, us (default 100)" },
    { "message-us", 0, "T", 2, OPTION_REAL(struct sim_start_options, message_us, 0.001, 1e6),
      "time of a process for one message, us (default 20, an assumption)" },
    { "byte-ns", 0, "T", 2, OPTION_REAL(struct sim_start_options, byte_ns, 0, 1e6),
      "time of a process for one byte that it receives or sends, ns (default 1, an assumption)" },
    { "backlog", 0, "N", 2, OPTION_INTEGER(struct sim_start_options, backlog, 1, RANKS_MAX),
      "connections that wait at a listener (default 128)" },
    { "spread", 0, "T", 2, OPTION_REAL(struct sim_start_options, spread_s, 0, 1e4),
      "time in which ranks start, at random, s (default 0.5)" },
    { "loss", 0, "P", 2, OPTION_REAL(struct sim_start_options, loss, 0, 0.5),
      "share of lost messages; TCP sends them again after 0.2 s, and connection requests after 1 s "
      "(default 0)" },
    { "no-retries", 0, NULL, 2, OPTION_FLAG(struct sim_start_options, no_retries),
      "a rank whose connection request is dropped by a full backlog is lost" },
    { "timeout", 0, "T", 2, OPTION_REAL(struct sim_start_options, timeout_s, 0.1, 1e4),
      "deadline of each rank, s (default 60)" },
    { "measured", 0, NULL, 2, OPTION_FLAG(struct sim_start_options, measured),
      "add the processor time that each step of a state machine takes here; results then vary" },
    { "seed", 0, "N", 2, OPTION_INTEGER(struct sim_start_options, seed, 0, UINT64_MAX),
      "seed of all random numbers (default 1)" },
    { "baseline", 0, NULL, 3, OPTION_FLAG(struct sim_start_options, baseline),
      "also simulate a central server to which all ranks connect (see below)" },
    { "baseline-backlog", 0, "N", 3,
      OPTION_INTEGER(struct sim_start_options, central_backlog, 1, RANKS_MAX),
      "backlog of the central server (default: unlimited, which favours the baseline)" },
    { "gathers", 0, "N", 3, OPTION_INTEGER(struct sim_start_options, ngathers, 1, 1000),
      "all-gathers of the baseline (default 7)" },
    { "record-bytes", 0, "N", 3,
      OPTION_INTEGER(struct sim_start_options, record_bytes, 1, 1u << 20),
      "record of a rank in the baseline (default 512)" },
    { "split", 0, "GROUPS", 3, OPTION_INTEGER(struct sim_start_options, ngroups, 1, RANKS_MAX),
      "also simulate a split of the job into groups" },
    { "no-growth", 0, NULL, 4, OPTION_CLEAR(struct sim_start_options, growth),
      "do not simulate a quarter of the ranks as well, to find steps that grow more than "
      "linearly" },
    { "svg", 0, "FILE", 4, OPTION_TEXT(struct sim_start_options, svg),
      "SVG file for a drawing of the timeline" },
    { "json", 0, NULL, 4, OPTION_FLAG(struct sim_start_options, json), "print one JSON object" },
    { "quiet", 0, NULL, 4, OPTION_FLAG(struct sim_start_options, quiet),
      "print no progress on standard error" },
    { "plant", 0, "WHAT", 4, OPTION_CALL(take_plant), NULL },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .check = check_together,
    .doc =
        "Simulates the start-up of a job in virtual time, with the state machines of all ranks "
        "that jobs use, and shows where the time goes.\vdocs/start-up.md describes the tree. A "
        "message arrives after 5 us (or the latency of --topo) and the random part. A process "
        "handles one message at a time. A connection request that arrives at a full backlog fails "
        "after 1 s. Timers take no time. There are no address records, and no id per host.\n\n"
        "Levels: the root at the rendezvous address; the first ranks of the hosts (leaders), by "
        "the number of connections to the root; all other ranks. For each level the output has "
        "the times at which the first and the last process reach a phase: it has started, its "
        "parent has accepted it, it has sent its last report, it has its result, all below have "
        "theirs.\n\n"
        "Findings: steps whose time in the busiest process grows with an exponent above 1.5, "
        "steps that take more than 10 times the mean time of a message, processes that wake up "
        "more than 1000 times per second without an action, and full backlogs.\n\n"
        "Baseline: all ranks connect to one server, which handles two messages for each, then "
        "connects and sends one message to each to make a ring. All-gathers over the ring follow, "
        "of one record per rank: as many steps as ranks, minus 1, each with the mean latency of "
        "the hops and one message. Hops within a host have no random part of the latency. TCP "
        "repeats a dropped connection request after 1, 2, 4, ... s, six times; then the rank "
        "begins again. "
        "Source: \"Collective Communication for 100k+ GPUs\", section 7.1.\n\n"
        "Split: the all-gather and all-reduce of tutti_comm_split, by the simulator of `tutti "
        "sim`, with the mean latency and the times per message and byte above; one connection "
        "after the other to each peer of the all-gather (two latencies and two messages); and the "
        "sort of all tickets, in processor time of this machine.\n\n"
        "Exit status: 0 on success, 1 if some ranks have no result, 2 on a usage error.\n\n"
        "Examples:\n"
        "  tutti sim start --ranks 98304\n"
        "  tutti sim start --ranks 98304 --baseline --split 10\n"
        "  tutti sim start --ranks 65536 --ranks-per-host 1 --children 65536 --backlog 4096\n"
        "  tutti sim start --ranks 65536 --baseline --baseline-backlog 4096 --no-retries\n",
};

/* ---- progress ---- */

struct progress {
    const struct sim_start_options *o;
    uint64_t printed_ns;
    bool shown;
};

/* Updates one line on a terminal, and prints a line every ten seconds elsewhere. */
static void show_progress(void *arg, uint64_t now_ns, uint32_t nplaced)
{
    struct progress *p = arg;
    const bool terminal = isatty(STDERR_FILENO);
    const uint64_t now = tt_now_ns();

    if (now - p->printed_ns < (terminal ? 200 : 10000) * TT_MS)
        return;
    p->printed_ns = now;
    fprintf(stderr, "%sstart-up of %u ranks: %.3f s simulated, %u have their result%s",
            terminal ? "\r\033[K" : "", p->o->nranks, (double)now_ns / 1e9, nplaced,
            terminal ? "" : "\n");
    p->shown = terminal;
}

static void clear_progress(struct progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}

/* ---- simulations ---- */

struct machine {
    struct tt_topo topo;
    struct tt_layout layout;
    struct tt_net_conf net;
};

/* Loads the description, if there is one, and uses its ranks per host. */
static tutti_status machine_init(struct machine *m, struct sim_start_options *o)
{
    tutti_status st;

    *m = (struct machine){ .layout = { .nranks = 0 } };
    if (!o->topo) {
        o->per_host = o->per_host ? o->per_host : 8;
        return TUTTI_OK;
    }
    st = tt_topo_load(&m->topo, o->topo);
    if (!st)
        st = tt_topo_layout(&m->topo, o->nranks, &m->layout);
    if (!st)
        st = tt_net_of_topo(&m->net, &m->topo, &m->layout);
    if (!st && o->per_host && o->per_host != m->topo.host_ranks)
        st = tt_fail(TUTTI_ERR_INVALID, "--ranks-per-host %u: the hosts of %s have %u ranks",
                     o->per_host, o->topo, m->topo.host_ranks);
    o->per_host = m->topo.host_ranks;
    return st;
}

static struct tt_start_conf conf_of(const struct sim_start_options *o, const struct machine *m,
                                    uint32_t nranks)
{
    return (struct tt_start_conf){
        .nranks = nranks,
        .per_host = o->per_host,
        .children_max = o->children_max,
        .hinted = true,
        .cyclic = o->cyclic,
        .places = o->place_bytes ? TT_START_PLACES_ALIKE : TT_START_PLACES_NONE,
        .place_bytes = o->place_bytes,
        .constants_bytes = o->constants_bytes,
        .backlog = o->backlog,
        .latency_ns = (uint64_t)(o->latency_us * 1e3),
        .start_ns = (uint64_t)(o->spread_s * 1e9),
        .message_ns = (uint64_t)(o->message_us * 1e3),
        .byte_ns = o->byte_ns,
        .loss = o->loss,
        .timeout_ns = (uint64_t)(o->timeout_s * 1e9),
        .end_ns = (uint64_t)((o->spread_s + o->timeout_s + 10) * 1e9),
        .no_retries = o->no_retries,
        .measured = o->measured,
        .plant = o->plant,
        .net = m->topo.has_shape ? &m->net : NULL,
        .seed = o->seed,
    };
}

static void simulate(const struct sim_start_options *o, const struct machine *m, uint32_t nranks,
                     struct tt_start_report *out)
{
    struct tt_start_conf conf = conf_of(o, m, nranks);
    struct progress progress = { .o = o, .printed_ns = tt_now_ns() };
    struct tt_start *s;

    conf.progress = o->quiet ? NULL : show_progress;
    conf.arg = &progress;
    s = tt_start_create(&conf);
    tt_start_run(s);
    tt_start_report_of(s, out);
    tt_start_destroy(s);
    clear_progress(&progress);
}

static void simulate_central(const struct sim_start_options *o, const struct machine *m,
                             struct tt_central_result *out)
{
    const struct tt_central_conf conf = {
        .nranks = o->nranks,
        .per_host = o->cyclic ? 1 : o->per_host,
        .backlog = o->central_backlog,
        .ngathers = o->ngathers,
        .record_bytes = o->record_bytes,
        .latency_min_ns = m->topo.has_shape ? (uint64_t)m->net.link[TT_NEAR_RACK].latency_ns
                                            : TT_START_LATENCY_NS,
        .latency_ns = (uint64_t)(o->latency_us * 1e3),
        .start_ns = o->spread_s > 0 ? (uint64_t)(o->spread_s * 1e9) : 1,
        .message_ns = (uint64_t)(o->message_us * 1e3),
        .byte_ns = o->byte_ns,
        .no_retries = o->no_retries,
        .net = m->topo.has_shape ? &m->net : NULL,
        .seed = o->seed,
    };

    tt_central_run(&conf, out);
}

static tutti_status check_memory(const struct sim_start_options *o)
{
    const double has = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double needs = RANK_BYTES * o->nranks;

    if (needs <= has)
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_NOMEM,
                   "out of memory: the simulation of %u ranks needs %.1f GiB (this machine has "
                   "%.1f GiB)",
                   o->nranks, needs / (1 << 30), has / (1 << 30));
}

static tutti_status run_all(const struct sim_start_options *o, const struct machine *m,
                            struct sim_start_result *r)
{
    const uint64_t began_ns = tt_now_ns();
    struct tt_start_report less;
    tutti_status st = check_memory(o);

    if (st)
        return st;
    if (o->growth)
        simulate(o, m, o->nranks / 4, &less);
    simulate(o, m, o->nranks, &r->whole);
    r->nfindings = tt_start_findings(&r->whole, o->growth ? &less : NULL, r->findings);
    if (o->baseline)
        simulate_central(o, m, &r->central);
    if (o->ngroups)
        st = sim_start_split(o, &r->split);
    if (st)
        r->split = (struct sim_start_split){ .total_ns = 0 };
    r->wall_s = (double)(tt_now_ns() - began_ns) / 1e9;
    return st;
}

int sim_start_main(int argc, char **argv)
{
    struct sim_start_options o = { .nranks = 1024,
                                   .backlog = TT_START_BACKLOG,
                                   .growth = true,
                                   .place_bytes = 60,
                                   .constants_bytes = 600,
                                   .ngathers = 7,
                                   .record_bytes = 512,
                                   .latency_us = 100,
                                   .message_us = 20,
                                   .byte_ns = 1,
                                   .spread_s = 0.5,
                                   .timeout_s = 60,
                                   .seed = 1 };
    struct sim_start_result r = { .nfindings = 0 };
    struct machine m;
    tutti_status st;

    command_line_read(&command, &o, argc, argv);
    st = machine_init(&m, &o);
    o.growth = o.growth && o.nranks >= GROWTH_MIN;
    o.central_backlog = o.central_backlog ? o.central_backlog : o.nranks;
    if (st) {
        tt_topo_fini(&m.topo);
        return 2;
    }
    st = run_all(&o, &m, &r);
    if (r.whole.nranks)     /* also if the split has failed */
        (o.json ? sim_start_print_json : sim_start_print_text)(&o, &r);
    if (!st && o.svg)
        st = sim_start_draw(o.svg, &r.whole);
    tt_topo_fini(&m.topo);
    return st || r.whole.nplaced != o.nranks;
}
