#include "base/sparse.h"

#include <stdlib.h>
#include "base/prng.h"
#include "base/status.h"

#define CAP_MIN 4

/* Returns the slot of the rank, or the free slot for it. */
static struct tt_sparse_slot *slot_for_rank(struct tt_sparse_slot *slot, uint32_t cap,
                                            uint32_t rank)
{
    uint32_t i = (uint32_t)tt_mix64(rank) & (cap - 1);

    while (slot[i].what && slot[i].rank != rank)
        i = (i + 1) & (cap - 1);
    return &slot[i];
}

void *tt_sparse_get(const struct tt_sparse *s, uint32_t rank)
{
    return s->cap ? slot_for_rank(s->slot, s->cap, rank)->what : NULL;
}

static bool sparse_grow(struct tt_sparse *s)
{
    const uint32_t cap = s->cap ? 2 * s->cap : CAP_MIN;
    struct tt_sparse_slot *more = cap ? calloc(cap, sizeof *more) : NULL;

    if (!more)
        return false;
    for (uint32_t i = 0; i < s->cap; i++)
        if (s->slot[i].what)
            *slot_for_rank(more, cap, s->slot[i].rank) = s->slot[i];
    free(s->slot);
    s->slot = more;
    s->cap = cap;
    return true;
}

bool tt_sparse_set(struct tt_sparse *s, uint32_t rank, void *what)
{
    struct tt_sparse_slot *at = s->cap ? slot_for_rank(s->slot, s->cap, rank) : NULL;

    tt_assert(what);
    if (!at || !at->what) {
        if (2 * (s->n + 1) > s->cap) {
            if (!sparse_grow(s))
                return false;
            at = slot_for_rank(s->slot, s->cap, rank);
        }
        s->n++;
    }
    *at = (struct tt_sparse_slot){ .rank = rank, .what = what };
    return true;
}

/* Moves later entries of the same chain back, so that the free slot hides none of them. */
void tt_sparse_remove(struct tt_sparse *s, uint32_t rank)
{
    struct tt_sparse_slot *at = s->cap ? slot_for_rank(s->slot, s->cap, rank) : NULL;
    uint32_t hole, i;

    if (!at || !at->what)
        return;
    hole = i = (uint32_t)(at - s->slot);
    s->n--;
    for (;;) {
        uint32_t home;

        i = (i + 1) & (s->cap - 1);
        if (!s->slot[i].what)
            break;
        home = (uint32_t)tt_mix64(s->slot[i].rank) & (s->cap - 1);
        if (((i - home) & (s->cap - 1)) >= ((i - hole) & (s->cap - 1))) {
            s->slot[hole] = s->slot[i];
            hole = i;
        }
    }
    s->slot[hole].what = NULL;
}

void *tt_sparse_next(const struct tt_sparse *s, uint32_t *at)
{
    while (*at < s->cap) {
        void *what = s->slot[(*at)++].what;

        if (what)
            return what;
    }
    return NULL;
}

void tt_sparse_fini(struct tt_sparse *s)
{
    free(s->slot);
    *s = (struct tt_sparse){ .n = 0 };
}

size_t tt_sparse_bytes(const struct tt_sparse *s)
{
    return s->cap * sizeof *s->slot;
}
