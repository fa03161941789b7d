/* How quiet detects that data has arrived: with concurrent puts, and with wrapped numbers of
 * marks. */
#include <string.h>
#include "base/prng.h"
#include "support/unit.h"
#include "window/flush_tracker.h"

#define SEED 20261122
#define QUEUE 4096
#define QUIETS 16
#define STEPS 4000

/* A lane that delivers puts in order, with marks between them. */
struct lane {
    struct tt_flush marks;
    uint64_t tick;
    struct entry {
        bool mark;
        uint32_t number;        /* of a mark */
    } queue[QUEUE];
    uint32_t head, tail;        /* entries before head are delivered, those before tail are
                                   posted */
    struct {
        uint64_t tick;          /* 0: none */
        uint32_t behind;        /* the quiet waits for the entries before this one, */
        uint32_t patience;      /* and may take this number of further steps */
    } quiets[QUIETS];
    uint32_t ended_busy;        /* quiets that ended while data was in flight */
};

/* Numbers that have almost wrapped, or have not. */
static void lane_init(struct lane *l, uint32_t number)
{
    memset(l, 0, sizeof *l);
    l->marks.posted = l->marks.landed = number & TT_MARK_MASK;
}

static void put(struct lane *l)
{
    l->queue[l->tail++ % QUEUE] = (struct entry){ .mark = false };
    tt_flush_put(&l->marks, l->tick);
}

static void land(struct lane *l)
{
    const struct entry *e = &l->queue[l->head % QUEUE];

    if (l->head == l->tail)
        return;
    l->head++;
    if (e->mark)
        tt_flush_landed(&l->marks, e->number);
}

static void begin_quiet(struct lane *l, uint32_t i)
{
    if (l->quiets[i].tick)
        return;
    l->quiets[i].tick = ++l->tick;
    l->quiets[i].behind = l->tail;
    l->quiets[i].patience = UINT32_MAX;
}

/* As in the calls: a check, and a mark if necessary. */
static void step_quiet(struct lane *l, uint32_t i)
{
    const uint64_t tick = l->quiets[i].tick;

    if (!tick)
        return;
    if (tt_flush_is_quiet(&l->marks, tick)) {
        /* all earlier puts have arrived */
        assert_true((int32_t)(l->head - l->quiets[i].behind) >= 0);
        l->ended_busy += l->head != l->tail;
        l->quiets[i].tick = 0;
        return;
    }
    assert_true(l->quiets[i].patience-- > 0);
    if (!tt_flush_needs_mark(&l->marks, tick))
        return;
    l->queue[l->tail++ % QUEUE] =
        (struct entry){ .mark = true, .number = tt_flush_next(&l->marks) };
    tt_flush_posted(&l->marks, l->tick);
}

/* One rank puts without end, so that data is always in flight. */
static void every_quiet_ends(struct lane *l)
{
    bool any = true;

    for (uint32_t i = 0; i < QUIETS; i++)
        l->quiets[i].patience = 2 * QUEUE;
    while (any) {
        put(l);
        while (l->tail - l->head > 1)
            land(l);
        any = false;
        for (uint32_t i = 0; i < QUIETS; i++) {
            step_quiet(l, i);
            any |= l->quiets[i].tick != 0;
        }
    }
}

static void quiet_waits_only_for_earlier_puts(void **state)
{
    static const uint32_t starts[] = { 0, 7, TT_MARK_MASK - 1, TT_MARK_MASK - 100,
                                       TT_MARK_MASK / 2 };
    static struct lane l;
    struct tt_prng p;
    uint32_t ended_busy = 0;

    (void)state;
    tt_prng_init(&p, SEED);
    for (uint32_t round = 0; round < 40; round++) {
        lane_init(&l, starts[round % (sizeof starts / sizeof *starts)]);
        for (uint32_t n = 0; n < STEPS; n++) {
            const uint64_t what = tt_prng_below(&p, 8);

            if (what < 3 && l.tail - l.head < QUEUE - QUIETS)
                put(&l);
            else if (what < 6)
                land(&l);
            else if (what == 6)
                begin_quiet(&l, (uint32_t)tt_prng_below(&p, QUIETS));
            else
                step_quiet(&l, (uint32_t)tt_prng_below(&p, QUIETS));
        }
        every_quiet_ends(&l);
        ended_busy += l.ended_busy;
    }
    assert_true(ended_busy > 100);
}

/* More concurrent quiets than marks: those without a mark end with the marks of later ones. */
static void bounded_marks_end_every_quiet(void **state)
{
    static struct lane l;
    uint32_t marks = 0;

    (void)state;
    lane_init(&l, TT_MARK_MASK);
    for (uint32_t i = 0; i < QUIETS; i++) {
        put(&l);
        begin_quiet(&l, i);
        step_quiet(&l, i);
    }
    for (uint32_t at = l.head; at != l.tail; at++)
        marks += l.queue[at % QUEUE].mark;
    assert_int_equal(marks, TT_MARKS);
    every_quiet_ends(&l);
}

static void unknown_numbers_have_no_effect(void **state)
{
    struct tt_flush m = { .posted = TT_MARK_MASK, .landed = TT_MARK_MASK }, before;

    (void)state;
    tt_flush_put(&m, 5);
    tt_flush_posted(&m, 6);
    assert_int_equal(m.posted, 0);
    before = m;
    tt_flush_landed(&m, 1);
    tt_flush_landed(&m, TT_MARK_MASK);
    tt_flush_landed(&m, TT_MARK_MASK / 2);
    assert_memory_equal(&m, &before, sizeof m);
    assert_false(tt_flush_is_quiet(&m, 6));
    tt_flush_landed(&m, 0);
    assert_true(tt_flush_is_quiet(&m, 6) && tt_flush_is_quiet(&m, 7));
}

/* A queued put is posted to the transport later than one that was called after it: quiets between
 * the two wait for it. */
static void queued_put_counts_from_its_call(void **state)
{
    struct tt_flush m = { 0 };

    (void)state;
    tt_flush_put(&m, 6);
    assert_true(tt_flush_is_quiet(&m, 6));
    tt_flush_put(&m, 5);
    assert_false(tt_flush_is_quiet(&m, 6));
    assert_true(tt_flush_is_quiet(&m, 5));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quiet_waits_only_for_earlier_puts),
        cmocka_unit_test(bounded_marks_end_every_quiet),
        cmocka_unit_test(unknown_numbers_have_no_effect),
        cmocka_unit_test(queued_put_counts_from_its_call),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
