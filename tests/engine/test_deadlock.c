/* No order in which ranks go on, and messages are seen, leaves all of them waiting for each other. TUTTI_DEADLOCK_STATES: how many
 * states are searched (default: what takes a few seconds); TUTTI_TEST_SEED: another beginning of the search, or the one run that
 * a failure names. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "adversary.h"
#include "algo/blocks.h"
#include "base/prng.h"
#include "support/cases.h"
#include "support/unit.h"

#define STATES 8000000

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 0) : otherwise;
}

static uint64_t states_wanted(void) { return number_of("TUTTI_DEADLOCK_STATES", STATES / UNIT_SHARE); }

/* ---- registered algorithms --------------------------------------------------------------------------------- */

/* Elements of 8 bytes that make 1 to 3 * depth segments of what one rank sends another, or of a part of it; nearly. */
static uint64_t draw_count(const struct case_spec *spec, const struct adversary_conf *c, struct tt_prng *p)
{
    const enum tt_coll_kind kind = spec->algo->kind;
    const uint64_t segments = 1 + tt_prng_below(p, 3 * c->depth);
    const bool cut = kind == TT_ALLREDUCE || kind == TT_REDUCE || kind == TT_BROADCAST;
    const uint64_t count = segments * c->segment_bytes / 8 * (cut && tt_prng_below(p, 2) ? spec->nranks : 1);

    return tt_prng_below(p, 2) ? count : count - tt_prng_below(p, c->segment_bytes / 8 < count ? c->segment_bytes / 8 : count);
}

/* Segments are short, or as long as makes the ring of reduce_scatter go round in slabs of four. */
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

/* One run; false if there is no such call. */
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

static void no_algorithm_leaves_its_ranks_waiting_for_each_other(void **state)
{
    const uint64_t wanted = states_wanted();
    uint64_t states = 0, runs = 0, seed = number_of("TUTTI_TEST_SEED", 0);

    (void)state;
    for (; states < wanted; seed++)
        runs += run_case(seed, &states);
    print_message("%" PRIu64 " runs, %" PRIu64 " states\n", runs, states);
    assert_in_range(runs, wanted / 20000, UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_algorithm_leaves_its_ranks_waiting_for_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
