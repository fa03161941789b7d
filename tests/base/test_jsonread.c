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

static void a_key_that_an_object_has_twice_is_named(void **state)
{
    static const struct {
        const char *text, *says;        /* NULL: it is good */
    } cases[] = {
        { "{\"a\": 1, \"b\": {\"a\": 2, \"c\": [{\"a\": 3}, {\"a\": 4}]}}", NULL },
        { "{\"a\": \"a\", \"b\": \"\\\"a\\\": 1, \\\\\", \"c\": [\"a\", \"a\", \":\"]}", NULL },
        { "{\"a:\": 1, \"a\": {}, \"\\\"\": []}", NULL },
        { "{'a\"': 1, 'b:': 2, \"c'\": {'a\"': 1}}", NULL },        /* no JSON, but json-c takes it */
        { "{'a\"': 1, \"b'\": {'c': 1, 'c': 2}}", "line 1: duplicate key \"c\"" },
        { "{\"a\": 1,\n \"b\": 2,\n \"a\" : 1}", "plan mine.json: line 3: duplicate key \"a\" "
                                                 "in an object" },
        { "{\"x\": [1, {\"b\": {\"a\": 1}, \"a\": 2, \"b\": 3}]}", "line 1: duplicate key \"b\"" },
        { "{\"x\": {\"a\": 1, \"a\": {\"a\": [1, 2]}}}", "line 1: duplicate key \"a\"" },
        { "{\"a\": 1, \"\\u0061\": 1}", "duplicate key in an object, with two spellings" },
    };

    (void)state;
    tt_log_set(TT_LOG_NONE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tutti_status st = parse(cases[i].text);

        if (st != (cases[i].says ? TUTTI_ERR_INVALID : TUTTI_OK) || (st && !strstr(tutti_last_error(), cases[i].says)))
            fail_msg("%s: %s", cases[i].text, st ? tutti_last_error() : "OK");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_an_object_has_twice_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
