/* Parts of `tutti profile`. */
#ifndef TUTTI_TOOLS_PROFILE_H
#define TUTTI_TOOLS_PROFILE_H

#include <stdbool.h>
#include <stdint.h>
#include "analyze/pace_dumps.h"
#include "analyze/profile.h"

struct profiled {
    struct tt_dumps dumps;
    struct tt_instances instances;
    struct tt_profile profile;
    struct tt_pace_dumps pace;
    uint32_t rows;              /* show at most this many rows in each table */
};

/* Returns the finding's group in words, e.g. `"dp"`, in out[96]. */
const char *profile_group(const struct profiled *p, uint32_t group, char out[96]);

/* Converts a time to an integer: 0 if it is negative or NaN, INT64_MAX if it is too large. */
int64_t profile_ns(double ns);
/* Prints tables. */
void profile_print(const struct profiled *p);
/* Prints one JSON document. Returns false if out of memory. */
bool profile_print_json(const struct profiled *p);
/* Writes all operations in the Chrome trace event format. Returns false after reporting an
 * error. */
bool profile_write_perfetto(const struct profiled *p, const char *path);
/* Writes the collectives in the format of PyTorch's flight recorder to folder/tutti_RANK. Returns
 * false after reporting an error. */
bool profile_write_torchfr(const struct profiled *p, const char *folder);

#endif
