#include "base/jsonread.h"

#include <string.h>
#include "base/log.h"
#include "support/unit.h"

static tutti_status parse(const char *text)
{
    const struct tt_json_place at = { .kind = "plan", .from = "mine.json" };
    struct json_object *doc = NULL;
    const tutti_status st = tt_json_parse(&doc, &at, text, strlen(text), 1000, 5);

    json_object_put(doc);
    return st;
}

static void duplicate_key_is_named(void **state)
{
    static const struct {
        const char *text, *says;        /* NULL: valid */
    } cases[] = {
        { "{\"a\": 1, \"b\": {\"a\": 2, \"c\": [{\"a\": 3}, {\"a\": 4}]}}", NULL },
        { "{\"a\": \"a\", \"b\": \"\\\"a\\\": 1, \\\\\", \"c\": [\"a\", \"a\", \":\"]}", NULL },
        { "{\"a:\": 1, \"a\": {}, \"\\\"\": []}", NULL },
        { "{'a\"': 1, 'b:': 2, \"c'\": {'a\"': 1}}", NULL }, /* invalid JSON, but accepted by
                                                                json-c */
        { "{'a\"': 1, \"b'\": {'c': 1, 'c': 2}}", "mine.json:1: duplicate key \"c\"" },
        { "{\"a\": 1,\n \"b\": 2,\n \"a\" : 1}", "plan mine.json:3: duplicate key \"a\" "
                                                 "in an object" },
        { "{\"x\": [1, {\"b\": {\"a\": 1}, \"a\": 2, \"b\": 3}]}",
          "mine.json:1: duplicate key \"b\"" },
        { "{\"x\": {\"a\": 1, \"a\": {\"a\": [1, 2]}}}", "mine.json:1: duplicate key \"a\"" },
        { "{\"a\": 1, \"\\u0061\": 1}", "duplicate key in an object, spelled in two ways" },
    };

    (void)state;
    tt_log_set(TT_LOG_NONE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tutti_status st = parse(cases[i].text);

        if (st != (cases[i].says ? TUTTI_ERR_INVALID : TUTTI_OK) ||
            (st && !strstr(tutti_last_error(), cases[i].says)))
            fail_msg("%s: %s", cases[i].text, st ? tutti_last_error() : "OK");
    }
}

static void error_names_line_of_member(void **state)
{
    static const char text[] = "{\n \"a\": [\n  {\n   \"b\": -1,\n   \"c\": 2 }],\n \"d\": 7 }";
    static const char *const known[] = { "b" };
    struct tt_json_place at = {
        .kind = "plan", .from = "mine.json", .text = text, .bytes = sizeof text - 1
    };
    struct json_object *doc = NULL, *first;
    uint64_t out;
    bool flag;

    (void)state;
    tt_log_set(TT_LOG_NONE);
    assert_int_equal(tt_json_parse(&doc, &at, text, sizeof text - 1, 1000, 5), TUTTI_OK);
    tt_json_flag(&at, doc, "d", &flag);
    assert_string_equal(tutti_last_error(), "plan mine.json:6: \"d\" must be true or false");
    tt_json_number(&at, doc, "e", 0, 9, &out);
    assert_string_equal(tutti_last_error(), "plan mine.json: \"e\" is missing");

    first = json_object_array_get_idx(json_object_object_get(doc, "a"), 0);
    strcpy(at.where, ": a[0]");
    tt_json_number(&at, first, "b", 0, 9, &out);
    assert_string_equal(tutti_last_error(),
                        "plan mine.json:4: a[0]: \"b\" must be a whole number from 0 to 9");
    tt_json_number(&at, first, "e", 0, 9, &out);
    assert_string_equal(tutti_last_error(), "plan mine.json:3: a[0]: \"e\" is missing");
    tt_json_members(&at, first, "it", known, 1);
    assert_string_equal(tutti_last_error(),
                        "plan mine.json:5: a[0]: it has an unknown member \"c\"");
    tt_json_wrong(&at, "useless");
    assert_string_equal(tutti_last_error(), "plan mine.json:3: a[0]: useless");
    json_object_put(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(duplicate_key_is_named),
        cmocka_unit_test(error_names_line_of_member),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
