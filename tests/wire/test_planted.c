/* Random walks without findings may be ineffective. Therefore defects are planted in DQPLB and in
 * the registration cache, one at a time, and the walks must find each. Also, the test of changing
 * memory must detect missing notifications. */
#include "support/unit.h"

#include <stdlib.h>
#include "dqplb_walk.h"
#include "pipe_device.h"
#include "regcache_walk.h"
#include "wire/planted.h"

#define SEEDS_MAX 20000

int tt_planted_bug;

static const char *const bugs[TT_DQPLB_BUG_END] = {
    [TT_DQPLB_BUG_TOLD_EARLY] = "a message counts as whole when its last segment comes",
    [TT_DQPLB_BUG_FAST_OVERTAKES] = "a fast message counts as whole when it comes",
    [TT_DQPLB_BUG_SENT_TWICE] = "segments of unknown state are retransmitted without a query",
    [TT_DQPLB_BUG_NOT_SENT_ANEW] = "what is in doubt is taken for arrived",
    [TT_DQPLB_BUG_LANE_OVERFULL] = "a lane that has its fill is not skipped",
    [TT_DQPLB_BUG_LANE_OVERWEIGHT] = "a lane that has its fill of bytes is not skipped",
    [TT_DQPLB_BUG_NOT_EMPTIEST] = "a lane is taken though another is emptier",
    [TT_DQPLB_BUG_WINDOW_OVERRUN] = "the window does not bound what is cut",
    [TT_DQPLB_BUG_NO_WRAP] = "numbers are compared as if they did not wrap",
    [TT_DQPLB_BUG_FAST_ANYWHERE] =
        "a fast message that is retransmitted on another lane is still marked fast",
};

static const char *const cache_bugs[TT_REGCACHE_BUG_END] = {
    [TT_REGCACHE_BUG_NOT_WHOLE] = "what has the beginning of a buffer serves for all of it",
    [TT_REGCACHE_BUG_ANY_DOMAIN] = "what another device knows serves",
    [TT_REGCACHE_BUG_EXPOSED_TWICE] = "two users give the key of one registration to peers",
    [TT_REGCACHE_BUG_FIRST_ONLY] =
        "of several registrations that lose their pages one becomes stale",
    [TT_REGCACHE_BUG_LOST_WHILE_MADE] =
        "what loses its pages while it is being made is found afterwards",
    [TT_REGCACHE_BUG_UNBOUNDED] = "bounds do not hold when users leave",
    [TT_REGCACHE_BUG_NOT_RECENT] = "what was used last is the first to end",
};

/* Some walk finds each defect between `none` and `end`, excluding both. */
static void find_all(int none, int end, const char *const *named,
                     const char *(*walk)(uint64_t seed))
{
    for (tt_planted_bug = none + 1; tt_planted_bug < end; tt_planted_bug++) {
        const char *wrong = NULL;
        uint64_t seed = 0;

        while (!wrong && seed < SEEDS_MAX)
            wrong = walk(++seed);
        if (wrong)
            print_message("%s: found by seed %llu, %s\n", named[tt_planted_bug],
                          (unsigned long long)seed, wrong);
        else
            fail_msg("%d walks did not find that %s", SEEDS_MAX, named[tt_planted_bug]);
    }
    tt_planted_bug = TT_DQPLB_BUG_NONE;
}

static void walks_find_every_planted_bug(void **state)
{
    (void)state;
    find_all(TT_DQPLB_BUG_NONE, TT_DQPLB_BUG_END, bugs, walk_drawn);
}

static void walks_find_every_planted_cache_bug(void **state)
{
    (void)state;
    find_all(TT_REGCACHE_BUG_NONE, TT_REGCACHE_BUG_END, cache_bugs, regcache_walk_drawn);
}

static void stale_registrations_are_seen(void **state)
{
    struct pipe_device d = { .readonly = false };
    struct tt_registry_setting setting;
    uint32_t nfound = 0;

    (void)state;
    assert_int_equal(tt_registry_setting(&setting), TUTTI_OK);
    if (!setting.watches)
        skip();     /* nothing is cached here that could be stale */
    assert_true(pipe_device_open(&d));
    tt_planted_bug = TT_REGISTRY_BUG_NOT_WATCHED;
    for (size_t way = 0; remap_ways[way]; way++) {
        bool seen;
        const char *wrong = remap_between_uses(&d, way, &seen);

        if (wrong)
            print_message("%s: %s\n", remap_ways[way], wrong);
        nfound += wrong != NULL;
    }
    tt_planted_bug = TT_DQPLB_BUG_NONE;
    pipe_device_close(&d);
    assert_true(nfound >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_find_every_planted_bug),
        cmocka_unit_test(walks_find_every_planted_cache_bug),
        cmocka_unit_test(stale_registrations_are_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
