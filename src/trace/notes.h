/* Annotations by the application: short texts for the operations that follow, e.g. the iteration of
 * the training. The newest TT_NOTES_MAX are kept. */
#ifndef TT_TRACE_NOTES_H
#define TT_TRACE_NOTES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TT_NOTES_MAX 1024u
#define TT_NOTE_BYTES 104u

struct tt_note {
    uint64_t number;            /* from 1; its lower 16 bits are not 0 */
    uint64_t at;                /* tick */
    char text[TT_NOTE_BYTES];
};

extern _Atomic uint16_t tt_note_low;    /* lower bits of the newest one's number; 0: none */

static inline uint16_t tt_note_current(void)
{
    return atomic_load_explicit(&tt_note_low, memory_order_relaxed);
}

/* Sets the annotation of later operations. A longer text is truncated; "" removes the annotation.
 * The same text as before has no effect. Any thread. */
void tt_note_set(const char *text);
/* Finds the annotation of a record by the lower bits of its number. called: tick of the record.
 * False: there is none, or it was overwritten. Any thread. */
bool tt_note_find(uint16_t low, uint64_t called, struct tt_note *out);
/* Copies the kept annotations, oldest first. Returns their number. */
uint32_t tt_note_read(struct tt_note out[TT_NOTES_MAX]);

#endif
