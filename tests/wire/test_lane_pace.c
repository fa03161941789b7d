/* The length of a lane's pieces depends only on the measured speed of its link. */
#include "support/unit.h"

#include "wire/lane_pace.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

/* Counters of a connection in the kernel. */
struct counted {
    struct tt_lane_pace pace;
    uint64_t acked, busy_us;
};

/* Sends n messages of `bytes` over a link of mbit; each waits for the previous one, and then
 * wait_us more. */
static void send_over(struct counted *c, uint64_t n, uint64_t bytes, uint64_t mbit,
                      uint64_t wait_us)
{
    for (uint64_t i = 0; i < n; i++) {
        const bool look = tt_lane_pace_sent(&c->pace, bytes, bytes);

        c->acked += bytes;
        c->busy_us += bytes * 8 / mbit + wait_us;
        if (look)
            tt_lane_pace_look(&c->pace, c->acked, c->busy_us);
    }
}

static void pieces_match_the_link_rate(void **state)
{
    static const struct {
        uint64_t mbit, piece;
    } cases[] = { { 1, 8 * KIB },   { 10, 8 * KIB },  { 25, 8 * KIB },
                  { 40, 16 * KIB }, { 60, 32 * KIB }, { 95, 32 * KIB },
                  { 250, 0 },       { 1000, 0 },      { 100000, 0 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct counted c = { 0 };

        send_over(&c, 3, 256 * KIB, cases[i].mbit, 0);
        assert_int_equal(c.pace.bytes, 0);      /* not enough data for an estimate */
        send_over(&c, 1, 256 * KIB, cases[i].mbit, 0);
        if (c.pace.bytes != cases[i].piece)
            fail_msg("%llu Mbit/s: pieces of %llu bytes", (unsigned long long)cases[i].mbit,
                     (unsigned long long)c.pace.bytes);
    }
}

static void changed_link_rate_is_detected(void **state)
{
    struct counted c = { 0 };

    (void)state;
    for (int turn = 0; turn < 3; turn++) {
        send_over(&c, 4, 256 * KIB, 25, 0);
        assert_int_equal(c.pace.bytes, 8 * KIB);
        send_over(&c, 4, 256 * KIB, 10000, 0);
        assert_int_equal(c.pace.bytes, 0);
    }
}

static void short_messages_give_no_estimate(void **state)
{
    struct counted c = { 0 };

    (void)state;
    send_over(&c, 2 * MIB / 64, 64, 10000, 50);
    assert_int_equal(c.pace.bytes, 0);
    send_over(&c, 4, 256 * KIB, 100, 0);
    assert_int_equal(c.pace.bytes, 32 * KIB);
    send_over(&c, 2 * MIB / 64, 64, 10000, 50);
    assert_int_equal(c.pace.bytes, 32 * KIB);
}

static void data_in_flight_counts_on_arrival(void **state)
{
    struct tt_lane_pace pace = { 0 };
    uint32_t looks = 0;

    (void)state;
    for (int i = 0; i < 40; i++)        /* 10 MiB are sent before any of it has arrived */
        if (tt_lane_pace_sent(&pace, 256 * KIB, 256 * KIB)) {
            tt_lane_pace_look(&pace, 1000, 100000);
            looks++;
        }
    assert_int_equal(pace.bytes, 0);
    assert_in_range(looks, 5, 10);
    while (!tt_lane_pace_sent(&pace, 256 * KIB, 256 * KIB))
        ;
    tt_lane_pace_look(&pace, 10 * MIB, 10 * MIB * 8 / 100);
    assert_int_equal(pace.bytes, 32 * KIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_match_the_link_rate),
        cmocka_unit_test(changed_link_rate_is_detected),
        cmocka_unit_test(short_messages_give_no_estimate),
        cmocka_unit_test(data_in_flight_counts_on_arrival),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
