#include "tune/memory.h"

#include <stdlib.h>

#include "base/prng.h"

/* 0: none is forced. */
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
    for (uint32_t i = 0; i < TT_TUNE_SETS; i++) {
        free(m->set[i]);
        m->set[i] = NULL;
    }
}

uint64_t tt_tune_memory_bytes(const struct tt_tune_memory *m)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < TT_TUNE_SETS; i++)
        bytes += m->set[i] ? TT_TUNE_SET_SLOTS * sizeof *m->set[i] : 0;
    return bytes;
}

/* NULL: out of memory. */
static struct tt_tune_slot *slot_of(struct tt_tune_memory *m, uint64_t key)
{
    const uint32_t at = (uint32_t)(key >> 32) % (TT_TUNE_SETS * TT_TUNE_SET_SLOTS);
    struct tt_tune_slot **set = &m->set[at / TT_TUNE_SET_SLOTS];

    if (!*set)
        *set = calloc(TT_TUNE_SET_SLOTS, sizeof **set);
    return *set ? *set + at % TT_TUNE_SET_SLOTS : NULL;
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
    if (!slot)      /* the same choice, but not remembered */
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
