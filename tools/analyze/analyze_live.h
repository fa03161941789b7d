/* The trace dumps of a running job, which its processes write on request. */
#ifndef TUTTI_TOOLS_ANALYZE_LIVE_H
#define TUTTI_TOOLS_ANALYZE_LIVE_H

#include <stdbool.h>
#include <stdint.h>
#include "status/collect.h"

struct analyze_live {
    const char *what;           /* the job, as in status_find */
    const char *dir;            /* directory of the dumps; NULL: a temporary one */
    uint32_t timeout_ms;
    char path[TT_COLLECT_DIR_BYTES];    /* set by analyze_live_collect: the directory */
    bool is_temporary;
    int folder;                 /* the open directory; the caller sets -1 */
};

/* Finds the job, lets its processes write their dumps, and waits for them. Messages go to stderr,
 * after the prefix `who`. Returns false if there is no dump. The caller calls analyze_live_fini in
 * any case. */
bool analyze_live_collect(struct analyze_live *l, const char *who);
/* Closes the directory, and removes a temporary one. Returns the signal that ended the query (HUP,
 * INT, TERM or PIPE), or 0; later ones have their usual effect. */
int analyze_live_fini(struct analyze_live *l, const char *who);

#endif
