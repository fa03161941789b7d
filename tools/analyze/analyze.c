/* tutti analyze: finds the cause of a hang or failure in the trace dumps of a job. */
#include "tools/analyze/analyze.h"

#include <stdio.h>
#include <stdlib.h>

#include "tools/command_line.h"
#include "tools/dump_files.h"
#include "tools/failed.h"
#include "tools/tool.h"

#define STATUS_CAUSE 3      /* a cause was found */
#define STATUS_UNKNOWN 4    /* operations are incomplete, but the dumps do not show the cause */

struct options {
    struct dump_paths paths;
    uint32_t rows;
    const char *svg;
    bool json;
};

static const struct option_row option_rows[] = {
    { "json", 0, NULL, 0, OPTION_FLAG(struct options, json), "print one JSON document" },
    { "svg", 0, "FILE", 0, OPTION_TEXT(struct options, svg),
      "write a timeline of the last operations as an SVG picture" },
    { "rows", 0, "N", 0, OPTION_INTEGER(struct options, rows, 1, 100000),
      "show at most N ranks in tables and pictures (default 24)" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .common = &dump_paths_command_line,
    .common_at = offsetof(struct options, paths),
    .args_doc = "FILE|DIRECTORY...",
    .doc = "Finds the rank or link that caused a hang or a failure, from the trace dumps of the "
           "job.\vThe arguments are dumps, or directories that contain files named "
           "tutti-trace.JOB.RANK.jsonl. The dumps of some ranks may be missing. Ranks are named "
           "only if the dumps prove their fault.\n\n"
           "Exit status: 0 if no operation is incomplete, 3 if a cause was found, 4 if the dumps "
           "do not show the cause, 1 on failure, 2 on a usage error.\n\n"
           "Examples:\n"
           "  tutti analyze /var/tmp/traces\n"
           "  tutti analyze --svg hang.svg tutti-trace.9f3c.*.jsonl\n",
};

static void no_memory(void)
{
    fprintf(stderr, "tutti analyze: out of memory\n");
}

static int exit_status(const struct tt_diagnoses *found)
{
    if (found->n == 0)
        return 0;
    return found->list[0].kind == TT_DIAGNOSIS_UNKNOWN ? STATUS_UNKNOWN : STATUS_CAUSE;
}

/* Diagnoses what was read, and shows it. Returns the exit status. */
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
    else if (!o->svg || analyze_write_svg(a, o->svg))
        status = exit_status(&a->found);
    if (status != EXIT_FAILURE && o->json)
        analyze_print_json(a);
    else if (status != EXIT_FAILURE)
        analyze_print(a);
    free(a->rows);
    tt_waits_fini(&a->waits);
    return status;
}

int tool_analyze_main(int argc, char **argv)
{
    struct options o = { .rows = 24 };
    struct analysis *a = calloc(1, sizeof *a);
    struct dump_files f = { NULL, 0, 0 };
    int status = EXIT_FAILURE;

    command_line_read(&command, &o, argc, argv);
    if (!a || tt_dumps_init(&a->dumps)) {
        no_memory();
        free(a);
        return status;
    }
    if (dump_files_find(&f, &o.paths, argv[0]) &&
        dump_files_read(&a->dumps, &f, o.paths.quiet, argv[0]))
        status = analyze(a, &o);
    dump_files_fini(&f);
    tt_dumps_fini(&a->dumps);
    free(a);
    return status;
}
