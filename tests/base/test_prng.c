#include <string.h>
#include "base/prng.h"
#include "support/unit.h"

/* Reference values from the authors' C programs (prng.di.unimi.it) for the states below. */
static void sequence_matches_the_reference(void **state)
{
    struct tt_prng p = { .s = { 1, 2, 3, 4 } };
    static const uint64_t expected[] = { 11520, 0, 1509978240, 1215971899390074240 };

    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_true(tt_prng_u64(&p) == expected[i]);

    tt_prng_init(&p, 0);    /* SplitMix64 from 0 */
    assert_true(p.s[0] == 0xe220a8397b1dcdafull);
    assert_true(p.s[1] == 0x6e789e6aa1b965f4ull);
    assert_true(p.s[2] == 0x06c45d188009454full);
    assert_true(p.s[3] == 0xf88bb8a8724c81ecull);
}

static void equal_seeds_give_equal_sequences(void **state)
{
    struct tt_prng a, b, c;
    int same = 0;

    (void)state;
    tt_prng_init(&a, 42);
    tt_prng_init(&b, 42);
    tt_prng_init(&c, 43);
    for (int i = 0; i < 1000; i++) {
        const uint64_t value = tt_prng_u64(&a);

        assert_true(value == tt_prng_u64(&b));
        same += value == tt_prng_u64(&c);
    }
    assert_int_equal(same, 0);
}

static void bounded_numbers_stay_below_their_bound(void **state)
{
    static const uint64_t bounds[] = { 1, 2, 3, 10, 1ull << 32, (1ull << 63) + 1, UINT64_MAX };
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 1);
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++)
        for (int i = 0; i < 1000; i++)
            assert_true(tt_prng_below(&p, bounds[b]) < bounds[b]);
}

/* 60000 throws of a die: each face within 6 standard deviations (91) of 10000. */
static void bounded_numbers_are_even(void **state)
{
    int faces[6] = { 0 };
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 2);
    for (int i = 0; i < 60000; i++)
        faces[tt_prng_below(&p, 6)]++;
    for (int i = 0; i < 6; i++)
        assert_in_range(faces[i], 10000 - 550, 10000 + 550);
}

static void hash_depends_on_all_inputs(void **state)
{
    uint8_t data[64] = { 0 };
    const uint64_t before = tt_hash_bytes(data, sizeof data, 0);

    (void)state;
    assert_true(tt_hash_bytes(data, sizeof data, 0) == before);
    assert_true(tt_hash_bytes(data, sizeof data, 1) != before);
    assert_true(tt_hash_bytes(data, sizeof data - 1, 0) != before);
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] ^= 1;
        assert_true(tt_hash_bytes(data, sizeof data, 0) != before);
        data[i] ^= 1;
    }
}

/* Equal on every machine, because ranks compare hashes. A change breaks jobs of mixed builds. */
static void a_hash_is_the_same_everywhere(void **state)
{
    (void)state;
    assert_true(tt_hash_bytes("", 0, 0) == tt_mix64(0xcbf29ce484222325ull));
    /* FNV-1a of "a" */
    assert_true(tt_hash_bytes("a", 1, 0) == tt_mix64(0xaf63dc4c8601ec8cull));
    assert_true(tt_hash_bytes("foobar", 6, 0) == tt_mix64(0x85944171f73967e8ull));
}

static void random_bytes_fill_all_and_differ(void **state)
{
    uint8_t a[300] = { 0 }, b[300] = { 0 }, zero[300] = { 0 };

    (void)state;
    tt_random_bytes(a, sizeof a);
    tt_random_bytes(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a + 268, zero, 32);
    tt_random_bytes(a, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequence_matches_the_reference),
        cmocka_unit_test(equal_seeds_give_equal_sequences),
        cmocka_unit_test(bounded_numbers_stay_below_their_bound),
        cmocka_unit_test(bounded_numbers_are_even),
        cmocka_unit_test(hash_depends_on_all_inputs),
        cmocka_unit_test(a_hash_is_the_same_everywhere),
        cmocka_unit_test(random_bytes_fill_all_and_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
