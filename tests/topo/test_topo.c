#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "topo/labels.h"
#include "topo/topo.h"

static const char lab[] =
    "{ \"name\": \"lab\", \"node\": \"sockets\", \"rails\": 2,\n"
    "  \"links\": { \"host\": { \"latency_ns\": 800, \"gbit_s\": 160 },\n"
    "    \"socket\": { \"latency_ns\": 300, \"gbit_s\": 400 },\n"
    "    \"rack\": { \"latency_ns\": 2000, \"gbit_s\": 8 },\n"
    "    \"zone\": { \"latency_ns\": 9000, \"oversubscription\": 2.5 } },\n"
    "  \"machine\": { \"ranks_per_host\": 4, \"sockets_per_host\": 2, \"hosts_per_rack\": 5, "
    "\"racks_per_zone\": 3 },\n"
    "  \"hosts\": [ { \"host\": \"r*-n*\", \"rack\": \"rack$1\", \"zone\": \"z\", \"slots\": 4 },\n"
    "    { \"host\": \"*\", \"zone\": \"rest\" } ] }";

static tutti_status parse(struct tt_topo *t, const char *text)
{
    return tt_topo_parse(t, text, strlen(text), "lab.json");
}

static void a_description_is_read_whole(void **state)
{
    struct tt_topo t;
    struct tt_layout l;
    char label[TT_TOPO_LABEL_BYTES];

    (void)state;
    assert_int_equal(parse(&t, lab), TUTTI_OK);
    assert_string_equal(t.name, "lab");
    assert_int_equal(t.node, TT_NODE_SOCKETS);
    assert_int_equal(t.nrails, 2);
    assert_int_equal(tt_topo_nranks(&t), 60);
    assert_int_equal(tt_topo_group_ranks(&t, TT_NEAR_SOCKET), 2);
    assert_int_equal(tt_topo_group_ranks(&t, TT_NEAR_RACK), 20);
    assert_int_equal(t.link[TT_NEAR_RACK].latency_ns, 2000);
    assert_true(t.link[TT_NEAR_RACK].bytes_per_s == 1e9);
    assert_true(tt_topo_uplink(&t, TT_NEAR_ZONE) == 5 * 2 * 1e9 / 2.5);
    assert_true(t.link[TT_NEAR_WAN].oversubscription == 1);
    assert_int_equal(tt_topo_layout(&t, 50, &l), TUTTI_OK);
    assert_int_equal(l.nhosts, 13);
    assert_int_equal(tt_layout_distance(&l, 19, 20), TT_NEAR_ZONE);
    assert_int_equal(tt_layout_distance(&l, 0, 19), TT_NEAR_RACK);
    assert_int_equal(tt_layout_distance(&l, 0, 2), TT_NEAR_HOST);
    tt_topo_label(&t, "r12-n7", TT_NEAR_RACK, label);
    assert_string_equal(label, "rack12");
    tt_topo_label(&t, "login", TT_NEAR_RACK, label);
    assert_string_equal(label, "");
    tt_topo_label(&t, "login", TT_NEAR_ZONE, label);
    assert_string_equal(label, "rest");
    assert_int_equal(tt_topo_is_complete(&t, 60), TUTTI_OK);
    tt_topo_fini(&t);
}

static void machine_defaults_to_its_sockets(void **state)
{
    static const struct {
        const char *text;
        enum tt_node_kind is;
        bool told;
    } cases[] = {
        { "{}", TT_NODE_MESH, false },
        { "{\"machine\": {\"ranks_per_host\": 4, \"sockets_per_host\": 2}}", TT_NODE_SOCKETS,
          false },
        { "{\"node\": \"mesh\", \"machine\": {\"ranks_per_host\": 4, \"sockets_per_host\": 2}}",
          TT_NODE_MESH, true },
        { "{\"node\": \"sockets\"}", TT_NODE_SOCKETS, true },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_topo t;

        assert_int_equal(parse(&t, cases[i].text), TUTTI_OK);
        assert_int_equal(t.node, cases[i].is);
        assert_int_equal(t.node_told, cases[i].told);
        tt_topo_fini(&t);
    }
}

/* Invalid texts, and words of the expected messages. */
static void invalid_descriptions_name_place_and_expectation(void **state)
{
    static const struct {
        const char *text, *says[3];
    } cases[] = {
        { "", { "lab.json:1:1: ", "unexpected end" } },
        { "{\n \"rails\": 2,\n \"node\" 3 }", { "lab.json:3:9: " } },
        { "{} {}", { "lab.json:1:4: ", "" } },
        { "[1]", { "the document is [1]", "an object" } },
        { "null\n", { "object" } },
        { "{\"rails\": 2,\n\"rails\": 3}", { "lab.json:2: duplicate key \"rails\"" } },
        { "{\"rail\": 2}", { "lab.json:1: unknown key rail (known keys: name", "rails" } },
        { "{\"rails\": 0}", { "rails is 0", "from 1 to 64" } },
        { "{\"rails\": 2.5}", { "rails is 2.5", "whole number" } },
        { "{\"rails\": \"2\"}", { "rails is \"2\"", "whole number" } },
        { "{\"node\": \"ring\"}", { "node is \"ring\"", "\"mesh\" or \"sockets\"" } },
        { "{\"name\": \"\"}", { "name is \"\"", "1 to 63 bytes" } },
        { "{\"name\": \"a\\u0007\"}", { "name is", "control characters" } },
        { "{\"links\": {\"rack\": {\"latency_ns\": -1}}}",
          { "links.rack.latency_ns is -1", "from 1" } },
        { "{\"links\": {\"rack\": {\"gbit_s\": 0}}}", { "links.rack.gbit_s is 0" } },
        { "{\"links\": {\"rack\": {\"oversubscription\": 2}}}",
          { "unknown key links.rack.oversubscription" } },
        { "{\"links\": {\"zone\": {\"oversubscription\": 0.5}}}",
          { "links.zone.oversubscription is 0.5", "from 1" } },
        { "{\"links\": {\"planet\": {}}}", { "unknown key links.planet", "wan" } },
        { "{\"machine\": {\"ranks_per_host\": 3, \"sockets_per_host\": 2}}",
          { "machine.ranks_per_host is 3", "multiple" } },
        { "{\"machine\": {\"buildings\": 5000, \"hosts_per_rack\": 5000}}",
          { "the maximum is 16777216" } },
        { "{\n \"rails\": 2,\n \"links\": {\n  \"rack\":\n   {\"gbit\": 1}\n }\n}",
          { "lab.json:5: unknown key links.rack.gbit (known keys: latency_ns, gbit_s)" } },
        { "{\"hosts\": [\n {\"host\": \"a, \\\" {b\"},\n {\"host\": \"b\",\n  \"slot\": 1}]}",
          { "lab.json:4: unknown key hosts[1].slot (" } },
        { "{\"hosts\": [\n {\"host\": \"a\"},\n {\"host\": \"b\",\n  \"slots\": 0}]}",
          { "lab.json:4: hosts[1].slots is 0" } },
        { "{\"hosts\": [\n {\"rack\": \"a\"}]}", { "lab.json:2: hosts[0].host is missing" } },
        { "{\"hosts\": [\n {\"host\": \"a*\",\n  \"rack\": \"$1\",\n  \"zone\": \"$2\"}]}",
          { "lab.json:4: hosts[0].zone is \"$2\"" } },
        { "{\"hosts\": [\n {\"host\": \"a\",\n  \"rack\": 7}]}",
          { "lab.json:3: hosts[0].rack is 7" } },
        { "{\"hosts\": [\n {\"rack\": \"a\",\n  \"host\": \"**********\"}]}",
          { "lab.json:3: hosts[0].host has more than 9 asterisks" } },
        { "{\"hosts\": [\n {\"host\": \"a\"},\n 7]}", { "lab.json:3: hosts[1] is 7" } },
        { "{\n \"hosts\": {}}", { "lab.json:2: hosts is {", "an array" } },
        { "{\"hosts\": [{\"rack\": \"a\"}]}", { "hosts[0].host is missing" } },
        { "{\"hosts\": [{\"host\": \"a\"}, {\"host\": \"b\", \"slots\": 0}]}",
          { "hosts[1].slots is 0" } },
        { "{\"hosts\": [{\"host\": \"**********\"}]}",
          { "hosts[0].host has more than 9 asterisks" } },
        { "{\"hosts\": [{\"host\": \"a*\", \"rack\": \"r$1\"}, {\"host\": \"b*\", \"rack\": "
          "\"r$1\", \"zone\": \"$2\"}]}",
          { "lab.json:1: hosts[1].zone is \"$2\"",
            "the pattern \"b*\" has only 1 asterisk(s): " } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_topo t;

        assert_int_equal(parse(&t, cases[i].text), TUTTI_ERR_INVALID);
        for (int k = 0; k < 3 && cases[i].says[k]; k++)
            if (!strstr(tutti_last_error(), cases[i].says[k]))
                fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].text, tutti_last_error(),
                         cases[i].says[k]);
    }
}

static void too_deep_or_long_is_refused(void **state)
{
    const size_t bytes = (1u << 20) + 1;
    char *deep = malloc(bytes);
    struct tt_topo t;

    (void)state;
    memset(deep, '[', bytes);
    assert_int_equal(tt_topo_parse(&t, deep, bytes, "long"), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "the maximum is 1048576"));
    assert_int_equal(tt_topo_parse(&t, deep, 1000, "deep"), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "deeper"));
    free(deep);
}

static void every_built_in_is_found(void **state)
{
    const char *name, *summary;
    struct tt_topo t;
    size_t n = 0;

    (void)state;
    for (; tt_topo_builtin(n, &name, &summary); n++) {
        assert_int_equal(tt_topo_load(&t, name), TUTTI_OK);
        assert_string_equal(t.name, name);
        assert_true(t.has_shape && *summary);
        tt_topo_fini(&t);
    }
    assert_true(n >= 3);
}

static void four_buildings_have_their_size(void **state)
{
    struct tt_topo t;
    struct tt_layout l;
    const uint64_t unit_ns = 1000;

    (void)state;
    assert_int_equal(tt_topo_load(&t, "four-buildings"), TUTTI_OK);
    assert_int_equal(tt_topo_nranks(&t), 131072);
    assert_int_equal(tt_topo_is_complete(&t, 131072), TUTTI_OK);
    assert_int_equal(t.link[TT_NEAR_RACK].latency_ns, unit_ns);
    assert_int_equal(t.link[TT_NEAR_ZONE].latency_ns, 7 * unit_ns);
    assert_int_equal(t.link[TT_NEAR_BUILDING].latency_ns, 15 * unit_ns);
    assert_int_equal(t.link[TT_NEAR_FABRIC].latency_ns, 30 * unit_ns);
    assert_true(tt_topo_uplink(&t, TT_NEAR_FABRIC) * 2.8 > 0.999 * 32768 * 50e9);
    assert_true(tt_topo_uplink(&t, TT_NEAR_FABRIC) * 2.8 < 1.001 * 32768 * 50e9);
    assert_int_equal(tt_topo_layout(&t, 131072, &l), TUTTI_OK);
    assert_int_equal(tt_layout_distance(&l, 0, 65536), TT_NEAR_FABRIC);
    assert_int_equal(tt_layout_distance(&l, 0, 16384), TT_NEAR_BUILDING);
    tt_topo_fini(&t);
}

static void times_need_every_used_level(void **state)
{
    struct tt_topo t;

    (void)state;
    assert_int_equal(tt_topo_load(&t, "two-sockets"), TUTTI_OK);
    assert_int_equal(tt_topo_is_complete(&t, 1), TUTTI_OK);
    assert_int_equal(tt_topo_is_complete(&t, 2), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "links.socket.latency_ns"));
    tt_topo_fini(&t);
    assert_int_equal(
        parse(&t,
              "{\"machine\": {\"hosts_per_rack\": 2}, \"links\": {\"rack\": {\"latency_ns\": 5}}}"),
        TUTTI_OK);
    assert_int_equal(tt_topo_is_complete(&t, 2), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "links.rack.gbit_s"));
    assert_int_equal(tt_topo_is_complete(&t, 3), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "must be 1 to 2"));
    tt_topo_fini(&t);
    assert_int_equal(parse(&t, "{}"), TUTTI_OK);
    assert_int_equal(tt_topo_is_complete(&t, 1), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "no \"machine\""));
    tt_topo_fini(&t);
}

static void missing_file_is_reported(void **state)
{
    char path[] = "/tmp/tutti_topo_XXXXXX";
    const int fd = mkstemp(path);
    struct tt_topo t;

    (void)state;
    assert_true(fd >= 0 && write(fd, lab, sizeof lab - 1) == sizeof lab - 1);
    close(fd);
    assert_int_equal(tt_topo_load(&t, path), TUTTI_OK);
    assert_int_equal(tt_topo_nranks(&t), 60);
    tt_topo_fini(&t);
    unlink(path);
    assert_int_not_equal(tt_topo_load(&t, path), TUTTI_OK);
    assert_non_null(strstr(tutti_last_error(), path));
    assert_int_not_equal(tt_topo_load(&t, "/tmp"), TUTTI_OK);
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
        cmocka_unit_test(a_description_is_read_whole),
        cmocka_unit_test(machine_defaults_to_its_sockets),
        cmocka_unit_test(invalid_descriptions_name_place_and_expectation),
        cmocka_unit_test(too_deep_or_long_is_refused),
        cmocka_unit_test(every_built_in_is_found),
        cmocka_unit_test(four_buildings_have_their_size),
        cmocka_unit_test(times_need_every_used_level),
        cmocka_unit_test(missing_file_is_reported),
    };

    return cmocka_run_group_tests(tests, quiet, NULL);
}
