/* tutti analyze: finds the cause of a hang or failure in the trace dumps of a job. */
#include "tools/analyze/analyze.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/dump_files.h"
#include "tools/failed.h"
#include "tools/option_values.h"
#include "tools/tool.h"

#define STATUS_CAUSE 3      /* a cause was found */
#define STATUS_UNKNOWN 4    /* operations are incomplete, but the dumps do not show the cause */

struct options {
    char **paths;           /* [npaths] of the command line */
    uint32_t npaths, rows;
    const char *svg;
    bool json, quiet;
};

enum { OPT_JSON = 256, OPT_SVG, OPT_ROWS };

static const struct argp_option argp_options[] = {
    { "json", OPT_JSON, NULL, 0, "print one JSON document", 0 },
    { "svg", OPT_SVG, "FILE", 0, "write a timeline of the last operations as an SVG picture", 0 },
    { "rows", OPT_ROWS, "N", 0, "show at most N ranks in tables and pictures (default 24)", 0 },
    { "quiet", 'q', NULL, 0, "print no progress on standard error", 0 },
    { 0 },
};

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case OPT_JSON:
        o->json = true;
        return 0;
    case OPT_SVG:
        o->svg = arg;
        return 0;
    case OPT_ROWS:
        o->rows = (uint32_t)option_number(state, "--rows", arg, 1, 100000);
        return 0;
    case 'q':
        o->quiet = true;
        return 0;
    case ARGP_KEY_ARGS:
        o->paths = state->argv + state->next;
        o->npaths = (uint32_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_END:
        if (o->npaths == 0)
            argp_error(state, "missing argument: the trace dumps, or their directory");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
    .args_doc = "FILE|DIRECTORY...",
    .doc = "Finds the rank or link that caused a hang or a failure, from the trace dumps of the "
           "job.\vThe arguments are dumps, or directories that contain files named "
           "tutti-trace.JOB.RANK.jsonl. Missing dumps are evidence too. Ranks are named only if "
           "the dumps prove their fault.\n\n"
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

    argp_parse(&argp, argc, argv, 0, NULL, &o);
    if (!a || tt_dumps_init(&a->dumps)) {
        no_memory();
        free(a);
        return status;
    }
    if (dump_files_find(&f, o.paths, o.npaths, argv[0]) &&
        dump_files_read(&a->dumps, &f, o.quiet, argv[0]))
        status = analyze(a, &o);
    dump_files_fini(&f);
    tt_dumps_fini(&a->dumps);
    free(a);
    return status;
}
