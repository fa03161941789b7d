#include "support/unit.h"

#include <string.h>
#include "wire/rput/rput_frame.h"

#define PAYLOAD_MAX 192

static const struct tt_rput_record good = {
    .kind = TT_RPUT_PUT,
    .signal_op = TT_SIGNAL_ADD,
    .flags = TT_RPUT_WANT_ACK,
    .payload = 100,
    .data = { .region = 3, .generation = 4, .offset = 5, .bytes = 100 },
    .signal_region = 6,
    .signal_generation = 7,
    .signal_offset = 8,
    .signal_value = 9,
    .applied = { 10, 11 },
};

static void record_is_read_as_written(void **state)
{
    uint8_t bytes[TT_RPUT_RECORD_BYTES], again[TT_RPUT_RECORD_BYTES];
    struct tt_rput_record r;

    (void)state;
    tt_rput_record_write(&good, bytes);
    assert_true(tt_rput_record_read(&r, bytes, TT_RPUT_VOID, PAYLOAD_MAX));
    tt_rput_record_write(&r, again);
    assert_memory_equal(bytes, again, sizeof bytes);
    assert_int_equal(r.data.offset, 5);
    assert_int_equal(r.applied[1], 11);
    assert_int_equal(r.signal_value, 9);
}

/* Each record has one error. */
static void invalid_record_is_refused(void **state)
{
    struct tt_rput_record wrong[12];
    uint8_t bytes[TT_RPUT_RECORD_BYTES];
    struct tt_rput_record r;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        wrong[i] = good;
    wrong[0].kind = 0;
    wrong[1].kind = TT_RPUT_ACK + 1;
    wrong[2].signal_op = TT_SIGNAL_ADD + 1;
    wrong[3].flags = 4;
    wrong[4].flags = TT_RPUT_YES;       /* valid only in a CTS */
    wrong[5].payload = PAYLOAD_MAX + 1;
    wrong[5].data.bytes = PAYLOAD_MAX + 1;
    wrong[6].payload = 99;
    wrong[7].signal_offset = 12;
    wrong[8].signal_offset = UINT64_MAX - 7;
    wrong[9].data.offset = UINT64_MAX;
    wrong[10].kind = TT_RPUT_RTS;       /* with a payload */
    wrong[11].stream = TT_RPUT_STREAMS;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tt_rput_record_write(&wrong[i], bytes);
        assert_false(tt_rput_record_read(&r, bytes, TT_RPUT_ACK, PAYLOAD_MAX));
    }
    tt_rput_record_write(&good, bytes);
    bytes[6] ^= 1;      /* the marker */
    assert_false(tt_rput_record_read(&r, bytes, TT_RPUT_ACK, PAYLOAD_MAX));
}

/* A transport without RTS does not accept one. */
static void unused_kind_is_refused(void **state)
{
    struct tt_rput_record r = { .kind = TT_RPUT_RTS };
    uint8_t bytes[TT_RPUT_RECORD_BYTES];

    (void)state;
    tt_rput_record_write(&r, bytes);
    assert_true(tt_rput_record_read(&r, bytes, TT_RPUT_ACK, 0));
    assert_false(tt_rput_record_read(&r, bytes, TT_RPUT_VOID, 0));
}

static void record_describes_the_put(void **state)
{
    const struct tt_rkey to = { .handle = { 3, 4 } }, word = { .handle = { 6, 7 } };
    const struct tt_desc d = { .signal_op = TT_SIGNAL_ADD,
                               .bytes = 100,
                               .key = &to,
                               .offset = 5,
                               .signal_key = &word,
                               .signal_offset = 8,
                               .signal_value = 9 };
    struct tt_rput_record r = tt_rput_record_of(&d, true, true);

    (void)state;
    memcpy(r.applied, good.applied, sizeof r.applied);
    assert_memory_equal(&r, &good, sizeof r);
    assert_int_equal(tt_rput_record_of(&d, false, true).payload, 0);
    assert_int_equal(tt_rput_record_of(&d, true, false).flags, 0);
}

static void stamp_changes_only_the_counts(void **state)
{
    static const uint64_t applied[TT_RPUT_STREAMS] = { 20, (1ull << 32) + 21 };
    uint8_t bytes[TT_RPUT_RECORD_BYTES], again[TT_RPUT_RECORD_BYTES];
    struct tt_rput_record r, expected = good;

    (void)state;
    tt_rput_record_write(&good, bytes);
    tt_rput_record_stamp(bytes, applied);
    tt_rput_record_become(bytes, TT_RPUT_VOID);
    assert_true(tt_rput_record_read(&r, bytes, TT_RPUT_VOID, PAYLOAD_MAX));
    expected.kind = TT_RPUT_VOID;
    expected.applied[0] = 20;
    expected.applied[1] = 21;
    tt_rput_record_write(&expected, again);
    assert_memory_equal(bytes, again, sizeof bytes);
}

static void key_of_another_transport_is_refused(void **state)
{
    const struct tt_rput_key key = { .region = 1, .generation = 2, .bytes = 1ull << 40 };
    struct tt_rput_key got;
    struct tt_blob blob;

    (void)state;
    tt_rput_key_write(&key, 5, &blob);
    assert_true(blob.bytes <= TT_KEY_BYTES);
    assert_true(tt_rput_key_read(&got, 5, &blob));
    assert_int_equal(got.region, 1);
    assert_int_equal(got.generation, 2);
    assert_int_equal(got.bytes, 1ull << 40);
    assert_false(tt_rput_key_read(&got, 6, &blob));
    blob.bytes--;
    assert_false(tt_rput_key_read(&got, 5, &blob));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record_is_read_as_written),
        cmocka_unit_test(invalid_record_is_refused),
        cmocka_unit_test(unused_kind_is_refused),
        cmocka_unit_test(record_describes_the_put),
        cmocka_unit_test(stamp_changes_only_the_counts),
        cmocka_unit_test(key_of_another_transport_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
