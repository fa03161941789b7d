/* What ranks must have declared alike when they make something together. */
#ifndef TT_MOE_ALIKE_H
#define TT_MOE_ALIKE_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

/* A number of a conf, as two ranks have it. */
struct tt_alike {
    const char *name;           /* of the conf's member */
    uint64_t mine, theirs;
    const char *(*text)(uint64_t value);    /* what people call it; NULL: the number */
};

/* OK, or INVALID, which names the first of fields[n] that differs, and both values. `theirs` is rank `rank`'s, and may be anything. */
tutti_status tt_alike_check(const char *call, const struct tt_alike *fields, size_t n, uint32_t own_rank,
                            uint32_t rank);
/* The name of a tutti_dtype, for `text`. */
const char *tt_alike_dtype(uint64_t value);

#endif
