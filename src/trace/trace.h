/* What wires do with segments, kept while somebody wants to see it: a ring of events, of this process as a whole. While nobody does, an event
 * costs one branch:
 *
 *      if (tt_trace_is_wanted())
 *          tt_trace_add(&(struct tt_trace_event){ ... });
 *
 * A *segment* is what a wire gives to one lane in one piece, and that the other end finds again by the same numbers. Which numbers those are, and
 * when a segment counts as completed, is each wire's to say:
 *
 *      tcp     a frame of a put or an atomic, by its number (modulo 2^24); completed when the kernel has taken it
 *      verbs   a segment of the immediate's number (modulo 2^24); completed when its completion was found in the queue
 *      ofi     the record of a message, by the message's number, part 0; and the RMA writes before it, parts 1 and up, of which the receiver hears
 *              nothing; completed as the endpoint's completion queue says */
#ifndef TT_TRACE_TRACE_H
#define TT_TRACE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "tutti/tutti.h"

enum tt_trace_kind {
    TT_TRACE_POSTED,            /* at the sender: given to the lane */
    TT_TRACE_COMPLETED,         /* at the sender: seen to be over */
    TT_TRACE_ARRIVED,           /* at the receiver: seen to have come */
    TT_TRACE_KINDS
};

#define TT_TRACE_NO_RAIL UINT8_MAX

struct tt_trace_event {
    uint64_t at_ns;             /* by tt_now_ns; tt_trace_add takes 0 as now */
    char wire[8];               /* its name, NUL-terminated */
    uint64_t bytes;             /* POSTED: of the payload; else 0 */
    uint32_t peer;              /* rank of the job: to whom, or ARRIVED: from whom */
    uint32_t number, part;      /* which segment of the lane */
    uint32_t queue;             /* the device's number for the lane: of the queue pair; 0: it has none */
    uint8_t kind;               /* enum tt_trace_kind */
    uint8_t lane;               /* the same number at both ends */
    uint8_t rail;               /* meant for it (a TCP connection may have found another way), or TT_TRACE_NO_RAIL */
    uint8_t zero[5];
};

/* ---- a ring ---- */

#define TT_TRACE_WORDS 6u       /* of an event */

/* One event. stamp: 1 + its number since the ring began when it is there in full; 0: none has been; trace.c has another one while it is written. */
struct tt_trace_slot {
    _Atomic uint64_t stamp;
    _Atomic uint64_t word[TT_TRACE_WORDS];
};

/* Keeps the newest `depth` events. Any thread may add, at any time; none waits: who finds that another one is still writing a whole turn of the ring ago in
 * its place goes without. */
struct tt_trace_ring {
    struct tt_trace_slot *slots;    /* [depth] */
    uint32_t depth;
    _Atomic uint64_t head;          /* events so far */
};

/* depth: a power of two. NOMEM. Ended by tt_trace_ring_fini, when nobody adds any more. */
tutti_status tt_trace_ring_init(struct tt_trace_ring *r, uint32_t depth);
void tt_trace_ring_fini(struct tt_trace_ring *r);
void tt_trace_ring_add(struct tt_trace_ring *r, const struct tt_trace_event *e);
/* Copies what it holds to out[depth], in the order in which events were added; returns how many. *lost: those that were added and are not among
 * them, as newer ones took their place, or somebody is or was writing there. */
uint32_t tt_trace_ring_read(struct tt_trace_ring *r, struct tt_trace_event *out, uint64_t *lost);

/* ---- the process's ---- */

extern atomic_bool tt_trace_on;

/* Relaxed: an event or two around the start and the end may be missed. */
static inline bool tt_trace_is_wanted(void)
{
    return __builtin_expect(atomic_load_explicit(&tt_trace_on, memory_order_relaxed), false);
}

/* Adds the event. Only if it is wanted. Any thread. */
void tt_trace_add(const struct tt_trace_event *e);
/* From now on the newest `depth` events, a power of two, are kept. Once in a process (else INVALID): the ring stays until the process ends, as who is adding
 * may be late. NOMEM. */
tutti_status tt_trace_start(uint32_t depth);
void tt_trace_stop(void);
/* After tt_trace_stop: as tt_trace_ring_read. */
uint32_t tt_trace_read(struct tt_trace_event *out, uint64_t *lost);

#endif
