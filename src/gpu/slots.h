/* Layout of the host memory by which ranks put into each other's device memory (gpu/rma.h), and the
 * headers of pieces. Pure.
 *
 *     heads[nranks]               pieces that each rank has written to this one
 *     tails[nranks]               pieces of this rank that each rank has taken
 *     counts[nranks][SIGNALS]     signals of each rank
 *     wake, left                  wakes the service thread; ranks that have left
 *     slots[nranks][DEPTH]        a header and a piece each */
#ifndef TT_GPU_SLOTS_H
#define TT_GPU_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TT_GPU_RING_DEPTH 4u
#define TT_GPU_NO_WINDOW UINT32_MAX     /* a signal without data */

struct tt_gpu_layout {
    uint32_t nranks;
    size_t piece_bytes;         /* largest piece */
    size_t heads, tails, counts, wake, left, slots;         /* offsets */
    size_t slot_bytes, bytes;   /* of a slot, and of everything */
};

/* Before each piece. Written by other ranks. */
struct tt_gpu_piece {
    uint64_t offset;            /* in the target's window */
    uint32_t window;            /* id, or TT_GPU_NO_WINDOW */
    uint32_t bytes;
    uint32_t signal;
    uint32_t is_last;           /* 1: counts the signal */
    uint64_t pad[5];
};
_Static_assert(sizeof(struct tt_gpu_piece) == 64, "a header is a cache line");

/* The layout for nranks ranks, equal on all of them. */
struct tt_gpu_layout tt_gpu_layout_of(uint32_t nranks);

/* Offsets of the counter of a signal from `rank`, and of slot number `piece` of its ring. */
size_t tt_gpu_layout_count(const struct tt_gpu_layout *l, uint32_t rank, uint32_t signal);
size_t tt_gpu_layout_slot(const struct tt_gpu_layout *l, uint32_t rank, uint64_t piece);

/* Checks a header from `rank` for a window of window_bytes; `known`: whether the window exists. */
tutti_status tt_gpu_piece_check(const struct tt_gpu_layout *l, const struct tt_gpu_piece *p,
                                uint32_t rank, int known, size_t window_bytes);

#endif
