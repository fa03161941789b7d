/* Random histories without findings may be ineffective. Therefore defects are planted in the proxy,
 * one at a time, and the histories must find each. */
#include "support/unit.h"

#include "device/planted.h"
#include "histories.h"

#define HISTORIES_MAX 2000

int tt_device_bug;

static const struct {
    const char *what;
    tutti_device_mode mode;
} bugs[TT_DEVICE_BUG_END] = {
    [TT_DEVICE_BUG_MARK_LOST] = { "a signal goes without its mark", TUTTI_DEVICE_FULL },
    [TT_DEVICE_BUG_DRAIN_SKIPPED] = { "a drain is skipped", TUTTI_DEVICE_COUPLED },
    [TT_DEVICE_BUG_FENCE_WAITS] = { "a fence waits for its rank", TUTTI_DEVICE_ORDERED },
    [TT_DEVICE_BUG_PARITY_IGNORED] = { "a slot of the lap before is taken again",
                                       TUTTI_DEVICE_FULL },
    [TT_DEVICE_BUG_ROOM_OF_ALL] = { "a rank at its bound stops all", TUTTI_DEVICE_FULL },
    [TT_DEVICE_BUG_CREDIT_LOST] = { "a fence keeps its credit", TUTTI_DEVICE_ORDERED },
    [TT_DEVICE_BUG_FLUSH_EARLY] = { "a flush is answered at once", TUTTI_DEVICE_FULL },
};

static bool finds_nothing(uint64_t seed, tutti_device_mode mode, char *why, size_t why_bytes)
{
    return (seed > 1 || mode == TUTTI_DEVICE_COUPLED ||
            (history_delayed(mode, why, why_bytes) && history_stopped(mode, why, why_bytes))) &&
           history_play(seed, mode, why, why_bytes);
}

static void histories_find_every_planted_bug(void **state)
{
    char why[300];

    (void)state;
    for (tt_device_bug = TT_DEVICE_BUG_NONE + 1; tt_device_bug < TT_DEVICE_BUG_END;
         tt_device_bug++) {
        uint64_t seed = 1;

        while (seed <= HISTORIES_MAX &&
               finds_nothing(seed, bugs[tt_device_bug].mode, why, sizeof why))
            seed++;
        if (seed > HISTORIES_MAX)
            fail_msg("%d histories did not find that %s", HISTORIES_MAX, bugs[tt_device_bug].what);
        print_message("%s: found by history %llu, %s\n", bugs[tt_device_bug].what,
                      (unsigned long long)seed, why);
    }
    tt_device_bug = TT_DEVICE_BUG_NONE;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(histories_find_every_planted_bug) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
