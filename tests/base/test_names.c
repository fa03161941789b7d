#include <stdio.h>
#include "base/names.h"
#include "support/unit.h"

static void types_have_sizes_and_parsable_names(void **state)
{
    (void)state;
    for (int t = 0; t < TUTTI_DTYPE_COUNT; t++) {
        tutti_dtype parsed = TUTTI_DTYPE_COUNT;

        assert_in_range(tutti_dtype_bytes((tutti_dtype)t), 1, 8);
        assert_true(tt_dtype_parse(tutti_dtype_name((tutti_dtype)t), &parsed));
        assert_int_equal(parsed, t);
    }
}

static void operations_have_parsable_names(void **state)
{
    (void)state;
    for (int op = 0; op < TUTTI_REDOP_COUNT; op++) {
        tutti_redop parsed = TUTTI_REDOP_COUNT;

        assert_true(tt_redop_parse(tutti_redop_name((tutti_redop)op), &parsed));
        assert_int_equal(parsed, op);
    }
}

static void quantizations_have_parsable_names(void **state)
{
    tutti_quant parsed = TUTTI_QUANT_COUNT;

    (void)state;
    for (int q = 0; q < TUTTI_QUANT_COUNT; q++) {
        assert_true(tt_quant_parse(tutti_quant_name((tutti_quant)q), &parsed));
        assert_int_equal(parsed, q);
    }
    assert_string_equal(tutti_quant_name(TUTTI_QUANT_COUNT), "?");
    assert_false(tt_quant_parse("minmax", &parsed) || tt_quant_parse(NULL, &parsed));
}

static void every_status_has_a_unique_name(void **state)
{
    (void)state;
    for (int a = 0; a < TUTTI_STATUS_COUNT; a++) {
        assert_string_not_equal(tutti_status_name((tutti_status)a), "?");
        for (int b = 0; b < a; b++)
            assert_string_not_equal(tutti_status_name((tutti_status)a),
                                    tutti_status_name((tutti_status)b));
    }
}

static void invalid_values_and_names_are_refused(void **state)
{
    tutti_dtype type = TUTTI_F64;
    tutti_redop op = TUTTI_MAX;

    (void)state;
    assert_int_equal(tutti_dtype_bytes(TUTTI_DTYPE_COUNT), 0);
    assert_int_equal(tutti_dtype_bytes((tutti_dtype)-1), 0);
    assert_string_equal(tutti_dtype_name((tutti_dtype)99), "?");
    assert_string_equal(tutti_redop_name((tutti_redop)-1), "?");
    assert_string_equal(tutti_status_name((tutti_status)-1), "?");
    assert_string_equal(tutti_status_name(TUTTI_STATUS_COUNT), "?");

    assert_false(tt_dtype_parse("f33", &type));
    assert_false(tt_dtype_parse("", &type));
    assert_false(tt_dtype_parse(NULL, &type));
    assert_false(tt_redop_parse("Sum", &op));
    assert_int_equal(type, TUTTI_F64);
    assert_int_equal(op, TUTTI_MAX);
}

static void sizes_match_the_names(void **state)
{
    (void)state;
    assert_int_equal(tutti_dtype_bytes(TUTTI_I8), 1);
    assert_int_equal(tutti_dtype_bytes(TUTTI_BF16), 2);
    assert_int_equal(tutti_dtype_bytes(TUTTI_F32), 4);
    assert_int_equal(tutti_dtype_bytes(TUTTI_U64), 8);
    assert_int_equal(tutti_dtype_bytes(TUTTI_F8E5M2), 1);
}

static void the_version_is_three_numbers(void **state)
{
    unsigned major, minor, patch;
    char rest;

    (void)state;
    assert_int_equal(sscanf(tutti_version(), "%u.%u.%u%c", &major, &minor, &patch, &rest), 3);
    assert_int_equal(major, TUTTI_VERSION_MAJOR);
    assert_int_equal(minor, TUTTI_VERSION_MINOR);
    assert_int_equal(patch, TUTTI_VERSION_PATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_have_sizes_and_parsable_names),
        cmocka_unit_test(operations_have_parsable_names),
        cmocka_unit_test(quantizations_have_parsable_names),
        cmocka_unit_test(every_status_has_a_unique_name),
        cmocka_unit_test(invalid_values_and_names_are_refused),
        cmocka_unit_test(sizes_match_the_names),
        cmocka_unit_test(the_version_is_three_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
