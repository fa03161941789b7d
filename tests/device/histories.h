/* Random programs of blocks, over a random network: no signal may be visible before its bytes, and
 * no source may be reused too early. */
#ifndef TESTS_DEVICE_HISTORIES_H
#define TESTS_DEVICE_HISTORIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/device.h"

/* Runs one. Returns false with the error in why[why_bytes]. */
bool history_play(uint64_t seed, tutti_device_mode mode, char *why, size_t why_bytes);
/* fence A, fence B, signal B, signal A, while nothing arrives at A: B gets its signal, and A does
 * when it continues. In modes with marks. */
bool history_delayed(tutti_device_mode mode, char *why, size_t why_bytes);
/* Rank 1 is stopped, with the maximum queued for it. The others still get signals, also from
 * quiets, and rank 1 gets everything when it continues. In modes with marks. */
bool history_stopped(tutti_device_mode mode, char *why, size_t why_bytes);

#endif
