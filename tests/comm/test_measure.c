/* The constants of the cost model: within reason whatever the machine does meanwhile, and the same on every rank to the bit. */
#include <math.h>
#include <sched.h>
#include <string.h>

#include "base/prng.h"
#include "comm/measure.h"
#include "support/unit.h"

#define MODEL_FIELDS (sizeof(struct tt_cost_model) / sizeof(double))
#define FIELDS (2 * MODEL_FIELDS + sizeof(struct tt_work_costs) / sizeof(double))
#define CARD_BYTES (8 * FIELDS)

_Static_assert(sizeof(struct tt_constants) == FIELDS * sizeof(double), "all of it is doubles");

static void fields_of(const struct tt_constants *c, double out[FIELDS]) { memcpy(out, c, sizeof *c); }

static void check_within_reason(const struct tt_constants *c)
{
    double measured[FIELDS], assumed[FIELDS];

    fields_of(c, measured);
    fields_of(&tt_constants_default, assumed);
    for (size_t i = 0; i < FIELDS; i++)
        if (!(measured[i] >= assumed[i] / 4 && measured[i] <= assumed[i] * 4))
            fail_msg("field %zu is %g, which is far from %g", i, measured[i], assumed[i]);
}

static void what_is_measured_is_clamped_around_the_default(void **state)
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

/* Without a second processor the exchange of a line cannot be measured; nobody waits for it for ever, either. */
static void one_processor_keeps_the_default_of_the_exchange(void **state)
{
    struct tt_constants c;
    cpu_set_t all, one;
    int cpu = 0;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    tt_constants_measure(&c);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_true(c.shm.message_ns == tt_constants_default.shm.message_ns);
    check_within_reason(&c);
}

static void card_write(const struct tt_constants *c, uint8_t card[CARD_BYTES])
{
    struct tt_writer w;

    tt_writer_init(&w, card, CARD_BYTES);
    tt_constants_write(c, &w);
    assert_false(w.bad);
    assert_int_equal(tt_writer_bytes(&w), CARD_BYTES);
}

/* A card holds whole picoseconds: read, written and read again it is the same to the bit, and near what went in. */
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
        cmocka_unit_test(what_is_measured_is_clamped_around_the_default),
        cmocka_unit_test(one_processor_keeps_the_default_of_the_exchange),
        cmocka_unit_test(a_card_carries_the_constants),
        cmocka_unit_test(a_truncated_card_is_noticed),
        cmocka_unit_test(a_card_without_room_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
