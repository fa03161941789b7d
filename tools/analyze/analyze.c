/* tutti analyze: finds the cause of a hang or failure in the trace dumps of a job. */
#include "tools/analyze/analyze.h"

#include <stdio.h>
#include <stdlib.h>

#include "tools/analyze/analyze_live.h"
#include "tools/command_line.h"
#include "tools/dump_files.h"
#include "tools/failed.h"
#include "tools/option_values.h"
#include "tools/tool.h"

#define STATUS_CAUSE 3      /* a cause was found */
#define STATUS_UNKNOWN 4    /* operations are incomplete, but the dumps do not show the cause */
#define STATUS_SIGNAL 128   /* plus the number of a signal */
#define LIVE_TIMEOUT_S 5
#define LIVE_WAIT_S 5.0     /* only report longer waits of a running job */

struct options {
    struct dump_paths paths;
    uint32_t rows;
    const char *svg, *html;
    bool json, is_live, has_min_wait;
    struct analyze_live live;
    double timeout_s, min_wait_s;
};

static void take_live(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    (void)state;
    (void)arg;
    o->is_live = o->paths.is_optional = true;
}

static void take_min_wait(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    o->has_min_wait = true;
    o->min_wait_s = option_real(state, "--min-wait", arg, 0, 86400);
}

static void check_options(void *options, struct argp_state *state)
{
    struct options *o = options;

    if (!o->is_live && o->live.dir)
        argp_error(state, "--dumps needs --live");
    if (o->is_live && o->paths.n > 1)
        argp_error(state, "unexpected argument \"%s\" (with --live, give one JOB or PATH)",
                   o->paths.list[1]);
    if (!o->is_live)
        return;
    o->live.what = o->paths.n ? o->paths.list[0] : NULL;
    o->live.timeout_ms = (uint32_t)(1000 * o->timeout_s);
    if (!o->has_min_wait)
        o->min_wait_s = LIVE_WAIT_S;
}

static const struct option_row option_rows[] = {
    { "json", 0, NULL, 0, OPTION_FLAG(struct options, json), "print one JSON document" },
    { "svg", 0, "FILE", 0, OPTION_TEXT(struct options, svg),
      "write a timeline of the last operations as an SVG picture" },
    { "html", 0, "FILE", 0, OPTION_TEXT(struct options, html),
      "write a page with the result, tables and the timeline, which loads no other files" },
    { "rows", 0, "N", 0, OPTION_INTEGER(struct options, rows, 1, 100000),
      "show at most N ranks in tables and pictures (default 24)" },
    { "live", 'l', NULL, 0, OPTION_CALL(take_live),
      "analyze a running job: let each process write a trace dump, and read these. The argument is "
      "a job or a status socket, as of tutti status" },
    { "dumps", 0, "DIRECTORY", 0, OPTION_TEXT(struct options, live.dir),
      "with --live: the directory of the dumps, which must exist on all hosts of the job, and "
      "which keeps them (default: a temporary one)" },
    { "timeout", 't', "SECONDS", 0, OPTION_REAL(struct options, timeout_s, 0.1, 600),
      "with --live: maximum time of the query, and then of the time without another dump (default "
      "5)" },
    { "min-wait", 0, "SECONDS", 0, OPTION_CALL(take_min_wait),
      "name a cause only if a rank has waited for this long because of it (default 0, with "
      "--live 5)" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .common = &dump_paths_command_line,
    .common_at = offsetof(struct options, paths),
    .check = check_options,
    .args_doc = "FILE|DIRECTORY...\n--live [JOB|PATH]",
    .doc = "Finds the rank or link that caused a hang or a failure, from the trace dumps of the "
           "job.\vThe arguments are dumps, or directories that contain files named "
           "tutti-trace.JOB.RANK.jsonl. The dumps of some ranks may be missing. Ranks are named "
           "only if the dumps prove their fault. With --live, the job is queried instead.\n\n"
           "Exit status: 0 if no operation is incomplete, 3 if a cause was found, 4 if the dumps "
           "do not show the cause, 1 on failure, 2 on a usage error; with --live, 128 plus the "
           "number of a signal that ended the query.\n\n"
           "Examples:\n"
           "  tutti analyze /var/tmp/traces\n"
           "  tutti analyze --svg hang.svg tutti-trace.9f3c.*.jsonl\n"
           "  tutti analyze --html hang.html /var/tmp/traces\n"
           "  tutti analyze --live\n"
           "  tutti analyze --live 9f3c --dumps /shared/traces\n",
};

static void no_memory(void)
{
    fprintf(stderr, "tutti analyze: out of memory\n");
}

static int exit_status(const struct analysis *a)
{
    const struct tt_diagnoses *found = &a->found;

    if (found->n == 0)
        return tt_diagnoses_lack_dumps(found, &a->dumps) ? STATUS_UNKNOWN : 0;
    return found->list[0].kind == TT_DIAGNOSIS_UNKNOWN ? STATUS_UNKNOWN : STATUS_CAUSE;
}

/* Diagnoses the dumps, and shows the result. Returns the exit status. */
static int analyze(struct analysis *a, const struct options *o)
{
    int status = EXIT_FAILURE;
    tutti_status st = tt_dumps_index(&a->dumps);

    if (!st)
        st = tt_waits_init(&a->waits, &a->dumps);
    if (st) {
        tool_failed("tutti analyze", NULL, st);
        return status;
    }
    st = tt_diagnose(&a->found, &a->waits);
    if (st)
        tool_failed("tutti analyze", NULL, st);
    else if (!analyze_choose_rows(a, o->rows))
        no_memory();
    else if ((!o->svg || analyze_write_svg(a, o->svg)) &&
             (!o->html || analyze_write_html(a, o->html)))
        status = exit_status(a);
    if (status != EXIT_FAILURE && o->json)
        analyze_print_json(a);
    else if (status != EXIT_FAILURE)
        analyze_print(a);
    free(a->rows);
    tt_waits_fini(&a->waits);
    return status;
}

/* Finds the dumps, or lets the job write them, and reads them. Returns false after reporting an
 * error. */
static bool get_dumps(struct options *o, struct tt_dumps *d, struct dump_files *f, const char *who)
{
    char *dir = o->live.path;

    if (!o->is_live)
        return dump_files_find(f, &o->paths, who) && dump_files_read(d, f, o->paths.quiet, who);
    if (!analyze_live_collect(&o->live, who))
        return false;
    d->has_folder = true;
    d->folder = o->live.folder;
    return dump_files_find(f, &(struct dump_paths){ .list = &dir, .n = 1 }, who) &&
           dump_files_read(d, f, o->paths.quiet, who);
}

int tool_analyze_main(int argc, char **argv)
{
    struct options o = { .rows = 24, .timeout_s = LIVE_TIMEOUT_S, .live.folder = -1 };
    struct analysis *a = calloc(1, sizeof *a);
    struct dump_files f = { NULL, 0, 0 };
    int status = EXIT_FAILURE, stopped;
    bool good;

    command_line_read(&command, &o, argc, argv);
    if (!a || tt_dumps_init(&a->dumps)) {
        no_memory();
        free(a);
        return status;
    }
    a->dumps.hung_ns = (int64_t)(1e9 * o.min_wait_s);
    good = get_dumps(&o, &a->dumps, &f, argv[0]);
    stopped = o.is_live ? analyze_live_fini(&o.live, argv[0]) : 0;
    if (stopped)
        status = STATUS_SIGNAL + stopped;
    else if (good)
        status = analyze(a, &o);
    dump_files_fini(&f);
    tt_dumps_fini(&a->dumps);
    free(a);
    return status;
}
