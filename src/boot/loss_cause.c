#include "boot/loss_cause.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void tt_loss_cause(const struct tt_overlay_event *ev, char *text, size_t bytes)
{
    if (!ev->unmet)
        snprintf(text, bytes, "its process ended");
    else if (!ev->error)
        snprintf(text, bytes,
                 "another rank lost its control connection to it, or could not "
                 "establish one, before this rank was connected to it");
    else if (ev->error == ETIMEDOUT)
        snprintf(text, bytes, "no control connection to it was established before the deadline");
    else if (ev->error == EADDRNOTAVAIL)
        snprintf(text, bytes,
                 "none of its addresses is reachable from this host (set conf.interfaces or "
                 "TUTTI_INTERFACES)");
    else
        snprintf(text, bytes,
                 "the control connection to each of its addresses failed (last error: %s)",
                 strerror(ev->error));
}
