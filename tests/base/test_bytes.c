#include <string.h>
#include "base/bytes.h"
#include "support/unit.h"

static void written_values_are_read_back(void **state)
{
    uint8_t data[64], raw[3] = { 0 };
    struct tt_reader r;
    struct tt_writer w;
    char text[8];

    (void)state;
    tt_writer_init(&w, data, sizeof data);
    tt_write_u8(&w, 0x12);
    tt_write_u16(&w, 0x3456);
    tt_write_u32(&w, 0x789abcde);
    tt_write_u64(&w, 0xf0e1d2c3b4a59687ull);
    tt_write_bytes(&w, "xyz", 3);
    tt_write_string(&w, "tutti");
    assert_false(w.bad);
    assert_int_equal(tt_writer_bytes(&w), 1 + 2 + 4 + 8 + 3 + 2 + 5);

    tt_reader_init(&r, data, tt_writer_bytes(&w));
    assert_int_equal(tt_read_u8(&r), 0x12);
    assert_int_equal(tt_read_u16(&r), 0x3456);
    assert_int_equal(tt_read_u32(&r), 0x789abcde);
    assert_true(tt_read_u64(&r) == 0xf0e1d2c3b4a59687ull);
    tt_read_bytes(&r, raw, 3);
    assert_memory_equal(raw, "xyz", 3);
    tt_read_string(&r, text, sizeof text);
    assert_string_equal(text, "tutti");
    assert_false(r.bad);
    assert_ptr_equal(r.at, r.end);
}

static void numbers_are_little_endian(void **state)
{
    uint8_t data[4];
    struct tt_writer w;

    (void)state;
    tt_writer_init(&w, data, sizeof data);
    tt_write_u32(&w, 0x04030201);
    assert_memory_equal(data, "\x01\x02\x03\x04", 4);
}

static void overread_stays_an_error(void **state)
{
    const uint8_t data[4] = { 1, 2, 3, 4 };
    uint8_t raw[2] = { 7, 7 };
    struct tt_reader r;

    (void)state;
    tt_reader_init(&r, data, sizeof data);
    assert_int_equal(tt_read_u64(&r), 0);
    assert_true(r.bad);
    assert_int_equal(tt_read_u8(&r), 0);    /* although a byte is available */
    tt_read_bytes(&r, raw, 2);
    assert_memory_equal(raw, "\0\0", 2);
    assert_true(r.bad);
}

static void string_must_fit_without_nul(void **state)
{
    static const struct {
        const char *what;
        const char data[8];
        size_t bytes, cap;
        bool bad;
    } cases[] = {
        { "fits exactly", "\3\0abc", 5, 4, false },
        { "empty", "\0\0", 2, 1, false },
        { "no room for the end", "\3\0abc", 5, 3, true },
        { "no room at all", "\0\0", 2, 0, true },
        { "longer than the message", "\4\0abc", 5, 8, true },
        { "half a length", "\3", 1, 8, true },
        { "a NUL inside", "\3\0a\0c", 5, 8, true },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[8] = "before";
        struct tt_reader r;

        tt_reader_init(&r, cases[i].data, cases[i].bytes);
        tt_read_string(&r, text, cases[i].cap);
        if (r.bad != cases[i].bad)
            fail_msg("%s", cases[i].what);
        if (r.bad && cases[i].cap > 0)
            assert_string_equal(text, "");
    }
}

static void oversized_write_stays_an_error(void **state)
{
    uint8_t data[8];
    struct tt_writer w;

    (void)state;
    memset(data, 0xee, sizeof data);
    tt_writer_init(&w, data, 3);
    tt_write_u16(&w, 1);
    tt_write_u16(&w, 2);
    assert_true(w.bad);
    tt_write_u8(&w, 3);     /* although there is space */
    tt_write_string(&w, "");
    assert_int_equal(tt_writer_bytes(&w), 2);
    assert_memory_equal(data, "\1\0\xee\xee", 4);
}

static void string_beyond_its_length_field_fails(void **state)
{
    static char longer[UINT16_MAX + 2], data[UINT16_MAX + 100];
    struct tt_writer w;

    (void)state;
    memset(longer, 'x', UINT16_MAX + 1);
    tt_writer_init(&w, data, sizeof data);
    tt_write_string(&w, longer);
    assert_true(w.bad);
    assert_int_equal(tt_writer_bytes(&w), 0);
    longer[UINT16_MAX] = '\0';
    tt_writer_init(&w, data, sizeof data);
    tt_write_string(&w, longer);
    assert_false(w.bad);
    assert_int_equal(tt_writer_bytes(&w), 2 + UINT16_MAX);
}

static void empty_buffers_hold_nothing(void **state)
{
    struct tt_reader r;
    struct tt_writer w;

    (void)state;
    tt_reader_init(&r, NULL, 0);
    tt_read_bytes(&r, NULL, 0);
    assert_false(r.bad);
    tt_read_u8(&r);
    assert_true(r.bad);
    tt_writer_init(&w, NULL, 0);
    tt_write_bytes(&w, NULL, 0);
    assert_false(w.bad);
    tt_write_u8(&w, 1);
    assert_true(w.bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_values_are_read_back),
        cmocka_unit_test(numbers_are_little_endian),
        cmocka_unit_test(overread_stays_an_error),
        cmocka_unit_test(string_must_fit_without_nul),
        cmocka_unit_test(oversized_write_stays_an_error),
        cmocka_unit_test(string_beyond_its_length_field_fails),
        cmocka_unit_test(empty_buffers_hold_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
