/* How long a peer may be silent, depending on its round-trip time. */
#include "support/unit.h"

#include "base/clock.h"
#include "base/control_socket.h"
#include "elastic/patience.h"

static void near_peers_have_the_lease(void **state)
{
    (void)state;
    assert_int_equal(tt_patience_lease_ns(TT_SECOND, 0), TT_SECOND);
    assert_int_equal(tt_patience_grace_ns(250 * TT_MS, TT_SECOND, 0), 250 * TT_MS);
    /* on one host, a silent peer is detected within 1.5 s */
    assert_true(tt_patience_lease_ns(TT_SECOND, 10 * TT_MS) < 1500 * TT_MS);
}

static void distant_peers_have_three_round_trips_and_two_seconds(void **state)
{
    (void)state;
    assert_int_equal(tt_patience_lease_ns(TT_SECOND, 100 * TT_MS), 2300 * TT_MS);
    assert_int_equal(tt_patience_lease_ns(TT_SECOND, 400 * TT_MS), 3200 * TT_MS);
    assert_int_equal(tt_patience_grace_ns(250 * TT_MS, TT_SECOND, 100 * TT_MS), 650 * TT_MS);
}

/* A peer that delays its acknowledgements does not increase the time without limit. */
static void patience_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(tt_patience_lease_ns(TT_SECOND, UINT64_MAX), 5 * TT_SECOND);
    assert_int_equal(tt_patience_grace_ns(0, TT_SECOND, UINT64_MAX), 4 * TT_SECOND);
    assert_true(tt_patience_lease_ns(UINT64_MAX / 2, UINT64_MAX) == UINT64_MAX);
    assert_int_equal(tt_patience_lease_ns(0, TT_SECOND), 0);
}

static void patience_grows_with_the_round_trip(void **state)
{
    uint64_t before = 0;

    (void)state;
    for (uint64_t ns = 0; ns < 2 * TT_SECOND; ns += TT_MS / 4) {
        const uint64_t now = tt_patience_lease_ns(TT_SECOND, ns);

        assert_true(now >= before);
        before = now;
    }
}

static void the_round_trip_falls_slowly(void **state)
{
    uint64_t ns = tt_patience_round_trip_ns(0, 160 * TT_MS);

    (void)state;
    assert_int_equal(ns, 160 * TT_MS);
    assert_int_equal(tt_patience_round_trip_ns(ns, 200 * TT_MS), 200 * TT_MS);
    assert_int_equal(tt_patience_round_trip_ns(ns, 1), 150 * TT_MS);
    assert_int_equal(tt_patience_round_trip_ns(ns, 0), 160 * TT_MS);
    for (int i = 0; i < 1000; i++)
        ns = tt_patience_round_trip_ns(ns, TT_MS);
    assert_int_equal(ns, TT_MS);
}

/* The acknowledgement of a near peer may be 40 ms late. */
static void delayed_acknowledgements_do_not_count(void **state)
{
    (void)state;
    assert_int_equal(tt_control_round_trip_of(38000, 90), 90 * 1000);
    assert_int_equal(tt_control_round_trip_of(200000, 100000), 160 * TT_MS);
    assert_int_equal(tt_control_round_trip_of(110000, 100000), 100 * TT_MS);
    assert_int_equal(tt_control_round_trip_of(50000, UINT32_MAX), 10 * TT_MS);
    assert_int_equal(tt_control_round_trip_of(0, UINT32_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_peers_have_the_lease),
        cmocka_unit_test(distant_peers_have_three_round_trips_and_two_seconds),
        cmocka_unit_test(patience_is_bounded),
        cmocka_unit_test(patience_grows_with_the_round_trip),
        cmocka_unit_test(the_round_trip_falls_slowly),
        cmocka_unit_test(delayed_acknowledgements_do_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
