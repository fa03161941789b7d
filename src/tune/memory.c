#include "tune/memory.h"

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

struct tt_tune_choice tt_tune_recall(struct tt_tune_memory *m, const struct tt_tune_conf *conf,
                                     const struct tt_coll *call, const struct tt_algo *forced,
                                     bool simulate)
{
    const uint64_t key = choice_key(conf, call, forced);
    const uint32_t at = (uint32_t)(key >> 32) % TT_TUNE_REMEMBERED;
    struct tt_tune_choice choice;

    if (!simulate || !tt_predict_supports(call->kind))
        return by_closed_forms(conf, call, forced);
    if (m->slot[at].key != key) {
        m->slot[at].choice = tt_tune_choose(conf, call, forced, true, NULL);
        m->slot[at].key = key;
    }
    choice = m->slot[at].choice;
    if (tt_algo_fits(choice.algo, call) || forced)
        return choice;
    return by_closed_forms(conf, call, NULL);
}
