#include "comm/pathlist.h"

#include <string.h>

#include "base/status.h"

tutti_status tt_path_list_each(const char *variable, const char *list,
                               tutti_status (*take)(void *arg, const char *path), void *arg)
{
    tutti_status st = TUTTI_OK;

    while (list && *list && !st) {
        const size_t n = strcspn(list, ",");
        char path[TT_PATH_BYTES];

        if (n >= sizeof path)
            return tt_fail(TUTTI_ERR_INVALID,
                           "%s: a path is too long: %zu bytes (the maximum is %zu)", variable, n,
                           sizeof path - 1);
        memcpy(path, list, n);
        path[n] = '\0';
        if (n > 0)
            st = take(arg, path);
        list += n + (list[n] == ',');
    }
    return st;
}
