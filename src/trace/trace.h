/* Trace of the segments of transports: a ring of events for the whole process. While tracing is
 * off, an event costs one branch:
 *
 *   if (tt_trace_is_enabled())
 *       tt_trace_add(&(struct tt_trace_event){ ... });
 *
 * A *segment* is a unit of data on one lane that both ends identify by the same numbers. Each
 * transport defines these numbers, and when a segment counts as completed:
 *
 *   tcp    a frame of a put or an atomic, by its number (modulo 2^24); completed when the kernel
 *   has accepted it
 *   verbs  a segment, by the number in its immediate (modulo 2^24); completed when its completion
 *   was read from the queue
 *   ofi    the record of a message, by the message's number, part 0; and its RMA writes, parts 1
 *   and up, which the receiver does not see; completed as reported by the completion queue */
#ifndef TT_TRACE_TRACE_H
#define TT_TRACE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "tutti/tutti.h"

enum tt_trace_kind {
    TT_TRACE_POSTED,            /* at the sender: passed to the lane */
    TT_TRACE_COMPLETED,         /* at the sender: completion detected */
    TT_TRACE_ARRIVED,           /* at the receiver: arrival detected */
    TT_TRACE_KINDS
};

#define TT_TRACE_NO_RAIL UINT8_MAX

struct tt_trace_event {
    uint64_t at_ns;             /* tt_now_ns; tt_trace_add replaces 0 by the current time */
    char wire[8];               /* its name, NUL-terminated */
    uint64_t bytes;             /* POSTED: of the payload; otherwise 0 */
    uint32_t peer;              /* rank of the job: the receiver, or for ARRIVED the sender */
    uint32_t number, part;      /* identify the segment on the lane */
    uint32_t queue;             /* the device's ID of the lane, e.g. the queue pair number; 0:
                                   none */
    uint8_t kind;               /* enum tt_trace_kind */
    uint8_t lane;               /* equal at both ends */
    uint8_t rail;               /* intended rail (a TCP connection may use another route), or
                                   TT_TRACE_NO_RAIL */
    uint8_t zero[5];
};

/* ---- a ring ---- */

#define TT_TRACE_WORDS 6u       /* words of an event */

/* One event. stamp: 1 + its number since the start of the ring when it is complete; 0: empty; BUSY
 * (trace.c) while it is written. */
struct tt_trace_slot {
    _Atomic uint64_t stamp;
    _Atomic uint64_t word[TT_TRACE_WORDS];
};

/* Holds the newest `depth` events. Any thread may add, at any time, without waiting: if another
 * thread is still writing to its slot from the previous lap of the ring, the event is dropped. */
struct tt_trace_ring {
    struct tt_trace_slot *slots;    /* [depth] */
    uint32_t depth;
    _Atomic uint64_t head;          /* total number of events */
};

/* depth: a power of two. NOMEM. Release with tt_trace_ring_fini, after the last add. */
tutti_status tt_trace_ring_init(struct tt_trace_ring *r, uint32_t depth);
void tt_trace_ring_fini(struct tt_trace_ring *r);
void tt_trace_ring_add(struct tt_trace_ring *r, const struct tt_trace_event *e);
/* Copies the events to out[depth], in order; returns their number. *lost: the number of added
 * events that are missing, because they were overwritten, or because a slot is or was being
 * written. */
uint32_t tt_trace_ring_read(struct tt_trace_ring *r, struct tt_trace_event *out, uint64_t *lost);

/* ---- the ring of the process ---- */

extern atomic_bool tt_trace_on;

/* The load is relaxed: a few events around start and stop may be missed. */
static inline bool tt_trace_is_enabled(void)
{
    return __builtin_expect(atomic_load_explicit(&tt_trace_on, memory_order_relaxed), false);
}

/* Adds an event. Call it only if tracing is on. Any thread. */
void tt_trace_add(const struct tt_trace_event *e);
/* Starts recording the newest `depth` events, a power of two. Once per process (otherwise INVALID):
 * the ring remains until the process ends, because a late thread may still add events. NOMEM. */
tutti_status tt_trace_start(uint32_t depth);
void tt_trace_stop(void);
/* After tt_trace_stop: like tt_trace_ring_read. */
uint32_t tt_trace_read(struct tt_trace_event *out, uint64_t *lost);

#endif
