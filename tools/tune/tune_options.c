#include "tools/tune/tune_options.h"

#include <stdio.h>
#include <string.h>
#include "comm/tunefile.h"
#include "tools/command_line.h"
#include "tools/option_values.h"

static void take_colls(void *options, struct argp_state *state, char *arg)
{
    struct tune_options *o = options;
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
static void check_together(void *options, struct argp_state *state)
{
    struct tune_options *o = options;
    if (o->min_bytes > o->max_bytes)
        argp_error(state, "invalid sizes: --min %zu exceeds --max %zu", o->min_bytes, o->max_bytes);
    if (o->plot && (!o->show || o->nwanted != 1))
        argp_error(state,
                   "missing option: --plot %s needs --show FILE and one collective in --colls",
                   o->plot);
    for (int kind = 0; kind < TT_COLL_KINDS && o->nwanted == 0; kind++)
        o->wanted[kind] = tt_tunefile_has((enum tt_coll_kind)kind);
}

static void take_output(void *options, struct argp_state *state, char *arg)
{
    struct tune_options *o = options;

    if (!*arg)
        argp_error(state, "--output: the file name is empty");
    o->out = arg;
}

static void reject_argument(void *options, struct argp_state *state, char *arg)
{
    (void)options;
    argp_error(state, "unexpected argument \"%s\" (use --colls to select collectives)", arg);
}

static const struct option_row option_rows[] = {
    { "ranks", 'n', "N", 1, OPTION_INTEGER(struct tune_options, nranks, 2, TT_TUNEFILE_RANKS_MAX),
      "number of ranks to start on this host (default 2). In a job, the job's ranks are used, and "
      "N must equal their number" },
    { "wire", 0, "shm,tcp", 1, OPTION_WIRES(struct tune_options, wire),
      "allowed transports (default: all usable ones except verbs and ofi)" },
    { "colls", 0, "A,B,...", 2, OPTION_CALL(take_colls),
      "collectives (default: all that can be tuned)" },
    { "min", 0, "SIZE", 2, OPTION_SIZE(struct tune_options, min_bytes, 1),
      "smallest size in bytes, with an optional K, M, G or T (default 8)" },
    { "max", 0, "SIZE", 2, OPTION_SIZE(struct tune_options, max_bytes, 1),
      "largest size (default 32M)" },
    { "factor", 0, "F", 2, OPTION_INTEGER(struct tune_options, factor, 2, 1u << 30),
      "ratio of successive sizes (default 4)" },
    { "rounds", 0, "R", 2, OPTION_INTEGER(struct tune_options, rounds, 1, TUNE_ROUNDS_MAX),
      "rounds; each measures all candidates in turn (default 5)" },
    { "output", 'o', "FILE", 3, OPTION_CALL(take_output), "output file (default tutti-tune.json)" },
    { "show", 0, "FILE", 4, OPTION_TEXT(struct tune_options, show),
      "print a tune file instead of measuring" },
    { "plot", 0, "SVG", 4, OPTION_TEXT(struct tune_options, plot),
      "with --show and one collective in --colls: write a plot with one line per algorithm" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .argument = reject_argument,
    .check = check_together,
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
    command_line_read(&command, o, argc, argv);
}
