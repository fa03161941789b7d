/* The trace dumps that a command line names. Messages go to stderr, after the prefix `who`, e.g.
 * "tutti analyze". */
#ifndef TUTTI_TOOLS_DUMP_FILES_H
#define TUTTI_TOOLS_DUMP_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "analyze/dumps.h"
#include "tools/command_line.h"

/* Arguments and options of the commands that read dumps. */
struct dump_paths {
    char **list;            /* [n] files and directories, in argv */
    uint32_t n;
    bool quiet;             /* no progress is printed */
    bool is_optional;       /* there may be no path */
};

/* Rows of the command line that set a struct dump_paths. */
extern const struct command_line dump_paths_command_line;

struct dump_files {
    char **paths;
    size_t n, capacity;
};

/* Finds the dumps: each path is a file, or a directory with files named
 * tutti-trace.JOB.RANK.jsonl. Returns false after an error message. The caller calls
 * dump_files_fini in any case. */
bool dump_files_find(struct dump_files *f, const struct dump_paths *paths, const char *who);
void dump_files_fini(struct dump_files *f);
/* Returns the number of files named tutti-trace.JOB.RANK.jsonl in a directory; 0 if it cannot be
 * read. */
uint32_t dump_files_count(const char *dir);
/* Reads all dumps. Problems of single dumps are reported; quiet: no progress is printed. Returns
 * false after an error message: no dump could be read, or memory is exhausted. */
bool dump_files_read(struct tt_dumps *d, const struct dump_files *f, bool quiet, const char *who);

#endif
