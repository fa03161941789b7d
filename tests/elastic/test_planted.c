/* A search without findings may be ineffective. Therefore defects are planted in the state
 * machines, one at a time, and the histories must find each. */
#include "support/unit.h"

#include <stdio.h>
#include "elastic/planted.h"
#include "run.h"

#define HISTORIES_MAX 20000

int tt_planted_bug;

static const char *const bugs[TT_BUG_END] = {
    [TT_BUG_RESTORE_FORGOTTEN] = "an operation that succeeded locally is not restored",
    [TT_BUG_DEAD_VOTER_COUNTED] = "a dead voter is still counted",
    [TT_BUG_OUTCOME_NOT_UNIFORM] = "the outcome is not uniform",
    [TT_BUG_STALE_EPOCH_ACCEPTED] = "a stale epoch is accepted",
    [TT_BUG_JOURNAL_AFTER_REPLY] = "the journal is written after the reply",
    [TT_BUG_TAG_REUSED] = "a tag is reused",
    [TT_BUG_HALF_ADMITTED] = "a newcomer is admitted to half the members",
    [TT_BUG_COUNTED_TWICE] = "an operation is counted twice",
    [TT_BUG_REVISION_OFF_BY_ONE] = "a revision is off by one",
    [TT_BUG_SENDER_DEATH_IGNORED] = "the loss of a sender of the state is ignored",
    [TT_BUG_TENTATIVE_FINAL_TOO_SOON] = "a tentative operation is final when the next one begins",
    [TT_BUG_TENTATIVE_NOT_REPORTED] = "an answer omits the tentative operation before the last",
    [TT_BUG_RESULT_AFTER_QUESTION] = "a member that missed a result gets the question first",
    [TT_BUG_WORDS_IGNORED] = "final operations reported by a leaving member are ignored",
    [TT_BUG_WORDS_NOT_LOGGED] = "final operations reported by a leaving member are not logged",
    [TT_BUG_ROUND_FORGOTTEN] = "a round that is not in the journal is lost",
    [TT_BUG_SCOPES_NOT_KEPT_APART] =
        "a tentative operation among a role is taken for one that needs all",
    [TT_BUG_ENDED_IS_NOT_BEGUN] = "a member reports an operation that it has ended as not begun",
    [TT_BUG_SETTLED_IGNORED] = "a settled operation is restored where it is open",
    [TT_BUG_SETTLED_ONCE] = "a result received by an outcome is not reported the next time",
    [TT_BUG_BACK_FORGOTTEN] = "a call that was taken back is treated as a new one",
    [TT_BUG_SCOPES_CHAINED] =
        "the end of a tentative operation among a role makes the one before it final",
};

static void histories_find_every_planted_bug(void **state)
{
    struct run_sum sum = { 0 };
    char why[2000];

    (void)state;
    for (tt_planted_bug = TT_BUG_NONE + 1; tt_planted_bug < TT_BUG_END; tt_planted_bug++) {
        uint64_t seed = 1;

        while (seed <= HISTORIES_MAX && run_play(seed, RUN_FAULTS_ALL, &sum, why, sizeof why))
            seed++;
        if (seed > HISTORIES_MAX)
            fail_msg("%d histories did not find that %s", HISTORIES_MAX, bugs[tt_planted_bug]);
        print_message("%s: found by history %llu, %.120s\n", bugs[tt_planted_bug],
                      (unsigned long long)seed, why);
    }
    tt_planted_bug = TT_BUG_NONE;
}

static void unplanted_code_passes(void **state)
{
    struct run_sum sum = { 0 };
    char why[2000];

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++)
        if (!run_play(seed, RUN_FAULTS_ALL, &sum, why, sizeof why))
            fail_msg("seed %llu: %s", (unsigned long long)seed, why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(histories_find_every_planted_bug),
        cmocka_unit_test(unplanted_code_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
