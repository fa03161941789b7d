#include <stdlib.h>
#include <string.h>
#include "sched/print.h"
#include "support/unit.h"

static void round_k(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    if (k == 1)
        return;
    tt_sched_put(s, 3, tt_src(0), tt_there(), c->bytes, 7);
    tt_sched_wait(s, 2, tt_pipe(9), c->bytes, 7);
    tt_sched_reduce(s, tt_dst(8), tt_src(0), tt_pipe(9), c->bytes, true);
    tt_sched_copy(s, tt_strided(tt_work(0), 4, 16), tt_dst(8), c->bytes);
}

static uint64_t three(const struct tt_coll *c)
{
    (void)c;
    return 3;
}

static const struct tt_algo algo = {
    .name = "allreduce_test", .nrounds = three, .round = round_k, .work_bytes = three,
};

static void a_program_is_printed_round_by_round(void **state)
{
    const struct tt_coll c = { .kind = TT_ALLREDUCE, .rank = 1, .nranks = 4, .elem_bytes = 4, .bytes = 8 };
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    (void)state;
    assert_non_null(to);
    tt_program_print(to, &algo, &c, 2);
    fclose(to);
    assert_string_equal(text, "allreduce_test, rank 1 of 4, 8 B: 3 rounds, WORK 3 B\n"
                              "round 0\n"
                              "    put SRC[0, 8) to 3 THERE, 8 B, tag 7\n"
                              "    wait PIPE 9 from 2, 8 B, tag 7\n"
                              "    reduce DST[8, 16) = SRC[0, 8) op PIPE 9, finish\n"
                              "    copy WORK[0, 20) by 4 every 16 = DST[8, 16)\n"
                              "round 1: nothing\n"
                              "... and 1 rounds more\n");
    free(text);
}

static void a_text_that_does_not_fit_is_cut(void **state)
{
    const struct tt_step step = { .opcode = TT_COPY, .bytes = 8, .out = tt_dst(0), .a = tt_src(0) };
    char text[10];

    (void)state;
    assert_string_equal(tt_step_text(&step, text, sizeof text), "copy DST[");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_printed_round_by_round),
        cmocka_unit_test(a_text_that_does_not_fit_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
