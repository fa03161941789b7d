#include "moe/alike.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"

static const char *field_text(const struct tt_alike *f, uint64_t value, char number[24])
{
    if (f->text)
        return f->text(value);
    snprintf(number, 24, "%" PRIu64, value);
    return number;
}

tutti_status tt_alike_check(const char *call, const struct tt_alike *fields, size_t n,
                            uint32_t own_rank, uint32_t rank)
{
    char mine[24], theirs[24];

    for (size_t i = 0; i < n; i++)
        if (fields[i].mine != fields[i].theirs)
            return tt_fail(TUTTI_ERR_INVALID,
                           "%s: conf.%s differs between ranks: %s on rank %u, %s on rank %u", call,
                           fields[i].name, field_text(&fields[i], fields[i].theirs, theirs), rank,
                           field_text(&fields[i], fields[i].mine, mine), own_rank);
    return TUTTI_OK;
}

const char *tt_alike_dtype(uint64_t value)
{
    return tutti_dtype_name(value < TUTTI_DTYPE_COUNT ? (tutti_dtype)value : TUTTI_DTYPE_COUNT);
}
