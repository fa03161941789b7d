/* Triggers: the proxy reads the commands that blocks write, and refuses anything else. */
#include "support/unit.h"

#include <string.h>
#include "base/prng.h"
#include "device/trigger.h"

#define SLOTS 8u

/* A view with only a FIFO. */
struct fifo {
    tutti_device_trigger slots[SLOTS];
    uint64_t reserved, taken, taken_seen, full_waits;
    tutti_device_view view;
};

static void fifo_init(struct fifo *f)
{
    *f = (struct fifo){ 0 };
    f->view = (tutti_device_view){
        .fifo_slots = SLOTS, .fifo = f->slots, .reserved = &f->reserved, .taken = &f->taken,
        .taken_seen = &f->taken_seen, .full_waits = &f->full_waits,
    };
}

/* Reads the triggers pushed since the last call. */
static enum tt_trigger_found read_back(struct fifo *f, struct tt_command *c)
{
    struct tt_trigger_reader r = { 0 };
    enum tt_trigger_found found = TT_TRIGGER_BAD;

    while (f->taken < f->reserved) {
        const tutti_device_trigger *slot = &f->slots[f->taken % SLOTS];

        assert_int_equal(slot->head & 1, (f->taken / SLOTS + 1) & 1);
        found = tt_trigger_take(&r, slot->head, slot->body, c);
        f->taken++;
        assert_int_equal(found, f->taken < f->reserved ? TT_TRIGGER_PART : TT_TRIGGER_WHOLE);
    }
    return found;
}

static void triggers_are_read_as_written(void **state)
{
    struct tt_prng prng;
    struct tt_command c;
    struct fifo f;

    (void)state;
    tt_prng_init(&prng, 11);
    fifo_init(&f);
    for (int i = 0; i < 10000; i++) {
        const uint32_t peer = (uint32_t)tt_prng_below(&prng, TUTTI_DEVICE_ALL);
        const uint64_t offset = tt_prng_u64(&prng), bytes = tt_prng_below(&prng, 1ull << 58),
                       value = tt_prng_u64(&prng);
        const uint64_t word = tt_prng_below(&prng, 1ull << 34) * 8;
        const tutti_signal_op op = (tutti_signal_op)tt_prng_below(&prng, 3);
        const void *src = (const void *)(uintptr_t)tt_prng_u64(&prng);

        tutti_device_push_put(&f.view, peer, offset, src, bytes, op, word, value);
        assert_int_equal(read_back(&f, &c), TT_TRIGGER_WHOLE);
        assert_true(c.what == TUTTI_TRIGGER_PUT && c.peer == peer && c.offset == offset &&
                    c.bytes == bytes);
        assert_true(c.src == src && c.op == op && (!op || (c.word == word && c.value == value)));

        tutti_device_push(
            &f.view, tutti_trigger_head(TUTTI_TRIGGER_SIGNAL, TUTTI_SIGNAL_ADD, peer, word / 8),
            value);
        assert_int_equal(read_back(&f, &c), TT_TRIGGER_WHOLE);
        assert_true(c.what == TUTTI_TRIGGER_SIGNAL && c.op == TUTTI_SIGNAL_ADD && c.peer == peer &&
                    c.word == word && c.value == value);

        for (uint32_t what = TUTTI_TRIGGER_FENCE; what <= TUTTI_TRIGGER_WAKE; what++) {
            tutti_device_push(&f.view, tutti_trigger_head(what, 0, peer, 0), 0);
            assert_int_equal(read_back(&f, &c), TT_TRIGGER_WHOLE);
            assert_true(c.what == what && c.peer == peer);
        }
    }
    assert_int_equal(f.full_waits, 0);
}

static void invalid_triggers_are_reported(void **state)
{
    static const struct {
        uint64_t head[3];
        int n;
    } bad[] = {
        /* an empty trigger */
        { { 0 }, 1 },
        /* a source without a put */
        { { (uint64_t)TUTTI_TRIGGER_SOURCE << 1 }, 1 },
        /* a signal without an operation */
        { { (uint64_t)TUTTI_TRIGGER_SIGNAL << 1 }, 1 },
        /* an unknown signal operation */
        { { (uint64_t)TUTTI_TRIGGER_SIGNAL << 1 | 3 << 4 }, 1 },
        /* a fence with a signal operation */
        { { (uint64_t)TUTTI_TRIGGER_FENCE << 1 | 1 << 4 }, 1 },
        /* a put without its source */
        { { (uint64_t)TUTTI_TRIGGER_PUT << 1, (uint64_t)TUTTI_TRIGGER_PUT << 1 }, 2 },
        { { (uint64_t)TUTTI_TRIGGER_PUT << 1 | 1 << 4, (uint64_t)TUTTI_TRIGGER_SOURCE << 1,
            /* a signal operation that differs from the put's */
            (uint64_t)TUTTI_TRIGGER_SIGNAL << 1 | 2 << 4 }, 3 },
        { { (uint64_t)TUTTI_TRIGGER_PUT << 1 | 1 << 4, (uint64_t)TUTTI_TRIGGER_SOURCE << 1,
            /* a rank that differs from the put's */
            (uint64_t)TUTTI_TRIGGER_SIGNAL << 1 | 1 << 4 | 1 << 6 }, 3 },
    };
    struct tt_command c;

    (void)state;
    for (uint32_t what = TUTTI_TRIGGER_FENCE; what <= TUTTI_TRIGGER_WAKE; what++) {
        struct tt_trigger_reader r = { 0 };

        assert_int_equal(tt_trigger_take(&r, tutti_trigger_head(what, 0, 1, 0), 1, &c),
                         TT_TRIGGER_BAD);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tt_trigger_reader r = { 0 };

        for (int k = 0; k < bad[i].n; k++)
            assert_int_equal(tt_trigger_take(&r, bad[i].head[k], 0, &c),
                             k < bad[i].n - 1 ? TT_TRIGGER_PART : TT_TRIGGER_BAD);
        assert_int_equal(tt_trigger_take(&r, (uint64_t)TUTTI_TRIGGER_FENCE << 1, 0, &c),
                         TT_TRIGGER_WHOLE);
    }
}

static void commands_stay_in_the_window(void **state)
{
    const uint64_t bytes[3] = { 64, 64, 8 };
    const uint8_t words[3] = { 1, 0, 1 };
    const struct tt_command put = {
        .what = TUTTI_TRIGGER_PUT, .peer = 1, .offset = 32, .bytes = 32, .src = bytes
    };
    const struct tt_command signal = { .what = TUTTI_TRIGGER_SIGNAL,
                                       .op = TUTTI_SIGNAL_SET,
                                       .word = 56 };
    struct tt_command c;

    (void)state;
#define FITS(changes, expected) \
    do { \
        changes; \
        assert_int_equal(tt_command_fits(&c, 2, 3, bytes, words), expected); \
    } while (0)
    FITS(c = put, true);
    FITS(c.bytes = 33, false);
    FITS((c.bytes = UINT64_MAX, c.offset = 8), false);
    FITS((c = put, c.offset = UINT64_MAX), false);
    FITS((c = put, c.peer = 3), false);
    FITS((c = put, c.peer = TUTTI_DEVICE_ALL), false);
    FITS((c = put, c.src = NULL), false);
    FITS((c.bytes = 0), true);
    FITS((c = put, c.op = TUTTI_SIGNAL_ADD), false);        /* rank 1 has no words */
    FITS(c = signal, true);
    FITS(c.word = 64, false);
    FITS(c.word = UINT64_MAX - 7, false);
    FITS((c = signal, c.peer = 2), false);                  /* this rank: its words */
    FITS((c = signal, c.peer = 2, c.word = 0), true);
    FITS((c = put, c.peer = 2, c.offset = 0, c.bytes = 8), false);      /* not its bytes */
    FITS((c = (struct tt_command){ .what = TUTTI_TRIGGER_QUIET, .peer = TUTTI_DEVICE_ALL }), true);
    FITS((c = (struct tt_command){ .what = TUTTI_TRIGGER_FENCE, .peer = TUTTI_DEVICE_ALL }), false);
    FITS((c = (struct tt_command){ .what = TUTTI_TRIGGER_WAKE, .peer = 2 }), true);
#undef FITS
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(triggers_are_read_as_written),
        cmocka_unit_test(invalid_triggers_are_reported),
        cmocka_unit_test(commands_stay_in_the_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
