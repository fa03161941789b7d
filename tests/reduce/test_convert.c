#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/prng.h"
#include "reduce/reduce.h"
#include "reference.h"
#include "support/unit.h"

static uint32_t f16_narrow(float f) { return tt_f32_to_f16(f); }
static float f16_widen(uint32_t code) { return tt_f16_to_f32((uint16_t)code); }
static uint32_t bf16_narrow(float f) { return tt_f32_to_bf16(f); }
static float bf16_widen(uint32_t code) { return tt_bf16_to_f32((uint16_t)code); }
static uint32_t e4m3_narrow(float f) { return tt_f32_to_e4m3(f); }
static float e4m3_widen(uint32_t code) { return tt_e4m3_to_f32((uint8_t)code); }
static uint32_t e5m2_narrow(float f) { return tt_f32_to_e5m2(f); }
static float e5m2_widen(uint32_t code) { return tt_e5m2_to_f32((uint8_t)code); }

static const struct conversion {
    const char *name;
    const struct ref_format *format;
    uint32_t ncodes;
    uint32_t (*narrow)(float f);
    float (*widen)(uint32_t code);
} conversions[] = {
    { "f16", &ref_f16, 65536, f16_narrow, f16_widen },
    { "bf16", &ref_bf16, 65536, bf16_narrow, bf16_widen },
    { "e4m3", &ref_e4m3, 256, e4m3_narrow, e4m3_widen },
    { "e5m2", &ref_e5m2, 256, e5m2_narrow, e5m2_widen },
};
enum { NCONVERSIONS = sizeof conversions / sizeof conversions[0] };

/* f narrows to the expected code; all NaNs of the same sign are equivalent. */
static void check_narrow(const struct conversion *c, float f, uint32_t expected)
{
    const uint32_t code = c->narrow(f);

    if (code == expected ||
        (isnan(f) && isnan(ref_decode(c->format, code)) && !signbit(f) == (code < c->ncodes / 2)))
        return;
    fail_msg("%s: %a narrows to 0x%x, not to 0x%x", c->name, (double)f, code, expected);
}

static void every_code_widens_exactly(void **state)
{
    (void)state;
    for (int i = 0; i < NCONVERSIONS; i++)
        for (uint32_t code = 0; code < conversions[i].ncodes; code++) {
            const double value = ref_decode(conversions[i].format, code),
                         wide = conversions[i].widen(code);

            if (isnan(value) ? !isnan(wide) : value != wide || !signbit(value) != !signbit(wide))
                fail_msg("%s: 0x%x widens to %a, not to %a", conversions[i].name, code, wide,
                         value);
        }
}

/* A signalling NaN becomes quiet; every other code is unchanged. */
static void every_code_survives_widening_and_narrowing(void **state)
{
    (void)state;
    for (int i = 0; i < NCONVERSIONS; i++) {
        const struct conversion *c = &conversions[i];

        for (uint32_t code = 0; code < c->ncodes; code++) {
            const bool nan = isnan(ref_decode(c->format, code));
            const uint32_t quiet =
                nan && !c->format->saturates ? 1u << (c->format->mantissa_bits - 1) : 0;

            if (c->narrow(c->widen(code)) != (code | quiet))
                fail_msg("%s: 0x%x comes back as 0x%x", c->name, code, c->narrow(c->widen(code)));
        }
    }
}

/* Between every two neighbours of each sign: the middle rounds to the even one, and a value
 * slightly beside it to the nearer. */
static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    for (int i = 0; i < NCONVERSIONS; i++) {
        const struct conversion *c = &conversions[i];
        const uint32_t sign = c->ncodes / 2;

        for (uint32_t code = 0; isfinite(ref_decode(c->format, code + 1)); code++) {
            const float low = c->widen(code), high = c->widen(code + 1);
            const float middle = (float)(((double)low + high) / 2);

            check_narrow(c, middle, code % 2 ? code + 1 : code);
            check_narrow(c, nextafterf(middle, INFINITY), code + 1);
            check_narrow(c, nextafterf(middle, 0), code);
            check_narrow(c, -middle, sign | (code % 2 ? code + 1 : code));
            check_narrow(c, -nextafterf(middle, INFINITY), sign | (code + 1));
            check_narrow(c, -nextafterf(middle, 0), sign | code);
        }
    }
}

static void overflow_becomes_infinity_or_saturates(void **state)
{
    (void)state;
    assert_int_equal(tt_f32_to_f16(65519.99f), 0x7bff);
    assert_int_equal(tt_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(tt_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(tt_f32_to_bf16(3.4028235e38f), 0x7f80);
    assert_int_equal(tt_f32_to_e5m2(61439.0f), 0x7b);
    assert_int_equal(tt_f32_to_e5m2(61440.0f), 0x7c);
    assert_int_equal(tt_f32_to_e5m2(-INFINITY), 0xfc);
    assert_int_equal(tt_f32_to_e4m3(448.0f), 0x7e);
    assert_int_equal(tt_f32_to_e4m3(1e30f), 0x7e);
    assert_int_equal(tt_f32_to_e4m3(-INFINITY), 0xfe);
    assert_true(isnan(tt_e4m3_to_f32(0x7f)));
}

static void random_floats_narrow_by_formula(void **state)
{
    const uint64_t seed = 7 + unit_turn();
    const uint32_t n = 300000 / unit_share();
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, seed);
    for (uint32_t k = 0; k < n; k++)
        for (int i = 0; i < NCONVERSIONS; i++) {
            const struct conversion *c = &conversions[i];
            const uint32_t bits = (uint32_t)tt_prng_u64(&p);
            /* all exponents, or those of the format; sometimes with few mantissa bits, for ties */
            const uint32_t few =
                k % 2 ? bits : bits & ~(((1u << (22 - c->format->mantissa_bits)) - 1));
            float f;

            memcpy(&f, &few, sizeof f);
            if (k % 4 >= 2)
                f = c->widen(bits % c->ncodes) * (1 + ldexpf((float)(bits >> 20), -18));
            check_narrow(c, f, ref_encode(c->format, f));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_widens_exactly),
        cmocka_unit_test(every_code_survives_widening_and_narrowing),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(overflow_becomes_infinity_or_saturates),
        cmocka_unit_test(random_floats_narrow_by_formula),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
