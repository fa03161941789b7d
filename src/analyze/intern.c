#include "analyze/intern.h"

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"

#define FIRST_SLOTS 256u

static char *text_copy(const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);

    if (copy) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
    }
    return copy;
}

int tt_intern_init(struct tt_intern *t)
{
    *t = (struct tt_intern){ .capacity = FIRST_SLOTS / 2, .nslots = FIRST_SLOTS };
    t->texts = calloc(t->capacity, sizeof *t->texts);
    t->slots = calloc(t->nslots, sizeof *t->slots);
    if (t->texts && t->slots)
        t->texts[0] = text_copy("", 0);
    if (!t->texts || !t->slots || !t->texts[0]) {
        tt_intern_fini(t);
        return -1;
    }
    t->n = 1;
    return 0;
}

void tt_intern_fini(struct tt_intern *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        free(t->texts[i]);
    free(t->texts);
    free(t->slots);
    *t = (struct tt_intern){ .n = 0 };
}

/* Returns the slot of a text, or the free slot for it. */
static uint32_t *slot_of(const struct tt_intern *t, const char *text, size_t bytes)
{
    uint64_t at = tt_hash_bytes(text, bytes, 0);

    for (;; at++) {
        uint32_t *slot = &t->slots[at & (t->nslots - 1)];

        if (*slot == 0 ||
            (strncmp(t->texts[*slot - 1], text, bytes) == 0 && t->texts[*slot - 1][bytes] == '\0'))
            return slot;
    }
}

/* Doubles the table. If there is no memory, the old table stays valid. */
static int intern_grow(struct tt_intern *t)
{
    struct tt_intern bigger = { .n = t->n, .capacity = 2 * t->capacity, .nslots = 2 * t->nslots };

    bigger.slots = calloc(bigger.nslots, sizeof *bigger.slots);
    bigger.texts = bigger.slots ? realloc(t->texts, bigger.capacity * sizeof *bigger.texts) : NULL;
    if (!bigger.texts) {
        free(bigger.slots);
        return -1;
    }
    free(t->slots);
    *t = bigger;
    for (uint32_t i = 1; i < t->n; i++)
        *slot_of(t, t->texts[i], strlen(t->texts[i])) = i + 1;
    return 0;
}

uint32_t tt_intern_add(struct tt_intern *t, const char *text, size_t bytes)
{
    uint32_t *slot;

    if (bytes == 0 || memchr(text, '\0', bytes))
        return TT_INTERN_EMPTY;
    slot = slot_of(t, text, bytes);
    if (*slot != 0)
        return *slot - 1;
    if (t->n == TT_INTERN_MAX)
        return TT_INTERN_EMPTY;
    if (t->n == t->capacity) {
        if (intern_grow(t))
            return TT_INTERN_EMPTY;
        slot = slot_of(t, text, bytes);
    }
    t->texts[t->n] = text_copy(text, bytes);
    if (!t->texts[t->n])
        return TT_INTERN_EMPTY;
    *slot = ++t->n;
    return t->n - 1;
}

const char *tt_intern_text(const struct tt_intern *t, uint32_t number)
{
    return t->texts[number];
}
