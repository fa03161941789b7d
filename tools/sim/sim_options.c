#include "tools/sim/sim_options.h"

#include "comm/measure.h"
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "tools/sim/sim_faults.h"
#include "topo/topo.h"

static void take_sweep(void *options, struct argp_state *state, char *arg)
{
    struct sim_options *o = options;
    const char *at = option_size_until(state, "--sweep", arg, arg, ':', &o->min);

    if (*at != ':')
        argp_error(state, "--sweep %s: must be like 1K:64M or 1K:64M:2", arg);
    at = option_size_until(state, "--sweep", arg, at + 1, ':', &o->max);
    o->factor = *at ? option_number(state, "--sweep", at + 1, 2, 1u << 20) : 4;
    if (o->min < 1 || o->min > o->max)
        argp_error(state, "--sweep %s: sizes must be ascending and at least 1", arg);
    o->sweeps = true;
}

/* ---- all together ---- */

static void take_coll(void *options, struct argp_state *state, char *arg)
{
    struct sim_options *o = options;
    if (o->coll)
        argp_error(state, "unexpected argument \"%s\" (give one collective)", arg);
    o->coll = perf_coll_find(arg);
    if (!o->coll)
        argp_error(state, "unknown collective \"%s\" (`tutti perf --help` lists them)", arg);
    if (o->coll->uneven || o->coll->kind >= TT_COLL_KINDS || o->coll->kind == TT_SEND ||
        o->coll->kind == TT_RECV)
        argp_error(state, "%s: not supported (only collectives with equal blocks)", arg);
}

static void check_together(void *options, struct argp_state *state)
{
    struct sim_options *o = options;
    if (!o->coll)
        argp_error(state, "missing argument: a collective, e.g. tutti sim allgather --ranks 4096 "
                          "--topo four-buildings");
    if (o->bytes && o->block)
        argp_error(state, "conflicting options: --bytes excludes --block");
    if (o->block && !o->coll->cut && o->coll->kind != TT_BARRIER)
        argp_error(state, "--block: %s has no block per rank (use --bytes)", o->coll->name);
    if (o->sweeps && o->coll->kind == TT_BARRIER)
        argp_error(state, "--sweep: a barrier has no size");
    if (o->plot && !o->sweeps)
        argp_error(state, "missing option: --plot needs --sweep");
    if (o->sweeps && !o->plot)
        o->plot = "sim.svg";
    if (!o->bytes && !o->block)
        o->bytes = 1u << 20;
    if (o->segment_bytes && (o->segment_bytes < 8 || (o->segment_bytes & (o->segment_bytes - 1)) ||
                             o->segment_bytes < o->eager_bytes))
        argp_error(state, "--segment %llu: must be a power of two, and at least --eager (%llu)",
                   (unsigned long long)o->segment_bytes, (unsigned long long)o->eager_bytes);
    if (o->depth & (o->depth - 1))
        argp_error(state, "--depth %u: must be a power of two", o->depth);
}

static void take_fault(void *options, struct argp_state *state, char *arg)
{
    struct sim_options *o = options;

    if (o->nfaults == SIM_FAULTS_MAX)
        argp_error(state, "--fault %s: too many faults (the maximum is %d)", arg, SIM_FAULTS_MAX);
    sim_fault_parse(state, arg, &o->faults[o->nfaults++]);
}

static const struct option_row option_rows[] = {
    { "ranks", 'n', "N", 1, OPTION_INTEGER(struct sim_options, nranks, 1, TT_TOPO_RANKS_MAX),
      "simulate the first N ranks of the machine (default: all)" },
    { "topo", 0, "NAME|FILE", 1, OPTION_TEXT(struct sim_options, topo),
      "description of the machine: a built-in name or a file (docs/topology.md; default uniform)" },
    { "algo", 0, "A,B,...", 1, OPTION_TEXT(struct sim_options, algos),
      "algorithms, or \"all\" for those that support the call (default: the one with the shortest "
      "time by cost formula)" },
    { "bytes", 0, "SIZE", 1, OPTION_SIZE(struct sim_options, bytes, 1),
      "bytes of the larger buffer, as in `tutti perf`, with an optional K, M, G or T (default "
      "1M)" },
    { "block", 0, "SIZE", 1, OPTION_SIZE(struct sim_options, block, 1),
      "bytes of each rank's block, instead of --bytes, for collectives with one block per rank" },
    { "root", 0, "RANK", 1, OPTION_INTEGER(struct sim_options, root, 0, TT_TOPO_RANKS_MAX),
      "root of rooted collectives (default 0)" },
    { "sweep", 0, "MIN:MAX[:F]", 2, OPTION_CALL(take_sweep),
      "simulate all sizes from MIN to MAX, in steps of factor F (default 4), instead of --bytes" },
    { "plot", 0, "FILE", 2, OPTION_TEXT(struct sim_options, plot),
      "SVG file for the plot of the sweep (default sim.svg)" },
    { "json", 0, NULL, 2, OPTION_FLAG(struct sim_options, json), "print one JSON object per line" },
    { "quiet", 0, NULL, 2, OPTION_FLAG(struct sim_options, quiet),
      "print no progress on standard error" },
    { "fault", 0, "WHAT", 3, OPTION_CALL(take_fault),
      "inject a fault (see below); may be repeated" },
    { "segment", 0, "SIZE", 4, OPTION_SIZE(struct sim_options, segment_bytes, 1),
      "segment size of messages longer than --eager (default: as in the library)" },
    { "eager", 0, "SIZE", 4, OPTION_SIZE(struct sim_options, eager_bytes, 0),
      "longest eager message, in bytes (default 32K)" },
    { "streams", 0, "N", 4, OPTION_INTEGER(struct sim_options, streams, 1, TT_EXEC_STREAMS_MAX),
      "streams per pair of ranks (default: as in the library)" },
    { "depth", 0, "N", 4, OPTION_INTEGER(struct sim_options, depth, 1, TT_EXEC_DEPTH_MAX),
      "slots per stream (default: as in the library)" },
    { "slots", 0, NULL, 4, OPTION_FLAG(struct sim_options, slots),
      "send all data through slots, not directly to its destination" },
    { "lane-bytes", 0, "SIZE", 4, OPTION_SIZE(struct sim_options, lane_bytes, 0),
      "maximum unacknowledged bytes on one lane (default: unlimited)" },
    { "lanes", 0, "N", 4, OPTION_INTEGER(struct sim_options, lanes, 1, 1024),
      "lanes per pair of ranks (default: 1, or one per rail for ranks that are alone on their "
      "hosts)" },
    { "send-ns", 0, "T", 5, OPTION_REAL(struct sim_options, send_ns, 0, 1e9),
      "software overhead per sent message, ns (default 300)" },
    { "receive-ns", 0, "T", 5, OPTION_REAL(struct sim_options, receive_ns, 0, 1e9),
      "software overhead per received message, ns (default 200)" },
    { "reduce-gbs", 0, "R", 5, OPTION_REAL(struct sim_options, reduce_gbs, 1e-6, 1e9),
      "reduction rate of a rank, GB/s of result (default 10)" },
    { "copy-gbs", 0, "R", 5, OPTION_REAL(struct sim_options, copy_gbs, 1e-6, 1e9),
      "copy rate of a rank, GB/s (default 12.5)" },
    { "jitter-ns", 0, "T", 5, OPTION_REAL(struct sim_options, jitter_ns, 0, 1e9),
      "maximum random delay of each sent message, ns (default 0)" },
    { "skew-ns", 0, "T", 5, OPTION_REAL(struct sim_options, skew_ns, 0, 1e9),
      "maximum random delay of each rank's start, ns (default 0)" },
    { "seed", 0, "N", 5, OPTION_INTEGER(struct sim_options, seed, 0, UINT64_MAX),
      "seed of jitter and skew (default 1)" },
    { "whole", 0, NULL, 5, OPTION_FLAG(struct sim_options, whole),
      "simulate each segment as a separate event (default: consecutive segments are merged)" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .argument = take_coll,
    .check = check_together,
    .args_doc = "COLLECTIVE",
    .doc =
        "Simulates a collective in virtual time, on the machine of a topology description.\vThe "
        "simulator executes the schedules of all ranks, without data (docs/simulation.md). The "
        "printed time is the time at which the last rank finishes. algbw and busbw are defined as "
        "in `tutti perf`. `tutti sim start --help` describes the simulation of start-ups.\n\n"
        "Faults:\n"
        "  slow-rail=HOST.RAIL:FACTOR      divide the rate of a rail by FACTOR\n"
        "  dead-rail=HOST.RAIL             move the rail's ranks to the next rail of the host\n"
        "  slow-uplink=LEVEL.GROUP:FACTOR  divide the rate of an uplink (LEVEL: rack,\n"
        "                                  zone or building)\n"
        "  slow-rank=RANK:FACTOR           multiply the software overheads of a rank\n"
        "  late-rank=RANK:MICROSECONDS     delay the start of a rank\n"
        "FACTOR is 1e-6 to 1e6.\n\n"
        "Exit status: 0 on success, 1 on failure, 2 on a usage error.\n\n"
        "Examples:\n"
        "  tutti sim allgather --ranks 4096 --topo four-buildings\n"
        "  tutti sim allreduce --algo all --sweep 1K:64M\n",
};

void sim_options_parse(struct sim_options *o, int argc, char **argv)
{
    *o = (struct sim_options){
        .topo = "uniform",
        .eager_bytes = 32u << 10,
        .send_ns = 300,
        .receive_ns = 200,
        .reduce_gbs = 1 / tt_constants_default.tcp.reduce_byte_ns,
        .copy_gbs = 1 / tt_constants_default.tcp.copy_byte_ns,
        .seed = 1,
    };
    command_line_read(&command, o, argc, argv);
}
