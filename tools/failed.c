#include "tools/failed.h"

#include <stdio.h>
#include "base/log.h"

void tool_failed(const char *who, const char *what, tutti_status st)
{
    /* aborts are not logged */
    const bool logged = tt_log_on(TT_LOG_ERROR) && st != TUTTI_ERR_ABORTED;

    if (logged && !what)
        return;
    fprintf(stderr, "%s: %s%s%s%s%s\n", who, what ? what : "", what ? ": " : "",
            tutti_status_name(st), logged ? "" : ": ", logged ? "" : tutti_last_error());
}
