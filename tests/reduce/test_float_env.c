/* Every kernel gives the bits of the default floating-point environment in any environment, and
 * leaves the caller's environment unchanged. */
#include <fenv.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#include "base/prng.h"
#include "both_isas.h"
#include "reduce/quant_packed.h"
#include "reduce/reduce.h"
#include "reference.h"
#include "support/unit.h"

enum { ELEMENTS = 1500, ROOM_BYTES = 8 * ELEMENTS + 4096, SEED = 20260402 };

/* Settings that an application may have made in its thread. */
struct setting {
    const char *name;
    int rounding;
    int traps;          /* exceptions that are not masked */
    bool flushes;       /* denormal results and operands become 0 */
    bool raised;        /* exception flags that are set before the call */
};

static const struct setting settings[] = {
    { "flush-to-zero and denormals-are-zero", FE_TONEAREST, 0, true, false },
    { "rounding upwards", FE_UPWARD, 0, false, false },
    { "rounding downwards, flags set", FE_DOWNWARD, 0, false, true },
    { "rounding towards zero", FE_TOWARDZERO, 0, false, false },
    { "traps on invalid, overflow and division by zero", FE_TONEAREST,
      FE_INVALID | FE_OVERFLOW | FE_DIVBYZERO, false, false },
    { "all traps, rounding upwards, flush-to-zero", FE_UPWARD, FE_ALL_EXCEPT, true, false },
    { "the default", FE_TONEAREST, 0, false, false },
    { "the default, flags set", FE_TONEAREST, 0, false, true },
};
#define NSETTINGS (sizeof settings / sizeof *settings)

/* The complete control and status words, which must be unchanged. */
struct env {
    int rounding, traps, raised;
    unsigned csr;
};

static struct env env_now(void)
{
    struct env e = { .rounding = fegetround(),
                     .traps = fegetexcept(),
                     .raised = fetestexcept(FE_ALL_EXCEPT) };

#if defined(__x86_64__)
    e.csr = _mm_getcsr();
#endif
    return e;
}

/* Traps that the processor does not support stay masked. */
static struct env env_set(const struct setting *s)
{
    feclearexcept(FE_ALL_EXCEPT);
    if (s->raised)
        feraiseexcept(FE_INEXACT | FE_UNDERFLOW);
    fesetround(s->rounding);
    feenableexcept(s->traps);
#if defined(__x86_64__)
    if (s->flushes)
        _mm_setcsr(_mm_getcsr() | 0x8040);
#elif defined(__aarch64__)
    if (s->flushes) {
        uint64_t fpcr;

        __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
        __asm__ volatile("msr fpcr, %0" : : "r"(fpcr | 1u << 24));
    }
#endif
    return env_now();
}

static uint8_t a[ROOM_BYTES], b[ROOM_BYTES], packed[ROOM_BYTES], expected[2][ROOM_BYTES],
    got[2][ROOM_BYTES];
static float lost[ELEMENTS];

/* A kernel applied to `a` and `b`, which writes to out[0] and possibly out[1]. */
struct kernel_case {
    const char *what;
    tutti_dtype type;
    int op;             /* a tutti_redop, a codec, or unused */
    size_t count;
    bool finish;
    double scale;
    void (*run)(const struct kernel_case *c, uint8_t (*out)[ROOM_BYTES]);
};

/* Runs it with every setting, and compares. */
static void check(const struct kernel_case *c)
{
    fesetenv(FE_DFL_ENV);
    memset(expected, 0xa5, sizeof expected);
    c->run(c, expected);
    for (size_t s = 0; s < NSETTINGS; s++) {
        struct env before, after;

        memset(got, 0xa5, sizeof got);
        before = env_set(&settings[s]);
        c->run(c, got);
        after = env_now();
        fesetenv(FE_DFL_ENV);
        if (memcmp(got, expected, sizeof got) != 0)
            fail_msg("%s %s, operation %d, %zu elements, finish %d, seed %d: other bits under %s",
                     c->what, ref_name(c->type), c->op, c->count, c->finish, SEED,
                     settings[s].name);
        if (memcmp(&before, &after, sizeof before) != 0)
            fail_msg(
                "%s %s, operation %d, %zu elements, finish %d, seed %d: the caller's environment "
                "(%s) was "
                "rounding %d, traps 0x%x, flags 0x%x, register 0x%x, and is %d, 0x%x, 0x%x, 0x%x",
                c->what, ref_name(c->type), c->op, c->count, c->finish, SEED, settings[s].name,
                before.rounding, before.traps, before.raised, before.csr, after.rounding,
                after.traps, after.raised, after.csr);
    }
}

/* Fills with values of all kinds, including infinities, NaNs (also signalling ones) and many
 * denormals. */
static void fill(tutti_dtype type)
{
    const size_t element = ref_bytes(type);
    struct tt_prng p;

    tt_prng_init(&p, SEED + (uint64_t)type);
    for (size_t i = 0; i < ELEMENTS; i++) {
        uint64_t x = ref_random(&p, type), y = ref_random(&p, type);

        if (i % 7 == 0 && ref_is_float(type)) { /* denormals: no exponent */
            x = tt_prng_below(&p, 1u << (type == TUTTI_F64 || type == TUTTI_F32 ? 20 : 2));
            y = tt_prng_below(&p, 1u << (type == TUTTI_F64 || type == TUTTI_F32 ? 20 : 2));
        }
        ref_store(a + i * element, element, x);
        ref_store(b + i * element, element, y);
    }
}

/* ---- reductions ---- */

static void reduce(const struct kernel_case *c, uint8_t (*out)[ROOM_BYTES])
{
    tt_reduce_kernel(c->type, (tutti_redop)c->op, c->finish)(out[0], c->finish ? out[1] : NULL, a,
                                                             b, c->count, 0, 3);
    if (c->count == ELEMENTS)   /* also with non-temporal stores */
        tt_reduce_kernel(c->type, (tutti_redop)c->op, c->finish)(out[1], NULL, a, b, c->count,
                                                                 TT_STREAM_DST, 1000003);
}

static void reductions_ignore_the_environment(void **state)
{
    static const size_t counts[] = { 1, 5, 64, ELEMENTS };
    uint32_t checked = 0;

    (void)state;
    for (int type = 0; type < TUTTI_DTYPE_COUNT; type++) {
        fill((tutti_dtype)type);
        for (int op = 0; op < TUTTI_REDOP_COUNT; op++)
            for (size_t n = 0; n < 2 * sizeof counts / sizeof *counts; n++) {
                const struct kernel_case c = { .what = "reduction",
                                               .type = (tutti_dtype)type,
                                               .op = op,
                                               .count = counts[n / 2],
                                               .finish = n % 2,
                                               .run = reduce };

                if (!tt_reduce_defined(c.type, (tutti_redop)op))
                    continue;
                check(&c);
                checked++;
            }
    }
    assert_true(checked > 800);
}

static void scale(const struct kernel_case *c, uint8_t (*out)[ROOM_BYTES])
{
    tt_reduce_scale(out[0], a, c->count, c->type, c->scale);
}

static void scalings_ignore_the_environment(void **state)
{
    static const double scales[] = { 0.1, 1.0 / 3, 1e-310, 1e300 };

    (void)state;
    for (int type = 0; type < TUTTI_DTYPE_COUNT; type++) {
        fill((tutti_dtype)type);
        for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
            const struct kernel_case c = { .what = "scaling",
                                           .type = (tutti_dtype)type,
                                           .count = ELEMENTS,
                                           .scale = scales[s],
                                           .run = scale };

            check(&c);
        }
    }
}

/* A denormal scale is not refused like 0. */
static void scale_zero_test_is_bitwise(void **state)
{
    (void)state;
    for (size_t s = 0; s < NSETTINGS; s++) {
        bool zero[4];

        env_set(&settings[s]);
        zero[0] = tt_reduce_scale_is_zero(1e-310);
        zero[1] = tt_reduce_scale_is_zero(0x1p-1074);
        zero[2] = tt_reduce_scale_is_zero(-0.0);
        zero[3] = tt_reduce_scale_is_zero(0);
        fesetenv(FE_DFL_ENV);
        assert_true(!zero[0] && !zero[1] && zero[2] && zero[3]);
    }
}

/* ---- conversions ---- */

/* Converts to each narrow type and back; `a` has f32. */
static void convert(const struct kernel_case *c, uint8_t (*out)[ROOM_BYTES])
{
    for (size_t i = 0; i < c->count; i++) {
        float f;
        uint16_t h;
        uint8_t v;

        memcpy(&f, a + 4 * i, 4);
        if (c->type == TUTTI_F16 || c->type == TUTTI_BF16) {
            h = c->type == TUTTI_F16 ? tt_f32_to_f16(f) : tt_f32_to_bf16(f);
            f = c->type == TUTTI_F16 ? tt_f16_to_f32(h) : tt_bf16_to_f32(h);
            memcpy(out[1] + 2 * i, &h, 2);
        } else {
            v = c->type == TUTTI_F8E4M3 ? tt_f32_to_e4m3(f) : tt_f32_to_e5m2(f);
            f = c->type == TUTTI_F8E4M3 ? tt_e4m3_to_f32(v) : tt_e5m2_to_f32(v);
            out[1][i] = v;
        }
        memcpy(out[0] + 4 * i, &f, 4);
    }
}

static void conversions_ignore_the_environment(void **state)
{
    static const tutti_dtype narrow[] = { TUTTI_F16, TUTTI_BF16, TUTTI_F8E4M3, TUTTI_F8E5M2 };

    (void)state;
    fill(TUTTI_F32);
    for (size_t i = 0; i < ELEMENTS; i++) {     /* a third has magnitudes that are denormal in a
                                                   narrow type */
        const float f = (float)(i % 97 + 1) * (i % 2 ? 0x1p-26f : 0x1p-14f);

        if (i % 3 == 0)
            memcpy(a + 4 * i, &f, 4);
    }
    for (size_t t = 0; t < sizeof narrow / sizeof *narrow; t++)
        check(&(struct kernel_case){
            .what = "conversion", .type = narrow[t], .count = ELEMENTS, .run = convert });
}

/* ---- quantization ---- */

static void quantize(const struct kernel_case *c, uint8_t (*out)[ROOM_BYTES])
{
    const struct tt_quant q = { (enum tt_quant_codec)c->op, 64 };
    const size_t bytes = tt_quant_bytes(&q, c->count);

    memset(lost, 0, sizeof lost);
    if (c->finish) {
        tt_quant_encode_feedback(&q, packed, a, lost, c->count, c->type);
        memcpy(out[1], lost, sizeof lost);
    } else {
        tt_quant_encode(&q, packed, a, c->count, c->type);
        memcpy(out[1], packed, bytes);
    }
    if (c->finish)
        assert_int_equal(tt_quant_decode(&q, out[0], packed, bytes, c->count, c->type), TUTTI_OK);
    else
        assert_int_equal(tt_quant_decode_add(&q, out[0], b, packed, bytes, c->count, c->type),
                         TUTTI_OK);
}

/* Encodes, adds and divides packed blocks, and decodes the sum. */
static void pack(const struct kernel_case *c, uint8_t (*out)[ROOM_BYTES])
{
    struct tt_packed p;
    struct tt_packed_step step = { .out = out[1],
                                   .a = packed,
                                   .own = b,
                                   .count = c->count,
                                   .divide_by = 3,
                                   .residual = c->finish ? lost : NULL };

    assert_true(tt_packed_init(&p, (enum tt_quant_codec)c->op, c->type));
    memset(lost, 0, sizeof lost);
    tt_packed_encode(&p, packed, a, c->finish ? lost : NULL, c->count);
    tt_packed_add(&p, &step);
    tt_packed_decode(&p, out[0], out[1], c->count);
}

static void quantizations_ignore_the_environment(void **state)
{
    static const tutti_dtype types[] = { TUTTI_F32, TUTTI_F64, TUTTI_F16, TUTTI_BF16 };

    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        fill(types[t]);
        for (int codec = 0; codec < TT_QUANT_CODEC_COUNT; codec++)
            for (int feedback = 0; feedback < 2; feedback++) {
                struct kernel_case c = { .what = "quantization",
                                         .type = types[t],
                                         .op = codec,
                                         .count = ELEMENTS,
                                         .finish = feedback,
                                         .run = quantize };

                check(&c);
                c.what = "packed blocks";
                c.run = pack;
                check(&c);
            }
    }
}

/* Checks that the settings of the other tests are effective: plain arithmetic gives other
 * results. */
static void the_settings_change_plain_arithmetic(void **state)
{
    volatile float denormal = 0x1p-140f, one = 1, three = 3;
    volatile float flushed, up, down;

    (void)state;
    env_set(&settings[0]);
    flushed = denormal * 2;
    env_set(&settings[1]);
    up = one / three;
    env_set(&settings[2]);
    down = one / three;
    fesetenv(FE_DFL_ENV);
#if defined(__x86_64__) || defined(__aarch64__)
    assert_true(flushed == 0);
#endif
    (void)flushed;
    assert_true(up > down);
}

static int tests(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(the_settings_change_plain_arithmetic),
        cmocka_unit_test(reductions_ignore_the_environment),
        cmocka_unit_test(scalings_ignore_the_environment),
        cmocka_unit_test(scale_zero_test_is_bitwise),
        cmocka_unit_test(conversions_ignore_the_environment),
        cmocka_unit_test(quantizations_ignore_the_environment),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(void)
{
    return both_isas(tests) != 0;
}
