/* The path of the running program, for tools that start it again. */
#ifndef TUTTI_TOOLS_OWN_PATH_H
#define TUTTI_TOOLS_OWN_PATH_H

#include <limits.h>
#include <stdbool.h>

/* Writes the absolute path. Without /proc, it is the path that the program was started by. Returns
 * false with errno if it is unknown. */
bool own_path(char out[PATH_MAX]);

#endif
