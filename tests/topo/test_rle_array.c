#include "support/unit.h"

#include <string.h>

#include "base/prng.h"
#include "topo/rle_array.h"

#define N_MAX 300

static void check(const uint32_t *numbers, uint32_t n, uint64_t seed)
{
    uint32_t scratch[N_MAX];
    struct tt_rle_array c;

    assert_true(tt_rle_array_init(&c, numbers, n, scratch));
    for (uint32_t i = 0; i < n; i++)
        if (tt_rle_array_at(&c, i) != numbers[i])
            fail_msg("seed %llu: number %u of %u is %u, not %u", (unsigned long long)seed, i, n,
                     tt_rle_array_at(&c, i), numbers[i]);
    for (uint32_t period = 1; period < c.period; period++) {
        uint32_t i = period;

        while (i < n && numbers[i] - numbers[i - period] == numbers[period] - numbers[0])
            i++;
        if (i >= n)
            fail_msg("seed %llu: %u numbers have the period %u, and %u is kept",
                     (unsigned long long)seed, n, period, c.period);
    }
    tt_rle_array_fini(&c);
    assert_null(c.pattern);
}

/* Numbers that repeat, increase or decrease from one period to the next, end anywhere in a period,
 * with some exceptions. */
static void numbers_are_restored_from_shortest_pattern(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        uint32_t numbers[N_MAX], period, step, width, n;
        struct tt_prng p;

        if (!unit_draw())
            continue;
        tt_prng_init(&p, seed);
        n = 1 + (uint32_t)tt_prng_below(&p, N_MAX);
        period = 1 + (uint32_t)tt_prng_below(&p, 40);
        step = (uint32_t)tt_prng_below(&p, 5) - 1;
        width = (uint32_t[]){ 1, 2, 3, 300, 70000 }[tt_prng_below(&p, 5)];
        for (uint32_t i = 0; i < n; i++)
            numbers[i] =
                i < period ? (uint32_t)tt_prng_below(&p, width) : numbers[i - period] + step;
        for (uint32_t wrong = (uint32_t)tt_prng_below(&p, 3); wrong > 0; wrong--)
            numbers[tt_prng_below(&p, n)]++;
        check(numbers, n, seed);
    }
}

static void regular_columns_take_no_memory(void **state)
{
    static uint32_t numbers[100000], scratch[100000];
    struct tt_rle_array c;
    struct tt_prng p;

    (void)state;
    for (uint32_t i = 0; i < 100000; i++)
        numbers[i] = i / 8;
    assert_true(tt_rle_array_init(&c, numbers, 100000, scratch));
    assert_int_equal(tt_rle_array_bytes(&c), 8);
    assert_int_equal(tt_rle_array_at(&c, 99999), 99999 / 8);
    tt_rle_array_fini(&c);
    for (uint32_t bytes = 1; bytes <= 4; bytes *= 2) {
        tt_prng_init(&p, bytes);
        for (uint32_t i = 0; i < 1000; i++)
            numbers[i] = (uint32_t)tt_prng_below(&p, 1ull << 8 * bytes);
        numbers[500] = UINT32_MAX >> (32 - 8 * bytes);
        assert_true(tt_rle_array_init(&c, numbers, 1000, scratch));
        assert_true(tt_rle_array_bytes(&c) <= 1000 * bytes && tt_rle_array_bytes(&c) > 900 * bytes);
        assert_int_equal(tt_rle_array_at(&c, 500), numbers[500]);
        tt_rle_array_fini(&c);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_restored_from_shortest_pattern),
        cmocka_unit_test(regular_columns_take_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
