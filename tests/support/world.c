#include "support/world.h"

#include <stdlib.h>
#include <string.h>
#include "base/status.h"

void world_init(struct world *w, uint64_t seed)
{
    *w = (struct world){ .now_ns = 1 };
    tt_prng_init(&w->prng, seed);
}

void world_fini(struct world *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->planned[i].data);
    free(w->planned);
    free(w->current);
}

static bool is_before(const struct happening *a, const struct happening *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void swap(struct world *w, size_t a, size_t b)
{
    const struct happening h = w->planned[a];

    w->planned[a] = w->planned[b];
    w->planned[b] = h;
}

/* `planned` is a binary heap with the earliest event at its root. */
void world_plan(struct world *w, uint64_t at_ns, int kind, int a, int b, const void *data,
                size_t bytes)
{
    struct happening *h;

    if (w->n == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 64;
        w->planned = realloc(w->planned, w->cap * sizeof *w->planned);
        tt_assert(w->planned);
    }
    h = &w->planned[w->n];
    *h = (struct happening){
        .at_ns = at_ns, .order = w->order++, .kind = kind, .a = a, .b = b, .bytes = bytes
    };
    h->data = malloc(bytes ? bytes : 1);
    tt_assert(h->data);
    if (bytes)
        memcpy(h->data, data, bytes);
    for (size_t i = w->n++; i > 0 && is_before(&w->planned[i], &w->planned[(i - 1) / 2]);
         i = (i - 1) / 2)
        swap(w, i, (i - 1) / 2);
}

static void sink(struct world *w)
{
    size_t i = 0;

    for (;;) {
        size_t first = i;

        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < w->n; child++)
            if (is_before(&w->planned[child], &w->planned[first]))
                first = child;
        if (first == i)
            return;
        swap(w, i, first);
        i = first;
    }
}

bool world_next(struct world *w, struct happening *out)
{
    free(w->current);
    w->current = NULL;
    if (w->n == 0)
        return false;
    *out = w->planned[0];
    w->planned[0] = w->planned[--w->n];
    sink(w);
    w->current = out->data;
    if (out->at_ns > w->now_ns)
        w->now_ns = out->at_ns;
    return true;
}

uint64_t next_seed(uint64_t seed, uint64_t tries)
{
    const char *only = getenv("TUTTI_TEST_SEED");

    const char *after = getenv("TUTTI_TEST_SEED_AFTER");
    const uint64_t first = after ? strtoull(after, NULL, 10) : 0;

    if (only)
        return seed == 0 ? strtoull(only, NULL, 10) : 0;
    if (seed == 0)
        seed = first;
    return seed - first < tries ? seed + 1 : 0;
}
