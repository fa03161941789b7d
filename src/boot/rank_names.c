#include "boot/rank_names.h"

#include <inttypes.h>
#include <stdio.h>
#include "base/status.h"

void tt_ranks_name(char *out, size_t cap, uint32_t nranks,
                   bool (*missing)(const void *context, uint32_t rank), const void *context)
{
    const size_t tail = 24;     /* space for "and 1048576 more" */
    size_t n = 0;
    uint32_t more = 0;

    tt_assert(cap > 2 * tail);
    out[0] = '\0';
    for (uint32_t first = 0; first < nranks; first++) {
        uint32_t last = first;

        if (!missing(context, first))
            continue;
        while (last + 1 < nranks && missing(context, last + 1))
            last++;
        if (n + tail + tail > cap)
            more += last - first + 1;
        else if (last == first)
            n += (size_t)snprintf(out + n, cap - n, "%s%" PRIu32, n ? ", " : "", first);
        else
            n += (size_t)snprintf(out + n, cap - n, "%s%" PRIu32 "-%" PRIu32, n ? ", " : "", first,
                                  last);
        first = last;
    }
    if (more)
        snprintf(out + n, cap - n, " and %" PRIu32 " more", more);
}
