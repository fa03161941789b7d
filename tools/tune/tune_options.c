#include "tools/tune/tune_options.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>
#include "comm/tunefile.h"
#include "tools/option_values.h"

enum { OPT_WIRE = 256, OPT_COLLS, OPT_MIN, OPT_MAX, OPT_FACTOR, OPT_ROUNDS, OPT_SHOW, OPT_PLOT };

static const struct argp_option argp_options[] = {
    { "ranks", 'n', "N", 0,
      "number of ranks to start on this host (default 2). In a job, the job's ranks are used, and "
      "N must equal their number",
      1 },
    { "wire", OPT_WIRE, "shm,tcp", 0,
      "allowed transports (default: all usable ones except verbs and ofi)", 1 },
    { "colls", OPT_COLLS, "A,B,...", 0, "collectives (default: all that can be tuned)", 2 },
    { "min", OPT_MIN, "SIZE", 0,
      "smallest size in bytes, with an optional K, M, G or T (default 8)", 2 },
    { "max", OPT_MAX, "SIZE", 0, "largest size (default 32M)", 2 },
    { "factor", OPT_FACTOR, "F", 0, "ratio of successive sizes (default 4)", 2 },
    { "rounds", OPT_ROUNDS, "R", 0, "rounds; each measures all candidates in turn (default 5)", 2 },
    { "output", 'o', "FILE", 0, "output file (default tutti-tune.json)", 3 },
    { "show", OPT_SHOW, "FILE", 0, "print a tune file instead of measuring", 4 },
    { "plot", OPT_PLOT, "SVG", 0,
      "with --show and one collective in --colls: write a plot with one line per algorithm", 4 },
    { 0 },
};

static void take_colls(struct tune_options *o, struct argp_state *state, const char *arg)
{
    char name[32];

    for (const char *at = arg;; at++) {
        const size_t n = strcspn(at, ",");
        enum tt_coll_kind kind = TT_COLL_KINDS;

        snprintf(name, sizeof name, "%.*s", (int)n, at);
        if (n >= sizeof name || !tt_coll_parse(name, &kind))
            argp_error(state, "--colls %s: unknown collective \"%.*s\"", arg, (int)n, at);
        if (!tt_tunefile_has(kind))
            argp_error(state,
                       "--colls %s: %s cannot be tuned (use allreduce reduce reduce_scatter "
                       "allgather broadcast gather "
                       "scatter alltoall)",
                       arg, name);
        o->nwanted += !o->wanted[kind];
        o->wanted[kind] = true;
        at += n;
        if (*at == '\0')
            return;
    }
}

/* Checks combinations of options. */
static void check_together(struct tune_options *o, struct argp_state *state)
{
    if (o->min_bytes > o->max_bytes)
        argp_error(state, "invalid sizes: --min %zu exceeds --max %zu", o->min_bytes, o->max_bytes);
    if (o->plot && (!o->show || o->nwanted != 1))
        argp_error(state,
                   "missing option: --plot %s needs --show FILE and one collective in --colls",
                   o->plot);
    for (int kind = 0; kind < TT_COLL_KINDS && o->nwanted == 0; kind++)
        o->wanted[kind] = tt_tunefile_has((enum tt_coll_kind)kind);
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct tune_options *o = state->input;

    switch (key) {
    case 'n':
        o->nranks = (uint32_t)option_number(state, "--ranks", arg, 2, TT_TUNEFILE_RANKS_MAX);
        return 0;
    case OPT_WIRE:
        option_check_wires(state, arg);
        o->wire = arg;
        return 0;
    case OPT_COLLS:
        take_colls(o, state, arg);
        return 0;
    case OPT_MIN:
        o->min_bytes = option_size(state, "--min", arg);
        return 0;
    case OPT_MAX:
        o->max_bytes = option_size(state, "--max", arg);
        return 0;
    case OPT_FACTOR:
        o->factor = option_number(state, "--factor", arg, 2, 1u << 30);
        return 0;
    case OPT_ROUNDS:
        o->rounds = (uint32_t)option_number(state, "--rounds", arg, 1, TUNE_ROUNDS_MAX);
        return 0;
    case 'o':
        if (!*arg)
            argp_error(state, "--output: the file name is empty");
        o->out = arg;
        return 0;
    case OPT_SHOW:
        o->show = arg;
        return 0;
    case OPT_PLOT:
        o->plot = arg;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\" (use --colls to select collectives)", arg);
        return 0;
    case ARGP_KEY_END:
        check_together(o, state);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
    .doc = "Measures which algorithms and segment sizes are fastest, and writes a tune file.\v"
           "Starts new ranks, or uses those of the current job. Jobs with TUTTI_TUNE_FILE=FILE "
           "select algorithms from that file (docs/tune-file.md).\n\n"
           "The size of a call is the size of its larger buffer, as in `tutti perf`. For each "
           "collective and size, all applicable algorithms run for two rounds, and slow ones are "
           "dropped. The best three are also tried with other segment sizes. The remaining "
           "candidates then run in turn for R rounds. The time of a candidate in a round is a "
           "median over calls; its result is the median over rounds. Other load on the machine "
           "distorts the measurements. If interrupted, the tool writes the results that are "
           "complete.\n\n"
           "Exit status: 0 on success, 1 if a call failed or the file cannot be written, 2 on a "
           "usage error, 130 if interrupted.\n\n"
           "Examples:\n"
           "  tutti tune -n 4 -o shm4.json\n"
           "  tutti tune --show shm4.json --colls allreduce --plot allreduce.svg\n",
};

void tune_options_parse(struct tune_options *o, int argc, char **argv)
{
    *o = (struct tune_options){
        .min_bytes = 8, .max_bytes = 32u << 20, .factor = 4, .rounds = 5, .out = "tutti-tune.json",
    };
    argp_parse(&argp, argc, argv, 0, NULL, o);
}
