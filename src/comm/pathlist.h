/* Lists of files in a variable: "a.json,b.json". */
#ifndef TT_COMM_PATHLIST_H
#define TT_COMM_PATHLIST_H

#include "tutti/tutti.h"

#define TT_PATH_BYTES 4096u

/* Gives each path of the list (NULL: none) to take, in order, until one fails; empty ones are passed over. INVALID (logged): one is too
 * long, of `variable`. */
tutti_status tt_path_list_each(const char *variable, const char *list,
                               tutti_status (*take)(void *arg, const char *path), void *arg);

#endif
