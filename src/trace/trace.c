#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"

_Static_assert(sizeof(struct tt_trace_event) == TT_TRACE_WORDS * sizeof(uint64_t),
               "an event has TT_TRACE_WORDS words");

/* ---- a ring ---- */

tutti_status tt_trace_ring_init(struct tt_trace_ring *r, uint32_t depth)
{
    struct tt_trace_slot *slots;

    tt_assert(depth > 0 && (depth & (depth - 1)) == 0);
    slots = calloc(depth, sizeof *slots);
    if (!slots)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a trace of %u events", depth);
    *r = (struct tt_trace_ring){ .slots = slots, .depth = depth };
    return TUTTI_OK;
}

void tt_trace_ring_fini(struct tt_trace_ring *r)
{
    free(r->slots);
    *r = (struct tt_trace_ring){ .slots = NULL };
}

static struct tt_trace_slot *ring_slot(struct tt_trace_ring *r, uint64_t number)
{
    return &r->slots[number & (r->depth - 1)];
}

#define BUSY UINT64_MAX     /* stamp of a slot that is being written */

/* Claims the slot. Returns false if another thread is still writing to it, which was overtaken by a
 * whole lap of the ring, or if it has a newer event. */
static bool slot_claim(struct tt_trace_slot *slot, uint64_t number)
{
    uint64_t stamp = atomic_load_explicit(&slot->stamp, memory_order_relaxed);

    return stamp <= number &&
           atomic_compare_exchange_strong_explicit(&slot->stamp, &stamp, BUSY, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Each word is stored with release after the stamp: a reader that sees a word of a newer event also
 * sees the changed stamp. */
void tt_trace_ring_add(struct tt_trace_ring *r, const struct tt_trace_event *e)
{
    const uint64_t number = atomic_fetch_add_explicit(&r->head, 1, memory_order_relaxed);
    struct tt_trace_slot *slot = ring_slot(r, number);
    uint64_t words[TT_TRACE_WORDS];

    if (!slot_claim(slot, number))
        return;
    memcpy(words, e, sizeof words);
    for (uint32_t i = 0; i < TT_TRACE_WORDS; i++)
        atomic_store_explicit(&slot->word[i], words[i], memory_order_release);
    atomic_store_explicit(&slot->stamp, number + 1, memory_order_release);
}

/* Returns false if the event is missing or incomplete. */
static bool slot_read(struct tt_trace_slot *slot, uint64_t number, struct tt_trace_event *out)
{
    uint64_t words[TT_TRACE_WORDS];

    if (atomic_load_explicit(&slot->stamp, memory_order_acquire) != number + 1)
        return false;
    for (uint32_t i = 0; i < TT_TRACE_WORDS; i++)
        words[i] = atomic_load_explicit(&slot->word[i], memory_order_acquire);
    if (atomic_load_explicit(&slot->stamp, memory_order_relaxed) != number + 1)
        return false;
    memcpy(out, words, sizeof words);
    return true;
}

uint32_t tt_trace_ring_read(struct tt_trace_ring *r, struct tt_trace_event *out, uint64_t *lost)
{
    const uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    uint32_t n = 0;

    for (uint64_t i = head > r->depth ? head - r->depth : 0; i < head; i++)
        n += slot_read(ring_slot(r, i), i, &out[n]);
    *lost = head - n;
    return n;
}

/* ---- the ring of the process ---- */

atomic_bool tt_trace_on;
static struct tt_trace_ring ring;

void tt_trace_add(const struct tt_trace_event *e)
{
    struct tt_trace_event timed = *e;

    /* acquire: makes the ring visible */
    if (!atomic_load_explicit(&tt_trace_on, memory_order_acquire))
        return;
    if (timed.at_ns == 0)
        timed.at_ns = tt_now_ns();
    tt_trace_ring_add(&ring, &timed);
}

tutti_status tt_trace_start(uint32_t depth)
{
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    tutti_status st;

    if (atomic_flag_test_and_set(&begun))
        return tt_fail(TUTTI_ERR_INVALID, "cannot trace: a process can be traced only once");
    st = tt_trace_ring_init(&ring, depth);
    if (st)
        atomic_flag_clear(&begun);
    else
        atomic_store(&tt_trace_on, true);
    return st;
}

void tt_trace_stop(void)
{
    atomic_store(&tt_trace_on, false);
}

uint32_t tt_trace_read(struct tt_trace_event *out, uint64_t *lost)
{
    return tt_trace_ring_read(&ring, out, lost);
}
