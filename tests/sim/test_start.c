/* Simulated start-ups: sums by level, findings, full backlogs, and the baseline.
 * tests/boot/test_tree.c checks the results of the ranks. */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "sim/start_central.h"
#include "sim/start_levels.h"

static struct tt_start_report report_of(const struct tt_start_conf *conf)
{
    struct tt_start *s = tt_start_create(conf);
    struct tt_start_report r;

    tt_start_run(s);
    tt_start_report_of(s, &r);
    tt_start_destroy(s);
    return r;
}

static struct tt_start_conf conf_of(uint32_t nranks)
{
    return (struct tt_start_conf){ .nranks = nranks,
                                   .per_host = 8,
                                   .hinted = true,
                                   .places = TT_START_PLACES_ALIKE,
                                   .latency_ns = 100000,
                                   .byte_ns = 1,
                                   .start_ns = TT_SECOND / 2,
                                   .seed = 3 };
}

static void check_level(const struct tt_start_level *l)
{
    for (int k = 0; k < TT_START_PHASES; k++) {
        if (!l->nreached[k])
            continue;
        assert_true(l->first_ns[k] <= l->last_ns[k]);
        assert_true(l->nreached[k] <= l->nprocesses);
    }
    assert_true(l->busy_most_ns > 0);
    assert_true(l->bytes_most <= l->bytes && l->received_most <= l->bytes_most);
}

/* 64 hosts with 4 leaders at each server, so that leaders are on three levels. */
static void levels_have_all_processes_and_messages(void **state)
{
    struct tt_start_conf conf = conf_of(512);
    struct tt_start_report r;
    uint32_t nprocesses = 0, nranks = 0, nleaders = 0;

    (void)state;
    conf.children_max = 4;
    r = report_of(&conf);
    assert_int_equal(r.nplaced, 512);
    assert_int_equal(r.level[0].kind, TT_START_LEVEL_ROOT);
    assert_int_equal(r.level[r.nlevels - 1].kind, TT_START_LEVEL_RANKS);
    for (uint32_t i = 0; i < r.nlevels; i++) {
        const struct tt_start_level *l = &r.level[i];

        check_level(l);
        nprocesses += l->nprocesses;
        nleaders += l->kind == TT_START_LEVEL_LEADERS ? l->nprocesses : 0;
        nranks += i ? l->nreached[TT_START_PHASE_PLACED] : 0;
        if (l->kind == TT_START_LEVEL_LEADERS) {
            assert_int_equal(l->depth, i);
            assert_true(l->nprocesses <= (i == 1 ? 4u : i == 2 ? 16u : 64u));
            assert_int_equal(l->work[TT_START_DOWN].n, l->nprocesses);
        }
        assert_true(l->last_ns[TT_START_PHASE_PLACED] <= r.time_ns);
    }
    assert_true(r.nlevels >= 5);
    assert_int_equal(nleaders, 64);
    assert_int_equal(nprocesses, 513);
    assert_int_equal(nranks, 512);
    /* each rank is accepted once more for each redirection of its leader, or retry */
    assert_true(r.level[0].work[TT_START_ACCEPT].n >= 64);
}

static void seed_determines_the_start(void **state)
{
    struct tt_start_conf conf = conf_of(256);
    struct tt_start_report a, b;

    (void)state;
    a = report_of(&conf);
    b = report_of(&conf);
    assert_memory_equal(&a, &b, sizeof a);
    conf.seed++;
    b = report_of(&conf);
    assert_int_not_equal(a.time_ns, b.time_ns);
}

static void lost_messages_delay_the_start(void **state)
{
    struct tt_start_conf conf = conf_of(512);
    struct tt_start_report without, with;

    (void)state;
    without = report_of(&conf);
    conf.loss = 0.02;
    with = report_of(&conf);
    assert_int_equal(without.lost, 0);
    assert_true(with.lost > with.messages / 100 && with.lost < with.messages / 25);
    assert_int_equal(with.nplaced, 512);
    assert_true(with.time_ns > without.time_ns);
}

static void time_per_message_delays_the_start(void **state)
{
    struct tt_start_conf conf = conf_of(2048);
    struct tt_start_report fast, slow;

    (void)state;
    fast = report_of(&conf);
    conf.message_ns = 50 * TT_START_MESSAGE_NS;
    slow = report_of(&conf);
    assert_true(slow.time_ns > fast.time_ns);
    assert_true(slow.level[0].queued_most > fast.level[0].queued_most);
}

/* ---- findings ---- */

static uint32_t findings_of(const struct tt_start_conf *conf, struct tt_start_finding *out,
                            struct tt_start_report *whole)
{
    struct tt_start_conf quarter = *conf;
    struct tt_start_report less;

    quarter.nranks /= 4;
    less = report_of(&quarter);
    *whole = report_of(conf);
    return tt_start_findings(whole, &less, out);
}

static void ordinary_starts_have_no_findings(void **state)
{
    static const uint32_t sizes[] = { 128, 1024, 2048, 4096, 8192 }, children[] = { 8, 128 };
    struct tt_start_finding found[TT_START_FINDINGS_MAX];
    struct tt_start_report r;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int k = 0; k < 4; k++) {
            struct tt_start_conf conf = conf_of(sizes[i]);
            uint32_t n;

            if (UNIT_SHARE > 1 && sizes[i] > 1024)
                continue;
            conf.children_max = children[k % 2];
            conf.cyclic = k / 2;
            n = findings_of(&conf, found, &r);
            for (uint32_t f = 0; f < n; f++)
                print_message("%u ranks, %u children, cyclic %d: kind %d, level %u, step %s, %g\n",
                              sizes[i], conf.children_max, conf.cyclic, found[f].kind,
                              found[f].level, tt_start_step_name(found[f].step), found[f].value);
            assert_int_equal(n, 0);
        }
}

/* Returns whether there is a finding of this kind, of a level (and step). */
static bool is_found(const struct tt_start_finding *found, uint32_t n,
                     enum tt_start_finding_kind kind, uint32_t level, int step)
{
    for (uint32_t i = 0; i < n; i++)
        if (found[i].kind == kind && found[i].level == level &&
            (step < 0 || found[i].step == (enum tt_start_step)step))
            return true;
    return false;
}

static void planted_loop_is_found_at_servers_only(void **state)
{
    struct tt_start_conf conf = conf_of(1024);
    struct tt_start_finding found[TT_START_FINDINGS_MAX];
    struct tt_start_report r;
    uint32_t n;

    (void)state;
    conf.children_max = 8;
    conf.plant = TT_START_PLANT_LOOP;
    n = findings_of(&conf, found, &r);
    assert_true(is_found(found, n, TT_START_FINDING_LOOP, 0, -1));
    assert_true(is_found(found, n, TT_START_FINDING_LOOP, 1, -1));
    assert_false(is_found(found, n, TT_START_FINDING_LOOP, r.nlevels - 1, -1));
}

static void planted_quadratic_step_is_found(void **state)
{
    struct tt_start_conf conf = conf_of(8192);
    struct tt_start_finding found[TT_START_FINDINGS_MAX];
    struct tt_start_report r;
    uint32_t n;

    (void)state;
    conf.plant = TT_START_PLANT_QUADRATIC;
    n = findings_of(&conf, found, &r);
    assert_true(is_found(found, n, TT_START_FINDING_GROWTH, 0, TT_START_UP));
    for (uint32_t i = 0; i < n; i++) {
        if (found[i].kind == TT_START_FINDING_DROPPED)
            continue;           /* a consequence */
        assert_int_equal(found[i].kind, TT_START_FINDING_GROWTH);
        assert_int_equal(found[i].step, TT_START_UP);
        assert_true(found[i].value > 1.5 && found[i].value < 2.5);
    }
}

/* ---- backlogs ---- */

/* All ranks connect to the root at once. */
static struct tt_start_conf flat_conf(uint32_t nranks)
{
    struct tt_start_conf conf = conf_of(nranks);

    conf.per_host = 1;
    conf.children_max = nranks;
    conf.start_ns = TT_MS;
    conf.backlog = 64;
    conf.timeout_ns = 60 * TT_SECOND;
    conf.end_ns = 70 * TT_SECOND;
    return conf;
}

static void full_backlog_loses_ranks_only_without_retries(void **state)
{
    struct tt_start_conf conf = flat_conf(1024);
    struct tt_start_finding found[TT_START_FINDINGS_MAX];
    struct tt_start_report with, without;

    (void)state;
    with = report_of(&conf);
    assert_int_equal(with.nplaced, conf.nranks);
    assert_int_equal(with.ndropped_ranks, 0);
    assert_true(with.dropped > 0 && with.time_ns > 0);
    assert_true(
        is_found(found, tt_start_findings(&with, NULL, found), TT_START_FINDING_DROPPED, 0, -1));
    conf.no_retries = true;
    conf.timeout_ns = 5 * TT_SECOND;
    without = report_of(&conf);
    assert_true(without.ndropped_ranks > 0);
    assert_int_equal(without.ndropped_ranks, without.dropped);
    assert_int_equal(without.nplaced, 0);
    assert_int_equal(without.time_ns, 0);
}

/* ---- baseline ---- */

static struct tt_central_conf central_conf(uint32_t nranks)
{
    return (struct tt_central_conf){ .nranks = nranks,
                                     .backlog = 4096,
                                     .ngathers = 7,
                                     .record_bytes = 512,
                                     .latency_min_ns = 5000,
                                     .latency_ns = 100000,
                                     .start_ns = TT_SECOND / 2,
                                     .message_ns = 20000,
                                     .byte_ns = 1,
                                     .seed = 1 };
}

/* The formula equals the sum of its steps if the latency is constant; with a random latency, the
 * steps take longer. */
static void formula_of_the_all_gather_is_a_lower_bound(void **state)
{
    static const uint32_t sizes[] = { 2, 3, 16, 333 };
    struct tt_prng prng;

    (void)state;
    tt_prng_init(&prng, 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct tt_central_conf conf = central_conf(sizes[i]);
        uint64_t *began_ns = calloc(sizes[i], sizeof *began_ns), last_ns = 0, steps_ns;

        assert_non_null(began_ns);
        for (uint32_t r = 0; r < sizes[i]; r++) {
            began_ns[r] = 1000 + tt_prng_below(&prng, 50000);
            last_ns = began_ns[r] > last_ns ? began_ns[r] : last_ns;
        }
        steps_ns = tt_central_gather_steps(&conf, began_ns, &prng);
        if (sizes[i] > 16)
            assert_true(steps_ns > tt_central_gather_ns(&conf, last_ns));
        conf.latency_min_ns = 55000;
        conf.latency_ns = 0;
        assert_int_equal(tt_central_gather_steps(&conf, began_ns, &prng),
                         tt_central_gather_ns(&conf, last_ns));
        free(began_ns);
    }
}

/* 41 hosts of 8 ranks and one of 5: 42 hops have the random part. The steps leave out one hop of
 * 333, which is not the longest. */
static void all_gather_has_the_latency_of_its_hops(void **state)
{
    struct tt_central_conf conf = central_conf(333), local;
    uint64_t began_ns[333] = { 0 }, steps_ns, formula_ns;
    struct tt_prng prng;

    (void)state;
    tt_prng_init(&prng, 1);
    conf.per_host = 8;
    formula_ns = tt_central_gather_ns(&conf, 0);
    steps_ns = tt_central_gather_steps(&conf, began_ns, &prng);
    assert_in_range(formula_ns, 332 * 26024 + 332 * 42ull * 50000 / 333 - 1,
                    332 * 26024 + 332 * 42ull * 50000 / 333 + 1);
    assert_true(steps_ns > formula_ns && steps_ns < formula_ns + formula_ns / 5);
    local = conf;
    local.per_host = 333;
    assert_int_equal(tt_central_gather_ns(&local, 0), 332 * 26024);
}

/* A host of 3 ranks, and of 1 in turn: no leader waits for ranks that do not exist. */
static void last_host_has_fewer_ranks(void **state)
{
    (void)state;
    for (int cyclic = 0; cyclic < 2; cyclic++) {
        struct tt_start_conf conf = conf_of(19);
        struct tt_start *s;

        conf.cyclic = cyclic;
        s = tt_start_create(&conf);
        for (uint32_t r = 0; r < 19; r++) {
            const uint32_t expected = cyclic ? r % 3 == 0 ? 7 : 6 : r < 16 ? 8 : 3;

            assert_int_equal(tt_start_conf_of(s, r).nlocal, expected);
        }
        tt_start_destroy(s);
    }
}

/* The timeout of a rank begins when it starts. */
static void deadline_is_that_of_the_rank(void **state)
{
    struct tt_start_conf conf = conf_of(16);
    struct tt_start *s;

    (void)state;
    conf.timeout_ns = 3 * TT_SECOND;
    s = tt_start_create(&conf);
    for (uint32_t r = 0; r < 16; r++) {
        const struct tt_start_process *p = &s->processes[r];

        assert_int_equal(p->tree.conf.began_ns, p->start_ns);
        assert_int_equal(p->tree.conf.deadline_ns, p->start_ns + 3 * TT_SECOND);
    }
    tt_start_destroy(s);
}

static void central_server_handles_two_messages_per_rank(void **state)
{
    struct tt_central_conf conf = central_conf(1000);
    const uint64_t each_ns = 2 * conf.message_ns + 512;
    struct tt_central_result r;

    (void)state;
    conf.start_ns = 1;
    tt_central_run(&conf, &r);
    assert_int_equal(r.dropped, 0);
    assert_int_equal(r.nlost, 0);
    assert_true(r.collected_ns >= 1000 * each_ns && r.collected_ns < 1000 * each_ns + 200000);
    assert_int_equal(r.ring_ns - r.collected_ns, 1000 * (conf.message_ns + 512));
    assert_true(r.gathered_ns >= r.ring_ns + 7 * 999 * (uint64_t)(55000 + 20000 + 2 * 512));
    assert_true(r.gathered_ns < r.ring_ns + 7 * 999 * (uint64_t)(55000 + 20000 + 2 * 512) + 200000);
    assert_int_equal(r.server_bytes, 2 * 1000 * 512);
}

/* The paper's loss: with 64 Ki ranks and a backlog of 4096, most ranks are lost without retries,
 * and none with them. */
static void central_server_loses_ranks_only_without_retries(void **state)
{
    struct tt_central_conf conf = central_conf(65536);
    struct tt_central_result once, retried, unlimited;

    (void)state;
    tt_central_run(&conf, &retried);
    assert_int_equal(retried.queued_most, 4096);
    assert_int_equal(retried.nlost, 0);
    assert_true(retried.dropped > 0);
    conf.no_retries = true;
    tt_central_run(&conf, &once);
    assert_int_equal(once.nlost, once.dropped);
    assert_int_equal(once.gathered_ns, 0);
    assert_true(once.nlost > conf.nranks / 2);
    conf.backlog = conf.nranks;
    tt_central_run(&conf, &unlimited);
    assert_int_equal(unlimited.dropped, 0);
    assert_true(unlimited.gathered_ns > 0 && unlimited.gathered_ns < retried.gathered_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_have_all_processes_and_messages),
        cmocka_unit_test(seed_determines_the_start),
        cmocka_unit_test(lost_messages_delay_the_start),
        cmocka_unit_test(time_per_message_delays_the_start),
        cmocka_unit_test(ordinary_starts_have_no_findings),
        cmocka_unit_test(planted_loop_is_found_at_servers_only),
        cmocka_unit_test(planted_quadratic_step_is_found),
        cmocka_unit_test(full_backlog_loses_ranks_only_without_retries),
        cmocka_unit_test(formula_of_the_all_gather_is_a_lower_bound),
        cmocka_unit_test(all_gather_has_the_latency_of_its_hops),
        cmocka_unit_test(last_host_has_fewer_ranks),
        cmocka_unit_test(deadline_is_that_of_the_rank),
        cmocka_unit_test(central_server_handles_two_messages_per_rank),
        cmocka_unit_test(central_server_loses_ranks_only_without_retries),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
