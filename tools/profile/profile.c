/* tutti profile: how a job spent its time, from its trace dumps. */
#include "tools/profile/profile.h"

#include <stdio.h>
#include <stdlib.h>

#include "tools/command_line.h"
#include "tools/dump_files.h"
#include "tools/failed.h"
#include "tools/tool.h"

#define LAST 65536u             /* operations kept of each rank, and of all ranks: */
#define LAST_OF_ALL (16u << 20)

struct options {
    struct dump_paths paths;
    uint32_t rows, last;
    double window_s;            /* 0: a fixed part of the recorded time */
    const char *perfetto, *torchfr;
    bool json;
};

static const struct option_row option_rows[] = {
    { "json", 0, NULL, 0, OPTION_FLAG(struct options, json), "print one JSON document" },
    { "perfetto", 0, "FILE", 0, OPTION_TEXT(struct options, perfetto),
      "write the operations as a Chrome trace, for ui.perfetto.dev" },
    { "torchfr", 0, "DIRECTORY", 0, OPTION_TEXT(struct options, torchfr),
      "write the collectives for PyTorch's torchfrtrace, one file per rank" },
    { "rows", 0, "N", 0, OPTION_INTEGER(struct options, rows, 1, 100000),
      "show at most N rows in each table (default 20)" },
    { "last", 0, "N", 0, OPTION_INTEGER(struct options, last, 1, TT_DUMPS_KEPT_MAX),
      "use the last N operations of each rank (default 65536, fewer for more than 256 dumps)" },
    { "window", 0, "SECONDS", 0, OPTION_REAL(struct options, window_s, 0.001, 86400),
      "detect slow ranks in time windows of SECONDS (default: 1/24 of the recorded time)" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .common = &dump_paths_command_line,
    .common_at = offsetof(struct options, paths),
    .args_doc = "FILE|DIRECTORY...",
    .doc =
        "Reports how a job spent its time, from its trace dumps.\vThe tables show calls, bytes, "
        "times and bus bandwidth by communicator, kind, size and algorithm. They also show late "
        "ranks, for which others waited, and slow ranks and links. The arguments are dumps, or "
        "directories that contain files named tutti-trace.JOB.RANK.jsonl. Waiting times need the "
        "dumps of all members of a communicator, and comparable clocks.\n\n"
        "Exit status: 0 on success, 1 on failure, 2 on a usage error.\n\n"
        "Examples:\n"
        "  tutti profile /var/tmp/traces\n"
        "  tutti profile --perfetto job.json --last 1000 /var/tmp/traces\n",
};

/* Returns how many operations of each rank are kept. */
static uint32_t kept(const struct options *o, size_t nfiles)
{
    const size_t each = nfiles ? LAST_OF_ALL / nfiles : LAST;

    if (o->last)
        return o->last;
    return each > LAST ? LAST : each > TT_DUMPS_KEPT ? (uint32_t)each : TT_DUMPS_KEPT;
}

static bool show(const struct profiled *p, const struct options *o)
{
    if (o->perfetto && !profile_write_perfetto(p, o->perfetto))
        return false;
    if (o->torchfr && !profile_write_torchfr(p, o->torchfr))
        return false;
    if (!o->json) {
        profile_print(p);
        return true;
    }
    if (profile_print_json(p))
        return true;
    fprintf(stderr, "tutti profile: out of memory\n");
    return false;
}

/* Detects slow ranks and links, and shows all results. */
static bool judge(struct profiled *p, const struct options *o)
{
    const tutti_status st =
        tt_pace_dumps_init(&p->pace, &p->instances, (int64_t)(o->window_s * 1e9));
    bool good;

    if (st) {
        tool_failed("tutti profile", NULL, st);
        return false;
    }
    good = show(p, o);
    tt_pace_dumps_fini(&p->pace);
    return good;
}

/* Computes the profile of the dumps, and shows it. */
static bool profile(struct profiled *p, const struct options *o)
{
    tutti_status st = tt_dumps_index(&p->dumps);
    bool good = false;

    if (!st)
        st = tt_instances_init(&p->instances, &p->dumps);
    if (st) {
        tool_failed("tutti profile", NULL, st);
        return false;
    }
    st = tt_profile_init(&p->profile, &p->instances);
    if (st) {
        tool_failed("tutti profile", NULL, st);
    } else {
        good = judge(p, o);
        tt_profile_fini(&p->profile);
    }
    tt_instances_fini(&p->instances);
    return good;
}

int tool_profile_main(int argc, char **argv)
{
    struct options o = { .rows = 20 };
    struct dump_files f = { NULL, 0, 0 };
    struct profiled p = { .rows = 20 };
    bool good;

    command_line_read(&command, &o, argc, argv);
    p.rows = o.rows;
    if (tt_dumps_init(&p.dumps)) {
        fprintf(stderr, "tutti profile: out of memory\n");
        return EXIT_FAILURE;
    }
    good = dump_files_find(&f, &o.paths, argv[0]);
    p.dumps.kept_max = kept(&o, f.n);
    good = good && dump_files_read(&p.dumps, &f, o.paths.quiet, argv[0]) && profile(&p, &o);
    dump_files_fini(&f);
    tt_dumps_fini(&p.dumps);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
