/* PMI-1 over its descriptor: PMI_FD, or a connection to PMI_PORT. One thread at a time (kv.c
 * locks). */
#ifndef TT_BOOT_PMI1_LINK_H
#define TT_BOOT_PMI1_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

/* Returns whether the launcher offers PMI-1 to this process: PMI_FD, or PMI_PORT and PMI_ID. */
bool tt_pmi1_is_offered(void);
/* Connects to PMI_PORT as PMI_ID and gets rank and number of ranks. The connection stays open for
 * the next calls. Waits until the deadline. */
tutti_status tt_pmi1_join(uint32_t *rank, uint32_t *nranks, uint64_t deadline_ns);
/* On rank 0, publishes value; elsewhere receives it in value[cap]. Blocks until all ranks have
 * called it, or until the deadline. The launcher allows this once per process. */
tutti_status tt_pmi1_broadcast(uint32_t rank, char *value, size_t cap, uint64_t deadline_ns);
/* Closes a joined connection in an orderly way, if nothing is exchanged. */
tutti_status tt_pmi1_leave(uint64_t deadline_ns);

#endif
