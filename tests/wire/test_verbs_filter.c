/* Settings of RDMA devices, as text and as applied. */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "tutti/tutti.h"
#include "wire/verbs/verbs_filter.h"

#define V4(a, b, c, d) { [10] = 0xff, [11] = 0xff, [12] = (a), [13] = (b), [14] = (c), [15] = (d) }

static const char *const variables[] = { "TUTTI_RDMA_PKEY", "TUTTI_RDMA_PORT",
                                         "TUTTI_RDMA_SERVICE_LEVEL", "TUTTI_RDMA_TRAFFIC_CLASS" };

static int unset_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    return 0;
}

static void unset_options_are_automatic(void **state)
{
    const uint8_t any[16] = V4(10, 77, 0, 1);
    struct tt_verbs_filter c;

    (void)state;
    assert_int_equal(tt_verbs_filter_read(&c, NULL), TUTTI_OK);
    assert_int_equal(c.gid_by, TT_VERBS_GID_BEST);
    assert_true(tt_verbs_filter_allows(&c, 255, any));
    assert_false(c.has_pkey);
    assert_int_equal(c.port, 0);
    assert_int_equal(c.service_level, 0);
    assert_int_equal(c.traffic_class, 0);
}

static void given_options_are_used(void **state)
{
    struct tt_verbs_filter c;

    (void)state;
    setenv("TUTTI_RDMA_PKEY", "0x8001", 1);
    setenv("TUTTI_RDMA_PORT", "2", 1);
    setenv("TUTTI_RDMA_SERVICE_LEVEL", "3", 1);
    setenv("TUTTI_RDMA_TRAFFIC_CLASS", "106", 1);
    assert_int_equal(tt_verbs_filter_read(&c, "3"), TUTTI_OK);
    assert_int_equal(c.gid_by, TT_VERBS_GID_INDEX);
    assert_int_equal(c.gid_index, 3);
    assert_true(c.has_pkey);
    assert_int_equal(c.pkey, 0x8001);
    assert_int_equal(c.port, 2);
    assert_int_equal(c.service_level, 3);
    assert_int_equal(c.traffic_class, 106);
}

/* An invalid text is reported with the variable's name, and nothing is set. */
static void invalid_text_is_refused(void **state)
{
    static const struct {
        const char *variable, *text;
    } wrong[] = {
        { "TUTTI_RDMA_GID", "256" },
        { "TUTTI_RDMA_GID", "-1" },
        { "TUTTI_RDMA_GID", "1x" },
        { "TUTTI_RDMA_GID", "10.77.0" },
        { "TUTTI_RDMA_GID", "10.77.0.0/33" },
        { "TUTTI_RDMA_GID", "10.77.0.0/" },
        { "TUTTI_RDMA_GID", "10.77.0.0/ 8" },
        { "TUTTI_RDMA_GID", "10.77.0.0/8/8" },
        { "TUTTI_RDMA_GID", "fe80::/129" },
        { "TUTTI_RDMA_GID", "fe80::1::2" },
        { "TUTTI_RDMA_GID", "99999999999999999999" },
        { "TUTTI_RDMA_GID", "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000" },
        { "TUTTI_RDMA_PKEY", "0x" },
        { "TUTTI_RDMA_PKEY", "0" },
        { "TUTTI_RDMA_PKEY", "0x8000" },
        { "TUTTI_RDMA_PKEY", "0x10001" },
        { "TUTTI_RDMA_PKEY", "8001h" },
        { "TUTTI_RDMA_PKEY", "-1" },
        { "TUTTI_RDMA_PORT", "256" },
        { "TUTTI_RDMA_PORT", "-1" },
        { "TUTTI_RDMA_SERVICE_LEVEL", "16" },
        { "TUTTI_RDMA_TRAFFIC_CLASS", "256" },
        { "TUTTI_RDMA_TRAFFIC_CLASS", "cs3" },
    };

    (void)state;
    tt_log_set(TT_LOG_NONE);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const bool gid = strcmp(wrong[i].variable, "TUTTI_RDMA_GID") == 0;
        struct tt_verbs_filter c = { .port = 77 };

        unset_all(NULL);
        if (!gid)
            setenv(wrong[i].variable, wrong[i].text, 1);
        assert_int_equal(tt_verbs_filter_read(&c, gid ? wrong[i].text : NULL), TUTTI_ERR_INVALID);
        assert_non_null(strstr(tutti_last_error(), wrong[i].variable));
        assert_non_null(strstr(tutti_last_error(), wrong[i].text));
        assert_int_equal(c.port, 77);
    }
}

static void network_matches_addresses_by_prefix(void **state)
{
    static const struct {
        const char *network;
        uint8_t gid[16];
        bool in;
    } cases[] = {
        { "10.77.0.1", V4(10, 77, 0, 1), true },
        { "10.77.0.1", V4(10, 77, 0, 2), false },
        { "10.77.0.0/16", V4(10, 77, 255, 2), true },
        { "10.77.0.0/16", V4(10, 78, 0, 1), false },
        { "10.64.0.0/10", V4(10, 127, 0, 1), true },
        { "10.64.0.0/10", V4(10, 128, 0, 1), false },
        { "0.0.0.0/0", V4(1, 2, 3, 4), true },
        { "0.0.0.0/0", { 0xfe, 0x80, [15] = 1 }, false },
        { "fe80::/10", { 0xfe, 0xbf, [15] = 1 }, true },
        { "fe80::/10", { 0xfe, 0xc0, [15] = 1 }, false },
        { "::/0", V4(1, 2, 3, 4), true },
        { "fd00:1::5", { 0xfd, 0, 0, 1, [15] = 5 }, true },
        { "fd00:1::5", { 0xfd, 0, 0, 1, [15] = 4 }, false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_verbs_filter c;

        assert_int_equal(tt_verbs_filter_read(&c, cases[i].network), TUTTI_OK);
        assert_int_equal(c.gid_by, TT_VERBS_GID_NETWORK);
        if (tt_verbs_filter_allows(&c, 0, cases[i].gid) != cases[i].in)
            fail_msg("case %zu: %s is wrong", i, cases[i].network);
    }
}

static void partition_key_prefers_full_membership(void **state)
{
    static const uint16_t table[] = { 0xffff, 0x0001, 0x8002, 0x8001, 0x0003, 0 };
    static const struct {
        const char *key;
        int index;
    } cases[] = { { NULL, 0 }, { "0xffff", 0 }, { "0x7fff", 0 }, { "0x8001", 3 },
                  { "1", 3 },  { "0x0002", 2 }, { "0x8003", 4 }, { "0x8004", -1 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_verbs_filter c;

        unset_all(NULL);
        if (cases[i].key)
            setenv("TUTTI_RDMA_PKEY", cases[i].key, 1);
        assert_int_equal(tt_verbs_filter_read(&c, ""), TUTTI_OK);
        assert_int_equal(tt_verbs_filter_pkey(&c, table, sizeof table / sizeof *table),
                         cases[i].index);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(unset_options_are_automatic, unset_all),
        cmocka_unit_test_setup(given_options_are_used, unset_all),
        cmocka_unit_test_setup(invalid_text_is_refused, unset_all),
        cmocka_unit_test_setup(network_matches_addresses_by_prefix, unset_all),
        cmocka_unit_test_setup(partition_key_prefers_full_membership, unset_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
