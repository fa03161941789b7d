/* Slow ranks, slow links and late callers of simulated training jobs with noise: each is named
 * within 10 windows, nothing else is named, and nothing at all in jobs without a fault. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/unit.h"

#include "analyze/pace.h"
#include "base/prng.h"

#define US 1000.0
#define WINDOWS 12u
#define ITERATIONS 20u          /* of a window */
#define RANKS_MAX 1024u

enum fault { NONE, LATE, SLOW_ALL, SLOW_SELF, LINK, FAULTS };

static const char *const fault_names[] = { "none", "late", "slow (all wait)", "slow (itself)",
                                           "link" };

struct sim {
    struct tt_prng prng;
    struct tt_pace *pace;
    uint32_t n, tensor;         /* ranks; size of a tensor group */
    enum fault fault;
    uint32_t culprit, begins;   /* rank; window */
    bool has_fault;             /* now */
    double clock[RANKS_MAX], idle[RANKS_MAX];   /* ns; end of the last operation */
    uint32_t groups[3][RANKS_MAX];              /* tensor, data, links: numbers in *pace */
    uint64_t seed;
};

/* Approximately normal; rarely multiplied, as by a disturbance from other programs. */
static double noise(struct sim *s, double width)
{
    double sum = 0;

    for (int k = 0; k < 4; k++)
        sum += (double)tt_prng_below(&s->prng, 1000000) / 1e6 - 0.5;
    sum = exp(sum * 1.7 * width);
    return tt_prng_below(&s->prng, 1000) == 0 ? sum * (2 + (double)tt_prng_below(&s->prng, 8))
                                              : sum;
}

/* One operation of ranks first, first + step, ... (n of them), modulo all ranks. */
static void run_op(struct sim *s, uint32_t group, uint32_t class, uint32_t first, uint32_t step,
                   uint32_t n, double usual)
{
    static int64_t called[RANKS_MAX], ended[RANKS_MAX], outside[RANKS_MAX];
    const double transfer = usual * noise(s, 0.15);
    const uint32_t other = (s->culprit + 1) % s->n;
    const struct tt_pace_op op = { .group = group,
                                   .class = class + 1,
                                   .is_mutual = class != 2,
                                   .called = called,
                                   .ended = ended,
                                   .outside = outside };
    bool has_culprit = false, has_other = false;
    double last = 0;

    for (uint32_t k = 0; k < n; k++) {
        const uint32_t r = (first + k * step) % s->n;

        called[k] = (int64_t)s->clock[r];
        outside[k] = (int64_t)(s->clock[r] - s->idle[r]);
        last = s->clock[r] > last ? s->clock[r] : last;
        has_culprit |= r == s->culprit;
        has_other |= r == other;
    }
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t r = (first + k * step) % s->n;
        double mine = transfer * noise(s, 0.03);

        if (s->has_fault && has_culprit &&
            (s->fault == SLOW_ALL || (s->fault == SLOW_SELF && r == s->culprit) ||
             (s->fault == LINK && class == 2 && has_other)))
            mine *= 2;
        s->clock[r] = s->idle[r] = last + mine;
        ended[k] = (int64_t)s->clock[r];
    }
    assert_int_equal(tt_pace_add(s->pace, &op), TUTTI_OK);
}

static void iterate(struct sim *s)
{
    for (uint32_t r = 0; r < s->n; r++)
        s->clock[r] += 900 * US * noise(s, 0.05) *
                       (s->has_fault && s->fault == LATE && r == s->culprit ? 1.6 : 1);
    for (uint32_t g = 0; g < s->n / s->tensor; g++)
        run_op(s, s->groups[0][g], 0, g * s->tensor, 1, s->tensor, 200 * US);
    for (uint32_t odd = 0; odd < 2; odd++)
        for (uint32_t r = odd; r < s->n; r += 2)
            run_op(s, s->groups[2][r], 2, r, 1, 2, 100 * US);
    for (uint32_t g = 0; g < s->tensor; g++)
        run_op(s, s->groups[1][g], 1, g, s->tensor, s->n / s->tensor, 300 * US);
}

static uint32_t add_group(struct sim *s, uint32_t first, uint32_t step, uint32_t n)
{
    static uint32_t ranks[RANKS_MAX];

    for (uint32_t k = 0; k < n; k++)
        ranks[k] = (first + k * step) % s->n;
    return tt_pace_add_group(s->pace, ranks, n);
}

static void sim_init(struct sim *s, uint64_t seed, uint32_t n, enum fault fault)
{
    memset(s, 0, sizeof *s);
    tt_prng_init(&s->prng, seed);
    s->seed = seed;
    s->n = n;
    s->tensor = n >= 16 && tt_prng_below(&s->prng, 2) ? 8 : 4;
    s->fault = fault;
    s->culprit = (uint32_t)tt_prng_below(&s->prng, n);
    s->begins = (uint32_t)tt_prng_below(&s->prng, 2);
    s->pace = tt_pace_create(n);
    assert_non_null(s->pace);
    for (uint32_t g = 0; g < n / s->tensor; g++)
        s->groups[0][g] = add_group(s, g * s->tensor, 1, s->tensor);
    for (uint32_t g = 0; g < s->tensor; g++)
        s->groups[1][g] = add_group(s, g, s->tensor, n / s->tensor);
    for (uint32_t r = 0; r < n; r++)
        s->groups[2][r] = add_group(s, r, 1, 2);
}

static void run(struct sim *s)
{
    for (uint32_t w = 0; w < WINDOWS; w++) {
        const double begin = s->clock[0];

        s->has_fault = s->fault != NONE && w >= s->begins;
        for (uint32_t i = 0; i < ITERATIONS; i++)
            iterate(s);
        assert_int_equal(tt_pace_close(s->pace, (int64_t)(s->clock[0] - begin)), TUTTI_OK);
    }
}

static bool is_right(const struct sim *s, const struct tt_pace_found *f)
{
    const uint32_t other = (s->culprit + 1) % s->n;

    switch (s->fault) {
    case LATE: return f->kind == TT_PACE_LATE && f->rank == s->culprit && f->lost_ns > 0;
    case SLOW_ALL:
    case SLOW_SELF: return f->kind == TT_PACE_RANK && f->rank == s->culprit;
    case LINK:
        return f->kind == TT_PACE_LINK && f->rank == s->culprit && f->to == other &&
               f->factor > TT_PACE_SLOW;
    default: return false;
    }
}

/* Checks that the culprit, and no other rank, was named in time. */
static void check(const struct sim *s)
{
    uint32_t n, nright = 0;
    const struct tt_pace_found *f = tt_pace_found(s->pace, &n);

    for (uint32_t i = 0; i < n; i++)
        if (!is_right(s, &f[i]))
            fail_msg("seed %llu, %u ranks, %s of rank %u: found kind %d, rank %u, to %u, window %u",
                     (unsigned long long)s->seed, s->n, fault_names[s->fault], s->culprit,
                     (int)f[i].kind, f[i].rank, f[i].to, f[i].first);
        else
            nright += f[i].first < s->begins + 10;
    if (nright != (s->fault != NONE))
        fail_msg("seed %llu, %u ranks: %s of rank %u was not found in 10 windows",
                 (unsigned long long)s->seed, s->n, fault_names[s->fault], s->culprit);
}

static void run_one(uint64_t seed, uint32_t n, enum fault fault)
{
    static struct sim s;

    sim_init(&s, seed, n, fault);
    run(&s);
    check(&s);
    tt_pace_destroy(s.pace);
}

static uint32_t size_of(uint64_t seed)
{
    static const uint32_t sizes[] = { 16, 32, 64, 128 };

    return seed % 50 == 49 ? RANKS_MAX : sizes[seed % 4];
}

static void clean_jobs_have_no_findings(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++)
        if (seed % UNIT_SHARE == 0)
            run_one(1000 * unit_turn() + seed, size_of(seed), NONE);
}

static void faults_are_found_and_no_other_rank_is_named(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++)
        for (enum fault f = LATE; f < FAULTS; f++)
            if ((seed + (uint64_t)f) % (4 * UNIT_SHARE) == 0)
                run_one(1000 * unit_turn() + seed, size_of(seed), f);
}

/* ---- bounds for hostile dumps ---- */

/* Adds one message from ranks[0] to ranks[1] of a group. */
static void add_message(struct tt_pace *p, uint32_t group, uint64_t class, int64_t transfer)
{
    const int64_t called[] = { 0, 0 }, ended[] = { transfer, transfer }, outside[] = { 0, 0 };

    assert_int_equal(tt_pace_add(p, &(struct tt_pace_op){ .group = group,
                                                          .class = class,
                                                          .called = called,
                                                          .ended = ended,
                                                          .outside = outside }),
                     TUTTI_OK);
}

/* Each message has a different size: in one window, TT_PACE_SERIES_MAX sizes are kept, and the
 * others are counted. */
static void sizes_beyond_the_bound_are_counted(void **state)
{
    const uint32_t pair[] = { 0, 1 }, more = 1000;
    struct tt_pace *p = tt_pace_create(2);
    struct tt_pace_counts c;
    uint32_t group, n;

    (void)state;
    assert_non_null(p);
    group = tt_pace_add_group(p, pair, 2);
    for (uint64_t i = 0; i < TT_PACE_SERIES_MAX + more; i++)
        add_message(p, group, i + 1, 100);
    assert_int_equal(tt_pace_close(p, 1000), TUTTI_OK);
    c = tt_pace_counts(p);
    assert_int_equal(c.nseries_most, TT_PACE_SERIES_MAX);
    assert_int_equal(c.nskipped, more);
    assert_true(c.bytes_most <= 160ul * TT_PACE_SERIES_MAX);
    tt_pace_found(p, &n);
    assert_int_equal(n, 0);

    add_message(p, group, 1ull << 40, 100);     /* replaces a size that had too few messages */
    assert_int_equal(tt_pace_counts(p).nskipped, more);
    tt_pace_destroy(p);
}

/* Sizes of earlier windows need no memory if they had too few messages. */
static void sizes_of_earlier_windows_need_no_memory(void **state)
{
    const uint32_t pair[] = { 0, 1 }, each = 1000, windows = 300;
    struct tt_pace *p = tt_pace_create(2);
    struct tt_pace_counts c;
    uint32_t group;

    (void)state;
    assert_non_null(p);
    group = tt_pace_add_group(p, pair, 2);
    for (uint64_t i = 0; i < each * windows; i++) {
        add_message(p, group, i + 1, 100);
        if (i % each == each - 1)
            assert_int_equal(tt_pace_close(p, 1000), TUTTI_OK);
    }
    c = tt_pace_counts(p);
    assert_int_equal(c.nskipped, 0);
    assert_in_range(c.nseries_most, each, 5 * each + each);
    assert_true(c.bytes_most <= 160ul * 6 * each);
    assert_true(c.nsteps <= 32ul * each * windows);
    tt_pace_destroy(p);
}

/* Each slow group has all ranks but one, so any two ranks share all but two of the slow groups. An
 * equal number of groups of other ranks is fast. */
static void overlapping_groups_cost_linear_steps(void **state)
{
    static uint32_t ranks[128];
    static const int64_t zero[128];
    static int64_t ended[128];

    (void)state;
    for (uint32_t n = 16; n <= 128; n *= 2) {
        struct tt_pace *p = tt_pace_create(2 * n);
        uint32_t nfound;

        assert_non_null(p);
        for (uint32_t g = 0; g < 2 * n; g++) {
            for (uint32_t k = 0; k + 1 < n; k++)
                ranks[k] = g / n * n + (k < g % n ? k : k + 1);
            assert_int_equal(tt_pace_add_group(p, ranks, n - 1), g);
        }
        for (uint32_t i = 0; i < 2 * n * TT_PACE_OPS_MIN; i++) {
            const struct tt_pace_op op = {
                .group = i % (2 * n), .class = 1, .called = zero, .ended = ended, .outside = zero
            };

            for (uint32_t k = 0; k < n; k++)
                ended[k] = i % (2 * n) < n ? 200 : 100;
            assert_int_equal(tt_pace_add(p, &op), TUTTI_OK);
        }
        assert_int_equal(tt_pace_close(p, 1000), TUTTI_OK);
        assert_true(tt_pace_counts(p).nsteps <= (TT_PACE_STEPS + 16ul) * 2 * n * n);
        assert_true(n < 128 || tt_pace_counts(p).nunjudged > 0);
        tt_pace_found(p, &nfound);
        assert_int_equal(nfound, 0);
        tt_pace_destroy(p);
    }
}

/* Half of all pairs are slow in each window, so there is a finding for each of them. */
static void many_findings_cost_linear_steps(void **state)
{
    (void)state;
    for (uint32_t n = 1000; n <= 16000; n *= 4) {
        struct tt_pace *p = tt_pace_create(2 * n);
        uint32_t nfound, nwindows = 2 * TT_PACE_STREAK;
        const struct tt_pace_found *f;

        assert_non_null(p);
        for (uint32_t g = 0; g < n; g++) {
            const uint32_t pair[] = { 2 * g, 2 * g + 1 };

            tt_pace_add_group(p, pair, 2);
        }
        for (uint32_t w = 0; w < nwindows; w++) {
            for (uint32_t i = 0; i < n * TT_PACE_OPS_MIN; i++)
                add_message(p, i % n, 1, i % n < n / 2 ? 200 : 100);
            assert_int_equal(tt_pace_close(p, 1000), TUTTI_OK);
        }
        f = tt_pace_found(p, &nfound);
        assert_int_equal(nfound, n / 2);
        for (uint32_t i = 0; i < nfound; i++)
            assert_true(f[i].kind == TT_PACE_GROUP && f[i].group == i &&
                        f[i].nwindows == nwindows + 1 - TT_PACE_STREAK);
        assert_true(tt_pace_counts(p).nsteps <= 16ul * n * nwindows);
        tt_pace_destroy(p);
    }
}

/* A window costs nothing for groups without operations in it. */
static void windows_cost_steps_only_for_their_operations(void **state)
{
    const uint32_t n = 20000;
    struct tt_pace *p = tt_pace_create(2 * n);

    (void)state;
    assert_non_null(p);
    for (uint32_t g = 0; g < n; g++) {
        const uint32_t pair[] = { 2 * g, 2 * g + 1 };

        tt_pace_add_group(p, pair, 2);
    }
    for (uint32_t g = 0; g < n; g++) {
        add_message(p, g, 1, 100);
        assert_int_equal(tt_pace_close(p, 1000), TUTTI_OK);
    }
    assert_true(tt_pace_counts(p).nsteps <= 64ul * n);
    tt_pace_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clean_jobs_have_no_findings),
        cmocka_unit_test(faults_are_found_and_no_other_rank_is_named),
        cmocka_unit_test(sizes_beyond_the_bound_are_counted),
        cmocka_unit_test(sizes_of_earlier_windows_need_no_memory),
        cmocka_unit_test(overlapping_groups_cost_linear_steps),
        cmocka_unit_test(many_findings_cost_linear_steps),
        cmocka_unit_test(windows_cost_steps_only_for_their_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
