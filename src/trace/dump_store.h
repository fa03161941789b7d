/* Stores a dump in a file, in another process. A thread that waits for a disk that does not respond
 * cannot be killed, and would prevent the exit of its process. Therefore another process waits,
 * without the memory and the descriptors of this one. */
#ifndef TT_TRACE_DUMP_STORE_H
#define TT_TRACE_DUMP_STORE_H

#include <stddef.h>

#include "tutti/tutti.h"

/* Copies fd (a regular file or memory, from its beginning) to `path`, under a temporary name that
 * is then renamed. May block as long as the disk does, but does not delay the exit of this process;
 * the file may then be completed later. If no shell can be started, the calling thread writes, and
 * may delay the exit. INVALID, SYSTEM (not logged; the message is in why[bytes]): no file is
 * left. */
tutti_status tt_dump_store(const char *path, int fd, char *why, size_t why_bytes);

#endif
