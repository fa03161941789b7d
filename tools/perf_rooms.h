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
    size_t bytes;           /* of each */
    bool mem_alloc;         /* from tutti_mem_alloc, else malloc */
};

/* Refuses, on all ranks alike and before anything is allocated, buffers of rank_bytes bytes in every rank that do not fit
 * the memory that is left on some host (NOMEM). Called by all ranks of comm together. */
tutti_status perf_rooms_check(tutti_comm *comm, uint64_t rank_bytes);

/* Allocates both and writes every page, so that nobody measures page faults. Zero bytes are fine. Called by all
 * ranks together: NOMEM on all where one host lacks the memory. On error *r is untouched;
 * on success perf_rooms_fini ends it, before the communicator is destroyed. */
tutti_status perf_rooms_init(struct perf_rooms *r, tutti_comm *comm, size_t bytes, bool mem_alloc);
/* A zeroed *r is fine. */
void perf_rooms_fini(struct perf_rooms *r);

#endif
