/* Random programs of blocks, over a random network: no signal may be visible before its bytes, and
 * no source may be reused too early. */
#ifndef TESTS_DEVICE_HISTORIES_H
#define TESTS_DEVICE_HISTORIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/device.h"

/* Runs one history. On failure returns false, and writes the error to why[why_bytes]. */
bool history_play(uint64_t seed, tutti_device_mode mode, char *why, size_t why_bytes);
/* Runs fence A, fence B, signal B, signal A, while nothing arrives at A: B receives its signal at
 * once, and A when it continues. Only for modes with marks. */
bool history_delayed(tutti_device_mode mode, char *why, size_t why_bytes);
/* Stops rank 1 with the maximum queued for it. The other ranks still receive signals, also after
 * quiets, and rank 1 receives everything when it continues. Only for modes with marks. */
bool history_stopped(tutti_device_mode mode, char *why, size_t why_bytes);

#endif
