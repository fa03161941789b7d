/* Which kind of store the shared-memory wire uses: it follows what costs less, and not what cost less once. */
#include "base/prng.h"
#include "support/unit.h"
#include "wire/shm_pace.h"

/* Copies n times, at the costs given by the kind; one copy in `odd_one_in` takes ten times as long. Returns how many went past the cache. */
static uint32_t copy(struct tt_shm_pace *pace, uint32_t n, uint32_t cached, uint32_t past, uint32_t odd_one_in,
                     struct tt_prng *p)
{
    uint32_t npast = 0;

    for (uint32_t i = 0; i < n; i++) {
        const bool kind = tt_shm_pace_next(pace);
        const uint32_t slow = odd_one_in && tt_prng_below(p, odd_one_in) == 0 ? 10 : 1;

        npast += kind;
        tt_shm_pace_learn(pace, kind, (kind ? past : cached) * slow);
    }
    return npast;
}

static void the_cheaper_kind_is_used_soon_after_it_became_so(void **state)
{
    struct tt_shm_pace pace = { 0 };
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 1);
    for (uint32_t turn = 0; turn < 10; turn++) {
        copy(&pace, 200, 70000, 80000, 0, &p);
        assert_false(pace.past_cache);
        copy(&pace, 200, 250000, 80000, 0, &p);
        assert_true(pace.past_cache);
    }
}

static void what_is_hardly_cheaper_past_the_cache_stays_in_it(void **state)
{
    struct tt_shm_pace pace = { 0 };
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 2);
    copy(&pace, 2000, 90000, 80000, 0, &p);
    assert_false(pace.past_cache);
}

static void interrupted_copies_change_nothing_but_for_a_moment(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct tt_shm_pace pace = { 0 };
        struct tt_prng p;
        uint32_t npast;

        tt_prng_init(&p, seed);
        copy(&pace, 200, 250000, 80000, 20, &p);
        npast = copy(&pace, 10000, 250000, 80000, 20, &p);
        if (npast < 9000)
            fail_msg("seed %llu: %u of 10000 past the cache, which is three times as fast", (unsigned long long)seed, npast);
        copy(&pace, 200, 70000, 80000, 20, &p);
        npast = copy(&pace, 10000, 70000, 80000, 20, &p);
        if (npast > 1000)
            fail_msg("seed %llu: %u of 10000 past the cache, which is slower", (unsigned long long)seed, npast);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheaper_kind_is_used_soon_after_it_became_so),
        cmocka_unit_test(what_is_hardly_cheaper_past_the_cache_stays_in_it),
        cmocka_unit_test(interrupted_copies_change_nothing_but_for_a_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
