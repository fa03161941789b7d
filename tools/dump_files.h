/* The trace dumps that a command line names. Messages go to stderr, after the prefix `who`, e.g.
 * "tutti analyze". */
#ifndef TUTTI_TOOLS_DUMP_FILES_H
#define TUTTI_TOOLS_DUMP_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "analyze/dumps.h"

struct dump_files {
    char **paths;
    size_t n, capacity;
};

/* Finds the dumps: each of paths[npaths] is a file, or a directory with files named
 * tutti-trace.JOB.RANK.jsonl. False: reported. The caller calls dump_files_fini in any case. */
bool dump_files_find(struct dump_files *f, char **paths, uint32_t npaths, const char *who);
void dump_files_fini(struct dump_files *f);
/* Reads all dumps. Problems of single dumps are reported; quiet: no progress is printed. False:
 * reported; no dump could be read, or memory is exhausted. */
bool dump_files_read(struct tt_dumps *d, const struct dump_files *f, bool quiet, const char *who);

#endif
