/* Stores a dump in a file, by a process of its own. A thread that waits for a disk that does not
 * respond cannot be killed, and its process could not end. A process waits here instead, without
 * the memory and the descriptors of this one. */
#ifndef TT_TRACE_DUMP_STORE_H
#define TT_TRACE_DUMP_STORE_H

#include <stddef.h>

#include "tutti/tutti.h"

/* Copies fd (a regular file or memory, from its begin) to `path`, under a temporary name that is
 * then renamed. May block for as long as the disk does, but does not delay the end of this process;
 * the file may then be completed later. If no shell can be started, the calling thread writes, and
 * may delay that end. INVALID, SYSTEM (not logged; the message is in why[bytes]): nothing is left
 * behind. */
tutti_status tt_dump_store(const char *path, int fd, char *why, size_t why_bytes);

#endif
