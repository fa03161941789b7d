/* The discrete-event simulator compared with closed forms on a uniform network: every rank alone on
 * its host, one latency, one rate. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/algos.h"
#include "algo/segments.h"
#include "sim/des.h"
#include "support/unit.h"

#define CONTROL_BYTES 64.0      /* size of a CTS */
#define EXACT 0.001

/* A case: the program and the network. */
struct setup {
    const char *algo;
    enum tt_coll_kind kind;
    uint32_t n;
    uint64_t bytes, eager, segment;
    double latency_ns, gbs, send_ns, receive_ns, reduce_ns;
};

static const char *text(const struct setup *u)
{
    static char out[256];

    snprintf(out, sizeof out,
             "%s n=%u bytes=%llu eager=%llu segment=%llu latency=%g gbs=%g send=%g receive=%g",
             u->algo, u->n, (unsigned long long)u->bytes, (unsigned long long)u->eager,
             (unsigned long long)u->segment, u->latency_ns, u->gbs, u->send_ns, u->receive_ns);
    return out;
}

struct run {
    struct tt_layout layout;
    struct tt_net_conf net;
    struct tt_coll coll;
    struct tt_des_conf conf;
};

static void run_of(struct run *r, const struct setup *u)
{
    memset(r, 0, sizeof *r);
    tt_layout_regular(&r->layout, u->n, 1, 1, 1, TT_NODE_MESH);
    r->net.layout = &r->layout;
    r->net.link[TT_NEAR_RACK].latency_ns = u->latency_ns;
    r->net.link[TT_NEAR_RACK].bytes_per_s = u->gbs * 1e9;
    r->coll =
        (struct tt_coll){ .kind = u->kind, .nranks = u->n, .elem_bytes = 4, .bytes = u->bytes };
    r->conf = (struct tt_des_conf){
        .algo = tt_algo_find(&r->coll, u->algo),
        .coll = &r->coll,
        .net = &r->net,
        .segment_bytes = u->segment,
        .eager_bytes = u->eager,
        .streams = 2,
        .depth = 4,
        .way = { .send_ns = u->send_ns, .receive_ns = u->receive_ns, .direct = true },
        .reduce_byte_ns = u->reduce_ns,
        .seed = 1,
    };
    if (!r->conf.algo)
        fail_msg("%s: it does not fit", text(u));
}

static double time_of(const struct setup *u, bool whole)
{
    struct tt_des_result result;
    char why[256] = "";
    struct run r;

    run_of(&r, u);
    r.conf.whole = whole;
    if (tt_des_run(&r.conf, &result, why, sizeof why))
        fail_msg("%s: %s", text(u), why);
    return result.time_ns;
}

static void expect(const struct setup *u, double ns)
{
    for (int whole = 0; whole < 2; whole++) {
        const double got = time_of(u, whole);

        if (fabs(got - ns) > EXACT * ns)
            fail_msg("%s, %s: %.3f ns simulated, %.3f ns by the formula (%+.3f %%)", text(u),
                     whole ? "no trains" : "trains", got, ns, 100 * (got / ns - 1));
    }
}

static double wire_ns(const struct setup *u, double bytes) { return bytes / u->gbs; }

/* Returns the time of one message, from the start of the send until the receiver has processed
 * it. */
static double message_ns(const struct setup *u, double bytes)
{
    return u->send_ns + wire_ns(u, bytes) + u->latency_ns + u->receive_ns;
}

static uint32_t log2_of(uint32_t n) { return 31 - (uint32_t)__builtin_clz(n); }

/* Networks limited by latency, by rate, and by software. */
static const struct setup nets[] = {
    { .latency_ns = 5000, .gbs = 50, .send_ns = 200, .receive_ns = 100 },
    { .latency_ns = 800, .gbs = 1, .send_ns = 30, .receive_ns = 20 },
    { .latency_ns = 1000, .gbs = 100, .send_ns = 2500, .receive_ns = 700 },
};
#define NNETS (sizeof nets / sizeof *nets)

static struct setup on(size_t net, const char *algo, enum tt_coll_kind kind, uint32_t n,
                       uint64_t bytes)
{
    struct setup u = nets[net];

    u.algo = algo;
    u.kind = kind;
    u.n = n;
    u.bytes = bytes;
    u.eager = u.segment = 32768;
    return u;
}

/* Round i: 2^i blocks as one message; no data of round i + 1 can be sent before. */
static void doubling_takes_its_messages_sum(void **state)
{
    (void)state;
    for (size_t net = 0; net < NNETS; net++)
        for (uint32_t n = 2; n <= 512; n *= 2) {
            const struct setup u = on(net, "doubling", TT_ALLGATHER, n, 64);
            double ns = 0;

            for (uint32_t i = 0; i < log2_of(n); i++)
                ns += message_ns(&u, 64.0 * (double)(1u << i));
            expect(&u, ns);
        }
}

/* The same with one segment per round, after the receivers have sent their CTS. All do so at once:
 * the first CTS opens round 0, and the others arrive while its data is in flight, if the latency
 * covers their cost. */
static void long_doubling_waits_once_for_cts(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 64; n *= 2) {
        struct setup u = on(0, "doubling", TT_ALLGATHER, n, 65536);
        double ns = message_ns(&u, CONTROL_BYTES);

        u.eager = 0;
        u.segment = 1ull << 30;
        for (uint32_t i = 0; i < log2_of(n); i++)
            ns += message_ns(&u, 65536.0 * (double)(1u << i));
        expect(&u, ns);
    }
}

/* Received data is reduced before the next half is sent: the largest power of two below the
 * remainder. */
static void recursive_halving_adds_between_its_messages(void **state)
{
    (void)state;
    for (size_t net = 0; net < NNETS; net++)
        for (uint32_t n = 2; n <= 256; n *= 2) {
            struct setup u = on(net, "halving", TT_REDUCE_SCATTER, n, 64);
            double ns = 0;

            u.reduce_ns = 0.25;
            for (uint32_t left = n / 2; left; left /= 2)
                ns += message_ns(&u, 64.0 * left) + 64.0 * left * u.reduce_ns;
            expect(&u, ns);
        }
}

/* Each round is one message. After each eighth received message, a message that returns credit
 * precedes the next round's, and occupies the thread and the link for a short time. */
static void short_ring_takes_n_minus_one(void **state)
{
    (void)state;
    for (size_t net = 0; net < NNETS; net++)
        for (uint32_t n = 3; n <= 200; n = n * 3 / 2) {
            const struct setup u = on(net, "ring", TT_ALLGATHER, n, 1024);
            const double give = fmax(u.send_ns, wire_ns(&u, CONTROL_BYTES));

            expect(&u, (n - 1) * message_ns(&u, 1024) + (n - 2) / 8 * give +
                           ((n - 1) % 8 ? 0 : u.send_ns));
        }
}

/* Segments are pipelined: round k + 1 sends what round k receives. A rank's link is always busy if
 * a segment returns before the block has been sent; otherwise each round takes the time of one
 * segment, and the rest of a block follows it. */
static void links_or_latency_bound_long_ring(void **state)
{
    bool bound[2] = { false, false };

    (void)state;
    for (size_t net = 0; net < 2; net++)
        for (uint32_t n = 3; n <= 20; n += n < 6 ? 1 : 7)
            for (uint64_t segments = 1; segments <= 64; segments *= 4) {
                struct setup u = on(net, "ring", TT_ALLGATHER, n, segments * 65536);
                double way, ns = message_ns(&u, CONTROL_BYTES);
                bool by_links;

                u.eager = 0;
                u.segment = 65536;
                way = message_ns(&u, 65536);
                by_links = way <= wire_ns(&u, (double)u.bytes);
                bound[by_links] = true;
                if (by_links)
                    ns += (n - 1) * wire_ns(&u, (double)u.bytes) + u.send_ns + u.latency_ns +
                          u.receive_ns;
                else
                    ns += (n - 1) * way + (double)(segments - 1) * wire_ns(&u, 65536);
                expect(&u, ns);
            }
    assert_true(bound[0] && bound[1]);
}

/* The deepest rank gets its vector over log2 n messages, each the first that its sender sends. */
static void binomial_tree_has_logarithmic_depth(void **state)
{
    (void)state;
    for (size_t net = 0; net < NNETS; net++)
        for (uint32_t n = 2; n <= 1024; n *= 2) {
            const struct setup u = on(net, "binomial", TT_BROADCAST, n, 4096);

            expect(&u, log2_of(n) * message_ns(&u, 4096));
        }
}

/* At each level the deepest rank gets the last of k - 1 messages of one sender, which are sent in
 * sequence. */
static void knomial_level_sends_k_minus_one(void **state)
{
    static const struct {
        const char *algo;
        uint32_t k;
    } trees[] = { { "knomial4", 4 }, { "knomial8", 8 } };

    (void)state;
    for (size_t net = 0; net < NNETS; net++)
        for (int i = 0; i < 2; i++)
            for (uint32_t n = trees[i].k, levels = 1; n <= 512; n *= trees[i].k, levels++) {
                const struct setup u = on(net, trees[i].algo, TT_BROADCAST, n, 4096);
                const double behind = fmax(u.send_ns, wire_ns(&u, 4096));

                expect(&u, levels * (message_ns(&u, 4096) + (trees[i].k - 2) * behind));
            }
}

static void a_chain_pipelines_its_segments(void **state)
{
    (void)state;
    for (size_t net = 0; net < 2; net++)
        for (uint32_t n = 2; n <= 40; n += 9)
            for (uint64_t segments = 1; segments <= 256; segments *= 8) {
                struct setup u = on(net, "chain", TT_BROADCAST, n, segments * 65536);

                u.eager = 0;
                u.segment = 65536;
                expect(&u, message_ns(&u, CONTROL_BYTES) + (n - 1) * message_ns(&u, 65536) +
                               (double)(segments - 1) * wire_ns(&u, 65536));
            }
}

static void a_barrier_takes_log2_n_messages(void **state)
{
    (void)state;
    for (size_t net = 0; net < NNETS; net++)
        for (uint32_t n = 2; n <= 4096; n *= 4) {
            const struct setup u = on(net, "dissemination", TT_BARRIER, n, 0);

            expect(&u, log2_of(n) * message_ns(&u, 1));
        }
}

/* ---- properties without closed forms ---- */

/* Long puts of several rounds share links: their order may differ, their total times may not. */
static void trains_change_nothing_of_weight(void **state)
{
    static const char *const algos[] = { "doubling", "ring", "bruck", "direct" };

    (void)state;
    for (size_t net = 0; net < NNETS; net++)
        for (size_t a = 0; a < sizeof algos / sizeof *algos; a++)
            for (uint32_t n = 4; n <= 32; n += 7) {
                struct setup u = on(net, algos[a], TT_ALLGATHER, n, 1u << 20);
                double trains, whole;

                if (!unit_draw())
                    continue;
                u.segment = 32768;
                trains = time_of(&u, false);
                whole = time_of(&u, true);
                if (fabs(trains / whole - 1) > (strcmp(algos[a], "ring") ? 0.02 : EXACT))
                    fail_msg("%s: %.1f ns with trains, %.1f ns without (%+.2f %%)", text(&u),
                             trains, whole, 100 * (trains / whole - 1));
            }
}

/* Each of two ranks starts, and gets a CTS and 20 segments, each of which passes its rail and is
 * processed. */
static void unawaited_sources_cause_no_events(void **state)
{
    struct setup u = on(0, "doubling", TT_ALLGATHER, 2, 20 * 32768);
    struct tt_des_result result;
    char why[256] = "";
    struct run r;

    (void)state;
    run_of(&r, &u);
    r.conf.whole = true;
    assert_int_equal(tt_des_run(&r.conf, &result, why, sizeof why), TUTTI_OK);
    assert_int_equal(result.segments, 2 * 20);
    assert_int_equal(result.events, 2 * (1 + 2 * (1 + 20)));
}

/* A root ends when its sources are free; there is no other event. */
static void sender_ends_with_free_sources(void **state)
{
    struct setup u = on(0, "binomial", TT_BROADCAST, 2, 20 * 32768);
    struct tt_des_result result;
    char why[256] = "";
    struct run r;

    (void)state;
    run_of(&r, &u);
    assert_int_equal(tt_des_run(&r.conf, &result, why, sizeof why), TUTTI_OK);
    assert_true(fabs(result.first_ns - message_ns(&u, CONTROL_BYTES) - u.send_ns -
                     wire_ns(&u, 20 * 32768)) < 1);
}

/* No rank can receive all others' blocks faster than its link permits. */
static void nothing_is_faster_than_the_links(void **state)
{
    (void)state;
    for (size_t i = 0; i < tt_nalgos; i++)
        for (size_t net = 0; net < NNETS; net++)
            for (uint32_t n = 2; n <= 17; n += 5) {
                struct setup u = on(net, tt_algos[i]->name, TT_ALLGATHER, n, 300000);

                if (tt_algos[i]->kind == TT_ALLGATHER && unit_draw() &&
                    time_of(&u, false) < (n - 1) * wire_ns(&u, 300000))
                    fail_msg("%s: %.1f ns", text(&u), time_of(&u, false));
            }
}

static void every_algorithm_ends_reproducibly(void **state)
{
    uint32_t ran = 0;

    (void)state;
    for (size_t i = 0; i < tt_nalgos; i++)
        for (uint32_t n = 1; n <= 24; n += n < 5 ? 1 : 6)
            for (uint64_t bytes = 4; bytes <= 1u << 20; bytes *= 64) {
                const enum tt_coll_kind kind = tt_algos[i]->kind;
                struct setup u = on(1, tt_algos[i]->name, kind, n, bytes);
                struct tt_des_result first, again;
                char why[256] = "";
                struct run r;

                if (kind == TT_SEND || kind == TT_RECV || kind == TT_ALLTOALLV ||
                    kind == TT_ALLGATHERV || kind == TT_GATHERV || kind == TT_SCATTERV ||
                    kind == TT_REDUCE_SCATTERV)
                    continue;
                r.coll =
                    (struct tt_coll){ .kind = kind, .nranks = n, .elem_bytes = 4, .bytes = bytes };
                if (!tt_algo_find(&r.coll, u.algo) || !unit_draw())
                    continue;
                run_of(&r, &u);
                r.conf.way.direct = i % 2;
                r.conf.jitter_ns = 500;
                r.conf.lane_bytes[TT_NEAR_RACK] = n % 2 ? 0 : 100000;
                if (tt_des_run(&r.conf, &first, why, sizeof why) ||
                    tt_des_run(&r.conf, &again, why, sizeof why))
                    fail_msg("%s: %s", text(&u), why);
                assert_memory_equal(&first, &again, sizeof first);
                ran++;
            }
    assert_in_range(ran, 200 / unit_share(), UINT32_MAX);
}

/* ---- faults ---- */

static double with_fault(const struct setup *u, uint32_t hosts_of, uint32_t rails,
                         struct tt_fault fault, uint32_t nfaults)
{
    struct tt_des_result result;
    char why[256] = "";
    struct run r;

    run_of(&r, u);
    tt_layout_regular(&r.layout, u->n, hosts_of, 1, rails, TT_NODE_MESH);
    r.net.link[TT_NEAR_SOCKET].latency_ns = 100;
    r.net.link[TT_NEAR_SOCKET].bytes_per_s = 1e12;
    r.conf.faults = &fault;
    r.conf.nfaults = nfaults;
    if (tt_des_run(&r.conf, &result, why, sizeof why))
        fail_msg("%s: %s", text(u), why);
    return result.time_ns;
}

static void half_rate_doubles_ring_time(void **state)
{
    struct setup u = on(1, "ring", TT_ALLGATHER, 8, 4u << 20);
    const double whole = with_fault(&u, 1, 1, (struct tt_fault){ .kind = TT_FAULT_LATE_RANK }, 0);
    const double slow = with_fault(
        &u, 1, 1, (struct tt_fault){ .kind = TT_FAULT_SLOW_RAIL, .where = 3, .factor = 2 }, 1);

    (void)state;
    assert_true(slow / whole > 1.95 && slow / whole < 2.05);
}

/* Two ranks per host, with a rail each; one rail fails: its rank uses the other's. Two rings'
 * blocks pass between hosts, over one rail there. */
static void ranks_of_failed_nic_share_another(void **state)
{
    struct setup u = on(1, "direct", TT_ALLGATHER, 8, 4u << 20);
    const double whole = with_fault(&u, 2, 2, (struct tt_fault){ .kind = TT_FAULT_LATE_RANK }, 0);
    const double dead = with_fault(
        &u, 2, 2, (struct tt_fault){ .kind = TT_FAULT_DEAD_RAIL, .where = 1, .index = 1 }, 1);

    (void)state;
    assert_true(dead / whole > 1.9 && dead / whole < 2.1);
}

static void host_without_nic_is_named(void **state)
{
    const struct tt_fault fault = { .kind = TT_FAULT_DEAD_RAIL, .where = 2 };
    struct setup u = on(0, "ring", TT_ALLGATHER, 5, 64);
    struct tt_des_result result;
    char why[256] = "";
    struct run r;

    (void)state;
    run_of(&r, &u);
    r.conf.faults = &fault;
    r.conf.nfaults = 1;
    assert_int_equal(tt_des_run(&r.conf, &result, why, sizeof why), TUTTI_ERR_TIMEOUT);
    assert_non_null(strstr(why, "lost at dead NICs"));
    assert_non_null(strstr(why, "0 of 5 ranks finished"));
}

static void a_late_rank_makes_all_late(void **state)
{
    struct setup u = on(0, "dissemination", TT_BARRIER, 16, 0);
    const double late = with_fault(
        &u, 1, 1, (struct tt_fault){ .kind = TT_FAULT_LATE_RANK, .where = 5, .factor = 1e6 }, 1);

    (void)state;
    assert_true(fabs(late - (1e6 + 4 * message_ns(&u, 1))) < EXACT * late);
}

static void slow_rank_doubles_its_overhead(void **state)
{
    struct setup u = on(2, "flat", TT_BROADCAST, 9, 64);
    const double slow = with_fault(
        &u, 1, 1, (struct tt_fault){ .kind = TT_FAULT_SLOW_RANK, .where = 0, .factor = 2 }, 1);

    (void)state;
    assert_true(fabs(slow - (8 * 2 * u.send_ns + wire_ns(&u, 64) + u.latency_ns + u.receive_ns)) <
                EXACT * slow);
}

static void faults_that_name_nothing_are_refused(void **state)
{
    static const struct tt_fault wrong[] = {
        { TT_FAULT_SLOW_RAIL, 8, 0, 2 },
        { TT_FAULT_DEAD_RAIL, 0, 1, 0 },
        { TT_FAULT_SLOW_UPLINK, 0, TT_NEAR_RACK, 2 },
        { TT_FAULT_SLOW_RANK, 8, 0, 2 },
        { TT_FAULT_SLOW_RANK, 0, 0, 0 },
        { TT_FAULT_LATE_RANK, 0, 0, -1 },
        { TT_FAULT_SLOW_RANK, 0, 0, 2e6 },
        { TT_FAULT_SLOW_RAIL, 0, 0, 1e-60 },
        { TT_FAULT_SLOW_RAIL, 0, 0, INFINITY },
    };
    struct setup u = on(0, "ring", TT_ALLGATHER, 8, 64);

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct tt_des_result result;
        struct unit_stderr caught;
        char why[256], said[1024];
        tutti_status st;
        struct run r;

        run_of(&r, &u);
        r.conf.faults = &wrong[i];
        r.conf.nfaults = 1;
        unit_stderr_catch(&caught);
        st = tt_des_run(&r.conf, &result, why, sizeof why);
        unit_stderr_release(&caught, said, sizeof said);
        if (st != TUTTI_ERR_INVALID || !strstr(said, "fault"))
            fail_msg("fault %zu: status %d, said \"%s\"", i, st, said);
    }
}

/* Checks that the configuration is INVALID, and gets the simulator's message. */
static void refused(const struct run *r, char said[1024])
{
    struct tt_des_result result;
    struct unit_stderr caught;
    char why[256] = "";
    tutti_status st;

    unit_stderr_catch(&caught);
    st = tt_des_run(&r->conf, &result, why, sizeof why);
    unit_stderr_release(&caught, said, 1024);
    if (st != TUTTI_ERR_INVALID)
        fail_msg("status %d, said \"%s\", why \"%s\"", st, said, why);
}

static void faults_of_one_element_are_limited(void **state)
{
    static const enum tt_fault_kind kinds[] = { TT_FAULT_SLOW_RANK, TT_FAULT_SLOW_RAIL };
    struct setup u = on(0, "ring", TT_ALLGATHER, 8, 64);
    char said[1024];

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int up = 0; up < 2; up++) {
            const struct tt_fault fault = { .kind = kinds[i],
                                            .where = 3,
                                            .factor = up ? 2e3 : 5e-4 };
            const struct tt_fault both[] = { fault, fault };
            struct run r;

            run_of(&r, &u);
            r.conf.faults = both;
            r.conf.nfaults = 2;
            refused(&r, said);
            if (!strstr(said, "the product of the factors"))
                fail_msg("kind %zu, factor %g: said \"%s\"", i, fault.factor, said);
        }
}

/* Each source of time alone overflows: a rank's work, a link, a latency, one late rank, another
 * one's wait. */
static void time_overflow_is_an_error(void **state)
{
    const struct tt_fault late[] = { { .kind = TT_FAULT_LATE_RANK, .where = 1, .factor = 5e15 } };
    const struct tt_fault slow[] = { { .kind = TT_FAULT_SLOW_RANK, .where = 1, .factor = 1e6 } };
    char said[1024];

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct setup u = on(0, "ring", TT_ALLGATHER, 4, 1u << 20);
        struct run r;

        run_of(&r, &u);
        r.conf.copy_byte_ns = i == 0 ? 1e10 : 0;
        if (i == 1)
            r.net.link[TT_NEAR_RACK].bytes_per_s = 0.1;
        if (i == 2)
            r.net.link[TT_NEAR_RACK].latency_ns = 4e15;
        r.conf.faults = i == 3 ? late : slow;
        r.conf.nfaults = i >= 3;
        if (i == 4)
            r.conf.way.receive_ns = 1e10;
        refused(&r, said);
        if (!strstr(said, "53 days"))
            fail_msg("case %d: said \"%s\"", i, said);
    }
}

/* A host of 70,000 ranks has 4.9 thousand million pairs. */
static void pair_links_exist_on_first_use(void **state)
{
    const struct setup u = on(0, "ring", TT_ALLGATHER, 70000, 64);
    uint32_t first[3000];
    struct tt_net_path p;
    struct tt_net net;
    struct run r;

    (void)state;
    run_of(&r, &u);
    tt_layout_regular(&r.layout, u.n, u.n, 1, 1, TT_NODE_MESH);
    r.net.link[TT_NEAR_SOCKET] = r.net.link[TT_NEAR_RACK];
    assert_true(tt_des_memory(r.conf.algo, &r.coll, &r.net) < 4ull << 30);
    assert_int_equal(tt_net_init(&net, &r.net, NULL, 0), TUTTI_OK);
    for (int again = 0; again < 2; again++)
        for (uint32_t i = 0; i < 3000; i++) {
            assert_true(tt_net_path(&net, i * 23, i * 23 + 1 - 2 * (i & 1), &p));
            assert_int_equal(p.nhops, 1);
            assert_true(p.server[0] < net.nservers);
            assert_int_equal(tt_net_class(&net, p.server[0]), TT_NEAR_SOCKET);
            if (again)
                assert_int_equal(p.server[0], first[i]);
            else
                first[i] = p.server[0];
        }
    assert_int_equal(net.npairs, 3000);
    tt_net_fini(&net);
}

static void only_separate_links_can_queue(void **state)
{
    struct setup u = on(0, "direct", TT_ALLGATHER, 8, 64);
    struct tt_des_result result;
    char why[256] = "";
    struct run r;

    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        run_of(&r, &u);
        r.layout.group_ranks[TT_NEAR_RACK] = 4;
        r.net.link[TT_NEAR_ZONE].latency_ns = 7000;
        r.net.uplink_bytes_per_s[TT_NEAR_ZONE] = shared ? 1e9 : 0;
        assert_int_equal(tt_des_run(&r.conf, &result, why, sizeof why), TUTTI_OK);
        assert_true(result.puts[TT_NEAR_ZONE] > 0 && result.puts[TT_NEAR_RACK] > 0);
        assert_true(result.queues[TT_NEAR_RACK]);
        assert_int_equal(result.queues[TT_NEAR_ZONE], shared);
    }
}

/* ---- parallel rings ---- */

#define SOFTWARE_NS 1000.0

/* ---- lanes ---- */

/* A broadcast to one other rank, both alone on hosts with several rails, over several lanes. */
static double over_lanes(const struct setup *u, uint32_t rails, uint32_t lanes, uint64_t lane_bytes,
                         struct tt_fault fault, uint32_t nfaults)
{
    struct tt_des_result result;
    char why[256] = "";
    struct run r;

    run_of(&r, u);
    tt_layout_regular(&r.layout, u->n, 1, 1, rails, TT_NODE_MESH);
    r.conf.lanes = lanes;
    r.conf.lane_bytes[TT_NEAR_RACK] = lane_bytes;
    r.conf.faults = &fault;
    r.conf.nfaults = nfaults;
    if (tt_des_run(&r.conf, &result, why, sizeof why))
        fail_msg("%s: %s", text(u), why);
    return result.time_ns;
}

static const struct tt_fault nothing_wrong = { .kind = TT_FAULT_LATE_RANK };

/* 64 segments, each over one of the lanes' rails. More lanes than rails have no effect. */
static void lanes_limit_the_used_rails(void **state)
{
    static const uint32_t lanes[] = { 1, 2, 4, 0, 9 }, rails[] = { 1, 2, 4, 4, 4 };
    struct setup u = on(1, "flat", TT_BROADCAST, 2, 64u << 15);

    (void)state;
    u.send_ns = u.receive_ns = 0;
    for (int i = 0; i < 5; i++) {
        const double ns = 64 + u.latency_ns + wire_ns(&u, 32768.0 * 64 / rails[i]) + u.latency_ns;
        const double got = over_lanes(&u, 4, lanes[i], 0, nothing_wrong, 0);

        if (fabs(got - ns) > EXACT * ns)
            fail_msg("%u lanes: %.1f ns simulated, %.1f expected", lanes[i], got, ns);
    }
}

/* A slow rail takes longer for its segment than the others for theirs, which count only when it has
 * arrived. */
static void segment_counts_after_earlier_ones(void **state)
{
    const struct tt_fault slow = {
        .kind = TT_FAULT_SLOW_RAIL, .where = 1, .index = 1, .factor = 50
    };
    struct setup u = on(1, "flat", TT_BROADCAST, 2, 4u << 15);
    const double ns = over_lanes(&u, 4, 0, 0, slow, 1);

    (void)state;
    assert_true(ns > wire_ns(&u, 50 * 32768.0));
    assert_true(ns < 1.1 * wire_ns(&u, 50 * 32768.0));
}

/* Over a long link each lane carries its outstanding limit per round trip. */
static void lane_limit_applies_per_round_trip(void **state)
{
    struct setup u = on(1, "flat", TT_BROADCAST, 2, 256u << 15);

    (void)state;
    u.latency_ns = 10e6;
    for (uint32_t lanes = 1; lanes <= 4; lanes *= 2) {
        const double trips = 256.0 / (4 * lanes),
                     got = over_lanes(&u, 1, lanes, 4u << 15, nothing_wrong, 0);

        assert_true(got > (trips - 1) * 2 * u.latency_ns && got < (trips + 2) * 2 * u.latency_ns);
    }
}

/* ---- skew ---- */

/* A barrier ends a fixed time after the last rank has arrived, whichever that is. */
static void skew_is_random_and_bounded(void **state)
{
    struct setup u = on(0, "dissemination", TT_BARRIER, 16, 0);
    const double alone = time_of(&u, true);
    double least = 1e9, most = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct tt_des_result result;
        char why[256] = "";
        struct run r;

        run_of(&r, &u);
        r.conf.seed = seed;
        r.conf.skew_ns = 1e6;
        assert_int_equal(tt_des_run(&r.conf, &result, why, sizeof why), TUTTI_OK);
        least = result.time_ns < least ? result.time_ns : least;
        most = result.time_ns > most ? result.time_ns : most;
    }
    assert_true(least > 0.5e6 && most < 1e6 + alone);
    assert_true(most > least);
}

/* The clusters of docs/simulation.md: 4 ranks per host, with one rail each. */
struct cluster {
    enum tt_node_kind node;
    uint32_t nhosts;
    double socket_gbs, between_sockets_gbs, rail_gbs;
};

/* An allgather with segments by the library's rule, and 1 + 1 us of software per message. */
static double gathered_ns(const struct cluster *cluster, const char *algo, uint64_t block)
{
    const struct tt_segment_limits limits = { .segment_bytes = 512 << 10,
                                              .eager_bytes = 32 << 10,
                                              .far_message_ns = 2 * SOFTWARE_NS,
                                              .near_message_ns = 2 * SOFTWARE_NS,
                                              .rail_byte_ns = 1 / cluster->rail_gbs };
    const struct setup u = { .algo = algo,
                             .kind = TT_ALLGATHER,
                             .n = 4 * cluster->nhosts,
                             .bytes = block,
                             .eager = limits.eager_bytes,
                             .latency_ns = 4000,
                             .gbs = cluster->rail_gbs,
                             .send_ns = SOFTWARE_NS,
                             .receive_ns = SOFTWARE_NS };
    struct tt_des_result result;
    struct tt_segments segments;
    char why[256] = "";
    struct run r;

    run_of(&r, &u);
    tt_layout_regular(&r.layout, u.n, 4, cluster->node == TT_NODE_MESH ? 1 : 2, 4, cluster->node);
    r.net.link[TT_NEAR_SOCKET].latency_ns = 2000;
    r.net.link[TT_NEAR_SOCKET].bytes_per_s = cluster->socket_gbs * 1e9;
    r.net.link[TT_NEAR_HOST].latency_ns = 3000;
    r.net.link[TT_NEAR_HOST].bytes_per_s = cluster->between_sockets_gbs * 1e9;
    r.coll.layout = &r.layout;
    segments = tt_segments_choose(r.conf.algo, &r.coll, &limits);
    r.conf.segment_bytes = segments.segment_bytes;
    r.conf.streams = segments.streams;
    r.conf.depth = segments.depth;
    if (tt_des_run(&r.conf, &result, why, sizeof why))
        fail_msg("%s: %s", text(&u), why);
    return result.time_ns;
}

/* Four rails instead of one, unless the network's latency or the software cost of short segments
 * outweighs it. */
static void parallel_rings_beat_the_flat_ring(void **state)
{
    static const struct cluster mesh = { TT_NODE_MESH, 8, 100, 100, 25 },
                                sockets = { TT_NODE_SOCKETS, 16, 50, 20, 12.5 };
    static const struct {
        const struct cluster *cluster;
        uint32_t gathered_mib;
        double less;    /* at least */
    } cases[] = {
        { &mesh, 4, 0.45 }, { &mesh, 16, 0.70 }, { &mesh, 64, 0.72 },
        { &sockets, 4, 0.45 }, { &sockets, 16, 0.63 }, { &sockets, 64, 0.65 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct cluster *cluster = cases[i].cluster;
        const uint64_t block = ((uint64_t)cases[i].gathered_mib << 20) / (4 * cluster->nhosts);
        const double flat = gathered_ns(cluster, "ring", block);
        const double parallel = gathered_ns(cluster, "parallel_rings", block);

        if (parallel > flat * (1 - cases[i].less))
            fail_msg("%u hosts, %u MiB: %.1f us by parallel rings, %.1f by the flat ring",
                     cluster->nhosts, cases[i].gathered_mib, parallel / 1000, flat / 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubling_takes_its_messages_sum),
        cmocka_unit_test(long_doubling_waits_once_for_cts),
        cmocka_unit_test(recursive_halving_adds_between_its_messages),
        cmocka_unit_test(short_ring_takes_n_minus_one),
        cmocka_unit_test(links_or_latency_bound_long_ring),
        cmocka_unit_test(binomial_tree_has_logarithmic_depth),
        cmocka_unit_test(knomial_level_sends_k_minus_one),
        cmocka_unit_test(a_chain_pipelines_its_segments),
        cmocka_unit_test(a_barrier_takes_log2_n_messages),
        cmocka_unit_test(trains_change_nothing_of_weight),
        cmocka_unit_test(unawaited_sources_cause_no_events),
        cmocka_unit_test(sender_ends_with_free_sources),
        cmocka_unit_test(nothing_is_faster_than_the_links),
        cmocka_unit_test(every_algorithm_ends_reproducibly),
        cmocka_unit_test(lanes_limit_the_used_rails),
        cmocka_unit_test(segment_counts_after_earlier_ones),
        cmocka_unit_test(lane_limit_applies_per_round_trip),
        cmocka_unit_test(skew_is_random_and_bounded),
        cmocka_unit_test(half_rate_doubles_ring_time),
        cmocka_unit_test(ranks_of_failed_nic_share_another),
        cmocka_unit_test(host_without_nic_is_named),
        cmocka_unit_test(a_late_rank_makes_all_late),
        cmocka_unit_test(slow_rank_doubles_its_overhead),
        cmocka_unit_test(faults_that_name_nothing_are_refused),
        cmocka_unit_test(faults_of_one_element_are_limited),
        cmocka_unit_test(time_overflow_is_an_error),
        cmocka_unit_test(pair_links_exist_on_first_use),
        cmocka_unit_test(only_separate_links_can_queue),
        cmocka_unit_test(parallel_rings_beat_the_flat_ring),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
