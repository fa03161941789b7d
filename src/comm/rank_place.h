/* Data that every rank has of each rank of the job, without its card: its location, its processors,
 * and whether it uses shared memory. Start-up sends each distinct sequence of places of a host once
 * (boot/tree_layout.h). */
#ifndef TT_COMM_RANK_PLACE_H
#define TT_COMM_RANK_PLACE_H

#include "comm/comm.h"
#include "comm/cores.h"

struct tt_rank_place {
    cpu_set_t cores;
    struct tt_rank_location location;
    bool shares;                /* its preferred transport is shared memory */
};

/* Writes a place without its host, which start-up proves. Returns the size. */
size_t tt_rank_place_write(const struct tt_rank_place *p, uint8_t out[TT_BOOT_PLACE_BYTES]);
/* Returns whether it is a valid place, i.e. one with host 0. */
bool tt_rank_place_read(struct tt_rank_place *out, const uint8_t *place, size_t bytes);

/* Adds the place of a rank, in order. The host of this rank is already in w->places. */
void tt_world_add_place(struct tt_world *w, uint32_t rank, const struct tt_rank_place *p);
/* Returns whether all of ranks[n] (job ranks) share a host and its memory. The result is the same
 * on every rank. Call after tt_world_complete. */
bool tt_world_all_local(const struct tt_world *w, const uint32_t *ranks, uint32_t n);

#endif
