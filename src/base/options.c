#include "base/options.h"

#include <string.h>

tutti_status tt_options_take(void *out, size_t bytes, size_t bytes_first, const void *given, const char *call,
                             const char *what, const char *type)
{
    const unsigned char *from = given;
    size_t size;

    memcpy(&size, given, sizeof size);
    if (size < bytes_first || size > TT_OPTIONS_BYTES_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "%s: %s.size is %zu, not %zu: set it to sizeof(%s)", call, what, size, bytes, type);
    for (size_t i = bytes; i < size; i++)
        if (from[i])
            return tt_fail(
                TUTTI_ERR_INVALID,
                "%s: %s.size is %zu, of which this Tutti (%s) knows %zu, but byte %zu is not zero: the program was built for a newer one",
                call, what, size, tutti_version(), bytes, i);
    memset(out, 0, bytes);
    memcpy(out, given, size < bytes ? size : bytes);
    memcpy(out, &bytes, sizeof bytes);
    return TUTTI_OK;
}
