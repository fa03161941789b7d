/* Lists of files in an environment variable: "a.json,b.json". */
#ifndef TT_COMM_PATHLIST_H
#define TT_COMM_PATHLIST_H

#include "tutti/tutti.h"

#define TT_PATH_BYTES 4096u

/* Calls `take` for each path of the list (NULL: none), in order, until one fails; skips empty
 * ones. INVALID (logged): a path in `variable` is too long. */
tutti_status tt_path_list_each(const char *variable, const char *list,
                               tutti_status (*take)(void *arg, const char *path), void *arg);

#endif
