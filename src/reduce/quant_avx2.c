/* Inner loops of the codecs for CPUs with AVX2 and F16C: 32 elements at a time, the rest in a
 * padded copy. Each function does the same as its namesake in quant_portable.c, operation by
 * operation. */
#include "reduce/quant_kernels.h"

#if defined(__x86_64__)
#include <string.h>
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,f16c")))
#define INLINE static inline AVX2 __attribute__((always_inline))

enum { LANES = 8, GROUP = 32, VECTORS = GROUP / LANES };

typedef __m256i vector;

INLINE vector all(int word)
{
    return _mm256_set1_epi32(word);
}
INLINE __m256 bits_f32(vector v)
{
    return _mm256_castsi256_ps(v);
}
INLINE vector f32_bits(__m256 v)
{
    return _mm256_castps_si256(v);
}
INLINE vector magnitude_of(vector v)
{
    return _mm256_and_si256(v, all(0x7fffffff));
}
INLINE vector sign_of(vector v)
{
    return _mm256_and_si256(v, all(INT32_MIN));
}

/* ---- range ---- */

struct span {
    __m256 least, largest;
    vector magnitude;
};

INLINE void widen_span(struct span *s, __m256 x)
{
    s->least = _mm256_min_ps(x, s->least);
    s->largest = _mm256_max_ps(x, s->largest);
    s->magnitude = _mm256_max_epi32(s->magnitude, magnitude_of(f32_bits(x)));
}

INLINE void join_spans(struct span *s, const struct span *t)
{
    s->least = _mm256_min_ps(t->least, s->least);
    s->largest = _mm256_max_ps(t->largest, s->largest);
    s->magnitude = _mm256_max_epi32(s->magnitude, t->magnitude);
}

/* Reduces the span of all lanes to lane 0. */
INLINE void narrow_span(struct span *s)
{
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        const vector from =
            _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), all(distance));
        const vector lane = _mm256_and_si256(from, all(LANES - 1));
        const struct span t = {
            _mm256_permutevar8x32_ps(s->least, lane),
            _mm256_permutevar8x32_ps(s->largest, lane),
            _mm256_permutevar8x32_epi32(s->magnitude, lane),
        };

        join_spans(s, &t);
    }
}

static AVX2 bool range_avx2(const float *x, size_t n, float *least, float *largest)
{
    const __m256 first = _mm256_set1_ps(x[0]);
    struct span s[VECTORS];
    size_t i = 0;

    for (int v = 0; v < VECTORS; v++)
        s[v] = (struct span){ first, first, magnitude_of(f32_bits(first)) };
    for (; i + GROUP <= n; i += GROUP)
        for (int v = 0; v < VECTORS; v++)
            widen_span(&s[v], _mm256_loadu_ps(x + i + v * LANES));
    for (; i + LANES <= n; i += LANES)
        widen_span(&s[0], _mm256_loadu_ps(x + i));
    for (; i < n; i++)
        widen_span(&s[1], _mm256_set1_ps(x[i]));
    join_spans(&s[0], &s[1]);
    join_spans(&s[2], &s[3]);
    join_spans(&s[0], &s[2]);
    narrow_span(&s[0]);
    *least = _mm256_cvtss_f32(s[0].least);
    *largest = _mm256_cvtss_f32(s[0].largest);
    return _mm_cvtsi128_si32(_mm256_castsi256_si128(s[0].magnitude)) < 0x7f800000;
}

/* ---- codes: eight lanes, and groups ---- */

/* Parameters of a codec, in vectors. */
struct numbers {
    __m256 half, twice, base, step, least, most, top_value;
    vector zero, top;
    __m256 scale, inverse;
};

INLINE struct numbers numbers_linear(const struct tt_quant_linear *l)
{
    return (struct numbers){
        .half = _mm256_set1_ps(l->half),
        .twice = _mm256_set1_ps(l->twice),
        .base = _mm256_set1_ps(l->base),
        .step = _mm256_set1_ps(l->step),
        .least = _mm256_set1_ps(l->least),
        .most = _mm256_set1_ps(l->most),
        .top_value = _mm256_set1_ps(l->top_value),
        .zero = all(l->zero),
        .top = all(l->top),
    };
}

INLINE struct numbers numbers_float(const struct tt_quant_float *f)
{
    return (struct numbers){
        .scale = _mm256_set1_ps(f->scale), .inverse = _mm256_set1_ps(f->inverse),
        .least = _mm256_set1_ps(-f->most), .most = _mm256_set1_ps(f->most),
    };
}

/* Converts eight numbers to 32-bit codes, not clamped, and back. */
typedef vector encode_op(__m256 x, const struct numbers *k);
typedef __m256 decode_op(vector codes, const struct numbers *k);

INLINE vector encode_linear(__m256 x, const struct numbers *k)
{
    const __m256 above = _mm256_sub_ps(_mm256_mul_ps(x, k->half), k->base);

    return _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_div_ps(above, k->step)), k->zero);
}

/* NaN stays NaN. */
INLINE __m256 clamp(__m256 x, const struct numbers *k)
{
    return _mm256_max_ps(k->least, _mm256_min_ps(k->most, x));
}

INLINE __m256 decode_linear(vector codes, const struct numbers *k)
{
    const __m256 steps = _mm256_cvtepi32_ps(_mm256_sub_epi32(codes, k->zero));
    const __m256 value =
        _mm256_mul_ps(_mm256_add_ps(k->base, _mm256_mul_ps(steps, k->step)), k->twice);

    return _mm256_blendv_ps(clamp(value, k), k->top_value,
                            bits_f32(_mm256_cmpeq_epi32(codes, k->top)));
}

/* tt_narrow_magnitude of convert.h, with the sign; x is not NaN. */
INLINE vector encode_float(__m256 x, int mantissa, int bias, int code_max)
{
    const int shift = 23 - mantissa;
    const vector bits = f32_bits(x), magnitude = magnitude_of(bits);
    const vector odd = _mm256_and_si256(_mm256_srli_epi32(magnitude, shift), all(1));
    const vector half = _mm256_add_epi32(odd, all((1 << (shift - 1)) - 1));
    const vector rounded = _mm256_srli_epi32(_mm256_add_epi32(magnitude, half), shift);
    const vector normal = _mm256_sub_epi32(rounded, all((127 - bias) << mantissa));
    const vector magic = all((127 + 24 - bias - mantissa) << 23);
    const __m256 sum = _mm256_add_ps(bits_f32(magnitude), bits_f32(magic));
    const vector small = _mm256_sub_epi32(f32_bits(sum), magic);
    const vector is_small = _mm256_cmpgt_epi32(all((128 - bias) << 23), magnitude);
    const vector code =
        _mm256_min_epi32(_mm256_blendv_epi8(normal, small, is_small), all(code_max));

    return _mm256_or_si256(code, _mm256_srli_epi32(sign_of(bits), 24));
}

INLINE vector encode_e4m3_op(__m256 x, const struct numbers *k)
{
    return encode_float(_mm256_mul_ps(x, k->inverse), 3, 7, 0x7e);
}

INLINE vector encode_e5m2_op(__m256 x, const struct numbers *k)
{
    return encode_float(_mm256_mul_ps(x, k->inverse), 2, 15, 0x7c);
}

/* Returns the value of a magnitude with its sign, scaled, clamped, and with canonical NaN. */
INLINE __m256 decode_float(__m256 magnitude, vector sign, const struct numbers *k)
{
    const __m256 value = clamp(_mm256_mul_ps(_mm256_or_ps(magnitude, bits_f32(sign)), k->scale), k);

    return _mm256_blendv_ps(value, bits_f32(all(0x7fc00000)),
                            _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
}

INLINE __m256 decode_e4m3_op(vector codes, const struct numbers *k)
{
    const vector moved = _mm256_slli_epi32(_mm256_and_si256(codes, all(0x7f)), 20);
    const __m256 finite = _mm256_mul_ps(bits_f32(moved), _mm256_set1_ps(0x1p120f));
    const vector is_nan = _mm256_cmpeq_epi32(moved, all(0x07f00000));
    const __m256 magnitude = _mm256_blendv_ps(finite, bits_f32(all(0x7fc00000)), bits_f32(is_nan));

    return decode_float(magnitude, sign_of(_mm256_slli_epi32(codes, 24)), k);
}

/* An e5m2 number is the upper half of an f16. */
INLINE __m256 decode_e5m2_op(vector codes, const struct numbers *k)
{
    const vector moved = _mm256_slli_epi32(_mm256_and_si256(codes, all(0x7f)), 21);
    const __m256 finite = _mm256_mul_ps(bits_f32(moved), _mm256_set1_ps(0x1p112f));
    const __m256 special = bits_f32(_mm256_or_si256(moved, all(0x7f800000)));
    const vector is_special = _mm256_cmpgt_epi32(moved, all(0x0f800000 - 1));

    return decode_float(_mm256_blendv_ps(finite, special, bits_f32(is_special)),
                        sign_of(_mm256_slli_epi32(codes, 24)), k);
}

/* Converts x[GROUP] to bytes, saturated to [0, 255]. */
INLINE vector encode_group(const float *x, const struct numbers *k, encode_op *op)
{
    const vector low = _mm256_packs_epi32(op(_mm256_loadu_ps(x), k), op(_mm256_loadu_ps(x + 8), k));
    const vector high =
        _mm256_packs_epi32(op(_mm256_loadu_ps(x + 16), k), op(_mm256_loadu_ps(x + 24), k));

    return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high),
                                       _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Packs two codes below 16 in a byte. */
INLINE __m128i halves_of(vector codes)
{
    const vector pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(16 << 8 | 1));

    return _mm_packus_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
}

INLINE vector bytes_of(__m128i halves)
{
    const __m128i low = _mm_and_si128(halves, _mm_set1_epi8(15));
    const __m128i high = _mm_and_si128(_mm_srli_epi16(halves, 4), _mm_set1_epi8(15));

    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi8(low, high)),
                                   _mm_unpackhi_epi8(low, high), 1);
}

INLINE void decode_sixteen(float *x, __m128i codes, const struct numbers *k, decode_op *op)
{
    _mm256_storeu_ps(x, op(_mm256_cvtepu8_epi32(codes), k));
    _mm256_storeu_ps(x + LANES, op(_mm256_cvtepu8_epi32(_mm_srli_si128(codes, 8)), k));
}

INLINE void decode_group(float *x, vector codes, const struct numbers *k, decode_op *op)
{
    decode_sixteen(x, _mm256_castsi256_si128(codes), k, op);
    decode_sixteen(x + GROUP / 2, _mm256_extracti128_si256(codes, 1), k, op);
}

/* ---- whole blocks ---- */

INLINE void encode_bytes(uint8_t *codes, const float *x, size_t n, const struct numbers *k,
                         encode_op *op)
{
    float rest[GROUP] = { 0 };
    uint8_t out[GROUP];
    size_t i = 0;

    for (; i + GROUP <= n; i += GROUP)
        _mm256_storeu_si256((vector *)(codes + i), encode_group(x + i, k, op));
    if (i < n) {
        memcpy(rest, x + i, (n - i) * sizeof rest[0]);
        _mm256_storeu_si256((vector *)out, encode_group(rest, k, op));
        memcpy(codes + i, out, n - i);
    }
}

INLINE void decode_bytes(float *x, const uint8_t *codes, size_t n, const struct numbers *k,
                         decode_op *op)
{
    float out[GROUP];
    uint8_t rest[GROUP] = { 0 };
    size_t i = 0;

    for (; i + GROUP <= n; i += GROUP)
        decode_group(x + i, _mm256_loadu_si256((const vector *)(codes + i)), k, op);
    if (i < n) {
        memcpy(rest, codes + i, n - i);
        decode_group(out, _mm256_loadu_si256((const vector *)rest), k, op);
        memcpy(x + i, out, (n - i) * sizeof out[0]);
    }
}

static AVX2 void encode_u8_avx2(uint8_t *codes, const float *x, size_t n,
                                const struct tt_quant_linear *l)
{
    const struct numbers k = numbers_linear(l);

    encode_bytes(codes, x, n, &k, encode_linear);
}

static AVX2 void decode_u8_avx2(float *x, const uint8_t *codes, size_t n,
                                const struct tt_quant_linear *l)
{
    const struct numbers k = numbers_linear(l);

    decode_bytes(x, codes, n, &k, decode_linear);
}

INLINE __m128i encode_halves(const float *x, const struct numbers *k)
{
    return halves_of(_mm256_min_epu8(encode_group(x, k, encode_linear), _mm256_set1_epi8(15)));
}

static AVX2 void encode_u4_avx2(uint8_t *codes, const float *x, size_t n,
                                const struct tt_quant_linear *l)
{
    const struct numbers k = numbers_linear(l);
    float rest[GROUP] = { 0 };
    uint8_t out[GROUP / 2];
    size_t i = 0;

    for (; i + GROUP <= n; i += GROUP)
        _mm_storeu_si128((__m128i *)(codes + i / 2), encode_halves(x + i, &k));
    if (i < n) {
        memcpy(rest, x + i, (n - i) * sizeof rest[0]);
        _mm_storeu_si128((__m128i *)out, encode_halves(rest, &k));
        memcpy(codes + i / 2, out, (n - i + 1) / 2);
    }
    if (n % 2)
        codes[n / 2] &= 15;
}

static AVX2 void decode_u4_avx2(float *x, const uint8_t *codes, size_t n,
                                const struct tt_quant_linear *l)
{
    const struct numbers k = numbers_linear(l);
    float out[GROUP];
    uint8_t rest[GROUP / 2] = { 0 };
    size_t i = 0;

    for (; i + GROUP <= n; i += GROUP)
        decode_group(x + i, bytes_of(_mm_loadu_si128((const __m128i *)(codes + i / 2))), &k,
                     decode_linear);
    if (i < n) {
        memcpy(rest, codes + i / 2, (n - i + 1) / 2);
        decode_group(out, bytes_of(_mm_loadu_si128((const __m128i *)rest)), &k, decode_linear);
        memcpy(x + i, out, (n - i) * sizeof out[0]);
    }
}

#define FLOAT_CODEC(type) \
    static AVX2 void encode_##type(uint8_t *codes, const float *x, size_t n, \
                                   const struct tt_quant_float *f)           \
    { \
        const struct numbers k = numbers_float(f); \
        encode_bytes(codes, x, n, &k, encode_##type##_op); \
    } \
    static AVX2 void decode_##type(float *x, const uint8_t *codes, size_t n, \
                                   const struct tt_quant_float *f)           \
    { \
        const struct numbers k = numbers_float(f); \
        decode_bytes(x, codes, n, &k, decode_##type##_op); \
    }

FLOAT_CODEC(e4m3)
FLOAT_CODEC(e5m2)

/* ---- f16 ---- */

static AVX2 void widen_f16_avx2(float *x, const void *src, size_t n)
{
    const char *from = src;
    uint16_t rest[LANES] = { 0 };
    float out[LANES];
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        _mm256_storeu_ps(x + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + 2 * i))));
    if (i < n) {
        memcpy(rest, from + 2 * i, 2 * (n - i));
        _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)rest)));
        memcpy(x + i, out, (n - i) * sizeof out[0]);
    }
}

INLINE __m128i f16_of(__m256 x)
{
    return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static AVX2 void narrow_f16_avx2(void *dst, const float *x, size_t n)
{
    char *to = dst;
    float rest[LANES] = { 0 };
    uint16_t out[LANES];
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        _mm_storeu_si128((__m128i *)(to + 2 * i), f16_of(_mm256_loadu_ps(x + i)));
    if (i < n) {
        memcpy(rest, x + i, (n - i) * sizeof rest[0]);
        _mm_storeu_si128((__m128i *)out, f16_of(_mm256_loadu_ps(rest)));
        memcpy(to + 2 * i, out, 2 * (n - i));
    }
}

const struct tt_quant_kernels tt_quant_avx2 = {
    .range = range_avx2,
    .encode_u8 = encode_u8_avx2,     .decode_u8 = decode_u8_avx2,
    .encode_u4 = encode_u4_avx2,     .decode_u4 = decode_u4_avx2,
    .encode_e4m3 = encode_e4m3, .decode_e4m3 = decode_e4m3,
    .encode_e5m2 = encode_e5m2, .decode_e5m2 = decode_e5m2,
    .widen_f16 = widen_f16_avx2,     .narrow_f16 = narrow_f16_avx2,
};

#endif
