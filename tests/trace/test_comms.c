/* Communicators and annotations that records refer to (trace/comms.h, trace/notes.h), and the clock
 * of the records (trace/tick.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "support/unit.h"
#include "trace/comms.h"
#include "trace/notes.h"
#include "trace/tick.h"

/* Reads a list back: the inverse of tt_comms_print_members. */
static uint32_t parse_members(const char *text, uint32_t out[], uint32_t most)
{
    uint32_t n = 0;

    while (*text) {
        uint64_t first, last, step = 1;
        char *end;

        first = last = strtoull(text, &end, 10);
        if (*end == '-')
            last = strtoull(end + 1, &end, 10);
        if (*end == ':')
            step = strtoull(end + 1, &end, 10);
        for (uint64_t v = first; v <= last && n < most; v += step)
            out[n++] = (uint32_t)v;
        text = *end == ',' ? end + 1 : end;
        assert_true(*end == ',' || *end == 0);
    }
    return n;
}

static void members_are_printed_in_the_documented_form(void **state)
{
    static const struct {
        uint32_t n, ranks[8];
        const char *text;
    } cases[] = {
        { 0, { 0 }, "" },
        { 1, { 7 }, "7" },
        { 4, { 0, 1, 2, 3 }, "0-3" },
        { 2, { 3, 9 }, "3,9" },
        { 2, { 3, 4 }, "3-4" },
        { 6, { 0, 2, 4, 6, 9, 10 }, "0-6:2,9-10" },
        { 4, { 3, 2, 1, 0 }, "3,2,1,0" },
        { 5, { 5, 5, 1, 2, 3 }, "5,5,1-3" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = tt_comms_print_members(cases[i].ranks, NULL, cases[i].n, 1000);

        assert_string_equal(text, cases[i].text);
        free(text);
    }
}

/* Drawn lists, also as 64-bit ids. */
static void members_can_be_read_back(void **state)
{
    struct tt_prng prng;

    (void)state;
    tt_prng_init(&prng, 33);
    for (uint32_t round = 0; round < 2000; round++) {
        uint32_t ranks[40], back[64], n = (uint32_t)tt_prng_below(&prng, 40);
        uint64_t ids[40];
        char *text;

        for (uint32_t i = 0; i < n; i++)
            ids[i] = ranks[i] =
                i && tt_prng_below(&prng, 3)
                    ? ranks[i - 1] + (tt_prng_below(&prng, 4) ? 1 : (uint32_t)round % 5)
                    : (uint32_t)tt_prng_below(&prng, 1000);
        text = tt_comms_print_members(round % 2 ? ranks : NULL, ids, n, 1u << 16);
        assert_int_equal(parse_members(text, back, 64), n);
        assert_memory_equal(back, ranks, n * sizeof *ranks);
        free(text);
    }
}

static void a_list_that_is_too_long_is_left_out(void **state)
{
    uint32_t ranks[100];

    (void)state;
    for (uint32_t i = 0; i < 100; i++)
        ranks[i] = i * i;
    assert_null(tt_comms_print_members(ranks, NULL, 100, 50));
}

/* Ten thousand communicators, most of them open only for a while: entries are used again, and
 * memory stays bounded. */
static void the_table_is_bounded(void **state)
{
    uint32_t ranks[64];
    struct tt_comms_entry e;
    uint16_t kept, number = 0;
    uint64_t before = 0;

    (void)state;
    for (uint32_t i = 0; i < 64; i++)
        ranks[i] = 7 * i * i;
    kept = tt_comms_add(&(struct tt_comms_info){ .hash = 99, .nranks = 64, .ranks = ranks });
    tt_comms_set_name(kept, "kept");
    for (uint32_t i = 0; i < 10000; i++) {
        number = tt_comms_add(&(struct tt_comms_info){
            .hash = 1000 + i, .rank = i % 64, .nranks = 64, .ranks = ranks });
        assert_true(number != 0 && number != kept && number < TT_COMMS_MAX);
        tt_comms_close(number);
        if (i == TT_COMMS_MAX + 10)
            before = tt_comms_bytes();
    }
    assert_int_equal(tt_comms_bytes(), before);
    assert_true(before < 3u << 20);
    assert_true(tt_comms_get(number, true, &e));
    assert_int_equal(e.hash, 10999);
    assert_true(e.since > 0 && !e.open);
    free(e.members);
    assert_true(tt_comms_get(kept, true, &e));
    assert_true(e.open && e.hash == 99 && strcmp(e.name, "kept") == 0 && e.members);
    free(e.members);
    assert_false(tt_comms_get(0, false, &e));
    /* if all entries are open, further ones are not recorded */
    for (uint32_t i = 0; i < TT_COMMS_MAX; i++)
        number = tt_comms_add(&(struct tt_comms_info){ .hash = 1, .nranks = 1, .ranks = ranks });
    assert_int_equal(number, 0);
    assert_true(tt_comms_bytes() < 3u << 20);
}

static void long_names_are_cut_between_characters(void **state)
{
    struct tt_comms_entry e;
    uint16_t number;
    char name[200];

    (void)state;
    for (uint32_t i = 0; i < 99; i++)
        memcpy(name + 2 * i, "\xc3\xa4", 3);
    tt_comms_close(1);
    number = tt_comms_add(&(struct tt_comms_info){ .hash = 5, .nranks = 1, .name = name });
    assert_true(tt_comms_get(number, false, &e));
    assert_int_equal(strlen(e.name), 62);
    assert_memory_equal(e.name, name, 62);
}

static void annotations_are_found_by_their_records(void **state)
{
    static struct tt_note kept[TT_NOTES_MAX];
    struct tt_note note;
    uint16_t first, low = 0;
    uint64_t at;
    char text[64];

    (void)state;
    assert_int_equal(tt_note_current(), 0);
    tt_note_set("iteration 1");
    first = tt_note_current();
    tt_note_set("iteration 1");
    assert_int_equal(tt_note_current(), first);         /* no change */
    at = tt_tick_now();
    assert_true(tt_note_find(first, at, &note));
    assert_string_equal(note.text, "iteration 1");
    assert_false(tt_note_find(first, 0, &note));        /* set after the record */
    tt_note_set("");
    assert_int_equal(tt_note_current(), 0);
    for (uint32_t i = 0; i < 70000; i++) {
        snprintf(text, sizeof text, "iteration %u", i + 2);
        tt_note_set(text);
        low = tt_note_current();
        assert_true(low != 0);
    }
    assert_true(tt_note_find(low, tt_tick_now(), &note));
    assert_string_equal(note.text, "iteration 70001");
    assert_false(tt_note_find(first, at, &note));       /* no longer kept */
    assert_int_equal(tt_note_read(kept), TT_NOTES_MAX);
    assert_int_equal(kept[TT_NOTES_MAX - 1].number, note.number);
    assert_true(kept[0].number < kept[1].number);
}

/* A tick between two readings of the clock is converted to a time between them. */
static void ticks_are_converted_to_the_clock(void **state)
{
    enum { N = 2000 };
    static uint64_t before[N], tick[N], after[N];

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        before[i] = tt_now_ns();
        tick[i] = tt_tick_now();
        after[i] = tt_now_ns();
    }
    tt_tick_refresh();
    for (uint32_t i = 0; i < N; i++) {
        const uint64_t ns = tt_tick_to_ns(tick[i]);

        assert_true(ns + 10000 >= before[i] && ns <= after[i] + 10000);
        assert_true(i == 0 || ns >= tt_tick_to_ns(tick[i - 1]));
    }
}

/* Points are thinned out when the table is full; conversion stays right. */
static void many_calibration_points_are_kept_bounded(void **state)
{
    uint64_t tick, ns;

    (void)state;
    for (uint32_t i = 0; i < 1000; i++)
        tt_tick_calibrate(UINT64_MAX);
    tick = tt_tick_now();
    ns = tt_now_ns();
    tt_tick_refresh();
    assert_true(tt_tick_to_ns(tick) <= ns + 10000 && tt_tick_to_ns(tick) + 10000 >= ns);
}

static int start_clock(void **state)
{
    (void)state;
    tt_tick_start();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_printed_in_the_documented_form),
        cmocka_unit_test(members_can_be_read_back),
        cmocka_unit_test(a_list_that_is_too_long_is_left_out),
        cmocka_unit_test(the_table_is_bounded),
        cmocka_unit_test(long_names_are_cut_between_characters),
        cmocka_unit_test(annotations_are_found_by_their_records),
        cmocka_unit_test(ticks_are_converted_to_the_clock),
        cmocka_unit_test(many_calibration_points_are_kept_bounded),
    };

    return cmocka_run_group_tests(tests, start_clock, NULL);
}
