/* Messages between windows, and their effect on memory. */
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "support/unit.h"
#include "window/message.h"
#include "wire/wire.h"

static const struct tt_window_message sound[] = {
    { .verb = TT_WINDOW_PUT, .window = 7, .token = 9, .offset = 16, .bytes = 5 },
    { .verb = TT_WINDOW_PUT,
      .signal_op = TT_SIGNAL_ADD,
      .signal_window = 8,
      .signal_offset = 24,
      .signal_value = 3 },
    { .verb = TT_WINDOW_PUT, .bytes = TT_WINDOW_CHUNK_BYTES },
    { .verb = TT_WINDOW_GET, .offset = 1, .bytes = TT_WINDOW_CHUNK_BYTES },
    { .verb = TT_WINDOW_ADD, .width = 4, .operand = 1ull << 40 },
    { .verb = TT_WINDOW_SWAP, .width = 8, .operand = 11 },
    { .verb = TT_WINDOW_COMPARE_SWAP, .width = 8, .operand = 11, .compare = 12 },
    { .verb = TT_WINDOW_AND, .width = 8, .operand = 0xf0f0 },
    { .verb = TT_WINDOW_OR, .width = 4, .operand = 6 },
    { .verb = TT_WINDOW_XOR, .width = 8, .operand = 1ull << 63 },
    { .verb = TT_WINDOW_ANSWER, .bytes = 100, .operand = 5 },
    { .verb = TT_WINDOW_ANSWER, .gone = 1 },
    { .verb = TT_WINDOW_LEAVE, .window = 9 },
};

#define WHOLE (TT_WINDOW_HEADER_BYTES + TT_WINDOW_CHUNK_BYTES)

static uint64_t follow(const struct tt_window_message *m)
{
    return m->verb == TT_WINDOW_GET ? 0 : m->bytes;
}

static void message_is_read_as_written(void **state)
{
    uint8_t data[WHOLE] = { 0 };

    (void)state;
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        struct tt_window_message m = { 0 };

        tt_window_message_write(&sound[i], data);
        assert_true(tt_window_message_read(&m, data, TT_WINDOW_HEADER_BYTES + follow(&sound[i])));
        assert_memory_equal(&m, &sound[i], sizeof m);
    }
}

static void other_lengths_are_refused(void **state)
{
    static uint8_t data[WHOLE + 1];

    (void)state;
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        const size_t bytes = TT_WINDOW_HEADER_BYTES + follow(&sound[i]);
        struct tt_window_message m;

        tt_window_message_write(&sound[i], data);
        assert_false(tt_window_message_read(&m, data, bytes + 1));
        assert_false(tt_window_message_read(&m, data, bytes - 1));
        assert_false(tt_window_message_read(&m, data, 0));
    }
}

static void invalid_messages_are_refused(void **state)
{
    static const struct tt_window_message wrong[] = {
        { .verb = 0 },
        { .verb = TT_WINDOW_LEAVE + 1 },
        { .verb = TT_WINDOW_LEAVE, .gone = 1 },
        { .verb = TT_WINDOW_PUT, .width = 8 },
        { .verb = TT_WINDOW_ADD, .width = 2 },
        { .verb = TT_WINDOW_XOR },
        { .verb = TT_WINDOW_ADD, .width = 8, .signal_op = TT_SIGNAL_SET },
        { .verb = TT_WINDOW_GET, .signal_op = TT_SIGNAL_SET },
        { .verb = TT_WINDOW_PUT, .signal_op = TT_SIGNAL_ADD + 1 },
        { .verb = TT_WINDOW_PUT, .gone = 1 },
        { .verb = TT_WINDOW_ANSWER, .gone = 2 },
        { .verb = TT_WINDOW_GET, .bytes = TT_WINDOW_CHUNK_BYTES + 1 },
    };
    uint8_t data[TT_WINDOW_HEADER_BYTES];
    struct tt_window_message m;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tt_window_message_write(&wrong[i], data);
        assert_false(tt_window_message_read(&m, data, sizeof data));
    }
}

static void a_put_lands_inside_or_nowhere(void **state)
{
    static const struct {
        uint64_t offset, bytes;
        bool fits;
    } cases[] = {
        { 0, 32, true },          { 31, 1, true },          { 32, 0, true },
        { 0, 0, true },           { 0, 33, false },         { 32, 1, false },
        { 33, 0, false },         { UINT64_MAX, 1, false }, { UINT64_MAX, 2, false },
        { 1, UINT64_MAX, false },
    };
    const uint8_t payload[33] = { 1, 2, 3 };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tt_window_message m = { .verb = TT_WINDOW_PUT,
                                             .offset = cases[i].offset,
                                             .bytes = cases[i].bytes };
        uint8_t *mem = malloc(32), before[32];
        uint64_t old = 77;

        memset(mem, 0xee, 32);
        memcpy(before, mem, 32);
        assert_int_equal(tt_window_apply(&m, payload, mem, 32, &old), cases[i].fits);
        if (cases[i].fits)
            memcpy(before + m.offset, payload, m.bytes);
        assert_memory_equal(mem, before, 32);
        assert_int_equal(old, 77);
        free(mem);
    }
}

static uint64_t becomes_of(const struct tt_window_message *m, uint64_t was, uint64_t mask)
{
    switch (m->verb) {
    case TT_WINDOW_ADD:
        return was + m->operand;
    case TT_WINDOW_SWAP:
        return m->operand;
    case TT_WINDOW_AND:
        return was & m->operand;
    case TT_WINDOW_OR:
        return was | m->operand;
    case TT_WINDOW_XOR:
        return was ^ m->operand;
    default:
        return (m->compare & mask) == was ? m->operand : was;
    }
}

/* Compared with the definition of the operations. */
static void atomics_change_only_their_word(void **state)
{
    struct tt_prng prng;

    (void)state;
    tt_prng_init(&prng, 20261101);
    for (int i = 0; i < 20000; i++) {
        const uint8_t width = tt_prng_below(&prng, 2) ? 4 : 8,
                      verb = (uint8_t)(TT_WINDOW_ADD + tt_prng_below(&prng, 6));
        const uint64_t mask = width == 4 ? UINT32_MAX : UINT64_MAX,
                       at = tt_prng_below(&prng, 32 / width) * width;
        struct tt_window_message m = {
            .verb = verb,
            .width = width,
            .offset = at,
            .operand = tt_prng_u64(&prng),
            .compare = tt_prng_u64(&prng),
        };
        union {
            uint64_t word[4];
            uint8_t byte[32];
        } mem, expected;
        uint64_t was = 0, becomes, old = 0;

        for (int k = 0; k < 4; k++)
            mem.word[k] = tt_prng_u64(&prng);
        expected = mem;
        memcpy(&was, mem.byte + at, width);
        if (tt_prng_below(&prng, 2))
            m.compare = was | (tt_prng_u64(&prng) & ~mask);
        becomes = becomes_of(&m, was, mask);
        memcpy(expected.byte + at, &becomes, width);
        assert_true(tt_window_apply(&m, NULL, mem.byte, sizeof mem, &old));
        assert_int_equal(old, was);
        assert_memory_equal(&mem, &expected, sizeof mem);
    }
}

static void words_must_be_inside_and_aligned(void **state)
{
    uint64_t mem[4] = { 0 };
    uint8_t *bytes = (uint8_t *)mem;

    (void)state;
    assert_ptr_equal(tt_window_word(bytes, 32, 24, 8), &mem[3]);
    assert_ptr_equal(tt_window_word(bytes, 32, 28, 4), bytes + 28);
    assert_null(tt_window_word(bytes, 32, 28, 8));
    assert_null(tt_window_word(bytes, 32, 32, 4));
    assert_null(tt_window_word(bytes, 31, 24, 8));
    assert_null(tt_window_word(bytes, 32, UINT64_MAX - 7, 8));
    assert_null(tt_window_word(bytes + 4, 28, 0, 8));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_is_read_as_written),
        cmocka_unit_test(other_lengths_are_refused),
        cmocka_unit_test(invalid_messages_are_refused),
        cmocka_unit_test(a_put_lands_inside_or_nowhere),
        cmocka_unit_test(atomics_change_only_their_word),
        cmocka_unit_test(words_must_be_inside_and_aligned),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
