/* Writes a dump in the format of docs/trace-format.md. May block as long as the disk does: only for
 * the thread of dump.c. The dump is written to memory first, and then stored. */
#ifndef TT_TRACE_DUMP_WRITE_H
#define TT_TRACE_DUMP_WRITE_H

#include "trace/dump_state.h"
#include "tutti/tutti.h"

struct tt_dump_head {
    const char *reason, *message;
    uint64_t job;               /* 0: unknown */
    uint64_t rank;              /* in the job; in an elastic run, the member id */
    uint32_t nranks;
    uint64_t failed_ns;         /* time of the failure that caused it; 0: another cause */
};

/* Writes the head, the ring, the communicators, the annotations and *s to `path`, by tt_dump_store.
 * INVALID, SYSTEM (not logged; the message is in why[bytes]): no file is left. */
tutti_status tt_dump_write(const char *path, const struct tt_dump_head *head,
                           const struct tt_dump_state *s, char *why, size_t why_bytes);

#endif
