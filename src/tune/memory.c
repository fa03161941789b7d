#include "tune/memory.h"

#include <stdlib.h>

#include "base/prng.h"

/* Returns 0 if no algorithm is forced. */
static uint64_t forced_number(const struct tt_algo *forced)
{
    size_t i = 0;

    while (forced && tt_algos[i] != forced)
        i++;
    return forced ? i + 1 : 0;
}

/* Hash of everything that the choice depends on within one communicator. */
static uint64_t choice_key(const struct tt_tune_conf *conf, const struct tt_coll *c,
                           const struct tt_algo *forced)
{
    const uint32_t root = conf->layout->nhosts == 1 ? 0 : c->root;
    const uint64_t shape = forced_number(forced) << 48 | (uint64_t)c->kind << 44 |
                           (uint64_t)c->quantized << 42 | (uint64_t)c->elem_bytes << 32 | root;

    return tt_mix64(tt_mix64(tt_tune_class(c->bytes, c->elem_bytes)) ^ shape) | 1;
}

/* Selection for calls with per-call counts. */
static struct tt_tune_choice by_closed_forms(const struct tt_tune_conf *conf,
                                             const struct tt_coll *call,
                                             const struct tt_algo *forced)
{
    const struct tt_algo *algo = forced ? forced : tt_algo_choose(call, &conf->model);

    return (struct tt_tune_choice){
        .algo = algo,
        .segments = tt_segments_choose(algo, call, &conf->limits),
        .by = forced ? TT_BY_NAME : TT_BY_MODEL,
    };
}

void tt_tune_forget(struct tt_tune_memory *m)
{
    free(m->slot);
    *m = (struct tt_tune_memory){ .cap = 0 };
}

uint64_t tt_tune_memory_bytes(const struct tt_tune_memory *m)
{
    return m->cap * sizeof *m->slot;
}

/* Returns the place of a key among `cap` slots. In a table of twice the size, it is the same place,
 * or `cap` places further. */
static uint32_t place_of(uint64_t key, uint32_t cap)
{
    return (uint32_t)(key >> 32) & (cap - 1);
}

/* Doubles the number of slots. False: out of memory. */
static bool grow_slots(struct tt_tune_memory *m)
{
    const uint32_t cap = m->cap ? 2 * m->cap : 1;
    struct tt_tune_slot *more = calloc(cap, sizeof *more);

    if (!more)
        return false;
    for (uint32_t i = 0; i < m->cap; i++)
        if (m->slot[i].key)
            more[place_of(m->slot[i].key, cap)] = m->slot[i];
    free(m->slot);
    m->slot = more;
    m->cap = cap;
    return true;
}

/* Returns the slot of a key: its own, or a free one. If the table cannot grow (TT_TUNE_SLOTS_MAX,
 * or out of memory), the slot may contain another key. NULL: out of memory. */
static struct tt_tune_slot *slot_of(struct tt_tune_memory *m, uint64_t key)
{
    for (;;) {
        struct tt_tune_slot *slot = m->cap ? &m->slot[place_of(key, m->cap)] : NULL;

        if (slot && (!slot->key || slot->key == key || m->cap == TT_TUNE_SLOTS_MAX))
            return slot;
        if (!grow_slots(m))
            return slot;
    }
}

struct tt_tune_choice tt_tune_recall(struct tt_tune_memory *m, const struct tt_tune_conf *conf,
                                     const struct tt_coll *call, const struct tt_algo *forced,
                                     bool simulate)
{
    const uint64_t key = choice_key(conf, call, forced);
    struct tt_tune_slot made = { .key = 0 }, *slot;
    struct tt_tune_choice choice;

    if (!simulate || !tt_predict_supports(call->kind))
        return by_closed_forms(conf, call, forced);
    slot = slot_of(m, key);
    if (!slot)      /* the same choice, but not cached */
        slot = &made;
    if (slot->key != key) {
        slot->choice = tt_tune_choose(conf, call, forced, true, NULL);
        slot->key = key;
    }
    choice = slot->choice;
    if (tt_algo_fits(choice.algo, call) || forced)
        return choice;
    return by_closed_forms(conf, call, NULL);
}
