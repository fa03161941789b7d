/* Frames of the control overlay: failures of contexts, and queries of ranks that an operation waits
 * for. `arg` is the struct tt_world; these functions are hooks of its engine. */
#ifndef TT_COMM_CONTROL_H
#define TT_COMM_CONTROL_H

#include "comm/comm.h"

/* Frames of the control overlay, sent to all ranks. A byte of kind, then
 *   FAILED   context u32, status u32, message
 *   QUERY    queried rank u32, subject: context u32, operation u64; number u64
 *   RESPONSE querying rank u32, subject: context u32, operation u64; number u64;
 *            count u8 of operations in progress or failed, and for each of them
 *            context u32, operation u64, waited-for rank u32, failed u8
 *   PAIR     u32: latency between hosts in nanoseconds, as measured by rank 0 */
enum tt_frame_kind { TT_FRAME_FAILED = 1, TT_FRAME_QUERY, TT_FRAME_RESPONSE, TT_FRAME_PAIR };

/* Sends a frame to all ranks. */
void tt_control_flood(struct tt_world *w, const void *frame, size_t bytes);
/* Notifies the other ranks of a context that failed on this rank first. The caller holds the
 * progress lock. */
void tt_control_notify_failure(void *arg, uint32_t id, tutti_status st, const char *sentence);
/* Queries a rank that an operation has waited for. */
void tt_control_query(void *arg, const struct tt_waiting *about);
/* Finds the rank to blame for an operation that passed its deadline, and describes it in *out. */
enum tt_blame tt_control_find_silent(void *arg, const struct tt_waiting *of, uint64_t since_ns,
                                     struct tt_blamed *out);
/* Handles a frame of another rank; invalid ones are dropped. */
void tt_control_handle(struct tt_world *w, const struct tt_overlay_event *ev);
/* Called by the progress thread when the overlay has data. */
void tt_control_read(void *arg);

#endif
