/* Simulated hosts with fewer cores than ranks: ranks share the cores, and nothing else changes. */
#include <math.h>
#include <string.h>

#include "algo/algos.h"
#include "sim/des.h"
#include "support/one_host.h"
#include "support/unit.h"

#define NEAR 1e-6       /* relative: times are whole picoseconds */

/* Sets n ranks of one host, whose links cost nothing. */
static void make_run(struct one_host *r, const char *algo, enum tt_coll_kind kind, uint32_t n,
                     uint64_t bytes)
{
    one_host_make(r, algo, kind, n, bytes);
    r->conf.segment_bytes = 65536;
    r->conf.streams = 2;
    r->conf.way = (struct tt_des_way){ .send_ns = 1000, .receive_ns = 500 };
}

static void expect(double is, double should)
{
    if (!(fabs(is - should) <= NEAR * should + 0.01))
        fail_msg("%.3f ns, but it should be %.3f", is, should);
}

/* A root with n - 1 receivers: it sends to all, and then the receivers read in turn. All copy the
 * data to its destination. */
static void work_alternates_on_one_core(void **state)
{
    struct one_host r;

    (void)state;
    for (uint32_t n = 2; n <= 9; n++) {
        make_run(&r, "flat", TT_BROADCAST, n, 64);
        r.conf.cores = 1;
        expect(one_host_run(&r).time_ns, (n - 1) * (1000.0 + 500));
        r.conf.copy_byte_ns = 2;
        expect(one_host_run(&r).time_ns, (n - 1) * (1000.0 + 500) + n * 128);
        r.conf.copy_byte_ns = 0;
        r.conf.way.send_byte_ns = 3;
        r.conf.way.receive_byte_ns = 5;
        expect(one_host_run(&r).time_ns, (n - 1) * (1000.0 + 500 + 64 * 8));
    }
}

/* The core switches to each rank once at the beginning (only the root has work), and to each except
 * the root to read. */
static void switching_ranks_takes_time(void **state)
{
    struct one_host r;
    double without;

    (void)state;
    make_run(&r, "flat", TT_BROADCAST, 3, 64);
    r.conf.cores = 1;
    without = one_host_run(&r).time_ns;
    r.conf.wake_ns = 100;
    assert_true(one_host_run(&r).time_ns >= without + 3 * 100 &&
                one_host_run(&r).time_ns <= without + 5 * 100);
    r.conf.wake_ns = 0;
    r.conf.idle_ns = 100;
    assert_true(one_host_run(&r).time_ns > without);
}

static void cores_beyond_ranks_change_nothing(void **state)
{
    struct one_host r;
    double unlimited;

    (void)state;
    for (size_t i = 0; i < tt_nalgos; i++) {
        const struct tt_coll c = {
            .kind = tt_algos[i]->kind, .nranks = 6, .elem_bytes = 4, .bytes = 40000
        };

        if (c.kind != TT_ALLREDUCE && c.kind != TT_ALLGATHER && c.kind != TT_REDUCE_SCATTER)
            continue;
        if (!tt_algos[i]->fits(&c))
            continue;
        make_run(&r, tt_algos[i]->name, c.kind, 6, c.bytes);
        unlimited = one_host_run(&r).time_ns;
        r.conf.cores = 6;
        r.conf.wake_ns = 12345;
        assert_true(one_host_run(&r).time_ns == unlimited);
    }
}

/* No core is idle while a rank has work, and none does two things at once: the time is at least the
 * work divided by the cores, on one core exactly that, and never more than on one. */
static void time_is_bounded_by_work(void **state)
{
    struct one_host r;

    (void)state;
    for (size_t i = 0; i < tt_nalgos; i++) {
        const struct tt_coll c = {
            .kind = tt_algos[i]->kind, .nranks = 7, .elem_bytes = 4, .bytes = 30000
        };
        struct tt_des_result one, two;

        if (c.kind != TT_ALLREDUCE && c.kind != TT_ALLGATHER && c.kind != TT_ALLTOALL)
            continue;
        if (!tt_algos[i]->fits(&c))
            continue;
        make_run(&r, tt_algos[i]->name, c.kind, 7, c.bytes);
        r.conf.reduce_byte_ns = r.conf.copy_byte_ns = 0.1;
        r.conf.cores = 1;
        one = one_host_run(&r);
        r.conf.cores = 2;
        two = one_host_run(&r);
        if (!(one.cores_busy > 0.98 && one.cores_busy <= 1 + NEAR && two.cores_busy <= 1 + NEAR))
            fail_msg("%s: one core is busy for %g of the time, two for %g", r.conf.algo->name,
                     one.cores_busy, two.cores_busy);
        if (!(two.time_ns >= one.time_ns * one.cores_busy / 2 * 0.9 &&
              two.time_ns <= one.time_ns * 1.1))
            fail_msg("%s: %.0f ns on two cores, %.0f on one", r.conf.algo->name, two.time_ns,
                     one.time_ns);
        assert_true(one_host_run(&r).time_ns == two.time_ns);
    }
}

static void bounded_run_ends_at_limit(void **state)
{
    struct tt_des_result whole, cut;
    struct one_host r;

    (void)state;
    make_run(&r, "ring", TT_ALLGATHER, 8, 100000);
    r.conf.cores = 2;
    whole = one_host_run(&r);
    assert_false(whole.cut);
    r.conf.events_max = whole.events / 2;
    cut = one_host_run(&r);
    assert_true(cut.cut && cut.events == whole.events / 2 && cut.time_ns <= whole.time_ns);
    r.conf.events_max = 0;
    r.conf.time_max_ns = whole.time_ns / 2;
    cut = one_host_run(&r);
    assert_true(cut.cut && cut.time_ns > whole.time_ns / 2 && cut.events < whole.events);
    r.conf.time_max_ns = whole.time_ns * 1.01;
    assert_false(one_host_run(&r).cut);
}

/* Rank 32 has half of the blocks from the beginning, and sends them until its credit is used up,
 * although its neighbour cannot consume all of them yet. The credit that the neighbour owes is too
 * little to be returned separately. */
static void waiting_ranks_return_pending_credit(void **state)
{
    struct one_host r;

    (void)state;
    for (uint64_t bytes = 64; bytes <= 4096; bytes *= 8)
        for (uint32_t cores = 0; cores <= 2; cores += 2) {
            make_run(&r, "scatter_allgather", TT_BROADCAST, 64, bytes);
            r.conf.cores = cores;
            r.conf.eager_bytes = 32 << 10;
            assert_true(one_host_run(&r).time_ns > 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_alternates_on_one_core),
        cmocka_unit_test(switching_ranks_takes_time),
        cmocka_unit_test(cores_beyond_ranks_change_nothing),
        cmocka_unit_test(time_is_bounded_by_work),
        cmocka_unit_test(bounded_run_ends_at_limit),
        cmocka_unit_test(waiting_ranks_return_pending_credit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
