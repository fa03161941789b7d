/* The cause of a LOST event of the control overlay, for error messages. */
#ifndef TT_BOOT_LOSS_CAUSE_H
#define TT_BOOT_LOSS_CAUSE_H

#include <stddef.h>
#include "boot/boot.h"

/* Writes the cause of a LOST event to text[bytes], as the end of a message about the lost rank. The
 * text names the deadline only if it passed before this rank was connected to the lost one. Pure;
 * any thread. */
void tt_loss_cause(const struct tt_overlay_event *ev, char *text, size_t bytes);

#endif
