/* The table of stages: an entry belongs to one record, and a reader never sees half of one. */
#include <pthread.h>
#include <stdatomic.h>

#include "support/unit.h"
#include "trace/stages.h"

#define DEPTH 64u
#define UNIT 64u                        /* ticks */

static void an_entry_belongs_to_one_record(void **state)
{
    const struct tt_stage_times t = { .of = { 1, UNIT, 2 * UNIT, 0 }, .first_data = 10 * UNIT,
                                      .first_message = 7 * UNIT };
    struct tt_stage_times out = { .nested = 0 };

    (void)state;
    assert_false(tt_stages_get(5, &out));           /* not started */
    tt_stages_set(5, &t);
    tt_stages_start(DEPTH);
    assert_false(tt_stages_get(5, &out));
    tt_stages_set(0, &t);                           /* no record */
    assert_false(tt_stages_get(0, &out));
    tt_stages_set(5, &t);
    assert_true(tt_stages_get(5, &out));
    assert_true(out.of[0] == UNIT && out.of[1] == UNIT && out.of[2] == 2 * UNIT && out.of[3] == 0);
    assert_int_equal(out.first_data, 10 * UNIT);
    assert_int_equal(out.first_message, 7 * UNIT);
    assert_false(tt_stages_get(5 + DEPTH, &out));
    tt_stages_set(5 + DEPTH, &t);                   /* the ring was reused */
    assert_false(tt_stages_get(5, &out));
    assert_true(tt_stages_get(5 + DEPTH, &out));
    tt_stages_stop();
}

static void long_times_are_cut(void **state)
{
    const struct tt_stage_times t = { .of = { UINT64_MAX / 2 } };
    struct tt_stage_times out;

    (void)state;
    tt_stages_start(DEPTH);
    tt_stages_set(1, &t);
    assert_true(tt_stages_get(1, &out));
    assert_int_equal(out.of[0], (uint64_t)UINT32_MAX * UNIT);
    tt_stages_stop();
}

static atomic_bool over;
static _Atomic uint64_t newest;

/* Writes records of one slot, whose times are all the same. Numbers are never used again. */
static void *write_on(void *arg)
{
    (void)arg;
    for (uint64_t k = 1; !atomic_load(&over); k++) {
        const uint64_t v = (k & 0xffff) * UNIT;

        tt_stages_set(1 + k * DEPTH, &(struct tt_stage_times){ { v, v, v, v }, v, v, 0 });
        atomic_store(&newest, 1 + k * DEPTH);
    }
    return NULL;
}

static void a_reader_sees_whole_entries(void **state)
{
    struct tt_stage_times out;
    pthread_t thread;
    uint32_t nread = 0;

    (void)state;
    tt_stages_start(DEPTH);
    atomic_store(&over, false);
    assert_int_equal(pthread_create(&thread, NULL, write_on, NULL), 0);
    while (nread < 2000) {
        if (!tt_stages_get(atomic_load(&newest), &out))
            continue;
        for (int i = 0; i < TT_STAGES; i++)
            assert_int_equal(out.of[i], out.first_data);
        assert_int_equal(out.first_message, out.first_data);
        nread++;
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    tt_stages_stop();
}

#define NWRITERS 4u

/* Thread k of NWRITERS writes every NWRITERS-th record of one slot. The times of a record follow
 * from its number. */
static void *write_some(void *arg)
{
    for (uint64_t k = (uint64_t)(uintptr_t)arg; !atomic_load(&over); k += NWRITERS) {
        const uint64_t v = (k & 0xffffff) * UNIT;

        tt_stages_set(1 + k * DEPTH, &(struct tt_stage_times){ { v, v, v, v }, v, v, 0 });
        atomic_store(&newest, 1 + k * DEPTH);
    }
    return NULL;
}

/* Records that share a slot are written by several threads at once, as when an old operation ends
 * while the ring wraps: an entry has the times of its own record only. */
static void records_that_share_a_slot_are_not_mixed(void **state)
{
    pthread_t thread[NWRITERS];
    struct tt_stage_times out;
    uint32_t nread = 0;

    (void)state;
    tt_stages_start(DEPTH);
    atomic_store(&over, false);
    for (uintptr_t i = 0; i < NWRITERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, write_some, (void *)(i + 1)), 0);
    while (nread < 2000) {
        const uint64_t number = atomic_load(&newest), v = ((number / DEPTH) & 0xffffff) * UNIT;

        if (!tt_stages_get(number, &out))
            continue;
        for (int i = 0; i < TT_STAGES; i++)
            assert_int_equal(out.of[i], v);
        assert_int_equal(out.first_data, v);
        nread++;
    }
    atomic_store(&over, true);
    for (uint32_t i = 0; i < NWRITERS; i++)
        pthread_join(thread[i], NULL);
    tt_stages_stop();
}

static void an_old_record_does_not_replace_a_newer_one(void **state)
{
    const struct tt_stage_times old = { .of = { UNIT } }, new = { .of = { 2 * UNIT } };
    struct tt_stage_times out;

    (void)state;
    tt_stages_start(DEPTH);
    tt_stages_set(5 + DEPTH, &new);
    tt_stages_set(5, &old);                         /* it ended late */
    assert_false(tt_stages_get(5, &out));
    assert_true(tt_stages_get(5 + DEPTH, &out));
    assert_int_equal(out.of[0], 2 * UNIT);
    tt_stages_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_belongs_to_one_record),
        cmocka_unit_test(long_times_are_cut),
        cmocka_unit_test(a_reader_sees_whole_entries),
        cmocka_unit_test(records_that_share_a_slot_are_not_mixed),
        cmocka_unit_test(an_old_record_does_not_replace_a_newer_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
