#include "tools/sim/sim_options.h"

#include "comm/measure.h"
#include "tools/option_values.h"
#include "tools/sim/sim_faults.h"
#include "topo/topo.h"

enum {
    OPT_ALGO = 256,
    OPT_TOPO,
    OPT_BYTES,
    OPT_BLOCK,
    OPT_ROOT,
    OPT_SWEEP,
    OPT_PLOT,
    OPT_JSON,
    OPT_QUIET,
    OPT_FAULT,
    OPT_SEGMENT,
    OPT_EAGER,
    OPT_STREAMS,
    OPT_DEPTH,
    OPT_LANES,
    OPT_LANE_BYTES,
    OPT_SLOTS,
    OPT_WHOLE,
    OPT_SEND,
    OPT_RECEIVE,
    OPT_REDUCE,
    OPT_COPY,
    OPT_JITTER,
    OPT_SKEW,
    OPT_SEED
};

static const struct argp_option argp_options[] = {
    { "ranks", 'n', "N", 0, "simulate the first N ranks of the machine (default: all)", 1 },
    { "topo", OPT_TOPO, "NAME|FILE", 0,
      "description of the machine: a built-in name or a file (docs/topology.md; default uniform)",
      1 },
    { "algo", OPT_ALGO, "A,B,...", 0,
      "algorithms, or \"all\": those that support the call (default: the fastest according to its "
      "cost formula)",
      1 },
    { "bytes", OPT_BYTES, "SIZE", 0,
      "bytes of the larger buffer, as in `tutti perf`, with an optional K, M, G or T (default 1M)",
      1 },
    { "block", OPT_BLOCK, "SIZE", 0,
      "bytes of each rank's block, instead of --bytes, for collectives with one block per rank",
      1 },
    { "root", OPT_ROOT, "RANK", 0, "root of rooted collectives (default 0)", 1 },
    { "sweep", OPT_SWEEP, "MIN:MAX[:F]", 0,
      "simulate all sizes from MIN to MAX, in steps of factor F (default 4), instead of --bytes",
      2 },
    { "plot", OPT_PLOT, "FILE", 0, "SVG file for the plot of the sweep (default sim.svg)", 2 },
    { "json", OPT_JSON, NULL, 0, "print one JSON object per line", 2 },
    { "quiet", OPT_QUIET, NULL, 0, "print no progress on standard error", 2 },
    { "fault", OPT_FAULT, "WHAT", 0, "inject a fault (see below); may be repeated", 3 },
    { "segment", OPT_SEGMENT, "SIZE", 0,
      "segment size of messages longer than --eager (default: as in the library)", 4 },
    { "eager", OPT_EAGER, "SIZE", 0, "longest eager message, in bytes (default 32K)", 4 },
    { "streams", OPT_STREAMS, "N", 0, "streams per pair of ranks (default: as in the library)", 4 },
    { "depth", OPT_DEPTH, "N", 0, "slots per stream (default: as in the library)", 4 },
    { "slots", OPT_SLOTS, NULL, 0, "send all data through slots, not directly to its destination",
      4 },
    { "lane-bytes", OPT_LANE_BYTES, "SIZE", 0,
      "maximum unacknowledged bytes on one lane (default: unlimited)", 4 },
    { "lanes", OPT_LANES, "N", 0,
      "lanes per pair of ranks (default: 1, or one per rail for ranks that are alone on their "
      "hosts)",
      4 },
    { "send-ns", OPT_SEND, "T", 0, "software time per sent message, ns (default 300)", 5 },
    { "receive-ns", OPT_RECEIVE, "T", 0, "software time per received message, ns (default 200)",
      5 },
    { "reduce-gbs", OPT_REDUCE, "R", 0, "reduction rate of a rank, GB/s of result (default 10)",
      5 },
    { "copy-gbs", OPT_COPY, "R", 0, "copy rate of a rank, GB/s (default 12.5)", 5 },
    { "jitter-ns", OPT_JITTER, "T", 0, "maximum random delay of each sent message, ns (default 0)",
      5 },
    { "skew-ns", OPT_SKEW, "T", 0, "maximum random delay of each rank's start, ns (default 0)", 5 },
    { "seed", OPT_SEED, "N", 0, "seed of jitter and skew (default 1)", 5 },
    { "whole", OPT_WHOLE, NULL, 0,
      "simulate each segment as a separate event (default: consecutive segments are merged)", 5 },
    { 0 },
};

static void take_sweep(struct sim_options *o, struct argp_state *state, char *arg)
{
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

static void take_coll(struct sim_options *o, struct argp_state *state, const char *arg)
{
    if (o->coll)
        argp_error(state, "unexpected argument \"%s\" (give one collective)", arg);
    o->coll = perf_coll_find(arg);
    if (!o->coll)
        argp_error(state, "unknown collective \"%s\" (`tutti perf --help` lists them)", arg);
    if (o->coll->uneven || o->coll->kind >= TT_COLL_KINDS || o->coll->kind == TT_SEND ||
        o->coll->kind == TT_RECV)
        argp_error(state, "%s: not supported (only collectives with equal blocks)", arg);
}

static void check_together(struct sim_options *o, struct argp_state *state)
{
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

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct sim_options *o = state->input;

    switch (key) {
    case 'n':
        o->nranks = (uint32_t)option_number(state, "--ranks", arg, 1, TT_TOPO_RANKS_MAX);
        return 0;
    case OPT_TOPO:
        o->topo = arg;
        return 0;
    case OPT_ALGO:
        o->algos = arg;
        return 0;
    case OPT_BYTES:
        o->bytes = option_size(state, "--bytes", arg);
        return 0;
    case OPT_BLOCK:
        o->block = option_size(state, "--block", arg);
        return 0;
    case OPT_ROOT:
        o->root = (uint32_t)option_number(state, "--root", arg, 0, TT_TOPO_RANKS_MAX);
        return 0;
    case OPT_SWEEP:
        take_sweep(o, state, arg);
        return 0;
    case OPT_PLOT:
        o->plot = arg;
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    case OPT_QUIET:
        o->quiet = true;
        return 0;
    case OPT_FAULT:
        if (o->nfaults == SIM_FAULTS_MAX)
            argp_error(state, "too many faults: --fault %s (the maximum is %d)", arg,
                       SIM_FAULTS_MAX);
        sim_fault_parse(state, arg, &o->faults[o->nfaults++]);
        return 0;
    case OPT_SEGMENT:
        o->segment_bytes = option_size(state, "--segment", arg);
        return 0;
    case OPT_EAGER:
        o->eager_bytes = option_size_or_none(state, "--eager", arg);
        return 0;
    case OPT_STREAMS:
        o->streams = (uint32_t)option_number(state, "--streams", arg, 1, TT_EXEC_STREAMS_MAX);
        return 0;
    case OPT_DEPTH:
        o->depth = (uint32_t)option_number(state, "--depth", arg, 1, TT_EXEC_DEPTH_MAX);
        return 0;
    case OPT_SLOTS:
        o->slots = true;
        return 0;
    case OPT_LANES:
        o->lanes = (uint32_t)option_number(state, "--lanes", arg, 1, 1024);
        return 0;
    case OPT_LANE_BYTES:
        o->lane_bytes = option_size_or_none(state, "--lane-bytes", arg);
        return 0;
    case OPT_WHOLE:
        o->whole = true;
        return 0;
    case OPT_SEND:
        o->send_ns = option_real(state, "--send-ns", arg, 0, 1e9);
        return 0;
    case OPT_RECEIVE:
        o->receive_ns = option_real(state, "--receive-ns", arg, 0, 1e9);
        return 0;
    case OPT_REDUCE:
        o->reduce_gbs = option_real(state, "--reduce-gbs", arg, 1e-6, 1e9);
        return 0;
    case OPT_COPY:
        o->copy_gbs = option_real(state, "--copy-gbs", arg, 1e-6, 1e9);
        return 0;
    case OPT_JITTER:
        o->jitter_ns = option_real(state, "--jitter-ns", arg, 0, 1e9);
        return 0;
    case OPT_SKEW:
        o->skew_ns = option_real(state, "--skew-ns", arg, 0, 1e9);
        return 0;
    case OPT_SEED:
        o->seed = option_number(state, "--seed", arg, 0, UINT64_MAX);
        return 0;
    case ARGP_KEY_ARG:
        take_coll(o, state, arg);
        return 0;
    case ARGP_KEY_END:
        check_together(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
    .args_doc = "COLLECTIVE",
    .doc = "Simulates a collective in virtual time, on a machine given by a description.\v"
           "The simulator executes the schedules of all ranks, without data (docs/simulation.md). "
           "The printed time is the time at which the last rank finishes. algbw and busbw are "
           "defined as in `tutti perf`.\n\n"
           "Faults:\n"
           "  slow-rail=HOST.RAIL:FACTOR      divide the rate of a rail by FACTOR\n"
           "  dead-rail=HOST.RAIL             move the rail's ranks to the next rail of the "
           "host\n"
           "  slow-uplink=LEVEL.GROUP:FACTOR  divide the rate of an uplink (LEVEL: rack,\n"
           "                                  zone or building)\n"
           "  slow-rank=RANK:FACTOR           multiply all software times of a rank\n"
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
    argp_parse(&argp, argc, argv, 0, NULL, o);
}
