#include <string.h>
#include "sched/print.h"
#include "support/unit.h"

static void every_step_kind_has_text(void **state)
{
    static const char *const texts[] = {
        "put SRC[0, 8) to 3 THERE, 8 B, tag 7",
        "wait PIPE 9 from 2, 8 B, tag 7",
        "reduce DST[8, 16) = SRC[0, 8) op PIPE 9, finish",
        "copy WORK[0, 20) by 4 every 16 = DST[8, 16)",
    };
    struct tt_step steps[4];
    struct tt_sched s = { .steps = steps, .cap = 4 };
    char text[TT_STEP_TEXT_BYTES];

    (void)state;
    tt_sched_put(&s, 3, tt_src(0), tt_there(), 8, 7);
    tt_sched_wait(&s, 2, tt_pipe(9), 8, 7);
    tt_sched_reduce(&s, tt_dst(8), tt_src(0), tt_pipe(9), 8, true);
    tt_sched_copy(&s, tt_strided(tt_work(0), 4, 16), tt_dst(8), 8);
    assert_int_equal(s.n, 4);
    for (uint32_t i = 0; i < s.n; i++)
        assert_string_equal(tt_step_text(&steps[i], text, sizeof text), texts[i]);
}

static void oversized_text_is_truncated(void **state)
{
    const struct tt_step step = { .opcode = TT_COPY, .bytes = 8, .out = tt_dst(0), .a = tt_src(0) };
    char text[10];

    (void)state;
    assert_string_equal(tt_step_text(&step, text, sizeof text), "copy DST[");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_kind_has_text),
        cmocka_unit_test(oversized_text_is_truncated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
