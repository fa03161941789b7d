#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "guarded.h"
#include "reduce/kernels.h"
#include "reduce/reduce.h"
#include "reference.h"
#include "support/unit.h"

enum { MARGIN_BYTES = 64, ROOM_BYTES = 128 * 1024 };

enum where { APART, DST_IS_A, DST_IS_B, NWHERES };

struct reduce_case {
    const struct tt_kernels *kernels;
    tutti_dtype type;
    tutti_redop op;
    bool finish, two;
    uint32_t stream;
    enum where where;
    size_t count;
    size_t a_shift, b_shift, dst_shift, dst2_shift;     /* offset in bytes from a cache line */
    uint32_t n;
    uint64_t seed;
};

/* Memory that is reused by the cases. */
static _Alignas(64) uint8_t a_room[ROOM_BYTES], b_room[ROOM_BYTES], dst_room[ROOM_BYTES],
    dst2_room[ROOM_BYTES];
static uint64_t expected[ROOM_BYTES];

static void fail_case(const struct reduce_case *c, const char *what, size_t i, uint64_t got,
                      uint64_t want)
{
    fail_msg("%s %s %s: %s at %zu: 0x%llx, not 0x%llx; count %zu, finish %d, stream %u, dst2 %d, "
             "where %d, n %u, shifts "
             "a %zu b %zu dst %zu dst2 %zu, seed %llu",
             c->kernels->name, ref_name(c->type), ref_redop_name(c->op), what, i,
             (unsigned long long)got, (unsigned long long)want, c->count, c->finish, c->stream,
             c->two, (int)c->where, c->n, c->a_shift, c->b_shift, c->dst_shift, c->dst2_shift,
             (unsigned long long)c->seed);
}

static void check_margins(const struct reduce_case *c, const uint8_t *dst, size_t bytes)
{
    for (size_t i = 0; i < MARGIN_BYTES; i++) {
        if (dst[-1 - (ptrdiff_t)i] != 0xa5)
            fail_case(c, "a byte before dst", i, dst[-1 - (ptrdiff_t)i], 0xa5);
        if (dst[bytes + i] != 0xa5)
            fail_case(c, "a byte after dst", i, dst[bytes + i], 0xa5);
    }
}

static void check_elements(const struct reduce_case *c, const uint8_t *dst, const char *what)
{
    const size_t element = ref_bytes(c->type);

    for (size_t i = 0; i < c->count; i++)
        if (ref_load(dst + i * element, element) != expected[i])
            fail_case(c, what, i, ref_load(dst + i * element, element), expected[i]);
}

/* Runs the kernel on random operands, and compares each element with its definition; nothing
 * outside dst and dst2 changes. */
static void check(const struct reduce_case *c)
{
    const size_t element = ref_bytes(c->type), bytes = c->count * element;
    uint8_t *a = a_room + MARGIN_BYTES + c->a_shift, *b = b_room + MARGIN_BYTES + c->b_shift;
    uint8_t *dst = c->where == DST_IS_A   ? a
                   : c->where == DST_IS_B ? b
                                          : dst_room + MARGIN_BYTES + c->dst_shift;
    uint8_t *dst2 = dst2_room + MARGIN_BYTES + c->dst2_shift;
    struct tt_prng p;

    memset(dst - MARGIN_BYTES, 0xa5, bytes + 2 * MARGIN_BYTES);
    memset(dst2 - MARGIN_BYTES, 0xa5, bytes + 2 * MARGIN_BYTES);
    tt_prng_init(&p, c->seed);
    for (size_t i = 0; i < c->count; i++) {
        const uint64_t x = ref_random(&p, c->type);
        const uint64_t y = tt_prng_below(&p, 8) ? ref_random(&p, c->type) : x;

        ref_store(a + i * element, element, x);
        ref_store(b + i * element, element, y);
        expected[i] = ref_reduce(c->type, c->op, c->finish, c->n, x, y);
    }

    c->kernels->reduce[c->type][tt_kernel_of(c->op, c->finish)](dst, c->two ? dst2 : NULL, a, b,
                                                                c->count, c->stream, c->n);
    check_elements(c, dst, "dst");
    check_margins(c, dst, bytes);
    if (c->two)
        check_elements(c, dst2, "dst2");
    check_margins(c, dst2, c->two ? bytes : 0);
}

/* Calls `visit` for every implementation that this CPU supports, and every type, operation and
 * finish. */
static void for_each_kernel(void (*visit)(struct reduce_case *c))
{
    const struct tt_kernels *both[] = { &tt_kernels_portable, tt_kernels_get() };
    uint64_t seed = 1;

    for (size_t k = 0; k < (both[0] == both[1] ? 1 : 2); k++)
        for (int type = 0; type < TUTTI_DTYPE_COUNT; type++)
            for (int op = 0; op < TUTTI_REDOP_COUNT; op++)
                for (int finish = 0; finish < 2; finish++) {
                    struct reduce_case c = {
                        .kernels = both[k], .type = type, .op = op, .finish = finish, .seed = seed++
                    };

                    if (tt_reduce_defined(type, op) && unit_draw())
                        visit(&c);
                }
}

/* Any alignment, also less than that of the element. */
static void draw_shifts(struct reduce_case *c, struct tt_prng *p)
{
    static const uint32_t divisors[] = { 1, 2, 3, 7, 8, 100, 131072, UINT32_MAX };

    c->a_shift = tt_prng_below(p, 64);
    c->b_shift = tt_prng_below(p, 64);
    c->dst_shift = tt_prng_below(p, 64);
    c->dst2_shift = tt_prng_below(p, 64);
    c->n = divisors[tt_prng_below(p, 8)];
    c->seed = tt_prng_u64(p);
}

static void check_small_counts(struct reduce_case *c)
{
    struct tt_prng p;

    tt_prng_init(&p, c->seed);
    for (c->count = 0; c->count <= 70; c->count++)
        for (int how = 0; how < 4 * NWHERES; how++) {
            c->stream = how & 1;
            c->two = how & 2;
            c->where = (enum where)(how / 4);
            draw_shifts(c, &p);
            check(c);
        }
}

static void kernels_match_for_small_counts(void **state)
{
    (void)state;
    for_each_kernel(check_small_counts);
}

static void check_large_counts(struct reduce_case *c)
{
    static const size_t bytes[] = { 512, 1000, 8192, 8200 };
    struct tt_prng p;

    tt_prng_init(&p, c->seed);
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
        for (int how = 0; how < 8 * NWHERES; how++) {
            c->count = bytes[i] / ref_bytes(c->type);
            c->stream = how & 3;
            c->two = how & 4;
            c->where = (enum where)(how / 8);
            draw_shifts(c, &p);
            if (i % 2) {        /* where non-temporal stores are possible */
                c->dst_shift = c->a_shift = c->b_shift = tt_prng_below(&p, 8) * 8;
                c->dst2_shift = tt_prng_below(&p, 8) * 8;
            }
            check(c);
        }
}

static void kernels_match_for_large_counts(void **state)
{
    (void)state;
    for_each_kernel(check_large_counts);
}

/* Operands from another core's cache, which are read in several pages at once: fewer pages than
 * that, one or two times their number, and a remainder. */
static void check_from_far(struct reduce_case *c)
{
    static const size_t bytes[] = { 4096, 8192, 12344, 16384, 20000 };
    struct tt_prng p;

    tt_prng_init(&p, c->seed);
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
        for (int where = 0; where < NWHERES; where++) {
            c->count = bytes[i] / ref_bytes(c->type);
            c->stream = TT_FROM_OTHER_CORE | (i % 2 ? TT_STREAM_DST : 0);
            c->two = where == APART && i == 1;
            c->where = (enum where)where;
            draw_shifts(c, &p);
            check(c);
        }
}

static void operands_from_far_give_the_same(void **state)
{
    (void)state;
    for_each_kernel(check_from_far);
}

static void check_streaming_shifts(struct reduce_case *c)
{
    if (c->op != TUTTI_SUM || c->finish || c->kernels == &tt_kernels_portable)
        return;
    for (size_t shift = 0; shift < 64; shift++)
        for (size_t tail = 0; tail < 64; tail += 20) {
            c->stream = 1 + (uint32_t)tail % 3;
            c->two = shift % 3 == 0;
            c->where = (enum where)(shift / 3 % NWHERES);
            c->dst_shift = shift;
            c->dst2_shift = shift * 7 % 64 / 8 * 8;
            c->a_shift = c->where == DST_IS_A ? shift : 0;
            c->b_shift = c->where == DST_IS_B ? shift : 0;
            c->count = (8192 + tail) / ref_bytes(c->type);
            c->n = 3;
            c->seed++;
            check(c);
        }
}

static void streaming_works_at_every_offset(void **state)
{
    (void)state;
    for_each_kernel(check_streaming_shifts);
}

/* All pairs of f8: proves that double rounding equals single rounding. */
static void check_all_pairs(struct reduce_case *c)
{
    tt_reduce_fn *fn = c->kernels->reduce[c->type][tt_kernel_of(c->op, c->finish)];

    if (c->type != TUTTI_F8E4M3 && c->type != TUTTI_F8E5M2)
        return;
    c->n = 3;
    c->count = 65536;
    for (size_t i = 0; i < 65536; i++) {
        a_room[i] = (uint8_t)(i >> 8);
        b_room[i] = (uint8_t)i;
        expected[i] = ref_reduce(c->type, c->op, c->finish, c->n, i >> 8, i & 255);
    }
    fn(dst_room, NULL, a_room, b_room, c->count, false, c->n);
    check_elements(c, dst_room, "pair");
}

static void f8_pairs_match_the_definition(void **state)
{
    (void)state;
    for_each_kernel(check_all_pairs);
}

/* Operands and results directly before and after inaccessible memory. */
static void check_guarded(struct reduce_case *c)
{
    const size_t element = ref_bytes(c->type);
    tt_reduce_fn *fn = c->kernels->reduce[c->type][tt_kernel_of(c->op, c->finish)];
    struct guarded g[4];

    for (int i = 0; i < 4; i++)
        guarded_init(&g[i], 12288);
    for (size_t k = 0; k < 140; k++) {
        const size_t bytes = (k < 130 ? k : 8192 + 32 * (k - 130)) * element,
                     count = bytes / element;
        uint8_t *end[4];

        if (bytes > g[0].bytes)
            break;
        for (int i = 0; i < 4; i++)
            end[i] = g[i].at + g[i].bytes - bytes;
        fn(g[0].at, g[1].at, g[2].at, g[3].at, count, true, 1);
        fn(end[0], end[1], end[2], end[3], count, true, 1);
    }
    for (int i = 0; i < 4; i++)
        guarded_fini(&g[i]);
}

static void kernels_stay_within_their_buffers(void **state)
{
    (void)state;
    for_each_kernel(check_guarded);
}

static void both_implementations_give_the_same_bits(void **state)
{
    static uint8_t portable[ROOM_BYTES], best[ROOM_BYTES];
    const uint64_t seed = 5;
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, seed);
    for (int round = 0; round < 4; round++)
        for (int type = 0; type < TUTTI_DTYPE_COUNT; type++)
            for (int kernel = 0; kernel < TT_KERNEL_COUNT; kernel++) {
                const size_t element = ref_bytes(type), count = ROOM_BYTES / element;
                const uint32_t n = 1 + (uint32_t)tt_prng_below(&p, round ? 1000 : 1);

                if (!tt_kernels_portable.reduce[type][kernel] ||
                    !unit_has_turn((uint64_t)(round + type + kernel), 4))
                    continue;
                for (size_t i = 0; i < count; i++) {
                    ref_store(a_room + i * element, element,
                              round % 2 ? ref_random(&p, type) : tt_prng_u64(&p));
                    ref_store(b_room + i * element, element,
                              round % 2 ? ref_random(&p, type) : tt_prng_u64(&p));
                }
                tt_kernels_portable.reduce[type][kernel](portable, NULL, a_room, b_room, count,
                                                         false, n);
                tt_kernels_get()->reduce[type][kernel](best, NULL, a_room, b_room, count, true, n);
                for (size_t i = 0; i < ROOM_BYTES; i++)
                    if (portable[i] != best[i])
                        fail_msg("%s kernel %d differs at byte %zu of %s, seed %llu round %d",
                                 ref_name(type), kernel, i, tt_reduce_isa(),
                                 (unsigned long long)seed, round);
            }
}

/* The position of a value in the buffer determines whether the head, the body or the tail of a
 * kernel processes it. */
static void result_is_independent_of_position(void **state)
{
    (void)state;
    for (int type = 0; type < TUTTI_DTYPE_COUNT; type++) {
        const size_t element = ref_bytes(type);
        tt_reduce_fn *sum = tt_reduce_kernel(type, TUTTI_SUM, false);
        struct tt_prng p;

        tt_prng_init(&p, 3);
        for (int k = 0; k < 50; k++) {
            const uint64_t x = ref_random(&p, type), y = ref_random(&p, type);
            uint64_t first;

            for (size_t i = 0; i < 3000; i++) {
                ref_store(a_room + 3 + i * element, element, x);
                ref_store(b_room + i * element, element, y);
            }
            sum(dst_room, NULL, a_room + 3, b_room, 1, false, 0);
            first = ref_load(dst_room, element);
            sum(dst_room + 8, NULL, a_room + 3, b_room, 3000, true, 0);
            for (size_t i = 0; i < 3000; i++)
                if (ref_load(dst_room + 8 + i * element, element) != first)
                    fail_msg("%s: 0x%llx + 0x%llx at %zu, seed 3", ref_name(type),
                             (unsigned long long)x, (unsigned long long)y, i);
        }
    }
}

static uint16_t sum_f16(uint16_t x, uint16_t y, tutti_redop op)
{
    uint16_t r;

    tt_reduce_kernel(TUTTI_F16, op, false)(&r, NULL, &x, &y, 1, false, 0);
    return r;
}

static void nan_zero_infinity_follow_the_rules(void **state)
{
    (void)state;
    assert_int_equal(sum_f16(0x7c00, 0xfc00, TUTTI_SUM), 0x7e00);       /* inf - inf */
    /* NaN payloads are not kept */
    assert_int_equal(sum_f16(0x7d01, 0x3c00, TUTTI_SUM), 0x7e00);
    assert_int_equal(sum_f16(0xfe55, 0x3c00, TUTTI_MIN), 0x7e00);
    assert_int_equal(sum_f16(0x3c00, 0xfe55, TUTTI_MIN), 0x7e00);
    assert_int_equal(sum_f16(0x3c00, 0x7fff, TUTTI_MAX), 0x7e00);
    assert_int_equal(sum_f16(0x0000, 0x8000, TUTTI_MIN), 0x0000);       /* the left zero */
    assert_int_equal(sum_f16(0x8000, 0x0000, TUTTI_MAX), 0x8000);
    assert_int_equal(sum_f16(0x8000, 0x8000, TUTTI_SUM), 0x8000);
    assert_int_equal(sum_f16(0x7c00, 0xfc00, TUTTI_MIN), 0xfc00);
    assert_int_equal(sum_f16(0x7bff, 0x7bff, TUTTI_SUM), 0x7c00);
}

static void avg_divides_once_and_truncates(void **state)
{
    const float x = 5, y = 2;
    const uint16_t big = tt_f32_to_f16(60000);
    const uint8_t e4m3 = tt_f32_to_e4m3(416), u8a = 200, u8b = 100;
    const int32_t minus = -7, zero = 0;
    float r32;
    uint16_t r16;
    uint8_t r8;
    int32_t i32;

    (void)state;
    tt_reduce_kernel(TUTTI_F32, TUTTI_AVG, true)(&r32, NULL, &x, &y, 1, false, 4);
    assert_true(r32 == 1.75f);
    tt_reduce_kernel(TUTTI_F32, TUTTI_AVG, false)(&r32, NULL, &x, &y, 1, false, 4);
    assert_true(r32 == 7);
    /* 120000 is out of range for f16, but half of it is not; 832 is out of range for e4m3. */
    tt_reduce_kernel(TUTTI_F16, TUTTI_AVG, true)(&r16, NULL, &big, &big, 1, false, 2);
    assert_int_equal(r16, big);
    tt_reduce_kernel(TUTTI_F8E4M3, TUTTI_AVG, true)(&r8, NULL, &e4m3, &e4m3, 1, false, 2);
    assert_int_equal(r8, e4m3);
    tt_reduce_kernel(TUTTI_I32, TUTTI_AVG, true)(&i32, NULL, &minus, &zero, 1, false, 2);
    assert_int_equal(i32, -3);
    /* Integer sums wrap, also before the division. */
    tt_reduce_kernel(TUTTI_U8, TUTTI_AVG, true)(&r8, NULL, &u8a, &u8b, 1, false, 2);
    assert_int_equal(r8, (200 + 100 - 256) / 2);
}

/* tutti.h guarantees: n like-signed values summed in a chain of n - 1 steps differ by at most (n -
 * 1) * u of the sum. */
static void check_chains(tutti_dtype type, double unit, double value_max, struct tt_prng *p)
{
    const struct ref_format *format = ref_format_of(type);
    const size_t element = ref_bytes(type);
    tt_reduce_fn *sum = tt_reduce_kernel(type, TUTTI_SUM, false);

    for (int chain = 0; chain < 2000; chain++) {
        const int nranks = 2 + (int)tt_prng_below(p, 63), sign = chain % 2 ? -1 : 1;
        uint64_t total = 0, x = 0;
        double exact = 0, error;

        for (int r = 0; r < nranks; r++) {
            x = ref_encode(format,
                           sign * value_max * (double)tt_prng_below(p, 1 << 20) / (1 << 20) / 64);
            exact += ref_decode(format, (uint32_t)x);
            if (r == 0)
                total = x;
            else
                sum(&total, NULL, &total, &x, 1, false, 0);
        }
        error = fabs(ref_decode(format, (uint32_t)ref_load(&total, element)) - exact);
        if (error > (nranks - 1) * unit * fabs(exact))
            fail_msg("%s: chain %d of %d ranks is off by %g of %g", ref_name(type), chain, nranks,
                     error, exact);
    }
}

static void sum_chains_keep_the_bound(void **state)
{
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 21);
    check_chains(TUTTI_F16, 0x1p-11, 60000, &p);
    check_chains(TUTTI_BF16, 0x1p-8, 1e30, &p);
    check_chains(TUTTI_F8E4M3, 0x1p-4, 440, &p);
    check_chains(TUTTI_F8E5M2, 0x1p-3, 50000, &p);
}

static void scaling_gives_its_definition(void **state)
{
    /* The last is a NaN whose bits would overflow if they were rounded. */
    static const double scales[] = {
        1,      -1,     0.5, 3,        1e-3,      1.0 / 3, 1e10,
        -1e300, 1e-300, 0,   INFINITY, -INFINITY, NAN,     __builtin_nan("0x7ffffffffffff"),
    };
    const uint64_t seed = 9;
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, seed);
    for (int type = 0; type < TUTTI_DTYPE_COUNT; type++)
        for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++)
            for (size_t count = 0; count < 300; count += count < 70 ? 1 : 50) {
                const size_t element = ref_bytes(type);
                const bool in_place = count % 2;
                uint8_t *src = a_room + tt_prng_below(&p, 64),
                        *dst = in_place ? src : dst_room + tt_prng_below(&p, 64);

                for (size_t i = 0; i < count; i++) {
                    const uint64_t x = ref_random(&p, type);

                    ref_store(src + i * element, element, x);
                    expected[i] = ref_scale(type, x, scales[s]);
                }
                tt_reduce_scale(dst, src, count, type, scales[s]);
                for (size_t i = 0; i < count; i++)
                    if (ref_load(dst + i * element, element) != expected[i])
                        fail_msg("%s * %g at %zu of %zu: 0x%llx, not 0x%llx; seed %llu",
                                 ref_name(type), scales[s], i, count,
                                 (unsigned long long)ref_load(dst + i * element, element),
                                 (unsigned long long)expected[i], (unsigned long long)seed);
            }
}

static void both_implementations_scale_alike(void **state)
{
    static uint8_t portable[ROOM_BYTES], best[ROOM_BYTES];
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 13);
    for (int type = 0; type < TUTTI_DTYPE_COUNT; type++)
        for (int round = 0; round < 6 && ref_is_float(type); round++) {
            const size_t element = ref_bytes(type), count = ROOM_BYTES / element;
            const double scale = ldexp((double)tt_prng_below(&p, 1000) - 500, 4 * round - 12);

            for (size_t i = 0; i < count; i++)
                ref_store(a_room + i * element, element,
                          round % 2 ? ref_random(&p, type) : tt_prng_u64(&p));
            tt_kernels_portable.scale_float[type](portable, a_room, count, scale);
            tt_kernels_get()->scale_float[type](best, a_room, count, scale);
            assert_memory_equal(portable, best, ROOM_BYTES);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_match_for_small_counts),
        cmocka_unit_test(kernels_match_for_large_counts),
        cmocka_unit_test(operands_from_far_give_the_same),
        cmocka_unit_test(streaming_works_at_every_offset),
        cmocka_unit_test(f8_pairs_match_the_definition),
        cmocka_unit_test(kernels_stay_within_their_buffers),
        cmocka_unit_test(both_implementations_give_the_same_bits),
        cmocka_unit_test(result_is_independent_of_position),
        cmocka_unit_test(nan_zero_infinity_follow_the_rules),
        cmocka_unit_test(avg_divides_once_and_truncates),
        cmocka_unit_test(sum_chains_keep_the_bound),
        cmocka_unit_test(scaling_gives_its_definition),
        cmocka_unit_test(both_implementations_scale_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
