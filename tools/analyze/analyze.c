/* tutti analyze: finds the cause of a hang or failure in the trace dumps of a job. */
#include "tools/analyze/analyze.h"

#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tools/failed.h"
#include "tools/option_values.h"
#include "tools/tool.h"

#define STATUS_CAUSE 3      /* a cause was found */
#define STATUS_UNKNOWN 4    /* operations are incomplete, but the dumps do not show the cause */
#define PROGRESS_FILES 1000u
#define FILE_PREFIX "tutti-trace."
#define FILE_SUFFIX ".jsonl"

struct options {
    char **paths;           /* [npaths] of the command line */
    uint32_t npaths, rows;
    const char *svg;
    bool json, quiet;
};

struct files {
    char **paths;
    size_t n, capacity;
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

/* ---- files ---- */

static void no_memory(void)
{
    fprintf(stderr, "tutti analyze: out of memory\n");
}

static bool add_file(struct files *f, const char *folder, const char *name)
{
    const size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = malloc(bytes);

    if (path && f->n == f->capacity) {
        const size_t more = f->capacity ? 2 * f->capacity : 64;
        char **bigger = realloc(f->paths, more * sizeof *bigger);

        if (bigger) {
            f->paths = bigger;
            f->capacity = more;
        }
    }
    if (!path || f->n == f->capacity) {
        free(path);
        no_memory();
        return false;
    }
    snprintf(path, bytes, "%s%s%s", folder, *folder ? "/" : "", name);
    f->paths[f->n++] = path;
    return true;
}

static void files_fini(struct files *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->paths[i]);
    free(f->paths);
}

static bool is_dump_name(const char *name)
{
    const size_t n = strlen(name), suffix = strlen(FILE_SUFFIX);

    return strncmp(name, FILE_PREFIX, strlen(FILE_PREFIX)) == 0 && n > suffix &&
           strcmp(name + n - suffix, FILE_SUFFIX) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the dumps in a directory, sorted by name. */
static bool add_directory(struct files *f, const char *path)
{
    DIR *folder = opendir(path);
    const size_t first = f->n;
    struct dirent *entry;
    bool ok = true;

    if (!folder) {
        fprintf(stderr, "tutti analyze: cannot read the directory %s: %s\n", path, strerror(errno));
        return false;
    }
    while (ok && (entry = readdir(folder)))
        if (is_dump_name(entry->d_name))
            ok = add_file(f, path, entry->d_name);
    closedir(folder);
    qsort(f->paths + first, f->n - first, sizeof *f->paths, by_name);
    if (ok && f->n == first)
        fprintf(stderr, "tutti analyze: %s contains no files named tutti-trace.JOB.RANK.jsonl\n",
                path);
    return ok;
}

static bool find_files(struct files *f, const struct options *o)
{
    for (uint32_t i = 0; i < o->npaths; i++) {
        struct stat info;
        const bool is_folder = stat(o->paths[i], &info) == 0 && S_ISDIR(info.st_mode);

        if (!(is_folder ? add_directory(f, o->paths[i]) : add_file(f, "", o->paths[i])))
            return false;
    }
    return true;
}

/* ---- reading ---- */

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns false if memory is exhausted. */
static bool read_files(struct tt_dumps *d, const struct files *f, bool quiet)
{
    double printed = seconds();

    for (size_t i = 0; i < f->n; i++) {
        if (tt_dumps_read(d, f->paths[i]) == TUTTI_ERR_NOMEM) {
            fprintf(stderr, "tutti analyze: out of memory after %zu of %zu dumps\n", i, f->n);
            return false;
        }
        if (!quiet && f->n > PROGRESS_FILES && seconds() > printed + 1) {
            printed = seconds();
            fprintf(stderr, "tutti analyze: %zu of %zu dumps\n", i + 1, f->n);
        }
    }
    return true;
}

static void print_problems(const struct tt_dumps *d)
{
    for (uint32_t i = 0; i < d->nproblems && i < TT_DUMPS_PROBLEMS_MAX; i++)
        fprintf(stderr, "tutti analyze: %s\n", d->problems[i]);
    if (d->nproblems > TT_DUMPS_PROBLEMS_MAX)
        fprintf(stderr, "tutti analyze: %u more problems like these\n",
                d->nproblems - TT_DUMPS_PROBLEMS_MAX);
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
    struct files f = { NULL, 0, 0 };
    int status = EXIT_FAILURE;

    argp_parse(&argp, argc, argv, 0, NULL, &o);
    if (!a || tt_dumps_init(&a->dumps)) {
        no_memory();
        free(a);
        return status;
    }
    if (find_files(&f, &o) && read_files(&a->dumps, &f, o.quiet)) {
        print_problems(&a->dumps);
        if (a->dumps.ndumps > 0)
            status = analyze(a, &o);
        else
            fprintf(stderr, "tutti analyze: no dump could be read\n");
    }
    files_fini(&f);
    tt_dumps_fini(&a->dumps);
    free(a);
    return status;
}
