/* Layout of the host memory by which ranks put into each other's device memory (gpu/rma.h), and the
 * headers of pieces. Pure.
 *
 *     heads[nranks]               pieces that each rank has written to this one
 *     tails[nranks]               pieces of this rank that each rank has taken
 *     counts[nranks][SIGNALS]     signals of each rank
 *     wake, left                  wakes the service thread; ranks that have left
 *     replied                     pieces in `replies` that have arrived; TT_GPU_REFUSED per request
 *                                 that was refused
 *     slots[nranks][DEPTH]        a header and a piece each
 *     replies[REPLIES]            data that this rank's gets and atomics have requested */
#ifndef TT_GPU_SLOTS_H
#define TT_GPU_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TT_GPU_RING_DEPTH 4u
#define TT_GPU_REPLIES 2u               /* maximum replies that a rank awaits at the same time */
#define TT_GPU_NO_WINDOW UINT32_MAX     /* a signal without data */
#define TT_GPU_REFUSED (1ull << 48)     /* exceeds any number of replies to a rank */

struct tt_gpu_layout {
    uint32_t nranks;
    size_t piece_bytes;         /* largest piece */
    size_t heads, tails, counts, wake, left, replied, slots, replies;       /* offsets */
    size_t slot_bytes, bytes;   /* of a slot, and of everything */
};

/* What the target does with a piece. */
enum tt_gpu_piece_kind { TT_GPU_PIECE_PUT, TT_GPU_PIECE_GET, TT_GPU_PIECE_ATOMIC };

/* Header of each piece. Written by other ranks. */
struct tt_gpu_piece {
    uint64_t offset;            /* in the target's window */
    uint32_t window;            /* id, or TT_GPU_NO_WINDOW */
    uint32_t bytes;             /* of the data after the header; puts only */
    uint32_t signal;            /* puts only, like is_last */
    uint32_t is_last;           /* 1: increments the count of the signal */
    uint32_t kind;              /* enum tt_gpu_piece_kind */
    uint32_t length;            /* of the requested data, or of the word */
    uint64_t operand, compare;  /* atomics only, like `op` */
    uint32_t op;                /* tutti_atomic_op */
    uint32_t reply;             /* index of the reply + 1; 0: an atomic without reply */
    uint64_t pad;
};
_Static_assert(sizeof(struct tt_gpu_piece) == 64, "a header is a cache line");

/* The layout for nranks ranks, equal on all of them. */
struct tt_gpu_layout tt_gpu_layout_of(uint32_t nranks);

/* Offsets of the counter of a signal from `rank`, and of slot `piece` of its ring. */
size_t tt_gpu_layout_count(const struct tt_gpu_layout *l, uint32_t rank, uint32_t signal);
size_t tt_gpu_layout_slot(const struct tt_gpu_layout *l, uint32_t rank, uint64_t piece);
/* Offset of a reply. */
size_t tt_gpu_layout_reply(const struct tt_gpu_layout *l, uint32_t index);

/* Checks a header from `rank` for a window of window_bytes; `known`: whether the window exists. */
tutti_status tt_gpu_piece_check(const struct tt_gpu_layout *l, const struct tt_gpu_piece *p,
                                uint32_t rank, int known, size_t window_bytes);

#endif
