/* Sets of processors in cards: they are read as written, and invalid ones are refused. */
#include <string.h>

#include "base/prng.h"
#include "comm/cores.h"
#include "support/unit.h"

static void check(const cpu_set_t *set, uint64_t seed)
{
    uint8_t bytes[TT_CORES_BYTES];
    struct tt_writer w;
    struct tt_reader r;
    cpu_set_t again;

    tt_writer_init(&w, bytes, sizeof bytes);
    tt_cores_write(set, &w);
    tt_reader_init(&r, bytes, tt_writer_bytes(&w));
    tt_cores_read(&again, &r);
    if (w.bad || r.bad || r.at != r.end || !CPU_EQUAL(set, &again))
        fail_msg("seed %llu: %d processors became %d", (unsigned long long)seed, CPU_COUNT(set),
                 CPU_COUNT(&again));
}

static void sets_are_read_as_written(void **state)
{
    cpu_set_t set;

    (void)state;
    CPU_ZERO(&set);
    check(&set, 0);
    memset(&set, 0xff, sizeof set);
    check(&set, 0);
    for (uint64_t seed = 1; seed < 500; seed++) {
        struct tt_prng prng;
        uint64_t last;

        tt_prng_init(&prng, seed);
        last = tt_prng_below(&prng, CPU_SETSIZE);
        CPU_ZERO(&set);
        for (uint64_t c = 0; c <= last; c++)
            if (tt_prng_below(&prng, 3) == 0)
                CPU_SET((int)c, &set);
        check(&set, seed);
    }
}

static void truncated_or_oversized_sets_are_refused(void **state)
{
    static const uint8_t cut[] = { 3, 0xff, 0xff }, too_long[200] = { 129 };
    struct tt_reader r;
    cpu_set_t set;

    (void)state;
    tt_reader_init(&r, cut, sizeof cut);
    tt_cores_read(&set, &r);
    assert_true(r.bad);
    tt_reader_init(&r, too_long, sizeof too_long);
    tt_cores_read(&set, &r);
    assert_true(r.bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_read_as_written),
        cmocka_unit_test(truncated_or_oversized_sets_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
