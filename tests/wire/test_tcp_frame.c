#include "wire/tcp/tcp_frame.h"

#include <string.h>
#include "base/prng.h"
#include "support/unit.h"
#include "wire/wire.h"

static const uint8_t secret[16] = "abcdefghijklmno";

static struct tt_frame a_put(void)
{
    return (struct tt_frame){ .kind = TT_FRAME_PUT,
                              .flags = TT_FRAME_WANT_ACK | TT_FRAME_FENCED,
                              .signal_op = TT_SIGNAL_ADD,
                              .word = TT_DQPLB_NOTIFY | 0x020304,
                              .after = 0x020300,
                              .region = 5,
                              .generation = 6,
                              .signal_region = 7,
                              .signal_generation = 8,
                              .token = 9,
                              .offset = 0x1122334455667788,
                              .bytes = 10,
                              .signal_offset = 16,
                              .signal_value = UINT64_MAX };
}

static void frame_is_read_as_written(void **state)
{
    const struct tt_frame put = a_put();
    uint8_t header[TT_FRAME_BYTES], again[TT_FRAME_BYTES];
    struct tt_frame read;

    (void)state;
    tt_frame_write(&put, header);
    assert_true(tt_frame_read(&read, header));
    assert_int_equal(read.word, put.word);
    assert_true(read.offset == put.offset && read.signal_value == put.signal_value);
    assert_int_equal(tt_frame_payload(&read), 10);
    tt_frame_write(&read, again);
    assert_memory_equal(header, again, TT_FRAME_BYTES);
    assert_memory_equal(header + 4, "\x04\x03\x02\x80", 4);     /* little-endian */
}

/* Each row makes one field of a valid frame invalid. */
static void no_dishonest_frame_is_read(void **state)
{
    static const struct {
        const char *what;
        size_t at;
        uint8_t value;
    } spoiled[] = {
        { "mark", 0, 0 },
        { "kind 0", 1, 0 },
        { "kind unknown", 1, TT_FRAME_KINDS },
        { "flag unknown", 2, 0x80 },
        { "gone put", 2, TT_FRAME_GONE },
        { "signal unknown", 3, 3 },
        { "ack with a signal", 1, TT_FRAME_ACK },
        { "fenced without a signal", 3, TT_SIGNAL_NONE },
        { "part of a message", 7, 0 },
        { "word with an unknown bit", 7, 0x81 },
        { "fenced after itself", 8, 5 },
        { "fenced after what is long past", 10, 1 },
        { "signal offset not aligned", 48, 17 },
        { "wraps around", 47, 0xff },
    };
    const struct tt_frame put = a_put();
    uint8_t header[TT_FRAME_BYTES];
    struct tt_frame read;

    (void)state;
    for (size_t i = 0; i < sizeof spoiled / sizeof *spoiled; i++) {
        tt_frame_write(&put, header);
        if (header[spoiled[i].at] == spoiled[i].value)
            fail_msg("%s: nothing is spoiled", spoiled[i].what);
        header[spoiled[i].at] = spoiled[i].value;
        if (tt_frame_read(&read, header))
            fail_msg("%s was read", spoiled[i].what);
    }
}

static void requested_lanes_are_bounded(void **state)
{
    uint8_t header[TT_FRAME_BYTES];
    struct tt_frame read;

    (void)state;
    for (uint32_t lanes = 0; lanes < 2 * TT_DQPLB_LANES_MAX; lanes++) {
        tt_frame_write(&(struct tt_frame){ .kind = TT_FRAME_LANES, .token = lanes }, header);
        assert_int_equal(tt_frame_read(&read, header), lanes >= 2 && lanes <= TT_DQPLB_LANES_MAX);
    }
}

static void only_the_secret_opens(void **state)
{
    const struct tt_hello hello = { .kind = TT_HELLO,
                                    .lane = 1,
                                    .lanes = 2,
                                    .from = 3,
                                    .to = 4,
                                    .nranks = 5,
                                    .nonce = 6,
                                    .link_bytes = 7 };
    uint8_t bytes[TT_HELLO_BYTES];
    struct tt_hello read;

    (void)state;
    tt_hello_write(&hello, secret, bytes);
    assert_true(tt_hello_read(&read, secret, bytes));
    assert_int_equal(read.kind, TT_HELLO);
    assert_int_equal(read.lane, 1);
    assert_int_equal(read.lanes, 2);
    assert_int_equal(read.from, 3);
    assert_int_equal(read.to, 4);
    assert_int_equal(read.nranks, 5);
    assert_int_equal(read.nonce, 6);
    assert_int_equal(read.link_bytes, 7);
    for (size_t bit = 0; bit < 8 * 24; bit++) {     /* magic, version, kind, lane, secret */
        const size_t at = bit / 8;

        if (at == 5 || at == 6 || at == 7)
            continue;   /* another kind or lane may be valid */
        bytes[at] ^= (uint8_t)(1u << bit % 8);
        assert_false(tt_hello_read(&read, secret, bytes));
        bytes[at] ^= (uint8_t)(1u << bit % 8);
    }
    bytes[6] = 2;       /* lane 2 of 2 */
    assert_false(tt_hello_read(&read, secret, bytes));
}

static void a_full_address_fits_a_blob(void **state)
{
    struct tt_tcp_address a = { .host = 0x0123456789abcdef, .port = 65535 }, read;
    struct tt_blob blob;
    uint8_t ip[16];

    (void)state;
    for (int i = 0; i < 2 * TT_TCP_ENDPOINTS; i++) {    /* addresses that do not fit are omitted,
                                                           and duplicates are not added */
        memset(ip, i / 2 + 1, sizeof ip);
        tt_tcp_address_add(&a, i / 2 == 2 ? 4 : 6, ip);
    }
    assert_int_equal(a.count, 6);
    a.rails = 3;
    a.outside = 5;
    tt_tcp_address_write(&a, &blob);
    assert_true(blob.bytes <= TT_BLOB_BYTES);
    assert_true(tt_tcp_address_read(&read, &blob));
    assert_memory_equal(&read, &a, sizeof a);
    for (uint16_t bytes = 0; bytes < blob.bytes; bytes++) {
        struct tt_blob cut = blob;

        cut.bytes = bytes;
        assert_false(tt_tcp_address_read(&read, &cut));
    }
    blob.data[blob.bytes++] = 0;    /* trailing data is invalid, too */
    assert_false(tt_tcp_address_read(&read, &blob));
}

static void address_with_missing_endpoints_is_refused(void **state)
{
    const struct tt_tcp_address good = {
        .count = 2, .rails = 2, .outside = 2, .endpoints = { { .family = 4 }, { .family = 4 } }
    };
    struct tt_tcp_address a = good, read;
    struct tt_blob blob;

    (void)state;
    tt_tcp_address_write(&a, &blob);
    assert_true(tt_tcp_address_read(&read, &blob));
    a.rails = 3;
    tt_tcp_address_write(&a, &blob);
    assert_false(tt_tcp_address_read(&read, &blob));
    a = good;
    a.outside = 3;
    tt_tcp_address_write(&a, &blob);
    assert_false(tt_tcp_address_read(&read, &blob));
}

static void many_ipv4_rails_fit_an_address(void **state)
{
    struct tt_tcp_address a = { .port = 1 }, read;
    struct tt_blob blob;

    (void)state;
    for (uint8_t i = 0; i < 40; i++) {
        const uint8_t ip[4] = { 10, 0, i, 1 };

        tt_tcp_address_add(&a, 4, ip);
    }
    assert_int_equal(a.count, TT_TCP_ENDPOINTS);
    tt_tcp_address_write(&a, &blob);
    assert_true(blob.bytes <= TT_BLOB_BYTES && tt_tcp_address_read(&read, &blob));
    assert_memory_equal(&read, &a, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame_is_read_as_written),
        cmocka_unit_test(no_dishonest_frame_is_read),
        cmocka_unit_test(requested_lanes_are_bounded),
        cmocka_unit_test(only_the_secret_opens),
        cmocka_unit_test(a_full_address_fits_a_blob),
        cmocka_unit_test(address_with_missing_endpoints_is_refused),
        cmocka_unit_test(many_ipv4_rails_fit_an_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
