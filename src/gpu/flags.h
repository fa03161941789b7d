/* Words in pinned host memory by which streams and a worker synchronize, and the slots of direct
 * units. A stream writes the sequence number of a unit to a start word, and waits until the end
 * word has reached this number. Numbers are compared modulo 2^32.
 *
 * A stream copies the data of a direct unit to and from a slot. It then writes the unit's number to
 * the slot's word, which frees the slot.
 *
 * A stream may access words and slots after its unit has ended (the end word then already has a
 * sufficient number). Therefore they are never freed: a closed set is reused, and its numbers
 * continue. A device reset ends all streams, but not the set (gpu/pinned.h). */
#ifndef TT_GPU_FLAGS_H
#define TT_GPU_FLAGS_H

#include <stdbool.h>

#include "gpu/cuda.h"
#include "gpu/pinned.h"

#define TT_GPU_STARTS 1024u     /* start words: bounds the number of streams of pending units */

#define TT_GPU_SLOTS 16u        /* direct units in flight; further ones are staged */

struct tt_gpu_slot {
    struct tt_gpu_pinned *memory;   /* NULL: none yet */
    uint32_t sequence;              /* of the last unit */
    bool taken;                     /* by a unit without a sequence number yet */
};

struct tt_gpu_flags {
    struct tt_gpu_flags *next;
    struct tt_gpu_pinned *memory;   /* of words */
    uint32_t *words;                /* [TT_GPU_STARTS] start words, the end word, and
                                       [TT_GPU_SLOTS] words of slots */
    tt_cuda_address address;        /* of words, for streams */
    tt_cuda_context context;
    uint32_t sequence;              /* last used number; protected by the owner's lock */
    uint32_t next_start, starts_free;       /* likewise */
    struct tt_gpu_slot slots[TT_GPU_SLOTS]; /* likewise */
};

/* Takes a set of the current context, which tt_gpu_flags_close returns. */
tutti_status tt_gpu_flags_open(struct tt_gpu_flags **out, const struct tt_cuda *cu,
                               tt_cuda_context context);
void tt_gpu_flags_close(struct tt_gpu_flags *f);

/* Add to a stream: the write of a start word, and the wait for the end word. */
tt_cuda_result tt_gpu_flags_add_start(const struct tt_gpu_flags *f, const struct tt_cuda *cu,
                                      tt_cuda_stream stream, uint32_t start, uint32_t sequence);
tt_cuda_result tt_gpu_flags_add_end(const struct tt_gpu_flags *f, const struct tt_cuda *cu,
                                    tt_cuda_stream stream, uint32_t sequence);

/* Adds to a stream: the write that frees the slot. */
tt_cuda_result tt_gpu_flags_add_free(const struct tt_gpu_flags *f, const struct tt_cuda *cu,
                                     tt_cuda_stream stream, uint32_t slot, uint32_t sequence);

/* Returns whether no unit and no stream uses the slot. */
static inline bool tt_gpu_flags_slot_is_free(const struct tt_gpu_flags *f, uint32_t slot)
{
    const uint32_t last = __atomic_load_n(&f->words[TT_GPU_STARTS + 1 + slot], __ATOMIC_ACQUIRE);

    return !f->slots[slot].taken && (int32_t)(last - f->slots[slot].sequence) >= 0;
}

/* Returns whether the stream of this start word has reached its unit. */
static inline bool tt_gpu_flags_started(const struct tt_gpu_flags *f, uint32_t start,
                                        uint32_t sequence)
{
    return (int32_t)(__atomic_load_n(&f->words[start], __ATOMIC_ACQUIRE) - sequence) >= 0;
}

/* Releases all streams that wait for `sequence` or earlier. */
static inline void tt_gpu_flags_end(struct tt_gpu_flags *f, uint32_t sequence)
{
    __atomic_store_n(&f->words[TT_GPU_STARTS], sequence, __ATOMIC_RELEASE);
}

#endif
