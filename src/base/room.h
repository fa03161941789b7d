/* Memory available to a process. */
#ifndef TT_BASE_ROOM_H
#define TT_BASE_ROOM_H

#include <stdint.h>

/* Returns the bytes that this and other processes can still allocate. This is the lesser of the
 * machine's MemAvailable and the remaining limits of the process's control groups (version 1 or 2).
 * Page cache that the kernel can drop counts as free. UINT64_MAX if the kernel reports neither.
 * `root` is prepended to the paths of /proc and /sys: "", or a test's folder. Reads files; any
 * thread. */
uint64_t tt_available_memory(const char *root);

#endif
