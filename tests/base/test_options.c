/* Option structs of programs built for an older or a newer Tutti. */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "support/unit.h"

/* Sizes after several releases. */
#define FIRST 24u
#define NOW 40u

/* Allocates options of exactly `size` bytes; all bytes except the size are `fill`. */
static unsigned char *options(size_t size, int fill)
{
    unsigned char *mem = malloc(size < sizeof size ? sizeof size : size);

    assert_non_null(mem);
    memset(mem, fill, size);
    memcpy(mem, &size, sizeof size);
    return mem;
}

static tutti_status take(unsigned char out[NOW], unsigned char *given)
{
    const tutti_status st =
        tt_options_take(out, NOW, FIRST, given, "tutti_try", "conf", "tutti_try_conf");

    free(given);
    return st;
}

static void fields_missing_in_older_read_zero(void **state)
{
    (void)state;
    for (size_t size = FIRST; size <= NOW; size++) {
        unsigned char out[NOW];
        size_t now;

        memset(out, 0xee, sizeof out);
        assert_int_equal(take(out, options(size, 0x55)), TUTTI_OK);
        memcpy(&now, out, sizeof now);
        assert_int_equal(now, NOW);
        for (size_t i = sizeof now; i < NOW; i++)
            assert_int_equal(out[i], i < size ? 0x55 : 0);
    }
}

static void newer_options_need_zero_new_fields(void **state)
{
    (void)state;
    for (size_t size = NOW + 1; size <= TT_OPTIONS_BYTES_MAX; size += 13) {
        unsigned char *given = options(size, 0), out[NOW];

        memset(given + sizeof size, 0x55, NOW - sizeof size);
        assert_int_equal(take(out, given), TUTTI_OK);
        assert_int_equal(out[NOW - 1], 0x55);
        given = options(size, 0);
        given[NOW + (size - NOW) / 2] = 1;
        memset(out, 0xee, sizeof out);
        assert_int_equal(take(out, given), TUTTI_ERR_INVALID);
        assert_non_null(strstr(tutti_last_error(), "tutti_try: conf.size is "));
        assert_non_null(strstr(tutti_last_error(), "supports 40"));
        assert_int_equal(out[0], 0xee);
    }
}

static void unknown_sizes_are_refused(void **state)
{
    static const size_t sizes[] = { 0, 1, FIRST - 1, TT_OPTIONS_BYTES_MAX + 1, SIZE_MAX };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *given = options(NOW, 0), out[NOW];

        memcpy(given, &sizes[i], sizeof sizes[i]);
        assert_int_equal(take(out, given), TUTTI_ERR_INVALID);
        assert_non_null(strstr(tutti_last_error(), "not 40: set it to sizeof(tutti_try_conf)"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_missing_in_older_read_zero),
        cmocka_unit_test(newer_options_need_zero_new_fields),
        cmocka_unit_test(unknown_sizes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
