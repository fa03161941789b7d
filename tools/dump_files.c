#include "tools/dump_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define PROGRESS_FILES 1000u
#define FILE_PREFIX "tutti-trace."
#define FILE_SUFFIX ".jsonl"

static bool add_file(struct dump_files *f, const char *folder, const char *name, const char *who)
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
        fprintf(stderr, "%s: out of memory\n", who);
        return false;
    }
    snprintf(path, bytes, "%s%s%s", folder, *folder ? "/" : "", name);
    f->paths[f->n++] = path;
    return true;
}

void dump_files_fini(struct dump_files *f)
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
static bool add_directory(struct dump_files *f, const char *path, const char *who)
{
    DIR *folder = opendir(path);
    const size_t first = f->n;
    struct dirent *entry;
    bool ok = true;

    if (!folder) {
        fprintf(stderr, "%s: cannot read the directory %s: %s\n", who, path, strerror(errno));
        return false;
    }
    while (ok && (entry = readdir(folder)))
        if (is_dump_name(entry->d_name))
            ok = add_file(f, path, entry->d_name, who);
    closedir(folder);
    if (f->n > first)
        qsort(f->paths + first, f->n - first, sizeof *f->paths, by_name);
    if (ok && f->n == first)
        fprintf(stderr, "%s: %s contains no files named tutti-trace.JOB.RANK.jsonl\n", who, path);
    return ok;
}

uint32_t dump_files_count(const char *dir)
{
    DIR *folder = opendir(dir);
    struct dirent *entry;
    uint32_t n = 0;

    if (!folder)
        return 0;
    while ((entry = readdir(folder)))
        n += is_dump_name(entry->d_name);
    closedir(folder);
    return n;
}

static void take_paths(void *options, struct argp_state *state, char *arg)
{
    struct dump_paths *paths = options;

    paths->n = command_line_rest(state, arg, &paths->list);
}

static void check_paths(void *options, struct argp_state *state)
{
    const struct dump_paths *paths = options;

    if (paths->n == 0 && !paths->is_optional)
        argp_error(state, "missing argument: the trace dumps, or their directory");
}

static const struct option_row option_rows[] = {
    { "quiet", 'q', NULL, 0, OPTION_FLAG(struct dump_paths, quiet),
      "print no progress on standard error" },
    { 0 },
};

const struct command_line dump_paths_command_line = {
    .rows = option_rows, .argument = take_paths, .check = check_paths,
};

bool dump_files_find(struct dump_files *f, const struct dump_paths *paths, const char *who)
{
    for (uint32_t i = 0; i < paths->n; i++) {
        const char *path = paths->list[i];
        struct stat info;
        const bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);

        if (!(is_folder ? add_directory(f, path, who) : add_file(f, "", path, who)))
            return false;
    }
    return true;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void print_problems(const struct tt_dumps *d, const char *who)
{
    for (uint32_t i = 0; i < d->nproblems && i < TT_DUMPS_PROBLEMS_MAX; i++)
        fprintf(stderr, "%s: %s\n", who, d->problems[i]);
    if (d->nproblems > TT_DUMPS_PROBLEMS_MAX)
        fprintf(stderr, "%s: %u more problems like these\n", who,
                d->nproblems - TT_DUMPS_PROBLEMS_MAX);
}

bool dump_files_read(struct tt_dumps *d, const struct dump_files *f, bool quiet, const char *who)
{
    double printed = seconds();

    for (size_t i = 0; i < f->n; i++) {
        if (tt_dumps_read(d, f->paths[i]) == TUTTI_ERR_NOMEM) {
            fprintf(stderr, "%s: out of memory after %zu of %zu dumps\n", who, i, f->n);
            return false;
        }
        if (!quiet && f->n > PROGRESS_FILES && seconds() > printed + 1) {
            printed = seconds();
            fprintf(stderr, "%s: %zu of %zu dumps\n", who, i + 1, f->n);
        }
    }
    print_problems(d, who);
    if (d->ndumps == 0)
        fprintf(stderr, "%s: no dump could be read\n", who);
    return d->ndumps > 0;
}
