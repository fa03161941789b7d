#include "support/unit.h"

#include <string.h>

#include "base/log.h"
#include "base/prng.h"
#include "ringorder/ring_matrix.h"
#include "ringorder/ring_measure.h"

static void pairs_take_turns_without_overlap(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 65; n++) {
        static bool done[65][65];

        memset(done, 0, sizeof done);
        for (uint32_t round = 0; round < n - 1; round++) {
            bool receives[65] = { false };

            for (uint32_t k = 0; k < n; k++) {
                const uint32_t to = tt_ring_round_to(n, round, k);

                assert_true(to < n && to != k && !receives[to] && !done[k][to]);
                receives[to] = done[k][to] = true;
                assert_int_equal(tt_ring_round_from(n, round, to), k);
                assert_int_equal(tt_ring_round_of(n, k, to), round);
            }
        }
    }
}

/* A burst of up to 0.3 s: the first quarter at three times or a third of the rate, arrivals up to
 * 0.5 ms late. */
static void rate_ignores_the_beginning(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct tt_ring_sample s[400];
        struct tt_prng p;
        uint64_t rate, found = 0, last = 0;
        double bytes = 0;

        tt_prng_init(&p, seed);
        rate = 100000ull << tt_prng_below(&p, 18);
        for (uint32_t k = 0; k < 400; k++) {
            const double now = k < 100 ? (seed % 2 ? 3.0 : 1.0 / 3) * (double)rate : (double)rate;
            uint64_t at = 5000000000ull + k * 750000ull + tt_prng_below(&p, 500000);

            bytes += now * 750000e-9;
            at = at < last ? last : at;
            s[k] = (struct tt_ring_sample){ last = at, (uint64_t)bytes };
        }
        assert_int_equal(tt_ring_estimate_rate(s, 400, &found), TUTTI_OK);
        if (found * 100 < rate * 98 || found * 100 > rate * 102)
            fail_msg("seed %llu: %llu bytes/s, really %llu", (unsigned long long)seed,
                     (unsigned long long)found, (unsigned long long)rate);
    }
}

static void refused(const struct tt_ring_sample *s, uint32_t n, const char *why)
{
    uint64_t rate = 77;

    assert_int_equal(tt_ring_estimate_rate(s, n, &rate), TUTTI_ERR_INVALID);
    assert_int_equal(rate, 77);
    if (!strstr(tutti_last_error(), why))
        fail_msg("\"%s\" does not say \"%s\"", tutti_last_error(), why);
}

static void invalid_bursts_are_refused_with_reason(void **state)
{
    struct tt_ring_sample good[20], s[20];
    uint64_t rate;

    (void)state;
    for (uint32_t k = 0; k < 20; k++)
        good[k] = (struct tt_ring_sample){ k * 1000000ull, k * 1000ull };
    assert_int_equal(tt_ring_estimate_rate(good, 20, &rate), TUTTI_OK);
    assert_int_equal(rate, 1000000);
    refused(good, 7, "7 samples");
    refused(good, TT_RING_SAMPLES_MAX + 1, "65537 samples");
    memcpy(s, good, sizeof s);
    s[9].at_ns = 1;
    refused(s, 20, "invalid burst: sample 9 (");
    memcpy(s, good, sizeof s);
    s[5].bytes = 0;
    refused(s, 20, "invalid burst: sample 5 (");
    for (uint32_t k = 0; k < 20; k++)
        s[k] = (struct tt_ring_sample){ k, k };
    refused(s, 20, "invalid burst: duration of 19 ns");
    for (uint32_t k = 0; k < 20; k++)
        s[k] = (struct tt_ring_sample){ k * 10000000000ull, k };
    refused(s, 20, "invalid burst: duration of 190000000000 ns");
    for (uint32_t k = 0; k < 20; k++)
        s[k] = (struct tt_ring_sample){ k * 1000000ull, k < 5 ? k : 5 };
    refused(s, 20, "no progress in its second half");
    for (uint32_t k = 0; k < 20; k++)
        s[k] = (struct tt_ring_sample){ k < 19 ? k * 1000ull : 2000000, k };
    refused(s, 20, "1 of 20 samples are in its second half");
    for (uint32_t k = 0; k < 20; k++)
        s[k] = (struct tt_ring_sample){ k * 100000ull, k * (TT_RING_RATE_MAX / 20) };
    refused(s, 20, "faster than any link");
    s[19].bytes = UINT64_MAX;
    refused(s, 20, "invalid burst: 18446744073709551615 bytes");
}

static int quiet(void **state)
{
    (void)state;
    tt_log_set(TT_LOG_NONE);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_take_turns_without_overlap),
        cmocka_unit_test(rate_ignores_the_beginning),
        cmocka_unit_test(invalid_bursts_are_refused_with_reason),
    };

    return cmocka_run_group_tests(tests, quiet, NULL);
}
