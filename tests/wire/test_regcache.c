/* The registration cache: random histories, compared with a model; and its tree of ranges. */
#include "support/unit.h"

#include "base/prng.h"
#include "regcache_walk.h"
#include "wire/spans.h"

#define SEEDS 3000
#define SPANS 64

static void random_histories_match_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const char *wrong = unit_draw() ? regcache_walk_drawn(seed) : NULL;

        if (wrong)
            fail_msg("seed %llu: %s", (unsigned long long)seed, wrong);
    }
}

static bool is_chosen(const struct tt_span *s, const void *arg)
{
    return (s->begin + s->end) % 3 == *(const uint64_t *)arg;
}

/* The tree finds the same ranges as a linear search. */
static const char *spans_drawn(uint64_t seed)
{
    struct tt_span all[SPANS], *tree = NULL;
    bool in[SPANS] = { false };
    struct tt_prng prng;

    tt_prng_init(&prng, seed);
    for (uint32_t step = 0; step < 300; step++) {
        const uint64_t i = tt_prng_below(&prng, SPANS), begin = tt_prng_below(&prng, 100),
                       end = begin + 1 + tt_prng_below(&prng, 30), rest = tt_prng_below(&prng, 3);
        const struct tt_span *covering, *touching;
        const struct tt_span *first = NULL;
        bool any = false;

        if (in[i]) {
            tt_spans_remove(&tree, &all[i]);
        } else {
            all[i] = (struct tt_span){ .begin = begin, .end = end };
            tt_spans_add(&tree, &all[i]);
        }
        in[i] = !in[i];
        for (uint32_t k = 0; k < SPANS; k++) {
            if (!in[k] || !is_chosen(&all[k], &rest))
                continue;
            any |= all[k].begin <= begin && all[k].end >= end;
            if (all[k].begin < end && all[k].end > begin && (!first || all[k].begin < first->begin))
                first = &all[k];
        }
        covering = tt_spans_covering(tree, begin, end, is_chosen, &rest);
        touching = tt_spans_touching(tree, begin, end, is_chosen, &rest);
        if (!covering != !any || (covering && (covering->begin > begin || covering->end < end ||
                                               !is_chosen(covering, &rest))))
            return "another range covers";
        if (!touching != !first || (first && touching->begin != first->begin) ||
            (touching && !is_chosen(touching, &rest)))
            return "another range begins first of those that touch";
    }
    return NULL;
}

static void ranges_match_a_linear_search(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const char *wrong = unit_draw() ? spans_drawn(seed) : NULL;

        if (wrong)
            fail_msg("seed %llu: %s", (unsigned long long)seed, wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_histories_match_the_model),
        cmocka_unit_test(ranges_match_a_linear_search),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
