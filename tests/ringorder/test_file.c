#include "support/unit.h"

#include <string.h>

#include "base/log.h"
#include "ringorder/ring_file.h"

static void matrix_is_read_as_written(void **state)
{
    static const char text[] =
        "{\"peers\": [\"a\", \"b\"], \"bandwidth_mbit_s\": [[null, 8], [0.008, 5]],\n"
        " \"latency_ms\": [[0, 1.5], [20, 0]], \"up_mbit_s\": [16, null]}\n";
    struct tt_ring_file f;

    (void)state;
    assert_int_equal(tt_ring_file_parse(&f, text, strlen(text), "t"), TUTTI_OK);
    assert_int_equal(f.m.n, 2);
    assert_string_equal(f.name[1], "b");
    assert_int_equal(tt_ring_rate(&f.m, 0, 1), 1000000);
    assert_int_equal(tt_ring_rate(&f.m, 1, 0), 1000);
    assert_int_equal(f.m.latency[1], 1500000);
    assert_int_equal(f.m.latency[2], 20000000);
    assert_int_equal(tt_ring_up(&f.m, 0), 2000000);
    assert_int_equal(tt_ring_up(&f.m, 1), 1000);
    assert_null(f.m.down);
    tt_ring_file_fini(&f);
}

static void errors_name_their_place(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "", "t:1:1: invalid JSON: unexpected end" },
        { "{\n\"a\":,}", "t:2:5: invalid JSON" },
        { "{} {}", "t:1:4: invalid JSON: unexpected character" },
        { "[1]", "t: the document is [1]: must be an object" },
        { "{\"bandwith\": 1}", "t:1: unknown key \"bandwith\" (known: peers" },
        { "{}", "bandwidth_mbit_s must be an array of 1 to 512 rows" },
        { "{\"bandwidth_mbit_s\": []}", "bandwidth_mbit_s must be an array of 1 to 512 rows" },
        { "{\"bandwidth_mbit_s\": [[1]]}", "latency_ms must be an array of 1 row," },
        { "{\"bandwidth_mbit_s\": [[1, 2]], \"latency_ms\": [[1]]}",
          "row 0 of bandwidth_mbit_s must be an array of 1 numbers" },
        { "{\"bandwidth_mbit_s\": [[0, 1], [\"x\", 0]], \"latency_ms\": [[0, 0], [0, 0]]}",
          "bandwidth_mbit_s from peer 1 to peer 0 is \"x\"" },
        { "{\"bandwidth_mbit_s\": [[0, 1], [-1, 0]], \"latency_ms\": [[0, 0], [0, 0]]}",
          "bandwidth_mbit_s from peer 1 to peer 0 is -1" },
        { "{\"bandwidth_mbit_s\": [[0, 1e30], [1, 0]], \"latency_ms\": [[0, 0], [0, 0]]}",
          "from peer 0 to peer 1 is 1e30: must be a number from 0 to" },
        { "{\"bandwidth_mbit_s\": [[0, 1], [1, 0]], \"latency_ms\": [[0, 0], [1e9, 0]]}",
          "latency_ms from peer 1 to peer 0 is 1e9" },
        { "{\"bandwidth_mbit_s\": [[0]], \"latency_ms\": [[0]], \"peers\": [7]}",
          "name of peer 0 is 7" },
        { "{\"bandwidth_mbit_s\": [[0]], \"latency_ms\": [[0]], \"peers\": [\"a\\nb\"]}",
          "name of peer 0 is" },
        { "{\"bandwidth_mbit_s\": [[0]], \"latency_ms\": [[0]], \"peers\": []}",
          "peers must be an array of 1 names" },
        { "{\"bandwidth_mbit_s\": [[0]], \"latency_ms\": [[0]], \"up_mbit_s\": [1, 2]}",
          "up_mbit_s must be an array of 1 numbers" },
        { "{\"bandwidth_mbit_s\": [[0]], \"latency_ms\": [[0]], \"down_mbit_s\": [true]}",
          "down_mbit_s of peer 0 is true" },
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct tt_ring_file f = { .memory = &f };

        assert_int_equal(tt_ring_file_parse(&f, cases[k].text, strlen(cases[k].text), "t"),
                         TUTTI_ERR_INVALID);
        assert_ptr_equal(f.memory, &f);
        if (!strstr(tutti_last_error(), cases[k].says))
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[k].text, tutti_last_error(),
                     cases[k].says);
    }
}

static int quiet(void **state)
{
    (void)state;
    tt_log_set(TT_LOG_NONE);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix_is_read_as_written),
        cmocka_unit_test(errors_name_their_place),
    };

    return cmocka_run_group_tests(tests, quiet, NULL);
}
