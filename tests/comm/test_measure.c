/* The constants of the cost model: plausible under any load, and bitwise identical on every
 * rank. */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/prng.h"
#include "comm/measure.h"
#include "support/unit.h"

#define MODEL_FIELDS (sizeof(struct tt_cost_model) / sizeof(double))
#define FIELDS          \
    (2 * MODEL_FIELDS + \
     (sizeof(struct tt_work_costs) + sizeof(struct tt_hosts_costs)) / sizeof(double))
#define CARD_BYTES (8 * FIELDS)

_Static_assert(sizeof(struct tt_constants) == FIELDS * sizeof(double), "all of it is doubles");

static void fields_of(const struct tt_constants *c, double out[FIELDS])
{
    memcpy(out, c, sizeof *c);
}

static void check_within_reason(const struct tt_constants *c)
{
    double measured[FIELDS], assumed[FIELDS];

    fields_of(c, measured);
    fields_of(&tt_constants_default, assumed);
    for (size_t i = 0; i < FIELDS; i++)
        if (!(measured[i] >= assumed[i] / 4 && measured[i] <= assumed[i] * 4))
            fail_msg("field %zu is %g, which is far from %g", i, measured[i], assumed[i]);
}

static void measurements_are_clamped_around_the_default(void **state)
{
    struct tt_constants c;

    (void)state;
    for (int i = 0; i < 5; i++) {
        memset(&c, 0xff, sizeof c);
        tt_constants_measure(&c);
        check_within_reason(&c);
        assert_true(c.shm.copy_byte_ns == c.tcp.copy_byte_ns);
        assert_true(c.shm.reduce_byte_ns == c.tcp.reduce_byte_ns);
    }
}

/* With a thread bound to one processor, as ranks are: the measurement uses another one if there is
 * one, and leaves the binding unchanged. */
static void measurement_keeps_the_binding(void **state)
{
    struct tt_constants c;
    cpu_set_t all, one, after;
    int cpu = 0;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    tt_constants_measure(&c);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_true(CPU_EQUAL(&one, &after));
    check_within_reason(&c);
}

/* ---- unauthenticated peers on loopback ---- */

struct crowd {
    int listener, own;
    int stranger[TT_MEASURE_STRANGERS_MAX + 1];
};

static int connected(const struct sockaddr_in *to)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)to, sizeof *to), 0);
    return fd;
}

/* Creates a non-blocking listener with connections from `strangers` peers, and then from its own
 * socket. */
static void crowd_init(struct crowd *c, uint32_t strangers)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof at;

    c->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(c->listener >= 0);
    assert_int_equal(bind(c->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(c->listener, 2 * TT_MEASURE_STRANGERS_MAX), 0);
    assert_int_equal(getsockname(c->listener, (struct sockaddr *)&at, &bytes), 0);
    for (uint32_t i = 0; i < strangers; i++)
        c->stranger[i] = connected(&at);
    c->own = connected(&at);
}

static in_port_t port_of(int fd)
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    return at.sin_port;
}

/* Returns whether a connection to the listener has this local port. Connections to different
 * listeners may have the same one. */
static bool crowd_has_port(const struct crowd *c, uint32_t strangers, in_port_t port)
{
    for (uint32_t i = 0; i < strangers; i++)
        if (port_of(c->stranger[i]) == port)
            return true;
    return port_of(c->own) == port;
}

static void crowd_fini(struct crowd *c, uint32_t strangers)
{
    for (uint32_t i = 0; i < strangers; i++)
        close(c->stranger[i]);
    close(c->own);
    close(c->listener);
}

/* The accepted connection is the other end of the own socket, whichever came first; others are
 * closed, and their number is limited. */
static void earlier_stranger_is_not_own_connection(void **state)
{
    static const uint32_t crowds[] = { 0, 1, 3, TT_MEASURE_STRANGERS_MAX,
                                       TT_MEASURE_STRANGERS_MAX + 1 };

    (void)state;
    for (size_t i = 0; i < sizeof crowds / sizeof *crowds; i++) {
        struct crowd c;
        uint8_t byte = 7;
        int fd;

        crowd_init(&c, crowds[i]);
        fd = tt_measure_accept_own(c.listener, c.own);
        for (uint32_t k = 0; k < crowds[i]; k++)
            assert_int_equal(recv(c.stranger[k], &byte, 1, 0), 0);      /* closed */
        if (crowds[i] > TT_MEASURE_STRANGERS_MAX) {
            assert_int_equal(fd, -1);
        } else {
            byte = 7;
            assert_int_equal(send(c.own, &byte, 1, MSG_NOSIGNAL), 1);
            byte = 0;
            assert_int_equal(recv(fd, &byte, 1, MSG_WAITALL), 1);
            assert_int_equal(byte, 7);
            close(fd);
        }
        crowd_fini(&c, crowds[i]);
    }
}

/* Only other peers connect: the wait for the own connection ends. */
static void strangers_only_end_the_wait(void **state)
{
    struct crowd c, other;

    (void)state;
    crowd_init(&c, 3);
    crowd_init(&other, 0);
    while (crowd_has_port(&c, 3, port_of(other.own))) {
        crowd_fini(&other, 0);
        crowd_init(&other, 0);
    }
    assert_int_equal(tt_measure_accept_own(c.listener, other.own), -1);
    crowd_fini(&other, 0);
    crowd_fini(&c, 3);
}

/* ---- cards ---- */

static void card_write(const struct tt_constants *c, uint8_t card[CARD_BYTES])
{
    struct tt_writer w;

    tt_writer_init(&w, card, CARD_BYTES);
    tt_constants_write(c, &w);
    assert_false(w.bad);
    assert_int_equal(tt_writer_bytes(&w), CARD_BYTES);
}

/* A card has whole picoseconds: after reading and writing it again it is bitwise identical, and
 * near the original. */
static void check_card(const struct tt_constants *c)
{
    uint8_t card[CARD_BYTES], again[CARD_BYTES];
    struct tt_constants first, second;
    double in[FIELDS], out[FIELDS];
    struct tt_reader r;

    card_write(c, card);
    tt_reader_init(&r, card, sizeof card);
    tt_constants_read(&first, &r);
    assert_false(r.bad);
    assert_ptr_equal(r.at, r.end);
    fields_of(c, in);
    fields_of(&first, out);
    for (size_t i = 0; i < FIELDS; i++)
        assert_true(fabs(in[i] - out[i]) < 0.00101);

    tt_reader_init(&r, card, sizeof card);
    tt_constants_read(&second, &r);
    assert_memory_equal(&second, &first, sizeof first);
    card_write(&first, again);
    tt_reader_init(&r, again, sizeof again);
    tt_constants_read(&second, &r);
    fields_of(&second, in);
    for (size_t i = 0; i < FIELDS; i++)
        assert_true(fabs(in[i] - out[i]) < 0.00101);
}

static void inter_host_links_apply_across_hosts(void **state)
{
    const struct tt_work_costs *w = &tt_constants_default.work;
    struct tt_constants c = tt_constants_default;
    struct tt_tune_costs before, costs;
    struct tt_cost_model m;
    double ends_ns;

    (void)state;
    tt_constants_costs(&c, true, 4, &before);
    ends_ns = before.far.send_ns + before.far.receive_ns;
    assert_true(before.far_byte_ns == 0 && ends_ns > w->tcp_send_ns + w->tcp_receive_ns);
    c.hosts = (struct tt_hosts_costs){ .way_ns = 60000, .rail_byte_ns = 8 };
    tt_constants_costs(&c, true, 4, &costs);
    assert_true(costs.far_byte_ns == 8 && fabs(costs.far_latency_ns - (60000 - ends_ns)) < 1e-6);
    assert_true(costs.near_latency_ns == before.near_latency_ns);
    tt_constants_model(&c, false, TT_NEAR_RACK, &m);
    assert_true(m.message_ns == 60000 && m.byte_ns == 8);
    tt_constants_model(&c, false, TT_NEAR_HOST, &m);
    assert_true(m.message_ns == c.tcp.message_ns && m.byte_ns == c.tcp.byte_ns);
    /* at least the measured cost of the ends */
    c.hosts = (struct tt_hosts_costs){ .way_ns = 1000, .rail_byte_ns = 0.01 };
    tt_constants_costs(&c, true, 4, &costs);
    tt_constants_model(&c, false, TT_NEAR_RACK, &m);
    assert_true(costs.far_latency_ns == before.far_latency_ns && m.byte_ns == c.tcp.byte_ns);
}

/* The measured latency between ranks includes the work of both ends, which a simulation adds
 * itself. */
static void end_costs_are_subtracted_from_latency(void **state)
{
    const struct tt_constants *c = &tt_constants_default;
    struct tt_constants near_nic = *c;
    struct tt_tune_costs costs;
    struct tt_ends ends;

    (void)state;
    near_nic.hosts.way_ns = 2000;       /* less than the work of TCP's ends */
    tt_constants_ends(&near_nic, true, &ends);
    tt_constants_costs(&near_nic, true, 4, &costs);
    assert_true(fabs(ends.far_ns + tt_constants_latency_ns(&near_nic, true, TT_NEAR_RACK, 2000) -
                     2000) < 1e-6);
    assert_true(fabs(costs.far.send_ns + costs.far.receive_ns + costs.far_latency_ns - 2000) <
                1e-6);
    for (int shm = 0; shm < 2; shm++) {
        tt_constants_ends(c, shm, &ends);
        tt_constants_costs(c, shm, 4, &costs);
        assert_true(fabs(ends.far_ns - costs.far.send_ns - costs.far.receive_ns) < 1e-6);
        assert_true(fabs(ends.near_ns - costs.near.send_ns - costs.near.receive_ns) < 1e-6);
        assert_true(fabs(tt_constants_latency_ns(c, shm, TT_NEAR_WAN, 4e7) - (4e7 - ends.far_ns)) <
                    1e-6);
        assert_true(
            fabs(tt_constants_latency_ns(c, shm, TT_NEAR_HOST, 1e5) - (1e5 - ends.near_ns)) < 1e-6);
        assert_true(tt_constants_latency_ns(c, shm, TT_NEAR_RACK, 1) == costs.far_latency_ns);
        assert_true(tt_constants_latency_ns(c, shm, TT_NEAR_SOCKET, 1) == costs.near_latency_ns);
    }
}

static void a_card_carries_the_constants(void **state)
{
    struct tt_constants c;
    double random[FIELDS];
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 9);
    check_card(&tt_constants_default);
    tt_constants_measure(&c);
    check_card(&c);
    for (uint32_t i = 0; i < 1000; i++) {
        for (size_t k = 0; k < FIELDS; k++)
            random[k] = (double)tt_prng_below(&p, 1ull << tt_prng_below(&p, 40)) / 1024;
        memcpy(&c, random, sizeof c);
        check_card(&c);
    }
}

static void a_truncated_card_is_noticed(void **state)
{
    uint8_t card[CARD_BYTES];
    struct tt_constants c;

    (void)state;
    card_write(&tt_constants_default, card);
    for (size_t n = 0; n < CARD_BYTES; n++) {
        struct tt_reader r;
        double out[FIELDS];

        tt_reader_init(&r, card, n);
        tt_constants_read(&c, &r);
        assert_true(r.bad);
        fields_of(&c, out);
        for (size_t i = 0; i < FIELDS; i++)
            assert_true(out[i] >= 0);
        assert_true(out[FIELDS - 1] == 0);
    }
}

static void a_card_without_room_is_noticed(void **state)
{
    uint8_t card[CARD_BYTES];

    (void)state;
    for (size_t n = 0; n < CARD_BYTES; n++) {
        struct tt_writer w;

        tt_writer_init(&w, card, n);
        tt_constants_write(&tt_constants_default, &w);
        assert_true(w.bad);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measurements_are_clamped_around_the_default),
        cmocka_unit_test(measurement_keeps_the_binding),
        cmocka_unit_test(earlier_stranger_is_not_own_connection),
        cmocka_unit_test(strangers_only_end_the_wait),
        cmocka_unit_test(inter_host_links_apply_across_hosts),
        cmocka_unit_test(end_costs_are_subtracted_from_latency),
        cmocka_unit_test(a_card_carries_the_constants),
        cmocka_unit_test(a_truncated_card_is_noticed),
        cmocka_unit_test(a_card_without_room_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
