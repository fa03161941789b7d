/* Bursts of puts and signals on a simulated network, compared with closed forms. */
#include <math.h>
#include <stdio.h>

#include "base/prng.h"
#include "sim/putsignal.h"
#include "support/unit.h"

/* A network of nodes with per_node ranks each, and a burst on it. */
struct burst {
    struct tt_layout layout;
    struct tt_net_conf net;
    struct tt_putsignal_conf conf;
};

static void set_up(struct burst *b, uint32_t nodes, uint32_t per_node, double latency_ns,
                   double bytes_per_s)
{
    *b = (struct burst){ .conf = { .senders = 1, .transfers = 1, .header_bytes = 64 } };
    tt_layout_regular(&b->layout, nodes * per_node, per_node, 1, 1, TT_NODE_MESH);
    b->net.layout = &b->layout;
    for (int d = TT_NEAR_SOCKET; d <= TT_NEAR_RACK; d++) {
        b->net.link[d].latency_ns = latency_ns;
        b->net.link[d].bytes_per_s = bytes_per_s;
    }
    b->conf.net = &b->net;
}

static struct tt_putsignal_result run(struct burst *b, enum tt_putsignal_mode mode)
{
    struct tt_putsignal_result r;

    b->conf.mode = mode;
    assert_int_equal(tt_putsignal_run(&b->conf, &r), TUTTI_OK);
    return r;
}

static void check_ns(struct burst *b, enum tt_putsignal_mode mode, double ns)
{
    const double got = run(b, mode).time_ns;

    if (fabs(got - ns) > 1)
        fail_msg("%s, %u transfers of %llu: %.1f ns, and the formula says %.1f",
                 tt_putsignal_mode_name(mode), b->conf.transfers, (unsigned long long)b->conf.bytes,
                 got, ns);
}

/* One source and one destination, whose link is slower than the proxy: it is idle only during
 * drains. */
static void slow_link_matches_the_formulas(void **state)
{
    static const uint32_t counts[] = { 1, 2, 96 };
    static const double sizes[] = { 1000, 4096, 1 << 20 };
    const double op = 10, latency = 1e6, ns = 1;    /* 1 ns per byte */
    const double header = 64 * ns;
    struct burst b;

    (void)state;
    set_up(&b, 2, 1, latency, 1e9);
    b.conf.op_ns = op;
    for (size_t i = 0; i < 9; i++) {
        const double n = counts[i % 3], put = sizes[i / 3] * ns + header;

        b.conf.transfers = counts[i % 3];
        b.conf.bytes = (uint64_t)sizes[i / 3];
        check_ns(&b, TT_PUTSIGNAL_PUT_ONLY, op + n * put + 2 * latency);
        check_ns(&b, TT_PUTSIGNAL_FULL, op + n * (put + header) + 2 * latency);
        check_ns(&b, TT_PUTSIGNAL_ORDERED, op + n * (put + header) + 2 * latency);
        check_ns(&b, TT_PUTSIGNAL_DECOUPLED,
                 op + n * put + 2 * latency + op + n * header + 2 * latency);
        /* a put follows the earlier signal, half of whose bytes the link has sent when the put
         * arrives */
        check_ns(&b, TT_PUTSIGNAL_COUPLED,
                 n * (2 * op + put + 2 * latency) + (n - 1) * (header - op) + header + 2 * latency);
    }
}

/* If the proxy is slower than the link, its time counts. */
static void slow_proxy_pays_per_descriptor(void **state)
{
    struct burst b;

    (void)state;
    set_up(&b, 2, 1, 500, 1e12);
    b.conf.op_ns = 5000;
    b.conf.bytes = 936;
    b.conf.transfers = 10;
    check_ns(&b, TT_PUTSIGNAL_PUT_ONLY, 10 * 5000 + 1 + 2 * 500);
    check_ns(&b, TT_PUTSIGNAL_FULL, 20 * 5000 + 0.064 + 2 * 500);
    check_ns(&b, TT_PUTSIGNAL_COUPLED, 20 * 5000 + 10 * (1 + 2 * 500) + 0.064 + 2 * 500);
}

/* 96 transfers from a rank of 8 nodes with 4 ranks each, 28 of which are on other nodes. */
static void counts_match_the_mode(void **state)
{
    static const struct {
        enum tt_putsignal_mode mode;
        uint64_t drains, fences, signals;
    } cases[] = {
        { TT_PUTSIGNAL_PUT_ONLY, 0, 0, 0 },     { TT_PUTSIGNAL_COUPLED, 96, 0, 96 },
        { TT_PUTSIGNAL_DECOUPLED, 28, 0, 96 }, { TT_PUTSIGNAL_ORDERED, 0, 96, 96 },
        { TT_PUTSIGNAL_FULL, 0, 28, 96 },
    };
    struct burst b;

    (void)state;
    set_up(&b, 8, 4, 1e6, 5e7);
    b.conf.transfers = 96;
    b.conf.bytes = 4096;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tt_putsignal_result r = run(&b, cases[i].mode);

        assert_int_equal(r.drains, cases[i].drains);
        assert_int_equal(r.fences, cases[i].fences);
        assert_int_equal(r.signals, cases[i].signals);
        assert_int_equal(r.destinations, 28);
    }
    b.conf.transfers = 5;
    assert_int_equal(run(&b, TT_PUTSIGNAL_FULL).fences, 5);
}

/* 12 transfers to 8 destinations, the first four of which have two: in the order of destinations 0
 * 0 1 1 2 2 3 3 4 5 6 7. A group with several destinations has a fence for each of them; one that
 * divides a destination's transfers adds one. */
static void groups_fence_each_destination(void **state)
{
    static const struct {
        uint32_t group;
        uint64_t fences;
    } cases[] = { { 0, 8 }, { 1, 12 }, { 2, 8 }, { 3, 9 }, { 4, 8 }, { 6, 8 }, { 12, 8 } };
    struct burst b;

    (void)state;
    set_up(&b, 3, 4, 1e6, 5e7);
    b.conf.transfers = 12;
    b.conf.bytes = 4096;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_putsignal_result r;

        b.conf.group = cases[i].group;
        r = run(&b, TT_PUTSIGNAL_FULL);
        assert_int_equal(r.fences, cases[i].fences);
        assert_int_equal(r.signals, 12);
        assert_int_equal(r.destinations, 8);
        r = run(&b, TT_PUTSIGNAL_DECOUPLED);
        assert_int_equal(r.drains, cases[i].fences);
        assert_int_equal(r.signals, 12);
    }
}

/* Its first drain waits for everything, and the others find nothing in flight: one round trip per
 * group, for any number of destinations. */
static void drains_of_a_group_wait_once(void **state)
{
    const double op = 10, latency = 1e6, put = 1000 + 64, header = 64;
    struct burst b;

    (void)state;
    set_up(&b, 4, 1, latency, 1e9);
    b.conf.op_ns = op;
    b.conf.transfers = 6;
    b.conf.bytes = 1000;
    check_ns(&b, TT_PUTSIGNAL_DECOUPLED,
             op + 6 * put + 2 * latency + 3 * (op + 2 * header + 2 * latency));
    b.conf.group = 6;
    check_ns(&b, TT_PUTSIGNAL_DECOUPLED,
             op + 6 * put + 2 * latency + op + 6 * header + 2 * latency);
    b.conf.group = 3;
    check_ns(&b, TT_PUTSIGNAL_DECOUPLED,
             op + 6 * put + 2 * latency + 2 * (op + 3 * header + 2 * latency));
}

/* All ranks of a node share its link; all nodes send and receive concurrently. */
static void concurrent_ranks_share_the_link(void **state)
{
    const double put = (1 << 20) + 64;
    struct burst b;

    (void)state;
    set_up(&b, 2, 4, 1000, 1e9);
    b.conf.transfers = 12;
    b.conf.bytes = 1 << 20;
    check_ns(&b, TT_PUTSIGNAL_PUT_ONLY, 12 * put + 2 * 1000);
    b.conf.senders = 4;
    check_ns(&b, TT_PUTSIGNAL_PUT_ONLY, 48 * put + 2 * 1000);
    b.conf.senders = 8;
    check_ns(&b, TT_PUTSIGNAL_PUT_ONLY, 48 * put + 2 * 1000);
}

/* For one source: modes with fewer waits are never slower. Every run also asserts that no signal
 * overtakes its bytes. */
static void fewer_waits_are_never_slower(void **state)
{
    struct tt_prng prng;

    (void)state;
    tt_prng_init(&prng, 17);
    for (int i = 0; i < 400; i++) {
        const uint32_t nodes = 2 + (uint32_t)tt_prng_below(&prng, 15),
                       per_node = 1 + (uint32_t)tt_prng_below(&prng, 4);
        double ns[TT_PUTSIGNAL_MODES];
        struct burst b;

        set_up(&b, nodes, per_node, (double)tt_prng_below(&prng, 2000000),
               1e6 * (double)(1 + tt_prng_below(&prng, 50000)));
        b.conf.transfers = 1 + (uint32_t)tt_prng_below(&prng, 128);
        b.conf.group = 1 + (uint32_t)tt_prng_below(&prng, b.conf.transfers);
        if (b.conf.transfers % b.conf.group)
            b.conf.group = 0;
        b.conf.bytes = tt_prng_below(&prng, 1 << 20);
        b.conf.op_ns = (double)tt_prng_below(&prng, 5000);
        for (int m = 0; m < TT_PUTSIGNAL_MODES; m++)
            ns[m] = run(&b, (enum tt_putsignal_mode)m).time_ns;
        if (ns[TT_PUTSIGNAL_PUT_ONLY] > ns[TT_PUTSIGNAL_FULL] ||
            ns[TT_PUTSIGNAL_PUT_ONLY] > ns[TT_PUTSIGNAL_ORDERED] ||
            ns[TT_PUTSIGNAL_FULL] > ns[TT_PUTSIGNAL_DECOUPLED] ||
            ns[TT_PUTSIGNAL_ORDERED] > ns[TT_PUTSIGNAL_COUPLED])
            fail_msg("case %d: %u nodes of %u, %u transfers of %llu: put-only %.0f, full %.0f, "
                     "ordered %.0f, decoupled "
                     "%.0f, coupled %.0f ns",
                     i, nodes, per_node, b.conf.transfers, (unsigned long long)b.conf.bytes,
                     ns[TT_PUTSIGNAL_PUT_ONLY], ns[TT_PUTSIGNAL_FULL], ns[TT_PUTSIGNAL_ORDERED],
                     ns[TT_PUTSIGNAL_DECOUPLED], ns[TT_PUTSIGNAL_COUPLED]);
    }
}

static void invalid_configurations_are_refused(void **state)
{
    struct tt_putsignal_result r = { .time_ns = -1 };
    struct burst b;

    (void)state;
    set_up(&b, 1, 4, 1000, 1e9);        /* no ranks on other nodes */
    assert_int_equal(tt_putsignal_run(&b.conf, &r), TUTTI_ERR_INVALID);
    set_up(&b, 2, 4, 1000, 1e9);
    b.conf.senders = 9;
    assert_int_equal(tt_putsignal_run(&b.conf, &r), TUTTI_ERR_INVALID);
    b.conf.senders = 8;
    b.conf.transfers = 0;
    assert_int_equal(tt_putsignal_run(&b.conf, &r), TUTTI_ERR_INVALID);
    b.conf.transfers = UINT32_MAX;
    assert_int_equal(tt_putsignal_run(&b.conf, &r), TUTTI_ERR_INVALID);
    b.conf.transfers = 9;
    b.conf.group = 6;
    assert_int_equal(tt_putsignal_run(&b.conf, &r), TUTTI_ERR_INVALID);
    b.conf.group = 18;
    assert_int_equal(tt_putsignal_run(&b.conf, &r), TUTTI_ERR_INVALID);
    b.conf.group = 0;
    b.conf.transfers = 1;
    b.conf.op_ns = NAN;
    assert_int_equal(tt_putsignal_run(&b.conf, &r), TUTTI_ERR_INVALID);
    b.conf.op_ns = 1;
    b.net.link[TT_NEAR_RACK].bytes_per_s = 0;
    assert_int_equal(tt_putsignal_run(&b.conf, &r), TUTTI_ERR_INVALID);
    assert_true(r.time_ns == -1);       /* written on success only */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_link_matches_the_formulas),
        cmocka_unit_test(slow_proxy_pays_per_descriptor),
        cmocka_unit_test(counts_match_the_mode),
        cmocka_unit_test(groups_fence_each_destination),
        cmocka_unit_test(drains_of_a_group_wait_once),
        cmocka_unit_test(concurrent_ranks_share_the_link),
        cmocka_unit_test(fewer_waits_are_never_slower),
        cmocka_unit_test(invalid_configurations_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
