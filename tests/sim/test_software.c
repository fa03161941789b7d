/* The parts of a rank's own work, in simulated time: which rank has the cost of each byte, and
 * which calls have planning costs. */
#include <math.h>
#include <string.h>

#include "algo/algos.h"
#include "sim/des.h"
#include "support/one_host.h"
#include "support/unit.h"

#define LONG_BYTES (256u << 10)

/* Sets n ranks of one host, which share memory. */
static void make_run(struct one_host *r, const char *algo, enum tt_coll_kind kind, uint32_t n,
                     uint64_t bytes)
{
    one_host_make(r, algo, kind, n, bytes);
    r->conf.segment_bytes = 16384;
    r->conf.streams = 1;
    r->conf.way = (struct tt_des_way){
        .send_ns = 200, .receive_ns = 50, .send_byte_ns = 0.25, .mapped = true
    };
    r->conf.copy_byte_ns = 0.5;
}

static double time_of(const struct one_host *r)
{
    return one_host_run(r).time_ns;
}

/* A single copy costs the receiver its bytes once, and has no cost of the sender's copies. */
static void single_copy_costs_only_the_receiver(void **state)
{
    struct one_host r;
    double time;

    (void)state;
    make_run(&r, "flat", TT_BROADCAST, 2, LONG_BYTES);
    r.conf.way.single_bytes = LONG_BYTES;
    r.conf.way.single_byte_ns = 2;
    r.conf.copy_byte_ns = 0;        /* of the root to its own result */
    time = time_of(&r);
    if (!(time >= 2.0 * LONG_BYTES && time <= 2.1 * LONG_BYTES))
        fail_msg("%.0f ns for %u bytes", time, LONG_BYTES);
    r.conf.way.send_byte_ns = 100;
    assert_true(time_of(&r) == time);
}

/* A waiting sender copies half of a long message; one with other work does not, nor one on an
 * oversubscribed processor. */
static void idle_sender_copies_half(void **state)
{
    struct one_host r;
    double alone, time;

    (void)state;
    make_run(&r, "flat", TT_BROADCAST, 2, LONG_BYTES);
    r.conf.way.single_bytes = LONG_BYTES;
    r.conf.way.single_byte_ns = 2;
    r.conf.way.whole_bytes = LONG_BYTES;
    r.conf.copy_byte_ns = 0;
    alone = time_of(&r);
    r.conf.way.shared_bytes = LONG_BYTES;
    time = time_of(&r);
    if (!(time >= 1.0 * LONG_BYTES && time <= 1.1 * LONG_BYTES))
        fail_msg("%.0f ns for %u bytes, %.0f by the receiver alone", time, LONG_BYTES, alone);
    r.conf.way.shared_bytes = LONG_BYTES + 1;
    assert_true(time_of(&r) == alone);
    r.conf.way.shared_bytes = LONG_BYTES;
    r.conf.copy_byte_ns = 100;      /* meanwhile the root copies to its own result */
    assert_true(time_of(&r) >= 100.0 * LONG_BYTES);
    r.conf.copy_byte_ns = 0;
    r.conf.cores = 1;
    assert_true(time_of(&r) >= alone);
}

/* Reading data that another rank has just written is slower than reading from the own cache: eager
 * messages and slots, but not fetched data. */
static void remote_written_data_may_cost_more(void **state)
{
    struct one_host r;
    double before, time;

    (void)state;
    make_run(&r, "flat", TT_BROADCAST, 2, 4096);        /* eager */
    before = time_of(&r);
    r.conf.came_copy_byte_ns = 10;
    time = time_of(&r);
    if (!(fabs(time - before - 9.5 * 4096) < 0.1 * before))
        fail_msg("eager: %.0f ns, and %.0f", before, time);

    make_run(&r, "flat", TT_REDUCE, 2, LONG_BYTES);     /* through slots */
    r.conf.reduce_byte_ns = 1;
    before = time_of(&r);
    r.conf.came_reduce_byte_ns = 10;
    assert_true(time_of(&r) >= before + 8.9 * LONG_BYTES);

    r.conf.way.mapped = false;                          /* to its own slots */
    r.conf.way.single_bytes = 1;
    r.conf.way.single_byte_ns = 0.1;
    time = time_of(&r);
    r.conf.came_reduce_byte_ns = 0;
    assert_true(time_of(&r) == time);
}

/* A combined fetch has the fixed cost of a fetch only once. */
static void segments_may_be_fetched_together(void **state)
{
    static const struct {
        uint32_t whole_bytes, fetches;
    } cases[] = { { 0, LONG_BYTES / 16384 },
                  { 16384, LONG_BYTES / 16384 },
                  { 65536, 4 },
                  { 98304, 3 },
                  { 4 * LONG_BYTES, 1 } };
    struct one_host r;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double times;

        make_run(&r, "flat", TT_BROADCAST, 2, LONG_BYTES);
        r.conf.way.single_bytes = LONG_BYTES;
        r.conf.way.single_ns = 1e6;
        r.conf.way.whole_bytes = cases[i].whole_bytes;
        r.conf.copy_byte_ns = 0;
        times = time_of(&r) / 1e6;
        if (!(times >= cases[i].fetches && times < cases[i].fetches + 0.1))
            fail_msg("%.2f fetches, not %u, where %u bytes go at once", times, cases[i].fetches,
                     cases[i].whole_bytes);
    }
}

/* Operands are fetched to the rank's own slots, several segments at once; the cost of the sum is
 * added. */
static void unmapped_reductions_fetch_their_operands(void **state)
{
    struct one_host r;
    double time;

    (void)state;
    make_run(&r, "doubling", TT_ALLREDUCE, 2, LONG_BYTES);
    r.conf.way.mapped = false;
    r.conf.way.single_bytes = 1;
    r.conf.way.single_byte_ns = 2;
    r.conf.reduce_byte_ns = 1;
    time = time_of(&r);
    if (!(time >= 3.0 * LONG_BYTES && time <= 3.1 * LONG_BYTES))
        fail_msg("%.0f ns for %u bytes", time, LONG_BYTES);
    r.conf.way.send_byte_ns = 100;
    assert_true(time_of(&r) == time);
    r.conf.way.single_ns = 1e6;
    r.conf.way.whole_bytes = LONG_BYTES;
    assert_true(time_of(&r) < time + 1e6 * LONG_BYTES / 16384 / 2);
}

static void short_or_mapped_data_stays_unfetched(void **state)
{
    static const struct {
        const char *algo;
        enum tt_coll_kind kind;
        uint64_t single_bytes;
    } cases[] = {
        { "flat", TT_BROADCAST, LONG_BYTES + 1 },
        { "flat", TT_REDUCE, 1 },
        { "ring", TT_ALLREDUCE, 1 },
        { "ring", TT_REDUCE_SCATTER, 1 },
    };
    struct one_host r;
    double without;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_run(&r, cases[i].algo, cases[i].kind, 3, LONG_BYTES);
        without = time_of(&r);
        r.conf.way.single_bytes = cases[i].single_bytes;
        r.conf.way.single_byte_ns = 1000;
        if (time_of(&r) != without)
            fail_msg("case %zu: %.0f ns without single copies, %.0f with", i, without, time_of(&r));
    }
}

static void only_straight_programs_skip_planning(void **state)
{
    struct one_host r;
    double without;

    (void)state;
    make_run(&r, "flat", TT_BROADCAST, 4, 64);
    without = time_of(&r);
    r.conf.plan_ns = r.conf.step_ns = 1e6;
    assert_true(time_of(&r) == without);

    make_run(&r, "flat", TT_BROADCAST, 4, LONG_BYTES);
    without = time_of(&r);
    r.conf.plan_ns = 1e6;
    if (!(fabs(time_of(&r) - without - 1e6) < 1))       /* all plan at the same time */
        fail_msg("%.0f ns, and %.0f with planning", without, time_of(&r));
    r.conf.plan_ns = 0;
    r.conf.step_ns = 100;
    assert_true(time_of(&r) > without + LONG_BYTES / 16384 * 100);
}

static void invalid_costs_are_reported(void **state)
{
    double *cost[5];
    struct one_host r;
    struct tt_des_result out;
    char why[256];

    (void)state;
    make_run(&r, "flat", TT_BROADCAST, 2, 64);
    cost[0] = &r.conf.plan_ns;
    cost[1] = &r.conf.step_ns;
    cost[2] = &r.conf.way.single_byte_ns;
    cost[3] = &r.conf.way.send_byte_ns;
    cost[4] = &r.conf.way.single_ns;
    for (int i = 0; i < 5; i++) {
        const double before = *cost[i];

        *cost[i] = i % 2 ? NAN : -1;
        assert_int_equal(tt_des_run(&r.conf, &out, why, sizeof why), TUTTI_ERR_INVALID);
        *cost[i] = before;
    }
    assert_int_equal(tt_des_run(&r.conf, &out, why, sizeof why), TUTTI_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_copy_costs_only_the_receiver),
        cmocka_unit_test(idle_sender_copies_half),
        cmocka_unit_test(remote_written_data_may_cost_more),
        cmocka_unit_test(segments_may_be_fetched_together),
        cmocka_unit_test(unmapped_reductions_fetch_their_operands),
        cmocka_unit_test(short_or_mapped_data_stays_unfetched),
        cmocka_unit_test(only_straight_programs_skip_planning),
        cmocka_unit_test(invalid_costs_are_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
