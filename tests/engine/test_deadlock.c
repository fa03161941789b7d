/* No order of execution and delivery deadlocks the ranks: for registered algorithms, and for any
 * program that the verifier accepts. TUTTI_DEADLOCK_STATES: number of states of each search
 * (default: some seconds); TUTTI_TEST_SEED: first seed. A failure prints the case and its
 * adversary. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "adversary.h"
#include "algo/blocks.h"
#include "base/prng.h"
#include "programs.h"
#include "support/cases.h"
#include "support/unit.h"

#define STATES 2500000
#define RUNS_EACH 8 /* of a random program */

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 0) : otherwise;
}

static uint64_t states_wanted(void)
{
    return number_of("TUTTI_DEADLOCK_STATES", STATES / UNIT_SHARE);
}

/* ---- registered algorithms ---- */

/* Draws a count of elements of 8 bytes, for about 1 to 3 * depth segments per message or part of
 * it. */
static uint64_t draw_count(const struct case_spec *spec, const struct adversary_conf *c,
                           struct tt_prng *p)
{
    const enum tt_coll_kind kind = spec->algo->kind;
    const uint64_t segments = 1 + tt_prng_below(p, 3 * c->depth);
    const bool cut = kind == TT_ALLREDUCE || kind == TT_REDUCE || kind == TT_BROADCAST;
    const uint64_t count =
        segments * c->segment_bytes / 8 * (cut && tt_prng_below(p, 2) ? spec->nranks : 1);

    return tt_prng_below(p, 2)
               ? count
               : count -
                     tt_prng_below(p, c->segment_bytes / 8 < count ? c->segment_bytes / 8 : count);
}

/* Draws the configuration. Segments are short, or so long that the ring of reduce_scatter runs in
 * slabs of four. */
static void draw_conf(struct adversary_conf *c, struct tt_prng *p)
{
    static const uint64_t segments[] = { 64, 64, TT_SLAB_BYTES / 4 };

    c->segment_bytes = segments[tt_prng_below(p, 3)];
    c->eager_bytes = c->segment_bytes >> 3 * tt_prng_below(p, 3);
    if (tt_prng_below(p, 2))
        c->eager_bytes = 0;
    c->streams = (uint8_t)(1 + tt_prng_below(p, 3));
    c->depth = (uint8_t)(1u << tt_prng_below(p, 3));
}

/* Runs one case. Returns false if there is no such call. */
static bool run_case(uint64_t seed, uint64_t *states)
{
    static struct case_calls calls;
    struct adversary_conf c = { .seed = seed };
    struct case_spec spec = { .algo = tt_algos[seed % tt_nalgos], .elem_bytes = 8, .seed = seed };
    char why[1024] = "";
    struct tt_prng p;

    tt_prng_init(&p, seed);
    draw_conf(&c, &p);
    spec.nranks = c.nranks = 2 + (uint32_t)tt_prng_below(&p, ADVERSARY_RANKS_MAX - 1);
    spec.root = (uint32_t)tt_prng_below(&p, spec.nranks);
    spec.place = (enum case_place)tt_prng_below(&p, CASE_PLACES);
    spec.packed = tt_prng_below(&p, 2) || !case_is_v(spec.algo->kind);
    if (spec.algo->kind == TT_SEND || spec.algo->kind == TT_RECV)
        spec.nranks = c.nranks = 2;
    if (!case_is_rooted(spec.algo->kind))
        spec.root = 0;
    spec.count = draw_count(&spec, &c, &p);
    if (!case_exists(&spec))
        return false;
    case_make(&calls, &spec);
    if (!spec.algo->fits(&calls.coll[0]))
        return false;
    c.algo = spec.algo;
    c.coll = calls.coll;
    if (adversary_run(&c, states, why, sizeof why) != TUTTI_OK)
        case_fail(&spec, "%s (%s)", why, adversary_text(&c));
    return true;
}

static void no_registered_algorithm_deadlocks(void **state)
{
    const uint64_t wanted = states_wanted();
    uint64_t states = 0, runs = 0, seed = number_of("TUTTI_TEST_SEED", 0);

    (void)state;
    for (; states < wanted; seed++)
        runs += run_case(seed, &states);
    print_message("%" PRIu64 " runs, %" PRIu64 " states\n", runs, states);
    assert_in_range(runs, wanted / 20000, UINT64_MAX);
}

/* ---- random programs ---- */

static struct program program;

static tutti_status run_program(struct adversary_conf *c, uint64_t *states, char *why,
                                size_t why_bytes)
{
    c->algo = program_algo(&program);
    c->coll = program.coll;
    c->nranks = program.nranks;
    return adversary_run(c, states, why, why_bytes);
}

/* Runs a random program whose order the verifier accepts, as a whole or in segments, several times.
 * Returns the number of deadlocks. */
static uint32_t run_drawn(uint64_t seed, enum program_order *order, uint64_t *states)
{
    struct adversary_conf c = { .seed = seed };
    char why[1024] = "";
    struct tt_prng p;
    uint32_t stuck = 0;

    tt_prng_init(&p, seed);
    draw_conf(&c, &p);
    c.segment_bytes = 64;
    c.eager_bytes = c.eager_bytes > 64 ? 64 : c.eager_bytes;
    c.depth = (uint8_t)(1u << tt_prng_below(&p, 5));
    program_draw(&program, &p, c.segment_bytes, c.depth);
    *order = program_order(&program);
    for (uint32_t i = 0; i < RUNS_EACH && *order != ORDER_BAD; i++) {
        const tutti_status st = run_program(&c, states, why, sizeof why);

        if (st == TUTTI_ERR_INVALID || (st != TUTTI_OK && *order == ORDER_SOUND))
            fail_msg("program %" PRIu64 ": %s (%s)", seed, why, adversary_text(&c));
        stuck += st != TUTTI_OK;
        c.seed += 1000000007;
    }
    return stuck;
}

static void no_verified_program_deadlocks(void **state)
{
    const uint64_t wanted = states_wanted();
    uint64_t states = 0, seed = number_of("TUTTI_TEST_SEED", 0);
    uint32_t programs[3] = { 0, 0, 0 }, stuck = 0;

    (void)state;
    for (; states < wanted; seed++) {
        enum program_order order;

        stuck += run_drawn(seed, &order, &states) > 0;
        programs[order]++;
    }
    print_message("%u programs, %" PRIu64
                  " states; of %u that the verifier refuses for their segments %u get stuck\n",
                  programs[ORDER_SOUND], states, programs[ORDER_STUCK_IN_SEGMENTS], stuck);
    assert_in_range(programs[ORDER_SOUND], wanted / 40000, UINT32_MAX);
}

/* More concurrent pipes than staging buffers, over transports that need them: the pipe that all
 * others wait for may come last. */
static void needed_pipe_gets_its_staging(void **state)
{
    struct adversary_conf c = { .segment_bytes = 64 };
    uint64_t states = 0;
    char why[1024] = "";

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        if (!unit_draw())
            continue;
        c.depth = (uint8_t)(1u << i % 5);
        c.streams = (uint8_t)(1 + i / 5 % 3);
        c.seed = i;
        program_funnel(&program, 5 + i / 15 % 3, 1 + i / 45 % PROGRAM_ROUNDS_MAX,
                       64 * (1 + i % 37));
        assert_int_equal(program_order(&program), ORDER_SOUND);
        if (run_program(&c, &states, why, sizeof why) != TUTTI_OK)
            fail_msg("funnel %" PRIu64 ": %s (%s)", i, why, adversary_text(&c));
    }
}

/* Segments on both sides of a gap do not wait for the bytes in it. */
static void pieces_do_not_wait_for_gaps(void **state)
{
    struct adversary_conf c = { .segment_bytes = 64, .streams = 1 };
    uint64_t states = 0;
    char why[1024] = "";

    (void)state;
    for (uint64_t i = 0; i < 400; i++) {
        if (!unit_draw())
            continue;
        c.depth = (uint8_t)(1u << i % 3);
        c.seed = i;
        program_gap(&program, 64 * 10 + 8 * (i % 8));
        assert_int_equal(program_order(&program), ORDER_SOUND);
        if (run_program(&c, &states, why, sizeof why) != TUTTI_OK)
            fail_msg("gap %" PRIu64 ": %s (%s)", i, why, adversary_text(&c));
    }
}

/* ---- checks of the search itself ---- */

static void oversized_ring_of_pipes_deadlocks(void **state)
{
    struct adversary_conf c = { .segment_bytes = 64, .streams = 2, .depth = 4 };
    uint64_t states = 0;
    char why[1024];

    (void)state;
    for (uint32_t nranks = 4; nranks <= 6; nranks++) {
        program_ring_of_pipes(&program, nranks, 64);
        assert_int_equal(program_order(&program), ORDER_STUCK_IN_SEGMENTS);
        for (c.seed = 0; c.seed < 50; c.seed++)
            assert_int_equal(run_program(&c, &states, why, sizeof why), TUTTI_OK);
        program_ring_of_pipes(&program, nranks, 64 * 40);
        for (c.seed = 0; c.seed < 50; c.seed++)
            assert_int_equal(run_program(&c, &states, why, sizeof why), TUTTI_ERR_TIMEOUT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_registered_algorithm_deadlocks),
        cmocka_unit_test(no_verified_program_deadlocks),
        cmocka_unit_test(needed_pipe_gets_its_staging),
        cmocka_unit_test(pieces_do_not_wait_for_gaps),
        cmocka_unit_test(oversized_ring_of_pipes_deadlocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
