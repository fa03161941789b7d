/* Every algorithm, proven by the verifier. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "support/cases.h"
#include "sched/verify.h"
#include "support/unit.h"

static void prove(const struct case_spec *spec, const struct case_calls *calls)
{
    struct tt_program p;
    char why[1024] = "";

    assert_int_equal(tt_program_init(&p, spec->algo, calls->coll, spec->nranks), TUTTI_OK);
    if (tt_verify(&p, why, sizeof why) != TUTTI_OK)
        case_fail(spec, "%s", why);
    tt_program_fini(&p);
}

static void prove_some(const struct case_spec *spec, const struct case_calls *calls)
{
    if (unit_draw())
        prove(spec, calls);
}

static void every_algorithm_is_proven_to_17(void **state)
{
    static const uint64_t counts[] = { 0, 1, 7, 4096, 65537 };

    (void)state;
    assert_in_range(case_for_each(17, counts, 5, 1, prove_some), 10000, 1000000);
}

static uint64_t nproven;

static void prove_and_count(const struct case_spec *spec, const struct case_calls *calls)
{
    prove(spec, calls);
    nproven++;
}

/* Blocks longer than a slab are proven for fewer ranks, above. With TUTTI_TEST_LONG=1 all cases
 * run, which takes hours: TUTTI_TEST_PART divides them into parts, and
 * TUTTI_TEST_ALGO=allreduce_ftar selects algorithms whose names start with it. */
static void every_algorithm_is_proven_to_64(void **state)
{
    static const uint64_t counts[] = { 65537, 7, 4096, 1 };

    (void)state;
    if (!case_all()) {
        assert_in_range(case_for_some(18, CASE_RANKS_MAX, counts, 4, 1, prove_some), 1000, 1000000);
        return;
    }
    assert_in_range(case_for_each(CASE_RANKS_MAX, counts, 4, 2, prove_and_count), 10000, 10000000);
    print_message("%" PRIu64 " cases proven\n", nproven);
    assert_in_range(nproven, 1, 10000000);
}

static uint64_t nbarriers, nothers;

static void count_barriers(const struct case_spec *spec, const struct case_calls *calls)
{
    (void)calls;
    nbarriers += spec->algo->kind == TT_BARRIER;
    nothers += spec->algo->kind != TT_BARRIER;
}

static void only_selected_algorithms_are_tried(void **state)
{
    static const uint64_t counts[] = { 1 };
    const char *asked = getenv("TUTTI_TEST_ALGO");
    char *before = asked ? strdup(asked) : NULL;
    uint64_t all;

    (void)state;
    setenv("TUTTI_TEST_ALGO", "", 1);
    case_for_each(3, counts, 1, 1, count_barriers);
    all = nbarriers;
    nbarriers = nothers = 0;
    setenv("TUTTI_TEST_ALGO", "barrier_", 1);
    case_for_each(3, counts, 1, 1, count_barriers);
    case_for_some(3, 3, counts, 1, 1, count_barriers);
    if (before)
        setenv("TUTTI_TEST_ALGO", before, 1);
    else
        unsetenv("TUTTI_TEST_ALGO");
    free(before);
    assert_int_equal(nothers, 0);
    assert_in_range(nbarriers, all + 1, 2 * all);
    assert_in_range(all, 1, 1000);
}

#define HEAD_RANKS 33
#define SLOT 100

/* Creates the header exchange of dynamic exchanges (src/moe): a message of up to SLOT bytes from
 * each rank to each other one, whose length only the sender knows. */
static void make_heads(struct case_calls *calls, const struct case_spec *spec)
{
    const uint32_t n = spec->nranks;

    for (uint32_t r = 0; r < n; r++) {
        uint64_t at = 0;

        for (uint32_t peer = 0; peer < n; peer++) {
            calls->send_bytes[r][peer] =
                peer == r ? 0 : tt_mix64(spec->seed + r * n + peer) % (SLOT + 1);
            calls->recv_bytes[r][peer] = SLOT;
            calls->send_displs[r][peer] = calls->recv_displs[r][peer] = peer * SLOT;
            calls->send_first[r][peer] = at;
            calls->sent[r][at] = (struct tt_stretch){ .bytes = calls->send_bytes[r][peer] };
            calls->received[r][at] = (struct tt_stretch){ .bytes = SLOT };
            at += peer != r;
        }
        calls->send_first[r][n] = at;
        calls->stretches[r] = (struct tt_stretches){
            .send = calls->sent[r], .recv = calls->received[r], .send_first = calls->send_first[r],
            .recv_first = calls->send_first[r], .most = 1, .at_most = true,
        };
        calls->coll[r] = (struct tt_coll){
            .kind = TT_ALLTOALLV,
            .rank = r,
            .nranks = n,
            .elem_bytes = 1,
            .stretches = &calls->stretches[r],
            .send_bytes = calls->send_bytes[r],
            .send_displs = calls->send_displs[r],
            .recv_bytes = calls->recv_bytes[r],
            .recv_displs = calls->recv_displs[r],
        };
    }
}

static void headers_of_unknown_length_are_proven(void **state)
{
    static struct case_calls calls;

    (void)state;
    for (uint32_t n = 1; n <= HEAD_RANKS; n++) {
        const struct case_spec spec = {
            .algo = &tt_algo_alltoallv_stretches, .nranks = n, .elem_bytes = 1, .seed = n
        };

        make_heads(&calls, &spec);
        prove(&spec, &calls);
    }
}

/* The round of a fake algorithm: a rank has a step only if another rank is on its host. */
static void round_on_host(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)k;
    if (c->layout && tt_layout_host_ranks(c->layout, tt_layout_host(c->layout, c->rank)) > 1)
        tt_sched_copy(s, tt_dst(0), tt_src(0), c->bytes);
}

static void only_layout_users_see_all_layouts(void **state)
{
    const struct tt_algo nosy = {
        .name = "allgather_nosy",
        .kind = TT_ALLGATHER,
        .fits = tt_fits_always,
        .nrounds = tt_rounds_one,
        .round = round_on_host,
    };
    uint32_t hosts[CASE_LAYOUTS], g;

    (void)state;
    assert_true(case_sees_layout(&nosy));
    assert_false(case_sees_layout(
        tt_algo_find(&(struct tt_coll){ .kind = TT_ALLGATHER, .nranks = 4 }, "ring")));
    for (int i = 1; i < CASE_LAYOUTS; i++)
        hosts[i] = case_layout((enum case_layout)i, 16)->nhosts;
    assert_int_equal(hosts[LAYOUT_ONE_HOST], 1);
    assert_int_equal(hosts[LAYOUT_HOSTS_OF_3], 6);
    assert_int_equal(hosts[LAYOUT_SPREAD], 4);
    assert_int_equal(hosts[LAYOUT_GROWING], 6);
    assert_true(tt_layout_fills(case_layout(LAYOUT_SPREAD, 16)) &&
                !tt_layout_is_regular(case_layout(LAYOUT_SPREAD, 16)));
    assert_false(tt_layout_is_even(case_layout(LAYOUT_GROWING, 16), &g));
    assert_false(tt_layout_is_even(case_layout(LAYOUT_DEALT, 16), &g));
    assert_false(tt_layout_is_even(case_layout(LAYOUT_DRAWN, 16), &g));
    assert_int_not_equal(tt_layout_host(case_layout(LAYOUT_DEALT, 16), 0),
                         tt_layout_host(case_layout(LAYOUT_DEALT, 16), 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_layout_users_see_all_layouts),
        cmocka_unit_test(only_selected_algorithms_are_tried),
        cmocka_unit_test(headers_of_unknown_length_are_proven),
        cmocka_unit_test(every_algorithm_is_proven_to_17),
        cmocka_unit_test(every_algorithm_is_proven_to_64),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
