#include "support/unit.h"

#include <string.h>
#include "wire/verbs_frame.h"

/* A count that is told by its low 24 bits is found again, from anywhere near it, wherever those wrap. */
static void a_sequence_number_is_found_again_across_its_wrap(void **state)
{
    static const uint64_t wraps[] = { 0, 1u << 24, 5ull << 24, 1ull << 32, UINT64_MAX - 200 };

    (void)state;
    for (size_t i = 0; i < sizeof wraps / sizeof *wraps; i++)
        for (uint64_t near = wraps[i] ? wraps[i] - 100 : 0; near < wraps[i] + 100; near++)
            for (int32_t ahead = near < 128 ? 0 : -128; ahead <= 128; ahead++) {
                const uint64_t number = near + (uint64_t)(int64_t)ahead;
                const uint32_t imm = tt_imm_sequence(number) | TT_IMM_NOTIFY | TT_IMM_FAST;

                assert_int_equal(tt_imm_ahead(near, imm), ahead);
            }
    assert_int_equal(tt_imm_ahead(10, tt_imm_sequence(10 + TT_IMM_SEQUENCES / 2 - 1)), TT_IMM_SEQUENCES / 2 - 1);
    assert_int_equal(tt_imm_ahead(10, tt_imm_sequence(10 + TT_IMM_SEQUENCES / 2)), -(int32_t)(TT_IMM_SEQUENCES / 2));
}

static const struct tt_verbs_record good = {
    .kind = TT_VERBS_PUT,
    .signal_op = TT_SIGNAL_ADD,
    .flags = TT_VERBS_WANT_ACK,
    .payload = 100,
    .region = 3,
    .generation = 4,
    .offset = 5,
    .bytes = 100,
    .signal_region = 6,
    .signal_generation = 7,
    .signal_offset = 8,
    .signal_value = 9,
    .applied = { 10, 11 },
};

static void a_record_is_read_as_it_was_written(void **state)
{
    uint8_t bytes[TT_VERBS_RECORD_BYTES], again[TT_VERBS_RECORD_BYTES];
    struct tt_verbs_record r;

    (void)state;
    tt_verbs_record_write(&good, bytes);
    assert_true(tt_verbs_record_read(&r, bytes));
    tt_verbs_record_write(&r, again);
    assert_memory_equal(bytes, again, sizeof bytes);
    assert_int_equal(r.applied[1], 11);
    assert_int_equal(r.signal_value, 9);
}

/* Each is wrong in one way. */
static void a_record_that_nobody_honest_writes_is_refused(void **state)
{
    struct tt_verbs_record wrong[] = { good, good, good, good, good, good, good };
    uint8_t bytes[TT_VERBS_RECORD_BYTES];
    struct tt_verbs_record r;

    (void)state;
    wrong[0].kind = TT_VERBS_VOID + 1;
    wrong[1].signal_op = TT_SIGNAL_ADD + 1;
    wrong[2].flags = 2;
    wrong[3].payload = wrong[3].bytes = TT_VERBS_PAYLOAD_BYTES + 1;
    wrong[4].payload = 99;
    wrong[5].signal_offset = 12;
    wrong[6].offset = UINT64_MAX;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tt_verbs_record_write(&wrong[i], bytes);
        assert_false(tt_verbs_record_read(&r, bytes));
    }
    tt_verbs_record_write(&good, bytes);
    bytes[4] ^= 1;      /* the mark */
    assert_false(tt_verbs_record_read(&r, bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_number_is_found_again_across_its_wrap),
        cmocka_unit_test(a_record_is_read_as_it_was_written),
        cmocka_unit_test(a_record_that_nobody_honest_writes_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
