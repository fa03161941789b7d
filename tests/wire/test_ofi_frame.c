#include "support/unit.h"

#include <stdio.h>
#include <string.h>
#include "wire/ofi/ofi_frame.h"
#include "wire/tcp/tcp_frame.h"

static const struct tt_ofi_record good = {
    .token = 77,
    .number = 12,
    .put = { .kind = TT_RPUT_PUT,
             .payload = 100,
             .data = { .region = 3, .generation = 4, .offset = 5, .bytes = 100 },
             .applied = { 10, 11 } },
};
#define GOOD_BYTES (TT_OFI_RECORD_BYTES + 100)

static void record_is_read_as_written(void **state)
{
    uint8_t bytes[GOOD_BYTES] = { 0 }, again[TT_OFI_RECORD_BYTES];
    struct tt_ofi_record r;

    (void)state;
    tt_ofi_record_write(&good, bytes);
    assert_true(tt_ofi_record_read(&r, bytes, sizeof bytes));
    tt_ofi_record_write(&r, again);
    assert_memory_equal(bytes, again, sizeof again);
    assert_int_equal(r.token, 77);
    assert_int_equal(r.number, 12);
    assert_int_equal(r.put.applied[1], 11);
}

static void record_of_another_length_is_refused(void **state)
{
    uint8_t bytes[TT_OFI_SLOT_BYTES + 1] = { 0 };
    struct tt_ofi_record r;

    (void)state;
    tt_ofi_record_write(&good, bytes);
    for (size_t n = 0; n < sizeof bytes; n++)   /* truncated, or with trailing data */
        assert_true(tt_ofi_record_read(&r, bytes, n) == (n == GOOD_BYTES));
    bytes[12] ^= 1;     /* reserved */
    assert_false(tt_ofi_record_read(&r, bytes, GOOD_BYTES));
}

static void name_fill(struct tt_ofi_name *name, int with, uint16_t bytes)
{
    *name = (struct tt_ofi_name){ .bytes = bytes };
    memset(name->data, with, bytes);
}

static void invalid_hello_is_refused(void **state)
{
    static struct tt_ofi_hello h, out;
    uint8_t bytes[TT_OFI_HELLO_BYTES];

    (void)state;
    h = (struct tt_ofi_hello){ .incarnation = 2, .token = 3, .link_address = 4, .link_bytes = 5 };
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++) {
        h.lanes[i] = (struct tt_ofi_hello_lane){ .applied = 6 + i, .key = 7 + i };
        name_fill(&h.lanes[i].name, 8 + (int)i, TT_OFI_NAME_BYTES);
    }
    tt_ofi_hello_write(&h, bytes);
    assert_true(tt_ofi_hello_read(&out, bytes));
    assert_memory_equal(&out, &h, sizeof h);
    for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++)
        assert_int_equal(out.lanes[i].name.data[TT_OFI_NAME_BYTES], 0);
    h.lanes[1].name.bytes = 0;
    tt_ofi_hello_write(&h, bytes);
    assert_false(tt_ofi_hello_read(&out, bytes));
    h.lanes[1].name.bytes = 1;
    h.incarnation = 0;
    tt_ofi_hello_write(&h, bytes);
    assert_false(tt_ofi_hello_read(&out, bytes));
    h.incarnation = 1;
    h.link_bytes = UINT64_MAX;
    tt_ofi_hello_write(&h, bytes);
    assert_false(tt_ofi_hello_read(&out, bytes));
}

/* As many lanes as there is space for: the maximum with names of address length, and a few with the
 * longest names. */
static void hello_with_invalid_lanes_is_refused(void **state)
{
    static const uint16_t name_bytes[] = { 1, 28, TT_OFI_MORE_BYTES / (TT_OFI_ENDS_MAX - 1) - 2,
                                           TT_OFI_NAME_BYTES };
    static struct tt_ofi_hello h, out;
    uint8_t bytes[TT_OFI_HELLO_BYTES], wrong[TT_OFI_HELLO_BYTES];

    (void)state;
    for (size_t n = 0; n < sizeof name_bytes / sizeof *name_bytes; n++) {
        const uint32_t fit = TT_OFI_MORE_BYTES / (2u + name_bytes[n]);
        size_t refused = 0;

        h = (struct tt_ofi_hello){
            .incarnation = 1, .nmore = (uint8_t)(fit < TT_OFI_ENDS_MAX ? fit : TT_OFI_ENDS_MAX - 1)
        };
        for (uint32_t i = 0; i < TT_RPUT_STREAMS; i++)
            name_fill(&h.lanes[i].name, 1, TT_OFI_NAME_BYTES);
        for (uint8_t i = 0; i < h.nmore; i++)
            name_fill(&h.more[i], 20 + i, name_bytes[n]);
        assert_true(h.nmore >= 5);
        tt_ofi_hello_write(&h, bytes);
        assert_true(tt_ofi_hello_read(&out, bytes));
        assert_memory_equal(&out, &h, sizeof h);
        for (size_t at = 0; at + 1 < sizeof bytes; at++) {     /* any count or length: never reads
                                                                  more than fits */
            memcpy(wrong, bytes, sizeof wrong);
            wrong[at] = wrong[at + 1] = 0xff;
            if (!tt_ofi_hello_read(&out, wrong))
                refused++;
            else
                assert_true(out.nmore < TT_OFI_ENDS_MAX);
        }
        assert_true(refused > h.nmore);
    }
}

/* The inner transport's address is shortened from its end until it fits, and stays valid. */
static void long_address_list_is_shortened(void **state)
{
    struct tt_tcp_address tcp = { .host = 1, .port = 2, .rails = 5, .outside = 6 };
    struct tt_ofi_address a = { .host = 4, .format = 3, .provider = "tcp;ofi_rxm" }, out;
    struct tt_blob blob;

    (void)state;
    for (uint8_t i = 0; i < 6; i++) {
        const uint8_t ip[16] = { 0xfd, i };

        tt_tcp_address_add(&tcp, 6, ip);
    }
    assert_int_equal(tcp.count, 6);
    tt_tcp_address_write(&tcp, &a.tcp);
    assert_true(a.tcp.bytes > tt_ofi_address_room(&a));
    tt_tcp_address_shorten(&a.tcp, tt_ofi_address_room(&a));
    tt_ofi_address_write(&a, &blob);
    assert_true(tt_ofi_address_read(&out, &blob));
    assert_int_equal(out.host, 4);
    assert_int_equal(out.format, 3);
    assert_string_equal(out.provider, "tcp;ofi_rxm");
    assert_true(tt_tcp_address_read(&tcp, &out.tcp));
    assert_int_equal(tcp.count, 4);
    assert_int_equal(tcp.rails, 4);
    assert_int_equal(tcp.outside, 0);
}

/* Names are printed, so other bytes are refused as the provider of an address. */
static void address_needs_a_provider_name(void **state)
{
    static const char *const names[] = { "", "tcp ofi_rxm", "tcp\n", "tcp\x80", "\x1b[2J" };
    struct tt_ofi_address a = { .format = 3 }, out;
    struct tt_blob blob;

    (void)state;
    memset(a.provider, 'x', TT_OFI_PROVIDER_BYTES - 1);
    tt_ofi_address_write(&a, &blob);
    assert_true(tt_ofi_address_read(&out, &blob));
    assert_string_equal(out.provider, a.provider);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(a.provider, sizeof a.provider, "%s", names[i]);
        tt_ofi_address_write(&a, &blob);
        assert_false(tt_ofi_address_read(&out, &blob));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record_is_read_as_written),
        cmocka_unit_test(record_of_another_length_is_refused),
        cmocka_unit_test(invalid_hello_is_refused),
        cmocka_unit_test(hello_with_invalid_lanes_is_refused),
        cmocka_unit_test(long_address_list_is_shortened),
        cmocka_unit_test(address_needs_a_provider_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
