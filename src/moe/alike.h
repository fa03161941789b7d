/* Check that ranks have declared equal values for a common object. */
#ifndef TT_MOE_ALIKE_H
#define TT_MOE_ALIKE_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* A field of a conf, with the values of two ranks. */
struct tt_alike {
    const char *name;           /* of the conf's field */
    uint64_t mine, theirs;
    const char *(*text)(uint64_t value);    /* name of a value, for messages; NULL: print the
                                               number */
};

/* Returns OK, or INVALID with the name of the first of fields[n] that differs, and both values.
 * `theirs` are the values of rank `rank`, and may be any numbers. */
tutti_status tt_alike_check(const char *call, const struct tt_alike *fields, size_t n,
                            uint32_t own_rank, uint32_t rank);
/* Returns the name of a tutti_dtype, for `text`. */
const char *tt_alike_dtype(uint64_t value);

#endif
