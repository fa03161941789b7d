/* The two buffers of a measurement. */
#ifndef TUTTI_TOOLS_PERF_ROOMS_H
#define TUTTI_TOOLS_PERF_ROOMS_H

#include <stdbool.h>
#include <stddef.h>
#include "tutti/tutti.h"

struct perf_rooms {
    tutti_comm *comm;
    void *one, *other;
    size_t bytes;           /* of each */
    bool mem_alloc;         /* from tutti_mem_alloc, else malloc */
};

/* Allocates both and writes every page, so that nobody measures page faults. Zero bytes are fine. On error *r is untouched;
 * on success perf_rooms_fini ends it, before the communicator is destroyed. */
tutti_status perf_rooms_init(struct perf_rooms *r, tutti_comm *comm, size_t bytes, bool mem_alloc);
/* A zeroed *r is fine. */
void perf_rooms_fini(struct perf_rooms *r);

#endif
