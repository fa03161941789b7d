/* How much memory a process can still take. */
#ifndef TT_BASE_ROOM_H
#define TT_BASE_ROOM_H

#include <stdint.h>

/* Bytes that this process and others can still take together: MemAvailable of the machine, or what the memory limits of
 * the process's control groups (version 1 or 2) leave, whichever is less. Page cache that the kernel can drop counts as
 * free. UINT64_MAX where the system shows neither. `root` precedes the paths of /proc and /sys: "", or a test's folder.
 * Reads files; any thread. */
uint64_t tt_room_bytes(const char *root);

#endif
