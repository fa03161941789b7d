#include "support/unit.h"

#include "wire/verbs/verbs_frame.h"

static void valid_greeting_is_read_as_written(void **state)
{
    const struct tt_verbs_link_hello sent = {
        .rails = 2,
        .data_lanes = 16,
        .link_address = 1ull << 47,
        .link_bytes = 4096,
        .ring = { 3, 4 },
        .rkey = { 5, 6 },
    };
    struct tt_verbs_link_hello wrong[] = { sent, sent, sent, sent, sent }, got = { 0 };
    uint8_t bytes[TT_VERBS_LINK_HELLO_BYTES];

    (void)state;
    tt_verbs_link_hello_write(&sent, bytes);
    assert_true(tt_verbs_link_hello_read(&got, bytes));
    assert_int_equal(got.rails, sent.rails);
    assert_int_equal(got.data_lanes, sent.data_lanes);
    assert_int_equal(got.link_address, sent.link_address);
    assert_int_equal(got.ring[1], sent.ring[1]);
    assert_int_equal(got.rkey[1], sent.rkey[1]);
    wrong[0].rails = 0;
    wrong[1].rails = TT_VERBS_RAILS + 1;
    wrong[2].data_lanes = 0;
    wrong[3].data_lanes = TT_VERBS_DATA_LANES + 1;
    wrong[4].link_bytes = UINT64_MAX;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tt_verbs_link_hello_write(&wrong[i], bytes);
        assert_false(tt_verbs_link_hello_read(&got, bytes));
    }
}

/* A hello without a queue pair is valid, too. */
static void valid_hello_is_read_as_written(void **state)
{
    struct tt_verbs_hello sent = { .incarnation = 7,
                                   .qp = 0xffffff,
                                   .psn = 1,
                                   .mtu = 5,
                                   .lid = 3,
                                   .gid = { 9 },
                                   .report = { 1, 2 } };
    struct tt_verbs_hello got;
    uint8_t bytes[TT_VERBS_HELLO_BYTES];

    (void)state;
    for (int i = 0; i < 2; i++) {
        tt_verbs_hello_write(&sent, bytes);
        assert_true(tt_verbs_hello_read(&got, bytes));
        assert_int_equal(got.incarnation, 7);
        assert_int_equal(got.qp, sent.qp);
        assert_memory_equal(got.gid, sent.gid, sizeof sent.gid);
        assert_memory_equal(got.report, sent.report, sizeof sent.report);
        sent.qp = 0;
    }
    for (int i = 0; i < 4; i++) {
        struct tt_verbs_hello wrong = sent;

        wrong.incarnation = i == 0 ? 0 : 7;
        wrong.qp = i == 1 ? 1u << 24 : 5;
        wrong.psn = i == 2 ? 1u << 24 : 5;
        wrong.mtu = i == 3 ? 6 : 1;
        tt_verbs_hello_write(&wrong, bytes);
        assert_false(tt_verbs_hello_read(&got, bytes));
    }
}

/* Each part has up to its maximum length. */
static void key_is_read_as_written(void **state)
{
    const struct tt_verbs_key keys[] = {
        { .region = 1, .generation = 2, .rkey = { 3, 4 }, .address = 5, .bytes = 6 },
        { .region = TT_VERBS_REGIONS_MAX - 1,
          .generation = UINT32_MAX,
          .rkey = { UINT32_MAX, UINT32_MAX },
          .address = (1ull << 56) - 1,
          .bytes = (1ull << 48) - 1 },
        { .region = 0x123456,
          .generation = 0x12345678,
          .rkey = { 0x9abcdef0, 0x12345679 },
          .address = 0x123456789abcde,
          .bytes = 0x123456789abc },
    };

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct tt_verbs_key got;
        struct tt_blob blob;

        tt_verbs_key_write(&keys[i], &blob);
        assert_true(blob.bytes <= TT_KEY_BYTES);
        assert_true(tt_verbs_key_read(&got, &blob));
        assert_int_equal(got.region, keys[i].region);
        assert_int_equal(got.generation, keys[i].generation);
        assert_int_equal(got.address, keys[i].address);
        assert_int_equal(got.bytes, keys[i].bytes);
        assert_memory_equal(got.rkey, keys[i].rkey, sizeof got.rkey);
        blob.bytes--;
        assert_false(tt_verbs_key_read(&got, &blob));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_greeting_is_read_as_written),
        cmocka_unit_test(valid_hello_is_read_as_written),
        cmocka_unit_test(key_is_read_as_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
