/* The two buffers of a measurement. */
#ifndef TUTTI_TOOLS_PERF_ROOMS_H
#define TUTTI_TOOLS_PERF_ROOMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

struct perf_rooms {
    tutti_comm *comm;
    void *one, *other;
    size_t bytes;           /* size of each */
    bool mem_alloc;         /* from tutti_mem_alloc, otherwise from malloc */
};

/* Checks that the available memory of each host suffices for its ranks. Each rank needs
 * buffer_bytes, call_bytes in the library (tools/perf/perf_own.h), and the library's other memory.
 * Otherwise returns NOMEM on all ranks, before any allocation. Logs the values at level info.
 * Collective over comm. */
tutti_status perf_rooms_check(tutti_comm *comm, uint64_t buffer_bytes, uint64_t call_bytes);

/* Allocates both buffers and writes to every page, so that page faults are not measured. bytes may
 * be 0; call_bytes is as above. Collective; returns NOMEM on all ranks if a host lacks memory. On
 * error *r is unchanged. Undone by perf_rooms_fini, before the communicator is destroyed. */
tutti_status perf_rooms_init(struct perf_rooms *r, tutti_comm *comm, size_t bytes,
                             uint64_t call_bytes, bool mem_alloc);
/* *r may be zeroed. */
void perf_rooms_fini(struct perf_rooms *r);

#endif
