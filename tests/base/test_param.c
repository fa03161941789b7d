#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/param.h"
#include "support/unit.h"

static int without_environment(void **state)
{
    (void)state;
    tt_log_set(TT_LOG_NONE);
    for (int i = 0; i < TT_PARAM_COUNT; i++)
        unsetenv(tt_params[i].name);
    return 0;
}

static void parameters_are_described_with_valid_defaults(void **state)
{
    (void)state;
    for (int i = 0; i < TT_PARAM_COUNT; i++) {
        const struct tt_param *p = &tt_params[i];

        assert_non_null(p->name);
        assert_memory_equal(p->name, "TUTTI_", 6);
        assert_true(strlen(p->unit) > 0 && strlen(p->summary) > 0);
        assert_true(p->value_min <= p->value_default && p->value_default <= p->value_max);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(p->name, tt_params[j].name);
    }
}

static void unset_parameter_has_its_default(void **state)
{
    (void)state;
    for (int i = 0; i < TT_PARAM_COUNT; i++) {
        int64_t v = -99;

        assert_int_equal(tt_param_get((enum tt_param_id)i, &v), TUTTI_OK);
        assert_true(v == tt_params[i].value_default);
    }
}

static void empty_variable_counts_as_unset(void **state)
{
    (void)state;
    for (int i = 0; i < TT_PARAM_COUNT; i++) {
        int64_t v = -99;

        setenv(tt_params[i].name, "", 1);
        assert_int_equal(tt_param_get((enum tt_param_id)i, &v), TUTTI_OK);
        assert_true(v == tt_params[i].value_default);
    }
}

static void set_value_applies_within_bounds(void **state)
{
    int64_t v;

    (void)state;
    setenv("TUTTI_LANES", "16", 1);
    assert_int_equal(tt_param_get(TT_PARAM_LANES, &v), TUTTI_OK);
    assert_int_equal(v, 16);
    setenv("TUTTI_TIMEOUT_MS", "-1", 1);
    assert_int_equal(tt_param_get(TT_PARAM_TIMEOUT_MS, &v), TUTTI_OK);
    assert_true(v == -1);
}

static void invalid_values_are_refused(void **state)
{
    static const char *const bad[] = { " ",
                                       "17",
                                       "-1",
                                       "many",
                                       "4x",
                                       "4 ",
                                       " 4",
                                       "+4",
                                       "-",
                                       "- 4",
                                       "0x4",
                                       "1.5",
                                       "99999999999999999999" };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t v = 5;

        setenv("TUTTI_LANES", bad[i], 1);
        assert_int_equal(tt_param_get(TT_PARAM_LANES, &v), TUTTI_ERR_INVALID);
        assert_int_equal(v, 5);
    }
}

static void refusal_names_parameter_value_and_bounds(void **state)
{
    int64_t v;

    (void)state;
    setenv("TUTTI_LANES", "17", 1);
    assert_int_equal(tt_param_get(TT_PARAM_LANES, &v), TUTTI_ERR_INVALID);
    assert_string_equal(tutti_last_error(), "TUTTI_LANES is \"17\": must be 0 to 16 (connections)");
    setenv("TUTTI_TIMEOUT_MS", "0", 1);
    assert_int_equal(tt_param_get(TT_PARAM_TIMEOUT_MS, &v), TUTTI_ERR_INVALID);
    assert_string_equal(tutti_last_error(), "TUTTI_TIMEOUT_MS is \"0\": must be -1 (none) or 1 to "
                                            "2147483647 (ms)");
}

static void unknown_variable_is_reported_once(void **state)
{
    struct unit_stderr c;
    char text[512];

    (void)state;
    setenv("TUTTI_LANSE", "3", 1);
    setenv("TUTTI_WIRES", "shm", 1);
    setenv("TUTTI_DIR", "/opt/tutti", 1);
    tt_log_set(TT_LOG_WARN);
    unit_stderr_catch(&c);
    tt_param_warn_unknown();
    tt_param_warn_unknown();
    unit_stderr_release(&c, text, sizeof text);
    assert_string_equal(
        text,
        "tutti warn: unknown environment variable TUTTI_LANSE (`tutti info --params` lists all)\n");
    unsetenv("TUTTI_LANSE");
    unsetenv("TUTTI_WIRES");
    unsetenv("TUTTI_DIR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(parameters_are_described_with_valid_defaults, without_environment),
        cmocka_unit_test_setup(unset_parameter_has_its_default, without_environment),
        cmocka_unit_test_setup(empty_variable_counts_as_unset, without_environment),
        cmocka_unit_test_setup(set_value_applies_within_bounds, without_environment),
        cmocka_unit_test_setup(invalid_values_are_refused, without_environment),
        cmocka_unit_test_setup(refusal_names_parameter_value_and_bounds, without_environment),
        cmocka_unit_test_setup(unknown_variable_is_reported_once, without_environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
