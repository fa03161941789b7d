/* The WAN as a pure state machine: sent and received packets, in virtual time. */
#include <math.h>
#include <netinet/ip.h>
#include <string.h>

#include "base/clock.h"
#include "base/prng.h"
#include "support/unit.h"
#include "support/wan_net.h"
#include "support/wan_packet.h"
#include "wan/frames.h"

#define ROOM_BYTES (64u << 20)
#define NHOSTS 4

static uint8_t frame[WAN_FRAME_BYTES_MAX];

/* NHOSTS hosts without limits. */
static struct wan_matrix plain(void)
{
    struct wan_matrix m = { .nhosts = NHOSTS, .seed = 1 };

    for (uint32_t h = 0; h < NHOSTS; h++)
        snprintf(m.host[h].name, sizeof m.host[h].name, "h%u", h);
    return m;
}

static struct wan_net *net_of(const struct wan_matrix *m)
{
    struct wan_net *net;

    assert_int_equal(wan_net_create(&net, m, ROOM_BYTES), TUTTI_OK);
    return net;
}

static void send_plain(struct wan_net *net, uint64_t now_ns, uint32_t from, uint32_t to,
                       uint32_t payload)
{
    wan_net_send(net, now_ns, from, frame, frame_make(frame, false, from, to, payload, 0, now_ns));
}

/* Sends a packet of a flow: its number is the TCP source port. */
static void send_flow(struct wan_net *net, uint64_t now_ns, uint8_t flow, uint32_t payload)
{
    const size_t bytes = frame_make(frame, false, 0, 1, payload, 0, now_ns);

    frame[WAN_VNET_BYTES + sizeof(struct iphdr) + 1] = flow;
    wan_net_send(net, now_ns, 0, frame, bytes);
}

static uint8_t flow_of(const struct wan_arrival *a)
{
    return a->frame[WAN_VNET_BYTES + sizeof(struct iphdr) + 1];
}

/* Returns the next arrival, at exactly its time. */
static struct wan_arrival next(struct wan_net *net)
{
    const uint64_t due_ns = wan_net_due(net);
    struct wan_arrival a;

    assert_int_not_equal(due_ns, TT_NEVER);
    if (due_ns > 0)
        assert_false(wan_net_take(net, due_ns - 1, &a));
    while (!wan_net_take(net, wan_net_due(net), &a))
        assert_int_not_equal(wan_net_due(net), TT_NEVER);
    return a;
}

static void delays_are_exact_in_each_direction(void **state)
{
    struct wan_matrix m = plain();
    struct wan_net *net;

    (void)state;
    for (uint32_t a = 0; a < NHOSTS; a++)
        for (uint32_t b = 0; b < NHOSTS; b++)
            m.pair[a][b].delay_ns = (10 * a + b) * 100000;
    net = net_of(&m);
    for (uint32_t a = 0; a < NHOSTS; a++)
        for (uint32_t b = 0; b < NHOSTS; b++)
            if (a != b) {
                struct wan_arrival arrival;

                send_plain(net, 5 * TT_SECOND, a, b, 100);
                arrival = next(net);
                assert_int_equal(arrival.due_ns, 5 * TT_SECOND + m.pair[a][b].delay_ns);
                assert_int_equal(arrival.from, a);
                assert_int_equal(arrival.to, b);
            }
    assert_int_equal(wan_net_due(net), TT_NEVER);
    wan_net_destroy(net);
}

static void line_keeps_rate_and_drops(void **state)
{
    struct wan_matrix m = plain();
    const uint64_t packet_ns = 1000 * 8 * 1000;         /* 1000 bytes at 1 Mbit/s */
    struct wan_net *net;

    (void)state;
    m.pair[0][1] = (struct wan_pair){ .line = { .bit_s = 1000000, .queue_bytes = 20000 },
                                      .delay_ns = 7 * TT_MS };
    net = net_of(&m);
    for (int i = 0; i < 50; i++)
        send_plain(net, 0, 0, 1, 1000 - FRAME_HEADER_4);
    for (uint64_t i = 1; i <= 20; i++)
        assert_int_equal(next(net).due_ns, i * packet_ns + 7 * TT_MS);
    assert_int_equal(wan_net_due(net), TT_NEVER);
    assert_int_equal(wan_net_count(net, 0, 1)->dropped_pair, 30);
    assert_int_equal(wan_net_count(net, 0, 1)->arrived_bytes, 20000);

    send_plain(net, TT_SECOND, 0, 1, 1000 - FRAME_HEADER_4);    /* the queue is empty again */
    assert_int_equal(next(net).due_ns, TT_SECOND + packet_ns + 7 * TT_MS);
    wan_net_destroy(net);
}

static void long_packet_loses_overflowing_segments(void **state)
{
    struct wan_matrix m = plain();
    struct wan_arrival a;
    uint32_t payload, offset;
    struct wan_net *net;

    (void)state;
    m.pair[0][1].line = (struct wan_line){ .bit_s = 1000000, .queue_bytes = 20000 };
    net = net_of(&m);
    wan_net_send(net, 0, 0, frame, frame_make(frame, false, 0, 1, 50 * 960, 960, 3));
    a = next(net);
    frame_content(a.frame, a.bytes, &payload, &offset);
    frame_check(a.frame, a.bytes);
    assert_int_equal(payload, 20 * 960);
    assert_int_equal(offset, 0);
    assert_int_equal(wan_net_count(net, 0, 1)->dropped_pair, 30);
    wan_net_destroy(net);
}

/* Two senders share a receiver's down line; packets beyond its rate wait, and are dropped if they
 * do not fit. */
static void down_line_limits_received_data(void **state)
{
    struct wan_matrix m = plain();
    uint64_t dropped, arrived = 0, last_ns = 0;
    struct wan_net *net;

    (void)state;
    m.host[2].down = (struct wan_line){ .bit_s = 8000000, .queue_bytes = 30000 };
    m.pair[0][2].delay_ns = 30 * TT_MS;
    m.pair[1][2].delay_ns = 10 * TT_MS;
    net = net_of(&m);
    for (uint64_t t = 0; t < 100; t++) {        /* 1 MB/s each, and 1 MB/s can pass */
        send_plain(net, t * TT_MS, 0, 2, 960);
        send_plain(net, t * TT_MS, 1, 2, 960);
    }
    while (wan_net_due(net) != TT_NEVER) {
        const struct wan_arrival a = next(net);

        if (arrived > 0)
            assert_true(a.due_ns - last_ns >= TT_MS);
        last_ns = a.due_ns;
        arrived++;
    }
    dropped = wan_net_count(net, 0, 2)->dropped_down + wan_net_count(net, 1, 2)->dropped_down;
    assert_int_equal(arrived + dropped, 200);
    /* For 80 ms both arrive. In the first ms there are 2 packets, in each later one one more, until
     * there are 30: from then on one is sent and one is dropped in each of the other 51. */
    assert_int_equal(dropped, 51);
    wan_net_destroy(net);
}

static void losses_follow_the_seed(void **state)
{
    enum { N = 20000 };
    static bool arrived[3][N];
    static const double loss = 0.02;

    (void)state;
    for (uint32_t run = 0; run < 3; run++) {
        struct wan_matrix m = plain();
        struct wan_net *net;
        uint64_t lost;

        m.seed = run == 2 ? 8 : 7;
        m.pair[0][1].loss = loss;
        net = net_of(&m);
        for (uint64_t i = 0; i < N; i++) {
            struct wan_arrival a;

            send_plain(net, i, 0, 1, 100);
            send_plain(net, i, 1, 0, 100);      /* another pair, without effect */
            while (wan_net_take(net, i, &a))
                arrived[run][i] |= a.to == 1;
        }
        lost = wan_net_count(net, 0, 1)->lost;
        assert_true(fabs((double)lost - N * loss) < 5 * sqrt(N * loss * (1 - loss)));
        assert_int_equal(lost + wan_net_count(net, 0, 1)->arrived_segments, N);
        assert_int_equal(wan_net_count(net, 1, 0)->lost, 0);
        wan_net_destroy(net);
    }
    assert_memory_equal(arrived[0], arrived[1], sizeof arrived[0]);
    assert_memory_not_equal(arrived[0], arrived[2], sizeof arrived[0]);
}

/* Marks the received segments of 100 bytes, of packets with this number of segments each. */
static void mark_arrived(bool *arrived, uint32_t segments, uint32_t each)
{
    struct wan_matrix m = plain();
    struct wan_net *net;

    m.pair[0][1].loss = 0.3;
    net = net_of(&m);
    for (uint32_t first = 0; first < segments; first += each) {
        struct wan_arrival a;

        wan_net_send(net, first, 0, frame, frame_make(frame, false, 0, 1, each * 100, 100, first));
        while (wan_net_take(net, first, &a)) {
            uint32_t payload, offset;
            const uint8_t *content = frame_content(a.frame, a.bytes, &payload, &offset);

            frame_check(a.frame, a.bytes);
            for (uint32_t i = 0; i < payload; i++)
                assert_int_equal(content[i], frame_byte(first, offset + i));
            for (uint32_t i = 0; i < payload / 100; i++)
                arrived[first + offset / 100 + i] = true;
        }
    }
    wan_net_destroy(net);
}

static void losses_are_independent_of_packet_length(void **state)
{
    enum { N = 600 };
    bool one_by_one[N] = { 0 }, together[N] = { 0 };

    (void)state;
    mark_arrived(one_by_one, N, 1);
    mark_arrived(together, N, 20);
    assert_memory_equal(one_by_one, together, sizeof together);
}

/* Runs of lost segments have the mean length of the matrix, and the share of lost ones is as
 * without bursts. */
static void losses_come_in_bursts(void **state)
{
    enum { SEGMENTS = 200000 };
    struct wan_matrix m = plain();
    uint64_t nlost, nbursts = 0, before = 0;
    struct wan_net *net;
    bool lost = false;

    (void)state;
    m.pair[0][1].loss = 0.02;
    m.pair[0][1].burst = 8;
    net = net_of(&m);
    for (int i = 0; i < SEGMENTS; i++) {
        struct wan_arrival a;

        send_plain(net, 0, 0, 1, 100);
        while (wan_net_take(net, 0, &a))
            ;
        nlost = wan_net_count(net, 0, 1)->lost;
        nbursts += nlost > before && !lost;
        lost = nlost > before;
        before = nlost;
    }
    assert_true(fabs((double)before / SEGMENTS - 0.02) < 0.003);
    assert_true(fabs((double)before / (double)nbursts - 8) < 0.8);
    wan_net_destroy(net);
}

/* A burst as long as the bucket passes without delay; what exceeds it is dropped. */
static void policer_drops_instead_of_delaying(void **state)
{
    struct wan_matrix m = plain();
    struct wan_net *net;

    (void)state;
    m.pair[0][1].line =
        (struct wan_line){ .bit_s = 8000000, .queue_bytes = 20000, .discipline = WAN_POLICER };
    net = net_of(&m);
    for (uint64_t s = 0; s < 2; s++) {
        for (int i = 0; i < 50; i++)
            send_plain(net, s * TT_SECOND, 0, 1, 1000 - FRAME_HEADER_4);
        for (int i = 0; i < 20; i++)
            assert_int_equal(next(net).due_ns, s * TT_SECOND);
        assert_int_equal(wan_net_due(net), TT_NEVER);
    }
    assert_int_equal(wan_net_count(net, 0, 1)->dropped_pair, 60);
    for (uint64_t ms = 0; ms < 100; ms++)       /* at the rate of the line, nothing is dropped */
        send_plain(net, 3 * TT_SECOND + ms * TT_MS, 0, 1, 1000 - FRAME_HEADER_4);
    assert_int_equal(wan_net_count(net, 0, 1)->dropped_pair, 60);
    wan_net_destroy(net);
}

/* A flow with 3 packets starts while one with 40 waits: the packets of both leave in turn. When the
 * queue is full, the long flow loses its last packets. */
static void fair_queue_sends_flows_in_turn(void **state)
{
    enum { ELEPHANT = 40, MOUSE = 3, QUEUE = 30 };
    struct wan_matrix m = plain();
    uint64_t nlong = 0, nshort = 0, last_short_ns = 0;
    struct wan_net *net;

    (void)state;
    m.pair[0][1].line =
        (struct wan_line){ .bit_s = 8000000, .queue_bytes = QUEUE * 1000, .discipline = WAN_FAIR };
    m.pair[0][1].delay_ns = 5 * TT_MS;
    net = net_of(&m);
    for (int i = 0; i < ELEPHANT; i++)
        send_flow(net, 0, 1, 1000 - FRAME_HEADER_4);
    for (int i = 0; i < MOUSE; i++)
        send_flow(net, 0, 2, 1000 - FRAME_HEADER_4);
    while (wan_net_due(net) != TT_NEVER) {
        const struct wan_arrival a = next(net);

        nlong += flow_of(&a) == 1;
        nshort += flow_of(&a) == 2;
        last_short_ns = flow_of(&a) == 2 ? a.due_ns : last_short_ns;
        assert_int_equal(a.due_ns, (nlong + nshort) * TT_MS + 5 * TT_MS);
    }
    assert_int_equal(nshort, MOUSE);
    assert_int_equal(nlong, QUEUE + 1 - MOUSE);     /* one is on the line */
    assert_true(last_short_ns <= 5 * TT_MS + 12 * TT_MS);
    assert_int_equal(wan_net_count(net, 0, 1)->dropped_pair, ELEPHANT - nlong);
    wan_net_destroy(net);
}

/* A packet that leaves its fair queue is not counted twice. */
static void fair_queue_may_fill_the_room(void **state)
{
    enum { PACKETS_IN_ROOM = 3 };
    struct wan_matrix m = plain();
    const size_t bytes = WAN_VNET_BYTES + FRAME_HEADER_4 + 1000;
    struct wan_net *net;

    (void)state;
    m.pair[0][1].line =
        (struct wan_line){ .bit_s = 8000000, .queue_bytes = 100000, .discipline = WAN_FAIR };
    m.pair[0][1].delay_ns = TT_SECOND;
    assert_int_equal(wan_net_create(&net, &m, PACKETS_IN_ROOM * bytes), TUTTI_OK);
    for (int i = 0; i < PACKETS_IN_ROOM; i++)
        send_plain(net, 0, 0, 1, 1000);
    for (int i = 0; i < PACKETS_IN_ROOM; i++)
        next(net);
    assert_int_equal(wan_net_due(net), TT_NEVER);
    assert_int_equal(wan_net_count(net, 0, 1)->dropped_room, 0);
    wan_net_destroy(net);
}

static void shorter_delay_causes_no_overtaking(void **state)
{
    struct wan_matrix m = plain();
    struct wan_net *net;

    (void)state;
    m.pair[0][1].delay_ns = 50 * TT_MS;
    net = net_of(&m);
    send_plain(net, 0, 0, 1, 100);
    assert_int_equal(wan_net_change(net, 0, 1, "delay_ms", 1), TUTTI_OK);
    send_plain(net, TT_MS, 0, 1, 200);
    send_plain(net, 60 * TT_MS, 0, 1, 300);
    assert_int_equal(next(net).bytes, WAN_VNET_BYTES + FRAME_HEADER_4 + 100);
    assert_int_equal(wan_net_due(net), 50 * TT_MS);
    assert_int_equal(next(net).bytes, WAN_VNET_BYTES + FRAME_HEADER_4 + 200);
    assert_int_equal(next(net).due_ns, 61 * TT_MS);
    wan_net_destroy(net);
}

static void path_can_be_cut_and_restored(void **state)
{
    const struct wan_matrix m = plain();
    struct wan_net *net = net_of(&m);

    (void)state;
    assert_int_equal(wan_net_change(net, 0, 1, "loss", 1), TUTTI_OK);
    for (uint64_t t = 0; t < 100; t++)
        send_plain(net, t, 0, 1, 100);
    send_plain(net, 100, 1, 0, 100);
    assert_int_equal(wan_net_count(net, 0, 1)->lost, 100);
    assert_int_equal(next(net).to, 0);
    assert_int_equal(wan_net_change(net, 0, 1, "loss", 0), TUTTI_OK);
    send_plain(net, 200, 0, 1, 100);
    assert_int_equal(next(net).to, 1);
    wan_net_destroy(net);
}

/* Without losses, a burst that has begun ends. */
static void burst_ends_if_the_path_is_restored(void **state)
{
    struct wan_matrix m = plain();
    struct wan_net *net;

    (void)state;
    m.pair[0][1].burst = 1000;
    net = net_of(&m);
    assert_int_equal(wan_net_change(net, 0, 1, "loss", 1), TUTTI_OK);
    send_plain(net, 0, 0, 1, 100);
    assert_int_equal(wan_net_count(net, 0, 1)->lost, 1);
    assert_int_equal(wan_net_change(net, 0, 1, "loss", 0), TUTTI_OK);
    send_plain(net, 1, 0, 1, 100);
    assert_int_equal(wan_net_count(net, 0, 1)->lost, 1);
    wan_net_destroy(net);
}

static void data_in_flight_is_bounded(void **state)
{
    struct wan_matrix m = plain();
    const size_t bytes = WAN_VNET_BYTES + FRAME_HEADER_4 + 1000;
    struct wan_net *net;

    (void)state;
    m.pair[0][1].delay_ns = TT_SECOND;
    assert_int_equal(wan_net_create(&net, &m, 10 * bytes), TUTTI_OK);
    for (int i = 0; i < 15; i++)
        send_plain(net, 0, 0, 1, 1000);
    assert_int_equal(wan_net_count(net, 0, 1)->dropped_room, 5);
    for (int i = 0; i < 10; i++)
        next(net);
    send_plain(net, 2 * TT_SECOND, 0, 1, 1000);
    assert_int_equal(next(net).due_ns, 3 * TT_SECOND);
    wan_net_destroy(net);
}

/* ---- any traffic ---- */

#define PACKETS 400

/* Of one run: the packets sent from host to host, in order, and how many of them have arrived. */
struct traffic {
    uint64_t seed;
    uint64_t stamps[NHOSTS][NHOSTS][PACKETS];
    uint32_t nsent[NHOSTS][NHOSTS], at[NHOSTS][NHOSTS];
    uint64_t down_bytes[NHOSTS];
};

static struct wan_line drawn_line(struct tt_prng *p, uint64_t bit_s)
{
    return (struct wan_line){ .bit_s = tt_prng_below(p, 3) * bit_s,
                              .queue_bytes = 20000 + tt_prng_below(p, 100000) };
}

/* All packets have the same ports, i.e. those of a pair are one flow, which stays in order. */
static struct wan_matrix drawn_matrix(struct tt_prng *p)
{
    struct wan_matrix m = plain();

    m.seed = tt_prng_u64(p);
    for (uint32_t a = 0; a < NHOSTS; a++) {
        m.host[a].up = drawn_line(p, 40000000);
        m.host[a].down = drawn_line(p, 30000000);
        for (uint32_t b = 0; b < NHOSTS; b++) {
            m.pair[a][b] = (struct wan_pair){ .line = drawn_line(p, 20000000),
                                              .delay_ns = tt_prng_below(p, 50) * TT_MS,
                                              .loss = (double)tt_prng_below(p, 3) * 0.05,
                                              .burst = (double)tt_prng_below(p, 5) };
            m.pair[a][b].line.discipline = (enum wan_discipline)tt_prng_below(p, 3);
        }
    }
    return m;
}

/* An arrival has complete, unchanged segments of one packet, which was sent after the packets that
 * arrived earlier from the same host. */
static void check_arrival(struct traffic *t, const struct wan_matrix *m,
                          const struct wan_arrival *a)
{
    uint32_t *at = &t->at[a->from][a->to];
    uint32_t payload, offset;
    const uint8_t *content = frame_content(a->frame, a->bytes, &payload, &offset);
    const struct wan_line *down = &m->host[a->to].down;
    struct wan_shape s;

    frame_check(a->frame, a->bytes);
    for (; *at < t->nsent[a->from][a->to]; ++*at) {
        uint32_t i = 0;

        while (i < payload && content[i] == frame_byte(t->stamps[a->from][a->to][*at], offset + i))
            i++;
        if (i == payload)
            break;
    }
    if (*at == t->nsent[a->from][a->to])
        fail_msg("seed %llu: %u bytes from %u to %u that nobody sent, or too late",
                 (unsigned long long)t->seed, payload, a->from, a->to);
    assert_true(wan_shape_read(&s, a->frame, a->bytes, NHOSTS));
    t->down_bytes[a->to] += wan_shape_bytes(&s, s.nsegments);
    if (down->bit_s)
        assert_true((double)t->down_bytes[a->to] * 8e9 <= (double)down->bit_s * (double)a->due_ns);
}

static void check_counts(const struct traffic *t, const struct wan_net *net)
{
    for (uint32_t a = 0; a < NHOSTS; a++)
        for (uint32_t b = 0; b < NHOSTS; b++) {
            const struct wan_count *c = wan_net_count(net, a, b);
            const uint64_t gone =
                c->lost + c->dropped_up + c->dropped_pair + c->dropped_down + c->dropped_room;

            if (c->segments != c->arrived_segments + gone || c->packets != t->nsent[a][b])
                fail_msg("seed %llu: from %u to %u %llu segments came, but %llu arrived and %llu "
                         "did not",
                         (unsigned long long)t->seed, a, b, (unsigned long long)c->segments,
                         (unsigned long long)c->arrived_segments, (unsigned long long)gone);
        }
}

static void run_traffic(uint64_t seed)
{
    static struct traffic t;
    struct wan_arrival arrival;
    struct tt_prng p;
    struct wan_matrix m;
    struct wan_net *net;
    uint64_t now_ns = 0;

    memset(&t, 0, sizeof t);
    t.seed = seed;
    tt_prng_init(&p, seed);
    m = drawn_matrix(&p);
    net = net_of(&m);
    for (int i = 0; i < PACKETS; i++) {
        const uint32_t from = (uint32_t)tt_prng_below(&p, NHOSTS);
        const uint32_t to = (from + 1 + (uint32_t)tt_prng_below(&p, NHOSTS - 1)) % NHOSTS;
        const uint32_t payload =
            8 + (uint32_t)tt_prng_below(&p, tt_prng_below(&p, 2) ? 20000 : 1400);
        const uint64_t stamp = seed * PACKETS + (uint64_t)i;

        now_ns += tt_prng_below(&p, 2 * TT_MS);
        t.stamps[from][to][t.nsent[from][to]++] = stamp;
        wan_net_send(net, now_ns, from, frame,
                     frame_make(frame, tt_prng_below(&p, 2), from, to, payload, 1400, stamp));
        while (wan_net_take(net, now_ns, &arrival))
            check_arrival(&t, &m, &arrival);
    }
    while (wan_net_take(net, TT_NEVER - 1, &arrival))
        check_arrival(&t, &m, &arrival);
    check_counts(&t, net);
    wan_net_destroy(net);
}

static void traffic_arrives_ordered_or_is_counted(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++)
        if (unit_draw())
            run_traffic(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_are_exact_in_each_direction),
        cmocka_unit_test(line_keeps_rate_and_drops),
        cmocka_unit_test(long_packet_loses_overflowing_segments),
        cmocka_unit_test(down_line_limits_received_data),
        cmocka_unit_test(losses_follow_the_seed),
        cmocka_unit_test(losses_are_independent_of_packet_length),
        cmocka_unit_test(losses_come_in_bursts),
        cmocka_unit_test(policer_drops_instead_of_delaying),
        cmocka_unit_test(fair_queue_sends_flows_in_turn),
        cmocka_unit_test(fair_queue_may_fill_the_room),
        cmocka_unit_test(shorter_delay_causes_no_overtaking),
        cmocka_unit_test(path_can_be_cut_and_restored),
        cmocka_unit_test(burst_ends_if_the_path_is_restored),
        cmocka_unit_test(data_in_flight_is_bounded),
        cmocka_unit_test(traffic_arrives_ordered_or_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
