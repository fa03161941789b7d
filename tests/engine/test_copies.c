/* Which way long messages of one host go: the one that takes less, also after that has changed, and whoever comes late. */
#include "base/prng.h"
#include "engine/copies.h"
#include "support/unit.h"

#define BYTES 65536u

/* n operations that take so many ns through slots and in a single copy; one in `late_one_in` waits for a rank that is late. Returns how many went in a
 * single copy. */
static uint32_t run(struct tt_copies *c, uint32_t n, uint64_t slots_ns, uint64_t single_ns, uint32_t late_one_in,
                    struct tt_prng *p)
{
    uint32_t nsingle = 0;

    for (uint32_t i = 0; i < n; i++) {
        const bool single = tt_copies_next(c);
        const uint64_t late_ns = late_one_in && tt_prng_below(p, late_one_in) == 0 ? 1000000 : 0;

        nsingle += single;
        tt_copies_learn(c, single, BYTES, (single ? single_ns : slots_ns) + late_ns);
    }
    return nsingle;
}

static void the_faster_way_is_found_within_ten_operations(void **state)
{
    struct tt_copies slots = { 0 }, single = { 0 };

    (void)state;
    run(&slots, 10, 10000, 20000, 0, NULL);
    run(&single, 10, 20000, 10000, 0, NULL);
    assert_false(slots.single);
    assert_true(single.single);
    assert_in_range(run(&slots, 640, 10000, 20000, 0, NULL), 1, 10);
    assert_in_range(run(&single, 640, 20000, 10000, 0, NULL), 630, 639);
}

static void it_changes_when_the_other_one_has_become_faster(void **state)
{
    struct tt_copies c = { 0 };

    (void)state;
    for (uint32_t turn = 0; turn < 4; turn++) {
        run(&c, 600, 10000, 20000, 0, NULL);
        assert_false(c.single);
        run(&c, 600, 20000, 10000, 0, NULL);
        assert_true(c.single);
    }
}

static void the_first_operation_says_nothing(void **state)
{
    struct tt_copies c = { 0 };

    (void)state;
    assert_false(tt_copies_next(&c));
    tt_copies_learn(&c, false, BYTES, 1);
    run(&c, 20, 20000, 10000, 0, NULL);
    assert_true(c.single);
}

static void late_ranks_do_not_matter(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct tt_copies c = { 0 };
        struct tt_prng p;
        uint32_t nsingle;

        tt_prng_init(&p, seed);
        run(&c, 2000, 20000, 10000, 3, &p);
        nsingle = run(&c, 6400, 20000, 10000, 3, &p);
        if (nsingle < 5500)
            fail_msg("seed %u: %u of 6400 in a single copy, which takes half the time", (unsigned)seed, nsingle);
    }
}

static void lengths_have_classes(void **state)
{
    (void)state;
    assert_int_equal(tt_copies_class(TT_COPIES_BYTES_MIN), 0);
    assert_int_equal(tt_copies_class(2 * TT_COPIES_BYTES_MIN - 1), 0);
    assert_int_equal(tt_copies_class(2 * TT_COPIES_BYTES_MIN), 1);
    assert_int_equal(tt_copies_class(UINT64_MAX), TT_COPIES_CLASSES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_faster_way_is_found_within_ten_operations),
        cmocka_unit_test(it_changes_when_the_other_one_has_become_faster),
        cmocka_unit_test(the_first_operation_says_nothing),
        cmocka_unit_test(late_ranks_do_not_matter),
        cmocka_unit_test(lengths_have_classes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
