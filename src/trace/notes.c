#include "trace/notes.h"

#include <pthread.h>
#include <string.h>
#include "trace/tick.h"

_Atomic uint16_t tt_note_low;

static struct {
    pthread_mutex_t lock;
    struct tt_note note[TT_NOTES_MAX];      /* by number modulo TT_NOTES_MAX */
    uint64_t last;                          /* number of the newest one; 0: none */
} notes = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct tt_note *note_slot(uint64_t number) { return &notes.note[number % TT_NOTES_MAX]; }

/* Copies the text, truncated between UTF-8 characters. */
static void note_copy_text(char out[TT_NOTE_BYTES], const char *text)
{
    size_t n = strnlen(text, TT_NOTE_BYTES);

    if (n == TT_NOTE_BYTES) {
        n--;
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--;
    }
    memcpy(out, text, n);
    out[n] = 0;
}

void tt_note_set(const char *text)
{
    char cut[TT_NOTE_BYTES];
    uint64_t number;

    if (!*text) {
        atomic_store_explicit(&tt_note_low, 0, memory_order_relaxed);
        return;
    }
    note_copy_text(cut, text);
    pthread_mutex_lock(&notes.lock);
    number = notes.last;
    if (!tt_note_current() || strcmp(note_slot(number)->text, cut) != 0) {
        number += (uint16_t)(number + 1) == 0 ? 2 : 1;
        notes.last = number;
        *note_slot(number) = (struct tt_note){ .number = number, .at = tt_tick_now() };
        strcpy(note_slot(number)->text, cut);
        atomic_store_explicit(&tt_note_low, (uint16_t)number, memory_order_relaxed);
    }
    pthread_mutex_unlock(&notes.lock);
}

bool tt_note_find(uint16_t low, uint64_t called, struct tt_note *out)
{
    bool found = false;
    uint64_t number;

    if (!low)
        return false;
    pthread_mutex_lock(&notes.lock);
    number = (notes.last & ~0xffffull) | low;
    if (number > notes.last && number >= 0x10000)
        number -= 0x10000;
    /* a later annotation may have the same lower bits */
    if (note_slot(number)->number == number && note_slot(number)->at <= called) {
        *out = *note_slot(number);
        found = true;
    }
    pthread_mutex_unlock(&notes.lock);
    return found;
}

uint32_t tt_note_read(struct tt_note out[TT_NOTES_MAX])
{
    uint32_t n = 0;

    pthread_mutex_lock(&notes.lock);
    for (uint32_t i = 1; i <= TT_NOTES_MAX; i++) {
        const struct tt_note *x = note_slot(notes.last + i);

        if (x->number && x->number <= notes.last)
            out[n++] = *x;
    }
    pthread_mutex_unlock(&notes.lock);
    return n;
}
