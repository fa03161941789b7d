/* The time in collectives: each time counts once. */
#include "base/prng.h"
#include "status/busy.h"
#include "support/unit.h"

#define TRIES 200u

static void parts_of_milliseconds_are_counted(void **state)
{
    struct tt_busy b = { .whole = { 0 } };

    (void)state;
    assert_int_equal(tt_busy_sum_ns(&b), 0);
    tt_busy_add(&b, 300, 100);
    assert_int_equal(tt_busy_sum_ns(&b), 200);
    tt_busy_add(&b, 5 * TT_MS + 7, 2 * TT_MS - 9);      /* 9 ns, 3 ms, 7 ns */
    assert_int_equal(tt_busy_sum_ns(&b), 200 + 3 * TT_MS + 16);
}

static void a_whole_second_is_the_maximum(void **state)
{
    struct tt_busy b = { .whole = { 0 } };

    (void)state;
    for (int i = 0; i < 3; i++)
        tt_busy_add(&b, TT_SECOND, 0);
    tt_busy_add(&b, TT_SECOND, TT_SECOND - 1);
    assert_int_equal(tt_busy_sum_ns(&b), TT_SECOND);
}

/* Collectives that begin and end at whole milliseconds: their union is exact. */
static void overlapping_collectives_count_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= TRIES; seed++) {
        bool in[TT_BUSY_MS] = { false };
        struct tt_busy b = { .whole = { 0 } };
        struct tt_prng prng;
        uint64_t n = 0;

        tt_prng_init(&prng, seed);
        for (uint64_t k = tt_prng_below(&prng, 20); k > 0; k--) {
            const uint64_t until = tt_prng_below(&prng, TT_BUSY_MS);
            const uint64_t from = until + 1 + tt_prng_below(&prng, TT_BUSY_MS - until);

            tt_busy_add(&b, from * TT_MS, until * TT_MS);
            for (uint64_t ms = until; ms < from; ms++)
                in[ms] = true;
        }
        for (uint32_t ms = 0; ms < TT_BUSY_MS; ms++)
            n += in[ms];
        if (tt_busy_sum_ns(&b) != n * TT_MS)
            fail_msg("seed %llu", (unsigned long long)seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_milliseconds_are_counted),
        cmocka_unit_test(a_whole_second_is_the_maximum),
        cmocka_unit_test(overlapping_collectives_count_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
