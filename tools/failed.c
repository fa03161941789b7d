#include "failed.h"

#include <stdio.h>
#include "base/log.h"

void tool_failed(const char *who, const char *what, tutti_status st)
{
    const bool told = tt_log_on(TT_LOG_ERROR) && st != TUTTI_ERR_ABORTED;      /* aborts are not logged */

    if (told && !what)
        return;
    fprintf(stderr, "%s: %s%s%s%s%s\n", who, what ? what : "", what ? ": " : "", tutti_status_name(st),
            told ? "" : ": ", told ? "" : tutti_last_error());
}
