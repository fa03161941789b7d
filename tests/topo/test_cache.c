/* Parsing the kernel's descriptions of caches. */
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
    assert_int_equal(bytes_in("18446744073709551615K"), 0);     /* more than possible */
}

static int cpus_in(const char *map, cpu_set_t *set)
{
    read_map(map, set);
    return CPU_COUNT(set);
}

static void map_words_list_all_processors(void **state)
{
    cpu_set_t set;

    (void)state;
    assert_int_equal(cpus_in("00000003\n", &set), 2);
    assert_true(CPU_ISSET(0, &set) && CPU_ISSET(1, &set));
    assert_int_equal(cpus_in("a1,0000000f\n", &set), 7);
    assert_true(CPU_ISSET(3, &set) && CPU_ISSET(32, &set) && CPU_ISSET(37, &set) &&
                CPU_ISSET(39, &set));
    assert_int_equal(cpus_in("80000000,00000000,00000001\n", &set), 2);
    assert_true(CPU_ISSET(0, &set) && CPU_ISSET(95, &set));
    assert_int_equal(cpus_in("", &set), 0);
}

/* A map with more processors than a set can hold. */
static void long_map_is_truncated(void **state)
{
    char map[CPU_SETSIZE / 4 + 64];
    cpu_set_t set;

    (void)state;
    memset(map, 'f', sizeof map);
    map[sizeof map - 1] = '\0';
    assert_int_equal(cpus_in(map, &set), CPU_SETSIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_have_units),
        cmocka_unit_test(map_words_list_all_processors),
        cmocka_unit_test(long_map_is_truncated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
