/* The register, the selection, and guarantees of every algorithm's table. */
#include <stdio.h>
#include <string.h>
#include "algo/blocks.h"
#include "rounds.h"
#include "support/cases.h"
#include "support/unit.h"

static const struct tt_cost_model model = {
    .message_ns = 1000, .byte_ns = 0.2, .reduce_byte_ns = 0.1, .copy_byte_ns = 0.1,
};

static void names_are_unique_with_collective_prefix(void **state)
{
    (void)state;
    for (size_t i = 0; i < tt_nalgos; i++) {
        const char *coll = tt_coll_name(tt_algos[i]->kind);
        const size_t n = strlen(coll);

        assert_true(strncmp(tt_algos[i]->name, coll, n) == 0 && tt_algos[i]->name[n] == '_');
        assert_true(strlen(tt_algos[i]->summary) > 0);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(tt_algos[i]->name, tt_algos[j]->name);
    }
}

static void conditional_algorithms_describe_their_requirements(void **state)
{
    (void)state;
    for (size_t i = 0; i < tt_nalgos; i++)
        if ((tt_algos[i]->fits == tt_fits_always) != (tt_algos[i]->needs == NULL))
            fail_msg("%s %s", tt_algos[i]->name,
                     tt_algos[i]->needs ? "always fits, and needs something"
                                        : "does not say what it needs");
}

static void algorithms_have_long_and_short_names(void **state)
{
    const struct tt_coll c = { .kind = TT_ALLREDUCE, .nranks = 3, .elem_bytes = 4, .bytes = 64 };
    const struct tt_coll large = {
        .kind = TT_ALLTOALL, .nranks = 3, .elem_bytes = 4, .bytes = 1 << 30
    };

    (void)state;
    assert_string_equal(tt_algo_find(&c, "allreduce_ring")->name, "allreduce_ring");
    assert_string_equal(tt_algo_find(&c, "ring")->name, "allreduce_ring");
    assert_null(tt_algo_find(&c, "allgather_ring"));
    assert_null(tt_algo_find(&c, "triangle"));
    assert_false(tt_algo_fits(tt_algo_find(&large, "bruck"), &large));     /* selected only by
                                                                              name */
    for (size_t i = 0; i < tt_nalgos; i++) {
        struct case_calls calls;
        struct case_spec spec = {
            .algo = tt_algos[i], .nranks = 4, .elem_bytes = 4, .count = 4, .packed = true
        };

        case_make(&calls, &spec);
        while (!spec.algo->fits(&calls.coll[0]) && spec.layout + 1 < CASE_LAYOUTS) {
            spec.layout++;
            case_make(&calls, &spec);
        }
        calls.coll[0].kind = spec.algo->kind;
        assert_ptr_equal(tt_algo_find(&calls.coll[0], spec.algo->name), spec.algo);
        assert_ptr_equal(tt_algo_find(&calls.coll[0],
                                      spec.algo->name + strlen(tt_coll_name(spec.algo->kind)) + 1),
                         spec.algo);
    }
}

static void every_collective_has_an_algorithm(void **state)
{
    static const uint32_t nranks[] = { 1, 2, 3, 17, 131072 };
    static const uint64_t bytes[] = { 0, 4, 1 << 20, 1ull << 40 };

    (void)state;
    for (unsigned kind = 0; kind < TT_COLL_KINDS; kind++)
        for (int i = 0; i < 5 * 4; i++) {
            const struct tt_coll c = {
                .kind = (enum tt_coll_kind)kind, .nranks = nranks[i % 5], .elem_bytes = 4,
                .bytes = kind == TT_BARRIER ? 0 : bytes[i / 5],
            };
            const struct tt_algo *algo;

            if (case_is_v(c.kind))
                continue;       /* see the next test */
            algo = tt_algo_choose(&c, &model);
            assert_non_null(algo);
            assert_int_equal(algo->kind, kind);
        }
}

/* Checks the selection for any rank, and in alltoallv for any sizes. */
static void choose(const struct case_spec *spec, const struct case_calls *calls)
{
    const struct tt_algo *first = NULL;

    if (!unit_draw())
        return;
    for (uint32_t r = 0; r < spec->nranks; r++) {
        struct tt_coll c = calls->coll[r];
        const struct tt_algo *algo;

        if (c.kind == TT_RECV)
            continue;
        algo = tt_algo_choose(&c, &model);
        assert_non_null(algo);
        if (r == 0)
            first = algo;
        if (algo != first)
            case_fail(spec, "rank 0 chooses %s, rank %u %s", first->name, r, algo->name);
        if (algo->by_name)
            case_fail(spec, "%s is chosen, though it must be named", algo->name);
        for (size_t a = 0; a < tt_nalgos; a++) {
            struct tt_coll other = calls->coll[0];

            other.in_place = !other.in_place;
            if (tt_algos[a]->kind == c.kind && tt_algos[a]->fits(&c) != tt_algos[a]->fits(&other))
                case_fail(spec, "%s fits on some ranks only", tt_algos[a]->name);
        }
    }
}

static void all_ranks_choose_the_same(void **state)
{
    static const uint64_t counts[] = { 0, 1, 5000, 200000 };

    (void)state;
    assert_in_range(case_for_each(9, counts, 4, 1, choose), 1000, 1000000);
}

static void costs_count_slow_links(void **state)
{
    const struct tt_coll small = {
        .kind = TT_ALLREDUCE, .nranks = 64, .elem_bytes = 4, .bytes = 8
    };
    const struct tt_coll large = {
        .kind = TT_ALLREDUCE, .nranks = 64, .elem_bytes = 4, .bytes = 256 << 20
    };
    const struct tt_cost cost = { .messages = 2, .bytes = 100, .reduced = 50, .copied = 10 };

    (void)state;
    assert_true(tt_cost_ns(&cost, &model) == 2000 + 20 + 5 + 1);
    assert_string_not_equal(tt_algo_choose(&small, &model)->name, "allreduce_ring");
    assert_string_not_equal(tt_algo_choose(&large, &model)->name, "allreduce_onestep");
    assert_string_not_equal(tt_algo_choose(&large, &model)->name, "allreduce_doubling");
}

/* ---- guarantees of rounds ---- */

static void look_at_rounds(const struct case_spec *spec, const struct case_calls *calls)
{
    static struct round_steps rounds[CASE_RANKS_MAX];
    const uint64_t nrounds = spec->algo->nrounds(&calls->coll[0]);

    if (!unit_draw())
        return;
    for (uint32_t r = 1; r < spec->nranks; r++)
        if (spec->algo->nrounds(&calls->coll[r]) != nrounds)
            case_fail(spec, "rank %u has another number of rounds", r);
    for (uint64_t k = 0; k < nrounds; k++) {
        for (uint32_t r = 0; r < spec->nranks; r++)
            round_emit(&rounds[r], spec->algo, &calls->coll[r], k);
        for (uint32_t r = 0; r < spec->nranks; r++) {
            const char *flaw = round_flaw(rounds, r, false);

            if (flaw)
                case_fail(spec, "round %u of rank %u %s", (unsigned)k, r, flaw);
        }
    }
}

static void both_ends_are_in_one_round(void **state)
{
    static const uint64_t counts[] = { 0, 1, 7, 70000 };

    (void)state;
    assert_in_range(case_for_each(17, counts, 4, 1, look_at_rounds), 1000, 1000000);
}

static void count_peers(const struct case_spec *spec, const struct case_calls *calls)
{
    if (!unit_draw())
        return;
    for (uint32_t r = 0; r < spec->nranks; r++) {
        const struct tt_coll *c = &calls->coll[r];
        uint64_t seen = 0;
        uint32_t n;

        for (uint64_t k = 0; k < spec->algo->nrounds(c); k++) {
            struct round_steps round;

            round_emit(&round, spec->algo, c, k);
            for (uint32_t i = 0; i < round.s.n; i++)
                if (round.step[i].opcode == TT_PUT || round.step[i].opcode == TT_WAIT)
                    seen |= 1ull << round.step[i].peer;
        }
        n = (uint32_t)__builtin_popcountll(seen);
        if (n > spec->algo->npeers(c))
            case_fail(spec, "rank %u has %u peers, not at most %u", r, n, spec->algo->npeers(c));
    }
}

static void peers_stay_within_the_declared_number(void **state)
{
    static const uint64_t counts[] = { 3 };

    (void)state;
    assert_in_range(case_for_each(33, counts, 1, 1, count_peers), 1000, 1000000);
}

/* An algorithm that is used only by name may need a few times the input of all ranks as memory. */
static void work_memory_is_small(void **state)
{
    static const uint64_t bytes[] = { 8, 4096, 1 << 20, 1ull << 33 };

    (void)state;
    for (size_t a = 0; a < tt_nalgos; a++)
        for (uint32_t i = 0; i < 4 * 64; i++) {
            const struct tt_coll c = {
                .kind = tt_algos[a]->kind,
                .nranks = 1 + i / 4,
                .rank = i / 8,
                .elem_bytes = 8,
                .bytes = bytes[i % 4],
                .in_place = i % 3 == 0,
            };

            if (case_is_v(c.kind) || !tt_algo_fits_named(tt_algos[a], &c))
                continue;
            if (tt_algos[a]->fits(&c))
                assert_in_range(tt_algos[a]->work_bytes(&c), 0, TT_WORK_MAX + TT_SLAB_BYTES);
            else
                assert_in_range(tt_algos[a]->work_bytes(&c), 0, 3 * (c.nranks + 1) * c.bytes);
        }
}

/* A ring with 131,072 ranks has 262,142 rounds; each can be emitted alone. */
static void single_round_of_131072_ranks_works(void **state)
{
    const struct tt_coll call = { .nranks = 131072, .elem_bytes = 4, .bytes = 131072 * 64ull };
    uint64_t emitted = 0;

    (void)state;
    for (size_t a = 0; a < tt_nalgos; a++) {
        struct tt_coll c = call;
        struct round_steps round;
        uint64_t nrounds;

        c.kind = tt_algos[a]->kind;
        if (case_is_v(c.kind) || !tt_algos[a]->fits(&c))
            continue;
        nrounds = tt_algos[a]->nrounds(&c);
        for (uint64_t k = 0; k < nrounds; k += unit_share() + nrounds / 100000)
            for (c.rank = 0; c.rank < c.nranks; c.rank += 13107) {
                round_emit(&round, tt_algos[a], &c, k);
                emitted += round.s.n;
            }
    }
    assert_in_range(emitted, 1000000 / unit_share(), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique_with_collective_prefix),
        cmocka_unit_test(conditional_algorithms_describe_their_requirements),
        cmocka_unit_test(algorithms_have_long_and_short_names),
        cmocka_unit_test(every_collective_has_an_algorithm),
        cmocka_unit_test(all_ranks_choose_the_same),
        cmocka_unit_test(costs_count_slow_links),
        cmocka_unit_test(both_ends_are_in_one_round),
        cmocka_unit_test(peers_stay_within_the_declared_number),
        cmocka_unit_test(work_memory_is_small),
        cmocka_unit_test(single_round_of_131072_ranks_works),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
