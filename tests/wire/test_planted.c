/* Walks that find nothing may be blind. So mistakes are put into DQPLB, one at a time, and the walks must find each. */
#include "support/unit.h"

#include "dqplb_walk.h"
#include "wire/planted.h"

#define SEEDS_MAX 20000

int tt_planted_bug;

static const char *const bugs[TT_DQPLB_BUG_END] = {
    [TT_DQPLB_BUG_TOLD_EARLY] = "a message counts as whole when its last segment comes",
    [TT_DQPLB_BUG_FAST_OVERTAKES] = "a fast message counts as whole when it comes",
    [TT_DQPLB_BUG_SENT_TWICE] = "what is in doubt is sent anew without asking",
    [TT_DQPLB_BUG_NOT_SENT_ANEW] = "what is in doubt is taken for arrived",
    [TT_DQPLB_BUG_LANE_OVERFULL] = "a lane that has its fill is not skipped",
    [TT_DQPLB_BUG_WINDOW_OVERRUN] = "the window does not bound what is cut",
    [TT_DQPLB_BUG_NO_WRAP] = "numbers are compared as if they did not wrap",
    [TT_DQPLB_BUG_FAST_ANYWHERE] = "a fast message that is sent anew over another lane is still called fast",
};

static void walks_find_every_planted_bug(void **state)
{
    (void)state;
    for (tt_planted_bug = TT_DQPLB_BUG_NONE + 1; tt_planted_bug < TT_DQPLB_BUG_END; tt_planted_bug++) {
        const char *wrong = NULL;
        uint64_t seed = 0;

        while (!wrong && seed < SEEDS_MAX)
            wrong = walk_drawn(++seed);
        if (wrong)
            print_message("%s: found by seed %llu, %s\n", bugs[tt_planted_bug], (unsigned long long)seed, wrong);
        else
            fail_msg("%d walks did not find that %s", SEEDS_MAX, bugs[tt_planted_bug]);
    }
    tt_planted_bug = TT_DQPLB_BUG_NONE;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(walks_find_every_planted_bug) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
