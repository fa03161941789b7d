/* Stages of long operations: the time that the rank spent on registration, sending, reduction and
 * copying, and when the first data was transferred. A table beside the ring of operations; short
 * operations have no entry, and no cost.
 *
 * An entry is written by the thread that ends the operation, concurrently with readers. The record
 * number shows whether an entry is complete, and belongs to this operation. Records whose numbers
 * differ by the depth of the ring share an entry. It keeps the newer one, or the first one if two
 * threads write at the same time; the other record then has no stages. */
#ifndef TT_TRACE_STAGES_H
#define TT_TRACE_STAGES_H

#include <stdbool.h>
#include <stdint.h>
#include "tutti/tutti.h"

enum tt_stage {
    TT_STAGE_REGISTER,      /* registration of memory with a transport */
    TT_STAGE_SEND,          /* posting of puts and eager messages, or the copy to a peer's
                               memory */
    TT_STAGE_REDUCE,        /* also if it writes its result to a peer's memory */
    TT_STAGE_COPY,          /* within this process */
    TT_STAGES
};

/* Ticks. */
struct tt_stage_times {
    uint64_t of[TT_STAGES];
    uint64_t first_data;        /* from the call to the first data that was sent or arrived; 0:
                                   unknown */
    uint64_t first_message;     /* from the call to the first message of the peer of the first data,
                                   which shows that this peer has called; 0: unknown */
    uint64_t nested;            /* scratch of the engine: time inside another stage */
};

/* Allocates the table for a ring of depth records; on failure there is no table. The kernel
 * allocates its pages when they are written. The caller holds the lock of the ring's start. */
void tt_stages_start(uint32_t depth);
/* Frees the table; no other thread may use it. */
void tt_stages_stop(void);
/* Sets the stages of record `number`. Longer times than some minutes are truncated. Any thread, one
 * at a time for each record. */
void tt_stages_set(uint64_t number, const struct tt_stage_times *t);
/* Reads the stages of a record. False: it has none. Any thread. */
bool tt_stages_get(uint64_t number, struct tt_stage_times *out);

#endif
