/* Packed address records: lossless for any records, small for similar ones, and bounded for any
 * input. */
#include <stdlib.h>
#include <string.h>

#include "base/delta.h"
#include "base/prng.h"
#include "boot/record_table.h"
#include "support/unit.h"

#define NRECORDS 64u

struct record {
    uint32_t holder;
    uint16_t bytes;
    uint8_t data[TT_TREE_CARD_MAX];
};

/* A record similar to the previous one, or random, or empty; it may repeat parts of itself. */
static void draw_record(struct tt_prng *prng, const struct record *before, struct record *out)
{
    const uint64_t kind = tt_prng_below(prng, 8);

    *out = *before;
    if (tt_prng_below(prng, 4) == 0)
        out->holder = (uint32_t)tt_prng_below(prng, NRECORDS);
    if (kind < 2)
        out->bytes = (uint16_t)tt_prng_below(prng, TT_TREE_CARD_MAX + 1);
    if (kind == 7)
        out->bytes = 0;
    if (kind == 0)
        for (size_t i = 0; i < out->bytes; i++)
            out->data[i] = (uint8_t)tt_prng_below(prng, 256);
    for (uint64_t n = tt_prng_below(prng, 6); n > 0 && out->bytes > 16; n--)
        out->data[tt_prng_below(prng, out->bytes)]++;
    if (kind == 3 && out->bytes > 64)
        memcpy(out->data + 32 + tt_prng_below(prng, out->bytes - 48), out->data, 16);
    memset(out->data + out->bytes, 0, sizeof out->data - out->bytes);
}

static void records_are_unchanged(void **state)
{
    static struct record records[NRECORDS];
    static uint8_t packed[NRECORDS * (TT_TREE_CARD_MAX + TT_RECORD_OVERHEAD)];

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct tt_record_stream out = { .n = 0 }, in = { .n = 0 };
        struct tt_prng prng;
        struct tt_writer w;
        struct tt_reader r;

        tt_prng_init(&prng, seed);
        tt_writer_init(&w, packed, sizeof packed);
        for (uint32_t i = 0; i < NRECORDS; i++) {
            draw_record(&prng, &records[i ? i - 1 : 0], &records[i]);
            tt_record_write(&out, &w, records[i].holder, records[i].data, records[i].bytes);
        }
        assert_false(w.bad);
        tt_reader_init(&r, packed, tt_writer_bytes(&w));
        for (uint32_t i = 0; i < NRECORDS; i++) {
            tt_record_read(&in, &r);
            assert_int_equal(in.entry.holder, records[i].holder);
            assert_int_equal(in.entry.bytes, records[i].bytes);
            assert_memory_equal(in.entry.record, records[i].data, sizeof in.entry.record);
        }
        assert_true(!r.bad && r.at == r.end);
    }
}

/* 24 random bytes of 512. */
static void similar_records_are_small(void **state)
{
    static uint8_t packed[NRECORDS * (TT_TREE_CARD_MAX + TT_RECORD_OVERHEAD)];
    struct tt_record_stream out = { .n = 0 };
    struct record record = { .bytes = 512 };
    struct tt_prng prng;
    struct tt_writer w;

    (void)state;
    tt_prng_init(&prng, 1);
    tt_writer_init(&w, packed, sizeof packed);
    for (size_t i = 0; i < record.bytes; i++)
        record.data[i] = (uint8_t)tt_prng_below(&prng, 256);
    for (uint32_t i = 0; i < NRECORDS; i++) {
        for (size_t at = 100; at < 500; at += 100)
            for (size_t k = 0; k < 6; k++)
                record.data[at + k] = (uint8_t)tt_prng_below(&prng, 256);
        tt_record_write(&out, &w, i / 8, record.data, record.bytes);
    }
    assert_false(w.bad);
    assert_in_range(tt_writer_bytes(&w), NRECORDS * 24, 512 + NRECORDS * 48);
}

/* Records that are read are zero after their ends, for any input. */
static void invalid_input_is_rejected(void **state)
{
    static const struct {
        uint8_t bytes[8];
        size_t n;
    } cases[] = {
        { { 0x08 }, 1 },                        /* unknown flag */
        { { 0x02, 0x81, 0x05 }, 3 },            /* size 1409 */
        { { 0x02, 4, 0 }, 3 },                  /* no pair */
        { { 0x02, 4, 0, 0, 0, 4, 0 }, 7 },      /* a pair without bytes */
        { { 0x02, 4, 0, 5, 0 }, 5 },            /* more bytes than the record */
        { { 0x02, 4, 0, 0, 0x84, 1 }, 6 },      /* a repetition of bytes from before the record */
        { { 0x02, 4, 0, 2, 0x82, 3 }, 6 },
        { { 0x02, 4, 0, 2, 0x82, 0 }, 6 },      /* at the distance 0 */
        { { 0x06, 4, 0, 1, 2, 3 }, 6 },         /* too short */
        { { 0x01, 1, 0, 0 }, 4 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_record_stream in = { .n = 0 };
        struct tt_reader r;

        print_message("case %zu\n", i);
        tt_reader_init(&r, cases[i].bytes, cases[i].n);
        tt_record_read(&in, &r);
        assert_true(r.bad);
        assert_true(in.entry.bytes <= TT_TREE_CARD_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_unchanged),
        cmocka_unit_test(similar_records_are_small),
        cmocka_unit_test(invalid_input_is_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
