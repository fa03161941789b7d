/* Algorithms from shared objects: valid ones are loaded and run, and each invalid one is refused
 * with the reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algos.h"
#include "base/status.h"
#include "comm/plugin.h"
#include "comm/plugin_trampolines.h"
#include "support/sim.h"
#include "support/unit.h"

static const char *path(void)
{
    static char text[4096];
    const char *build = getenv("TUTTI_BUILD_DIR");

    snprintf(text, sizeof text, "%s/tests/comm/plugin_cases.so", build ? build : "build/release");
    return text;
}

static tutti_status load(const char *what)
{
    uint64_t hash = 0;

    setenv("TUTTI_TEST_PLUGIN", what, 1);
    return tt_plugin_load(path(), &hash);
}

static struct tt_coll call_of(uint32_t nranks, uint64_t bytes)
{
    return (
        struct tt_coll){ .kind = TT_BROADCAST, .nranks = nranks, .elem_bytes = 4, .bytes = bytes };
}

struct wrong {
    const char *what, *said;
};

static void unloadable_objects_are_refused_with_reason(void **state)
{
    static const struct wrong cases[] = {
        { "version", "has version 7" },
        { "short struct", "with 24" },
        { "collective", "has unknown collective 99" },
        { "duplicate", "duplicate name of algorithm \"broadcast_flat\"" },
        { "other name", "must begin with \"broadcast_\"" },
        { "bad name", "invalid name of algorithm" },
        { "no round", "has no round" },
        { "empty", "has no algorithms" },
    };
    const size_t nalgos = tt_nalgos;
    uint64_t hash = 0;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (load(cases[i].what) != TUTTI_ERR_INVALID || !strstr(tutti_last_error(), cases[i].said))
            fail_msg("%s: %s", cases[i].what, tutti_last_error());
        tt_algo_remove_from(nalgos);
        tt_trampolines_free(0);
    }
    assert_int_equal(tt_plugin_load("/nowhere/at/all.so", &hash), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "/nowhere/at/all.so"));
    assert_int_equal(tt_plugin_load("/lib/x86_64-linux-gnu/libm.so.6", &hash), TUTTI_ERR_INVALID);
}

static void invalid_programs_are_refused(void **state)
{
    static const struct wrong cases[] = {
        { "no peer", "invalid peer" },
        { "out of bounds", "step 0: out of bounds" },
        { "writes input", "writes SRC" },
        { "no buffer", "invalid buffer" },
        { "too many", "too many steps in a round" },
        { "short", "the matching put has" },
        { "forgets its own", "rank 0" },
        { "rounds", "more than 2^24 rounds" },
        { "work", "WORK" },
        { "peers", "declares at most 0" },
        { "wait first", "put before waiting" },
        { "out of bounds in place", "in place, rank 0, round 0, step 0: out of bounds" },
        { "own tag in place", "odd ranks in place, " },
    };
    const size_t nalgos = tt_nalgos;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_coll c = call_of(4, 64);

        if (load(cases[i].what) != TUTTI_OK)
            fail_msg("%s: %s", cases[i].what, tutti_last_error());
        c.rank = 2;
        if (tt_plugin_check(tt_algo_find(&c, "star"), &c) != TUTTI_ERR_INVALID ||
            !strstr(tutti_last_error(), cases[i].said))
            fail_msg("%s: %s", cases[i].what, tutti_last_error());
        tt_algo_remove_from(nalgos);
        tt_trampolines_free(0);
    }
}

static void valid_plug_in_fits_and_runs(void **state)
{
    struct tt_coll coll[4], odd = call_of(3, 64);
    uint8_t mem[4][2][1000];
    void *src[4], *dst[4];
    struct tt_sim_result result;
    const size_t nalgos = tt_nalgos;
    char why[256] = "";

    (void)state;
    assert_int_equal(load("right"), TUTTI_OK);
    assert_null(tt_algo_find(&odd, "star"));
    assert_string_equal(tt_algo_named(TT_BROADCAST, "star")->needs, "an even number of ranks");
    for (uint32_t r = 0; r < 4; r++) {
        coll[r] = call_of(4, 1000);
        coll[r].rank = r;
        memset(mem[r], (int)r, sizeof mem[r]);
        src[r] = mem[r][0];
        dst[r] = mem[r][1];
    }
    for (uint32_t i = 0; i < 1000; i++)
        mem[0][0][i] = (uint8_t)(7 * i);
    const struct tt_sim_conf conf = {
        .algo = tt_algo_find(&coll[0], "star"),
        .coll = coll,
        .nranks = 4,
        .segment_bytes = 64,
        .eager_bytes = 64,
        .streams = 1,
        .depth = 2,
        .seed = 3,
        .latency_ns = 100,
        .jitter_ns = 1000,
        .byte_ns = 1,
    };
    assert_int_equal(tt_plugin_check(conf.algo, &coll[1]), TUTTI_OK);
    /* it has no cost formula, so it is not selected automatically */
    assert_true(tt_algo_choose(&coll[0], &(struct tt_cost_model){ 1, 1, 1, 1, 1, 1 }) != conf.algo);
    if (tt_sim_run(&conf, src, dst, &result, why, sizeof why))
        fail_msg("%s", why);
    for (uint32_t r = 0; r < 4; r++)
        assert_memory_equal(mem[r][1], mem[0][0], 1000);
    tt_algo_remove_from(nalgos);
    tt_trampolines_free(0);
}

/* In-place alltoallv calls are not part of the plug-in contract, and are not verified. */
static void in_place_alltoallv_is_never_used(void **state)
{
    static const struct wrong cases[] = {
        { "alltoallv", "it needs src and dst in separate memory" },
        { "alltoallv, even",
          "it needs an even number of ranks, and src and dst in separate memory" },
    };
    static const uint64_t bytes[] = { 4, 4, 4, 4 }, displs[] = { 0, 4, 8, 12 };
    const size_t nalgos = tt_nalgos;
    struct tt_coll c = {
        .kind = TT_ALLTOALLV, .nranks = 4, .elem_bytes = 4,
        .send_bytes = bytes, .send_displs = displs, .recv_bytes = bytes, .recv_displs = displs,
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(load(cases[i].what), TUTTI_OK);
        c.in_place = false;
        assert_non_null(tt_algo_find(&c, "turn"));
        assert_int_equal(tt_plugin_check(tt_algo_find(&c, "turn"), &c), TUTTI_OK);
        assert_ptr_not_equal(tt_algo_choose(&c, &(struct tt_cost_model){ 1, 1, 1, 1, 1, 1 }),
                             tt_algo_find(&c, "turn"));
        c.in_place = true;
        assert_null(tt_algo_find(&c, "turn"));
        assert_int_equal(tt_algo_refuse(&c, "turn"), TUTTI_ERR_INVALID);
        if (!strstr(tutti_last_error(), cases[i].said))
            fail_msg("%s: %s", cases[i].what, tutti_last_error());
        tt_algo_remove_from(nalgos);
        tt_trampolines_free(0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unloadable_objects_are_refused_with_reason),
        cmocka_unit_test(invalid_programs_are_refused),
        cmocka_unit_test(in_place_alltoallv_is_never_used),
        cmocka_unit_test(valid_plug_in_fits_and_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
