/* Packed blocks equal those of quant.h, with one length; steps on them equal its codecs and sums in
 * f32, in sequence. With the portable kernels and with the best ones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "both_isas.h"
#include "reduce/quant_packed.h"
#include "support/unit.h"

#define SEED 20261123
#define COUNT_MAX 1280      /* whole blocks of the longest count */
#define NAN_BITS 0x7fc00000u

static const tutti_dtype types[] = { TUTTI_F32, TUTTI_F16, TUTTI_BF16, TUTTI_F64 };
static const size_t counts[] = { 1, 2, 239, 240, 241, 248, 252, 500, 1111 };

struct room {
    struct tt_packed p;
    struct tt_prng prng;
    float x[COUNT_MAX], y[COUNT_MAX];
    uint8_t a[COUNT_MAX * 2], b[COUNT_MAX * 2], out[COUNT_MAX * 2], out2[COUNT_MAX * 2];
};

/* Every codec and count, with new numbers each time. */
static void over_all(tutti_dtype type, void (*check)(struct room *r, size_t count))
{
    struct room *r = malloc(sizeof *r);

    assert_non_null(r);
    tt_prng_init(&r->prng, SEED);
    for (int codec = 0; codec < TT_QUANT_CODEC_COUNT; codec++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            assert_true(tt_packed_init(&r->p, (enum tt_quant_codec)codec, type));
            for (size_t k = 0; k < COUNT_MAX; k++) {
                r->x[k] = ldexpf((float)(int64_t)tt_prng_u64(&r->prng), -63);
                r->y[k] = ldexpf((float)(int64_t)tt_prng_u64(&r->prng), -60);
            }
            check(r, counts[i]);
        }
    free(r);
}

static struct tt_quant blocks_of(const struct room *r)
{
    return (struct tt_quant){ r->p.codec, r->p.block };
}

static size_t whole(const struct room *r, size_t count)
{
    return tt_packed_blocks(&r->p, count) * r->p.block;
}

/* Pads x with its last element to the end of the block. */
static void go_on(const struct room *r, float *x, size_t count)
{
    for (size_t i = count; i < whole(r, count); i++)
        x[i] = x[count - 1];
}

static void blocks_fill_a_power_of_two(void **state)
{
    struct tt_packed p;

    (void)state;
    for (int codec = 0; codec < TT_QUANT_CODEC_COUNT; codec++) {
        struct tt_quant q = { (enum tt_quant_codec)codec, 0 };

        assert_true(tt_packed_init(&p, q.codec, TUTTI_F16));
        q.block = p.block;
        assert_true(p.bytes == 128 || p.bytes == 256);
        assert_int_equal(tt_quant_bytes(&q, p.block), p.bytes);
    }
    assert_false(tt_packed_init(&p, TT_QUANT_E4M3, TUTTI_I32));
    assert_false(tt_packed_init(&p, TT_QUANT_CODEC_COUNT, TUTTI_F32));
}

static void check_pack(struct room *r, size_t count)
{
    const struct tt_quant q = blocks_of(r);
    const size_t bytes = tt_packed_blocks(&r->p, count) * r->p.bytes;
    float values[COUNT_MAX];

    memset(r->a, 0xa5, sizeof r->a);
    tt_packed_encode(&r->p, r->a + 3, r->x, NULL, count);
    assert_true(r->a[2] == 0xa5 && r->a[3 + bytes] == 0xa5);
    go_on(r, r->x, count);
    tt_quant_encode(&q, r->b, r->x, whole(r, count), TUTTI_F32);
    assert_memory_equal(r->a + 3, r->b, bytes);
    assert_int_equal(tt_quant_decode(&q, values, r->b, bytes, whole(r, count), TUTTI_F32),
                     TUTTI_OK);
    memset(r->y, 0, sizeof r->y);
    tt_packed_decode(&r->p, r->y, r->a + 3, count);
    assert_memory_equal(r->y, values, count * sizeof values[0]);
    assert_true(r->y[count] == 0);
}

static void packing_equals_padded_encoding(void **state)
{
    (void)state;
    over_all(TUTTI_F32, check_pack);
}

static void check_types(struct room *r, size_t count)
{
    const struct tt_quant q = blocks_of(r);
    uint8_t src[COUNT_MAX * 8], wide[COUNT_MAX * 8];

    /* any numbers of the type */
    tt_quant_encode(&q, r->a, r->x, whole(r, count), TUTTI_F32);
    assert_int_equal(tt_quant_decode(&q, src, r->a, tt_quant_bytes(&q, whole(r, count)),
                                     whole(r, count), r->p.type),
                     TUTTI_OK);
    tt_packed_encode(&r->p, r->a, src, NULL, count / r->p.block * r->p.block);
    tt_quant_encode(&q, r->b, src, count / r->p.block * r->p.block, r->p.type);
    assert_memory_equal(r->a, r->b, count / r->p.block * r->p.bytes);
    tt_packed_decode(&r->p, wide, r->a, count / r->p.block * r->p.block);
    assert_int_equal(tt_quant_decode(&q, src, r->b, count / r->p.block * r->p.bytes,
                                     count / r->p.block * r->p.block, r->p.type),
                     TUTTI_OK);
    assert_memory_equal(src, wide, count / r->p.block * r->p.block * tutti_dtype_bytes(r->p.type));
}

static void every_type_packs_like_codecs(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        over_all(types[t], check_types);
}

/* sum[whole] = decoded a + y, divided; and its packed form in b. */
static void expect_step(struct room *r, size_t count, uint32_t divide_by, float *sum)
{
    const struct tt_quant q = blocks_of(r);
    const size_t bytes = tt_packed_blocks(&r->p, count) * r->p.bytes;

    assert_int_equal(tt_quant_decode(&q, sum, r->a, bytes, whole(r, count), TUTTI_F32), TUTTI_OK);
    for (size_t i = 0; i < whole(r, count); i++) {
        sum[i] += r->y[i];
        sum[i] /= (float)divide_by;
    }
    tt_quant_encode(&q, r->b, sum, whole(r, count), TUTTI_F32);
}

/* Residual of a step: the difference of the sum and its encoding. */
static void check_residual(const struct room *r, size_t count, uint32_t divide_by, const float *sum,
                           const float *residual, float before)
{
    const struct tt_quant q = blocks_of(r);
    float value[COUNT_MAX];

    assert_int_equal(tt_quant_decode(&q, value, r->b, tt_packed_blocks(&r->p, count) * r->p.bytes,
                                     whole(r, count), TUTTI_F32),
                     TUTTI_OK);
    for (size_t i = 0; i < count; i++)
        assert_true(residual[i] == before + (sum[i] - value[i]) * (float)divide_by);
}

static void check_step(struct room *r, size_t count)
{
    const size_t bytes = tt_packed_blocks(&r->p, count) * r->p.bytes;
    float own[COUNT_MAX], sum[COUNT_MAX], residual[COUNT_MAX];
    struct tt_packed_step s = {
        .out = r->out, .out2 = r->out2, .a = r->a, .own = own, .count = count, .residual = residual,
        .divide_by = 1 + (uint32_t)tt_prng_below(&r->prng, 4),
    };

    tt_packed_encode(&r->p, r->a, r->x, NULL, count);
    for (size_t i = 0; i < count; i++) {        /* own + residual is exactly y */
        residual[i] = r->y[i] / 2;
        own[i] = r->y[i] - residual[i];
    }
    go_on(r, r->y, count);
    expect_step(r, count, s.divide_by, sum);
    tt_packed_add(&r->p, &s);
    assert_memory_equal(r->out, r->b, bytes);
    assert_memory_equal(r->out2, r->b, bytes);
    check_residual(r, count, s.divide_by, sum, residual, 0);
}

static void step_adds_unencoded_part_keeps_residual(void **state)
{
    (void)state;
    over_all(TUTTI_F32, check_step);
}

static void check_packed_step(struct room *r, size_t count)
{
    const struct tt_quant q = blocks_of(r);
    const size_t bytes = tt_packed_blocks(&r->p, count) * r->p.bytes;
    float sum[COUNT_MAX], residual[COUNT_MAX];
    struct tt_packed_step s = {
        .out = r->out, .a = r->a, .b = r->out, .count = count, .residual = residual, .divide_by = 1,
    };

    tt_packed_encode(&r->p, r->a, r->x, NULL, count);
    tt_packed_encode(&r->p, r->out, r->y, NULL, count);
    assert_int_equal(tt_quant_decode(&q, r->y, r->out, bytes, whole(r, count), TUTTI_F32),
                     TUTTI_OK);
    expect_step(r, count, 1, sum);
    for (size_t i = 0; i < count; i++)
        residual[i] = 0.25f;
    tt_packed_add(&r->p, &s);           /* in place */
    assert_memory_equal(r->out, r->b, bytes);
    check_residual(r, count, 1, sum, residual, 0.25f);
}

static void packed_step_may_be_in_place(void **state)
{
    (void)state;
    over_all(TUTTI_F32, check_packed_step);
}

static void check_poison(struct room *r, size_t count)
{
    const size_t last = tt_packed_blocks(&r->p, count) - 1;
    float residual[COUNT_MAX];
    const struct tt_packed_step s = {
        .out = r->out, .a = r->a, .own = r->y, .count = count, .residual = residual, .divide_by = 1,
    };

    for (size_t i = 0; i < count; i++)
        residual[i] = 1;
    tt_packed_encode(&r->p, r->a, r->x, NULL, count);
    memset(r->a + last * r->p.bytes, 0xff, 4);          /* no encoder writes such parameters */
    tt_packed_decode(&r->p, r->x, r->a, count);
    tt_packed_add(&r->p, &s);
    tt_packed_decode(&r->p, r->y, r->out, count);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits[2];

        memcpy(&bits[0], &r->x[i], 4);
        memcpy(&bits[1], &r->y[i], 4);
        assert_true((bits[0] == NAN_BITS) == (i / r->p.block == last) &&
                    (bits[1] == NAN_BITS) == (i / r->p.block == last));
        assert_true(i / r->p.block != last || residual[i] == 0);
    }
}

static void invalid_parameters_poison_only_their_block(void **state)
{
    (void)state;
    over_all(TUTTI_F32, check_poison);
}

static int tests(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(blocks_fill_a_power_of_two),
        cmocka_unit_test(packing_equals_padded_encoding),
        cmocka_unit_test(every_type_packs_like_codecs),
        cmocka_unit_test(step_adds_unencoded_part_keeps_residual),
        cmocka_unit_test(packed_step_may_be_in_place),
        cmocka_unit_test(invalid_parameters_poison_only_their_block),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(void)
{
    return both_isas(tests);
}
