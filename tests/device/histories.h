/* Random programs of blocks, over a random network: does anybody see a signal before its bytes, or lose a source too early? */
#ifndef TESTS_DEVICE_HISTORIES_H
#define TESTS_DEVICE_HISTORIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/device.h"

/* Plays one. False: why[why_bytes] says what went wrong. */
bool history_play(uint64_t seed, tutti_device_mode mode, char *why, size_t why_bytes);
/* fence A, fence B, signal B, signal A, where nothing lands at A: B is signalled, and A is when it goes on. In modes that mark. */
bool history_delayed(tutti_device_mode mode, char *why, size_t why_bytes);
/* Rank 1 is stopped, and as much is queued for it as may be; the others are signalled meanwhile, also by quiets, and
 * rank 1 gets everything when it goes on. In modes that mark. */
bool history_stopped(tutti_device_mode mode, char *why, size_t why_bytes);

#endif
