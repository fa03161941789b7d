/* Matrices of WAN testbeds, as in files. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "support/unit.h"
#include "support/wan_matrix.h"

#define TWO "\"hosts\": [{\"name\": \"a\"}, {\"name\": \"b\"}]"

static struct wan_matrix m;

static void read_matrix(const char *text)
{
    assert_int_equal(wan_matrix_parse(&m, text, strlen(text), "m.json"), TUTTI_OK);
}

static void one_number_or_rows_per_host(void **state)
{
    (void)state;
    read_matrix("{" TWO ", \"delay_ms\": 12.3, \"loss\": [[null, 0.5], [0.25, \"\"]], "
                "\"rate_mbit\": [[0, 8], [null, 0]], \"queue_ms\": 100}");
    assert_int_equal(m.pair[0][1].delay_ns, 12300000);
    assert_int_equal(m.pair[1][0].delay_ns, 12300000);
    assert_float_equal(m.pair[0][1].loss, 0.5, 0);
    assert_float_equal(m.pair[1][0].loss, 0.25, 0);
    assert_int_equal(m.pair[0][1].line.bit_s, 8000000);
    assert_int_equal(m.pair[1][0].line.bit_s, 0);
    assert_int_equal(m.pair[0][1].line.queue_bytes, 100000);
}

static void queues_have_their_given_length(void **state)
{
    (void)state;
    read_matrix("{" TWO ", \"delay_ms\": [[0, 30], [50, 0]], \"rate_mbit\": 80}");
    assert_int_equal(m.pair[0][1].line.queue_bytes, 800000);      /* 80 ms round trip, once */
    assert_int_equal(m.pair[1][0].line.queue_bytes, 800000);
    read_matrix("{" TWO
                ", \"delay_ms\": [[0, 30], [50, 0]], \"rate_mbit\": 80, \"queue_bdp\": 0.5}");
    assert_int_equal(m.pair[0][1].line.queue_bytes, 400000);
    read_matrix("{" TWO ", \"delay_ms\": 1, \"rate_mbit\": 80, \"queue_bytes\": 123456}");
    assert_int_equal(m.pair[0][1].line.queue_bytes, 123456);
    read_matrix("{" TWO ", \"delay_ms\": 0, \"rate_mbit\": 80}");
    assert_int_equal(m.pair[0][1].line.queue_bytes, WAN_QUEUE_BYTES_MIN);
    read_matrix("{\"hosts\": [{\"name\": \"a\", \"up_mbit\": 8}, {\"name\": \"b\", \"down_mbit\": "
                "16}, {\"name\": \"c\"}], "
                "\"delay_ms\": [[0, 10, 20], [10, 0, 5], [80, 5, 0]]}");
    assert_int_equal(m.host[0].up.queue_bytes, 100000);           /* the host's longest round trip
                                                                     is 100 ms */
    assert_int_equal(m.host[0].down.bit_s, 0);
    assert_int_equal(m.host[1].down.queue_bytes, 40000);
}

static void written_matrix_reads_the_same(void **state)
{
    char text[4096];
    FILE *f = fmemopen(text, sizeof text, "w");

    (void)state;
    read_matrix("{" TWO ", \"delay_ms\": 0.1, \"rate_mbit\": 8.5, \"seed\": 77, \"loss\": 0.001, "
                "\"loss_burst\": 4, \"queue\": \"fair\"}");
    assert_non_null(f);
    wan_matrix_write(f, &m);
    fclose(f);
    assert_string_equal(text, "{\"seed\": 77, \"hosts\": ["
                              "{\"name\": \"a\", \"up_mbit\": null, \"up_queue_bytes\": null, "
                              "\"down_mbit\": null, \"down_queue_bytes\": null}, "
                              "{\"name\": \"b\", \"up_mbit\": null, \"up_queue_bytes\": null, "
                              "\"down_mbit\": null, \"down_queue_bytes\": null}], "
                              "\"pairs\": [[null, {\"delay_ms\": 0.1, \"loss\": 0.001, "
                              "\"loss_burst\": 4, \"queue\": \"fair\", "
                              "\"rate_mbit\": 8.5, \"queue_bytes\": 16384}], "
                              "[{\"delay_ms\": 0.1, \"loss\": 0.001, \"loss_burst\": 4, "
                              "\"queue\": \"fair\", \"rate_mbit\": 8.5, "
                              "\"queue_bytes\": 16384}, null]]}\n");
}

static const struct {
    const char *text, *sentence;
} mistakes[] = {
    { "", "invalid JSON" },
    { "{" TWO, "unexpected end" },
    { "{" TWO "} x", "invalid JSON: unexpected character" },
    { "{\n" TWO ",\n \"delay_ms\": -1}", "m.json:3: delay_ms is -1" },
    { "{\n" TWO ",\n \"loss\": [[0, 0],\n  [2, 0]]}", "m.json:4: loss[1][0]: loss is 2" },
    { "{\n" TWO ",\n \"loss\": [[0, 0],\n  [2]]}", "m.json:4: loss[1]: a row must be" },
    { "{\n" TWO ",\n \"loss\":\n []}", "m.json:3: loss has 0 rows" },
    { "{\n" TWO ",\n \"seed\": 0.5}", "m.json:3: \"seed\" must be" },
    { "{\n" TWO ",\n \"queue_ms\": 1,\n \"queue_bdp\": 1}", "m.json:4: queue_bytes, queue_ms and" },
    { "{\n \"speed\": 1}", "m.json:2: it has an unknown member \"speed\"" },
    { "{\n \"loss\": 1,\n \"loss\": 1}", "m.json:3: duplicate key \"loss\"" },
    { "{\n \"hosts\": 1}", "m.json:2: hosts must be a list" },
    { "{\"hosts\": [{\"name\": \"a\"},\n {\n  \"name\": \"b\",\n  \"up_mbit\": 0}]}",
      "m.json:4: hosts[1]: up_mbit is 0" },
    { "{\"hosts\": [{\"name\": \"a\"},\n {\n  \"name\": \"a\"}]}",
      "m.json:3: hosts[1]: hosts[0] has the name a, too" },
    { "{\"hosts\": [{\"name\": \"a\"},\n {}]}", "m.json:2: hosts[1]: name must be a text" },
    { "[]", "it must be an object" },
    { "{}", "hosts must be a list of 2 to 64 hosts" },
    { "{\"hosts\": [{\"name\": \"a\"}]}", "hosts has 1 entries: must be 2 to 64" },
    { "{\"hosts\": [{\"name\": \"a\"}, {}]}", "hosts[1]: name must be a text" },
    { "{\"hosts\": [{\"name\": \"a\"}, {\"name\": \"B\"}]}", "hosts[1]: name must be a text" },
    { "{\"hosts\": [{\"name\": \"a\"}, {\"name\": \"x;y\"}]}", "hosts[1]: name must be a text" },
    { "{\"hosts\": [{\"name\": \"a\"}, {\"name\": \"a\\u0000\"}]}",
      "hosts[1]: name must be a text" },
    { "{\"hosts\": [{\"name\": \"a\"}, {\"name\": \"abcdefghijklmnopqrstuvwxyz012345\"}]}",
      "of up to 31 characters" },
    { "{\"hosts\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}", "hosts[0] has the name a, too" },
    { "{\"hosts\": [{\"name\": \"a\", \"upload\": 3}, {\"name\": \"b\"}]}",
      "hosts[0]: the host has an unknown member \"upload\"" },
    { "{\"hosts\": [{\"name\": \"a\", \"up_mbit\": -1}, {\"name\": \"b\"}]}",
      "up_mbit is -1, but must be from 0.001 to 1e+06" },
    { "{" TWO ", \"delay\": 3}", "it has an unknown member \"delay\"" },
    { "{" TWO ", \"delay_ms\": \"3\"}", "delay_ms is \"3\", but must be a number" },
    { "{" TWO ", \"delay_ms\": null}", "delay_ms is null, but must be a number" },
    { "{" TWO ", \"delay_ms\": 1e9}", "delay_ms is 1e+09, but must be from 0 to 60000" },
    { "{" TWO ", \"delay_ms\": [[0, 1]]}", "delay_ms has 1 rows, but there are 2 hosts" },
    { "{" TWO ", \"delay_ms\": [[0, 1], [1]]}", "delay_ms[1]: a row must be a list of 2 numbers" },
    { "{" TWO ", \"delay_ms\": [[0, 1], 5]}", "delay_ms[1]: a row must be a list of 2 numbers" },
    { "{" TWO ", \"delay_ms\": [[0, 1], [true, 0]]}",
      "delay_ms[1][0]: delay_ms is true, but must be a number" },
    { "{" TWO ", \"loss\": 1.5}", "loss is 1.5, but must be from 0 to 1" },
    { "{" TWO ", \"rate_mbit\": 0}", "rate_mbit is 0, but must be from 0.001 to 1e+06" },
    { "{" TWO ", \"queue_ms\": 10, \"queue_bdp\": 1}", "only one is possible" },
    { "{" TWO ", \"queue_bytes\": 1000}", "queue_bytes is 1000, but must be from 16384" },
    { "{" TWO ", \"queue\": \"red\"}", "queue must be \"fifo\", \"fair\" or \"policer\"" },
    { "{" TWO ", \"queue\": 3}", "queue must be" },
    { "{" TWO ", \"loss_burst\": 0.5}", "loss_burst is 0.5, but must be from 1 to 1e+06" },
    { "{" TWO ", \"seed\": -1}", "\"seed\" must be a whole number" },
    { "{" TWO ", \"delay_ms\": [[[[[[1]]]]]]}", "m.json:1:59: objects and arrays are nested "
                                                "deeper than the format allows" },
};

static void errors_name_their_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct wan_matrix out = { .nhosts = 99 };
        struct unit_stderr caught;
        tutti_status st;
        char said[1024];

        unit_stderr_catch(&caught);
        st = wan_matrix_parse(&out, mistakes[i].text, strlen(mistakes[i].text), "m.json");
        unit_stderr_release(&caught, said, sizeof said);
        assert_int_equal(st, TUTTI_ERR_INVALID);
        assert_int_equal(out.nhosts, 99);
        if (!strstr(said, "matrix m.json") || !strstr(said, mistakes[i].sentence))
            fail_msg("%s: it says \"%s\", not \"%s\"", mistakes[i].text, said,
                     mistakes[i].sentence);
    }
}

static void pair_values_change_within_bounds(void **state)
{
    (void)state;
    tt_log_set(TT_LOG_NONE);
    read_matrix("{" TWO ", \"rate_mbit\": 8}");
    assert_int_equal(wan_matrix_change(&m, 0, 1, "delay_ms", 3), TUTTI_OK);
    assert_int_equal(wan_matrix_change(&m, 0, 1, "rate_mbit", 4), TUTTI_OK);
    assert_int_equal(wan_matrix_change(&m, 0, 1, "loss", 1), TUTTI_OK);
    assert_int_equal(m.pair[0][1].delay_ns, 3 * TT_MS);
    assert_int_equal(m.pair[0][1].line.bit_s, 4000000);
    assert_int_equal(m.pair[1][0].delay_ns, 0);
    assert_int_equal(wan_matrix_change(&m, 0, 1, "loss", 1.1), TUTTI_ERR_INVALID);
    assert_int_equal(wan_matrix_change(&m, 0, 1, "rate_mbit", NAN), TUTTI_ERR_INVALID);
    assert_int_equal(wan_matrix_change(&m, 0, 1, "queue_ms", 1), TUTTI_ERR_INVALID);
    assert_int_equal(wan_matrix_change(&m, 0, 0, "loss", 0), TUTTI_ERR_INVALID);
    assert_int_equal(wan_matrix_change(&m, 0, 2, "loss", 0), TUTTI_ERR_INVALID);
    assert_float_equal(m.pair[0][1].loss, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_number_or_rows_per_host),
        cmocka_unit_test(queues_have_their_given_length),
        cmocka_unit_test(written_matrix_reads_the_same),
        cmocka_unit_test(errors_name_their_place),
        cmocka_unit_test(pair_values_change_within_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
