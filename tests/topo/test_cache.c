/* What the kernel writes of a cache, read. */
#include "support/unit.h"

#include "topo/cache.c"

static void sizes_have_units(void **state)
{
    (void)state;
    assert_int_equal(bytes_in("8192K\n"), 8 << 20);
    assert_int_equal(bytes_in("32M\n"), 32 << 20);
    assert_int_equal(bytes_in("1G"), 1 << 30);
    assert_int_equal(bytes_in("512\n"), 512);
    assert_int_equal(bytes_in(""), 0);
    assert_int_equal(bytes_in("many"), 0);
    assert_int_equal(bytes_in("18446744073709551615K"), 0);     /* more than there can be */
}

static void processors_are_counted_in_all_words_of_a_map(void **state)
{
    (void)state;
    assert_int_equal(bits_in("00000003\n"), 2);
    assert_int_equal(bits_in("ff,0000000f\n"), 12);
    assert_int_equal(bits_in("80000000,00000000,00000001\n"), 2);
    assert_int_equal(bits_in(""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_have_units),
        cmocka_unit_test(processors_are_counted_in_all_words_of_a_map),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
