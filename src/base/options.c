#include "base/options.h"

#include <inttypes.h>
#include <string.h>

tutti_status tt_options_take(void *out, size_t bytes, size_t bytes_first, const void *given,
                             const char *call, const char *what, const char *type)
{
    const unsigned char *from = given;
    size_t size;

    memcpy(&size, given, sizeof size);
    if (size < bytes_first || size > TT_OPTIONS_BYTES_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s.size is %zu, not %zu: set it to sizeof(%s)", call,
                       what, size, bytes, type);
    for (size_t i = bytes; i < size; i++)
        if (from[i])
            return tt_fail(TUTTI_ERR_INVALID,
                           "%s: %s.size is %zu, but this library (Tutti %s) supports %zu bytes, "
                           "and byte %zu is not zero: the "
                           "program was built for a newer Tutti",
                           call, what, size, tutti_version(), bytes, i);
    memset(out, 0, bytes);
    memcpy(out, given, size < bytes ? size : bytes);
    memcpy(out, &bytes, sizeof bytes);
    return TUTTI_OK;
}

tutti_status tt_options_flag(const char *call, const char *field, int64_t value)
{
    if (value == 0 || value == 1)
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID, "%s: %s is %" PRId64 ": must be 0 or 1", call, field, value);
}

tutti_status tt_options_enum(const char *call, const char *field, int64_t value, int64_t last)
{
    if (value >= 0 && value <= last)
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID, "%s: %s is %" PRId64 ": must be 0 to %" PRId64, call, field,
                   value, last);
}
