/* The kernels for CPUs with AVX2 and F16C: each is an operation on vectors; avx2_run.h has the
 * loops. */
#include "reduce/kernels.h"

#if defined(__x86_64__)
#include "reduce/avx2_run.h"
#include "reduce/float_env.h"
#include "reduce/hash_kernels.h"
#include "reduce/quant_kernels.h"

#define UNUSED __attribute__((unused))
#define OP(name) INLINE vector name(vector a UNUSED, vector b UNUSED, double k UNUSED)

/* A short operation is one line. */
/* clang-format off */

/* ---- integers ---- */

OP(sum_8) { return _mm256_add_epi8(a, b); }
OP(sum_16) { return _mm256_add_epi16(a, b); }
OP(sum_32) { return _mm256_add_epi32(a, b); }
OP(sum_64) { return _mm256_add_epi64(a, b); }

/* There is no instruction for 8-bit multiplication. Uses the low byte of a 16-bit one, for even and
 * odd bytes separately. */
OP(prod_8)
{
    const vector even = _mm256_mullo_epi16(a, b);
    const vector odd = _mm256_mullo_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8));

    return _mm256_or_si256(_mm256_and_si256(even, _mm256_set1_epi16(0xff)), _mm256_slli_epi16(odd, 8));
}

OP(prod_16) { return _mm256_mullo_epi16(a, b); }
OP(prod_32) { return _mm256_mullo_epi32(a, b); }

/* low * low + (low * high + high * low) << 32. */
OP(prod_64)
{
    const vector cross = _mm256_mullo_epi32(a, _mm256_shuffle_epi32(b, 0xb1));
    const vector crosses = _mm256_add_epi32(cross, _mm256_srli_epi64(cross, 32));

    return _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(crosses, 32));
}

OP(band) { return _mm256_and_si256(a, b); }
OP(bor) { return _mm256_or_si256(a, b); }
OP(bxor) { return _mm256_xor_si256(a, b); }

OP(min_i8) { return _mm256_min_epi8(a, b); }
OP(max_i8) { return _mm256_max_epi8(a, b); }
OP(min_u8) { return _mm256_min_epu8(a, b); }
OP(max_u8) { return _mm256_max_epu8(a, b); }
OP(min_i16) { return _mm256_min_epi16(a, b); }
OP(max_i16) { return _mm256_max_epi16(a, b); }
OP(min_u16) { return _mm256_min_epu16(a, b); }
OP(max_u16) { return _mm256_max_epu16(a, b); }
OP(min_i32) { return _mm256_min_epi32(a, b); }
OP(max_i32) { return _mm256_max_epi32(a, b); }
OP(min_u32) { return _mm256_min_epu32(a, b); }
OP(max_u32) { return _mm256_max_epu32(a, b); }
OP(min_i64) { return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b)); }
OP(max_i64) { return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(b, a)); }

/* Returns a > b for unsigned numbers: the signed comparison with flipped top bits. */
INLINE vector above_u64(vector a, vector b)
{
    const vector top = _mm256_set1_epi64x(INT64_MIN);

    return _mm256_cmpgt_epi64(_mm256_xor_si256(a, top), _mm256_xor_si256(b, top));
}

OP(min_u64) { return _mm256_blendv_epi8(a, b, above_u64(a, b)); }
OP(max_u64) { return _mm256_blendv_epi8(a, b, above_u64(b, a)); }

/* Quotients through f32 (8 and 16 bits) and f64 (32 bits) are exact, as explained in portable.c. */
INLINE vector quotient_f32(vector v, double k)
{
    return _mm256_cvttps_epi32(_mm256_div_ps(_mm256_cvtepi32_ps(v), _mm256_set1_ps((float)k)));
}

INLINE vector quotient_i16(vector v, double k)
{
    const vector sign = _mm256_srai_epi16(v, 15);

    return _mm256_packs_epi32(quotient_f32(_mm256_unpacklo_epi16(v, sign), k),
                              quotient_f32(_mm256_unpackhi_epi16(v, sign), k));
}

INLINE vector quotient_u16(vector v, double k)
{
    const vector zero = _mm256_setzero_si256();

    return _mm256_packus_epi32(quotient_f32(_mm256_unpacklo_epi16(v, zero), k),
                               quotient_f32(_mm256_unpackhi_epi16(v, zero), k));
}

OP(sum_div_i16) { return quotient_i16(sum_16(a, b, k), k); }
OP(sum_div_u16) { return quotient_u16(sum_16(a, b, k), k); }

OP(sum_div_i8)
{
    const vector sum = sum_8(a, b, k), sign = _mm256_cmpgt_epi8(_mm256_setzero_si256(), sum);

    return _mm256_packs_epi16(quotient_i16(_mm256_unpacklo_epi8(sum, sign), k),
                              quotient_i16(_mm256_unpackhi_epi8(sum, sign), k));
}

OP(sum_div_u8)
{
    const vector sum = sum_8(a, b, k), zero = _mm256_setzero_si256();

    return _mm256_packus_epi16(quotient_u16(_mm256_unpacklo_epi8(sum, zero), k),
                               quotient_u16(_mm256_unpackhi_epi8(sum, zero), k));
}

INLINE __m128i quotient_i32(__m128i v, double k)
{
    return _mm256_cvttpd_epi32(_mm256_div_pd(_mm256_cvtepi32_pd(v), _mm256_set1_pd(k)));
}

/* Converts through a signed number that is 2^31 less; truncates before it adds that back. */
INLINE __m128i quotient_u32(__m128i v, double k)
{
    const __m256d offset = _mm256_set1_pd(0x1p31);
    const __m128i top = _mm_set1_epi32(INT32_MIN);
    const __m256d wide = _mm256_add_pd(_mm256_cvtepi32_pd(_mm_xor_si128(v, top)), offset);
    const __m256d quotient = _mm256_div_pd(wide, _mm256_set1_pd(k));
    const __m256d whole = _mm256_round_pd(quotient, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);

    return _mm_xor_si128(_mm256_cvttpd_epi32(_mm256_sub_pd(whole, offset)), top);
}

OP(sum_div_i32)
{
    const vector sum = sum_32(a, b, k);

    return join(quotient_i32(_mm256_castsi256_si128(sum), k), quotient_i32(_mm256_extracti128_si256(sum, 1), k));
}

OP(sum_div_u32)
{
    const vector sum = sum_32(a, b, k);

    return join(quotient_u32(_mm256_castsi256_si128(sum), k), quotient_u32(_mm256_extracti128_si256(sum, 1), k));
}

/* Divides lane by lane, because no float holds 64 bits. */
OP(sum_div_i64)
{
    int64_t lane[4];

    _mm256_storeu_si256((vector *)lane, sum_64(a, b, k));
    for (int i = 0; i < 4; i++)
        lane[i] /= (int64_t)k;
    return _mm256_loadu_si256((const vector *)lane);
}

OP(sum_div_u64)
{
    uint64_t lane[4];

    _mm256_storeu_si256((vector *)lane, sum_64(a, b, k));
    for (int i = 0; i < 4; i++)
        lane[i] /= (uint64_t)k;
    return _mm256_loadu_si256((const vector *)lane);
}

/* ---- f32 and f64 ---- */

INLINE __m256 f32_of(vector v) { return _mm256_castsi256_ps(v); }
INLINE __m256d f64_of(vector v) { return _mm256_castsi256_pd(v); }

/* Returns r, or the canonical NaN where x and y are unordered. */
INLINE vector settle_f32(__m256 r, __m256 x, __m256 y)
{
    const __m256 nan = f32_of(_mm256_set1_epi32(0x7fc00000));

    return _mm256_castps_si256(_mm256_blendv_ps(r, nan, _mm256_cmp_ps(x, y, _CMP_UNORD_Q)));
}

INLINE vector settle_f64(__m256d r, __m256d x, __m256d y)
{
    const __m256d nan = f64_of(_mm256_set1_epi64x(0x7ff8000000000000));

    return _mm256_castpd_si256(_mm256_blendv_pd(r, nan, _mm256_cmp_pd(x, y, _CMP_UNORD_Q)));
}

OP(sum_f32)
{
    const __m256 r = _mm256_add_ps(f32_of(a), f32_of(b));

    return settle_f32(r, r, r);
}

OP(prod_f32)
{
    const __m256 r = _mm256_mul_ps(f32_of(a), f32_of(b));

    return settle_f32(r, r, r);
}

/* The instruction returns its second operand unless the first is strictly less. */
OP(min_f32) { return settle_f32(_mm256_min_ps(f32_of(b), f32_of(a)), f32_of(a), f32_of(b)); }
OP(max_f32) { return settle_f32(_mm256_max_ps(f32_of(b), f32_of(a)), f32_of(a), f32_of(b)); }

OP(sum_div_f32)
{
    const __m256 r = _mm256_div_ps(_mm256_add_ps(f32_of(a), f32_of(b)), _mm256_set1_ps((float)k));

    return settle_f32(r, r, r);
}

OP(scale_f32)
{
    const __m256 r = _mm256_mul_ps(f32_of(a), _mm256_set1_ps((float)k));

    return settle_f32(r, r, r);
}

OP(sum_f64)
{
    const __m256d r = _mm256_add_pd(f64_of(a), f64_of(b));

    return settle_f64(r, r, r);
}

OP(prod_f64)
{
    const __m256d r = _mm256_mul_pd(f64_of(a), f64_of(b));

    return settle_f64(r, r, r);
}

OP(min_f64) { return settle_f64(_mm256_min_pd(f64_of(b), f64_of(a)), f64_of(a), f64_of(b)); }
OP(max_f64) { return settle_f64(_mm256_max_pd(f64_of(b), f64_of(a)), f64_of(a), f64_of(b)); }

OP(sum_div_f64)
{
    const __m256d r = _mm256_div_pd(_mm256_add_pd(f64_of(a), f64_of(b)), _mm256_set1_pd(k));

    return settle_f64(r, r, r);
}

OP(scale_f64)
{
    const __m256d r = _mm256_mul_pd(f64_of(a), _mm256_set1_pd(k));

    return settle_f64(r, r, r);
}

/* ---- f16 and bf16 ---- */

/* Returns r, with the canonical NaN in every 16-bit lane whose magnitude exceeds infinity. */
INLINE vector settle_16(vector r, int infinity, int nan)
{
    const vector magnitude = _mm256_and_si256(r, _mm256_set1_epi16(0x7fff));
    const vector is_nan = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16((short)infinity));

    return _mm256_blendv_epi8(r, _mm256_set1_epi16((short)nan), is_nan);
}

/* Converts sign and magnitude to a two's complement number; both zeros become 0. */
INLINE vector order_16(vector v)
{
    const vector magnitude = _mm256_and_si256(v, _mm256_set1_epi16(0x7fff));

    return _mm256_sign_epi16(magnitude, _mm256_or_si256(v, _mm256_set1_epi16(1)));
}

/* Returns b where take_b is set, else a; NaN where either operand is NaN. */
INLINE vector pick_16(vector a, vector b, vector take_b, int infinity, int nan)
{
    const vector canonical = _mm256_set1_epi16((short)nan);
    const vector top = _mm256_max_epu16(_mm256_and_si256(a, _mm256_set1_epi16(0x7fff)),
                                        _mm256_and_si256(b, _mm256_set1_epi16(0x7fff)));
    const vector is_nan = _mm256_cmpgt_epi16(top, _mm256_set1_epi16((short)infinity));

    return _mm256_blendv_epi8(_mm256_blendv_epi8(a, b, take_b), canonical, is_nan);
}

OP(min_f16) { return pick_16(a, b, _mm256_cmpgt_epi16(order_16(a), order_16(b)), 0x7c00, 0x7e00); }
OP(max_f16) { return pick_16(a, b, _mm256_cmpgt_epi16(order_16(b), order_16(a)), 0x7c00, 0x7e00); }
OP(min_bf16) { return pick_16(a, b, _mm256_cmpgt_epi16(order_16(a), order_16(b)), 0x7f80, 0x7fc0); }
OP(max_bf16) { return pick_16(a, b, _mm256_cmpgt_epi16(order_16(b), order_16(a)), 0x7f80, 0x7fc0); }

/* An operation on f32 lanes, used by the narrow types. */
typedef __m256 float_op(__m256 x, __m256 y, __m256 k);

#define FLOAT_OP(name) INLINE __m256 name(__m256 x UNUSED, __m256 y UNUSED, __m256 k UNUSED)

FLOAT_OP(add) { return _mm256_add_ps(x, y); }
FLOAT_OP(multiply) { return _mm256_mul_ps(x, y); }
FLOAT_OP(add_divide) { return _mm256_div_ps(_mm256_add_ps(x, y), k); }
FLOAT_OP(multiply_k) { return _mm256_mul_ps(x, k); }

#define TO_NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

INLINE vector via_f32_f16(vector a, vector b, double k, float_op *op)
{
    const __m256 k32 = _mm256_set1_ps((float)k);
    const __m256 low = op(_mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_castsi256_si128(b)), k32);
    const __m256 high =
        op(_mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)), _mm256_cvtph_ps(_mm256_extracti128_si256(b, 1)), k32);

    return join(_mm256_cvtps_ph(low, TO_NEAREST), _mm256_cvtps_ph(high, TO_NEAREST));
}

OP(sum_f16) { return settle_16(via_f32_f16(a, b, k, add), 0x7c00, 0x7e00); }
OP(prod_f16) { return settle_16(via_f32_f16(a, b, k, multiply), 0x7c00, 0x7e00); }
OP(sum_div_f16) { return settle_16(via_f32_f16(a, b, k, add_divide), 0x7c00, 0x7e00); }
OP(scale_f16) { return settle_16(via_f32_f16(a, b, k, multiply_k), 0x7c00, 0x7e00); }

/* Rounds f to its upper half, and shifts that to the lower half. A NaN here, from bf16 operands,
 * the CPU or a canonical scale, has a zero lower half, so rounding cannot carry out of it. */
INLINE vector bf16_of_f32(__m256 f)
{
    const vector bits = _mm256_castps_si256(f);
    const vector odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));

    return _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
}

INLINE vector via_f32_bf16(vector a, vector b, double k, float_op *op)
{
    const __m256 k32 = _mm256_set1_ps((float)k);
    const vector zero = _mm256_setzero_si256();
    const __m256 low = op(f32_of(_mm256_unpacklo_epi16(zero, a)), f32_of(_mm256_unpacklo_epi16(zero, b)), k32);
    const __m256 high = op(f32_of(_mm256_unpackhi_epi16(zero, a)), f32_of(_mm256_unpackhi_epi16(zero, b)), k32);

    return settle_16(_mm256_packus_epi32(bf16_of_f32(low), bf16_of_f32(high)), 0x7f80, 0x7fc0);
}

OP(sum_bf16) { return via_f32_bf16(a, b, k, add); }
OP(prod_bf16) { return via_f32_bf16(a, b, k, multiply); }
OP(sum_div_bf16) { return via_f32_bf16(a, b, k, add_divide); }
OP(scale_bf16) { return via_f32_bf16(a, b, k, multiply_k); }

/* ---- f8 ---- */

/* Both f8 types are an f16 with fewer mantissa bits. e5m2 is its upper byte. e4m3, moved below its
 * sign to align the exponents, is the f16 of 2^-8 times the value (unless NaN: see nan_e4m3). F16C
 * then does half of the work in both directions. Results are rounded to f16 and then to f8. For
 * sums and products of two f8 this equals a single rounding (the test tries all pairs). Quotients
 * and scaled values are first rounded to f8 precision in f32, so the two later steps are exact. */
INLINE vector f16_of_e4m3(vector upper)
{
    return _mm256_and_si256(_mm256_srai_epi16(upper, 1), _mm256_set1_epi16((short)0xbf80));
}

/* Converts to e4m3 in the lower byte; at most `code_max` without the sign. */
INLINE vector e4m3_of_f16(vector h, int code_max)
{
    const vector magnitude = _mm256_and_si256(h, _mm256_set1_epi16(0x7fff));
    const vector odd = _mm256_and_si256(_mm256_srli_epi16(h, 7), _mm256_set1_epi16(1));
    const vector half = _mm256_add_epi16(odd, _mm256_set1_epi16(0x3f));
    const vector code = _mm256_srli_epi16(_mm256_add_epi16(magnitude, half), 7);
    const vector sign = _mm256_and_si256(_mm256_srli_epi16(h, 8), _mm256_set1_epi16(0x80));

    return _mm256_or_si256(_mm256_min_epu16(code, _mm256_set1_epi16((short)code_max)), sign);
}

/* Converts to e5m2 in the lower byte; a carry correctly gives infinity. No NaN here has bits that
 * could carry. */
INLINE vector e5m2_of_f16(vector h)
{
    const vector odd = _mm256_and_si256(_mm256_srli_epi16(h, 8), _mm256_set1_epi16(1));

    return _mm256_srli_epi16(_mm256_add_epi16(h, _mm256_add_epi16(odd, _mm256_set1_epi16(0x7f))), 8);
}

/* Rounds f to nearest even in `mantissa` bits, with f16's smallest exponent as lower limit. Adding
 * and subtracting 1.5 * 2^(e + 23 - mantissa) does this for an f of exponent e. Magnitudes above
 * `limit` are clamped to it; NaN stays NaN. */
INLINE __m256 round_f8(__m256 f, int mantissa, float limit)
{
    const __m256 clamped = _mm256_max_ps(_mm256_set1_ps(-limit), _mm256_min_ps(_mm256_set1_ps(limit), f));
    const __m256 power = _mm256_and_ps(clamped, f32_of(_mm256_set1_epi32(0x7f800000)));
    const vector exponent = _mm256_castps_si256(_mm256_max_ps(power, _mm256_set1_ps(0x1p-14f)));
    const __m256 magic = f32_of(_mm256_add_epi32(exponent, _mm256_set1_epi32((23 - mantissa) << 23 | 0x400000)));
    const __m256 rounded = _mm256_sub_ps(_mm256_add_ps(clamped, magic), magic);

    return _mm256_or_ps(rounded, _mm256_and_ps(f, _mm256_set1_ps(-0.0f))); /* the sign of a zero */
}

/* Operations on f32 lanes with the final rounding of their type. */
FLOAT_OP(add_divide_e4m3) { return round_f8(add_divide(x, y, k), 3, 448 * 0x1p-8f); }
FLOAT_OP(add_divide_e5m2) { return round_f8(add_divide(x, y, k), 2, 0x1p17f); }
FLOAT_OP(multiply_k_e4m3) { return round_f8(multiply_k(x, y, k), 3, 448 * 0x1p-8f); }
FLOAT_OP(multiply_k_e5m2) { return round_f8(multiply_k(x, y, k), 2, 0x1p17f); }
/* (2^-8 x)(2^-8 y) is 2^-16 xy; the result must be 2^-8 xy. */
FLOAT_OP(multiply_e4m3) { return _mm256_mul_ps(_mm256_mul_ps(x, y), _mm256_set1_ps(0x1p8f)); }

INLINE vector magnitude_8(vector v) { return _mm256_and_si256(v, _mm256_set1_epi8(0x7f)); }

INLINE vector nan_e5m2(vector v) { return _mm256_cmpgt_epi8(magnitude_8(v), _mm256_set1_epi8(0x7c)); }
INLINE vector nan_e4m3(vector v) { return _mm256_cmpeq_epi8(magnitude_8(v), _mm256_set1_epi8(0x7f)); }

INLINE vector via_f32_e5m2(vector a, vector b, double k, float_op *op)
{
    const vector zero = _mm256_setzero_si256();
    const vector low = via_f32_f16(_mm256_unpacklo_epi8(zero, a), _mm256_unpacklo_epi8(zero, b), k, op);
    const vector high = via_f32_f16(_mm256_unpackhi_epi8(zero, a), _mm256_unpackhi_epi8(zero, b), k, op);
    const vector r = _mm256_packus_epi16(e5m2_of_f16(low), e5m2_of_f16(high));

    return _mm256_blendv_epi8(r, _mm256_set1_epi8(0x7e), nan_e5m2(r));
}

OP(sum_e5m2) { return via_f32_e5m2(a, b, k, add); }
OP(prod_e5m2) { return via_f32_e5m2(a, b, k, multiply); }
OP(sum_div_e5m2) { return via_f32_e5m2(a, b, k, add_divide_e5m2); }
OP(scale_e5m2) { return via_f32_e5m2(a, b, k, multiply_k_e5m2); }

/* `code_max` is the largest finite code, or that of NaN if `op` has rounded and only NaN can exceed
 * it. */
INLINE vector via_f32_e4m3(vector a, vector b, double k, float_op *op, int code_max)
{
    const vector zero = _mm256_setzero_si256();
    const vector a_low = f16_of_e4m3(_mm256_unpacklo_epi8(zero, a));
    const vector a_high = f16_of_e4m3(_mm256_unpackhi_epi8(zero, a));
    const vector b_low = f16_of_e4m3(_mm256_unpacklo_epi8(zero, b));
    const vector b_high = f16_of_e4m3(_mm256_unpackhi_epi8(zero, b));
    const vector low = e4m3_of_f16(via_f32_f16(a_low, b_low, k, op), code_max);
    const vector high = e4m3_of_f16(via_f32_f16(a_high, b_high, k, op), code_max);
    const vector r = _mm256_packus_epi16(low, high);
    const vector is_nan = _mm256_or_si256(_mm256_or_si256(nan_e4m3(a), nan_e4m3(b)), nan_e4m3(r));

    return _mm256_blendv_epi8(r, _mm256_set1_epi8(0x7f), is_nan);
}

OP(sum_e4m3) { return via_f32_e4m3(a, b, k, add, 0x7e); }
OP(prod_e4m3) { return via_f32_e4m3(a, b, k, multiply_e4m3, 0x7e); }
OP(sum_div_e4m3) { return via_f32_e4m3(a, b, k, add_divide_e4m3, 0x7f); }
OP(scale_e4m3) { return via_f32_e4m3(a, b, k, multiply_k_e4m3, 0x7f); }

/* Converts sign and magnitude to a two's complement number; both zeros become 0. */
INLINE vector order_8(vector v)
{
    return _mm256_sign_epi8(magnitude_8(v), _mm256_or_si256(v, _mm256_set1_epi8(1)));
}

INLINE vector pick_8(vector a, vector b, vector take_b, vector is_nan, int nan)
{
    return _mm256_blendv_epi8(_mm256_blendv_epi8(a, b, take_b), _mm256_set1_epi8((char)nan), is_nan);
}

INLINE vector either(vector x, vector y) { return _mm256_or_si256(x, y); }

OP(min_e4m3)
{
    return pick_8(a, b, _mm256_cmpgt_epi8(order_8(a), order_8(b)), either(nan_e4m3(a), nan_e4m3(b)), 0x7f);
}

OP(max_e4m3)
{
    return pick_8(a, b, _mm256_cmpgt_epi8(order_8(b), order_8(a)), either(nan_e4m3(a), nan_e4m3(b)), 0x7f);
}

OP(min_e5m2)
{
    return pick_8(a, b, _mm256_cmpgt_epi8(order_8(a), order_8(b)), either(nan_e5m2(a), nan_e5m2(b)), 0x7e);
}

OP(max_e5m2)
{
    return pick_8(a, b, _mm256_cmpgt_epi8(order_8(b), order_8(a)), either(nan_e5m2(a), nan_e5m2(b)), 0x7e);
}

/* A copy passes the source as both operands. */
OP(left) { return a; }

/* ---- the kernels ---- */

static AVX2 void copy_avx2(void *dst, void *dst2, const void *src, size_t bytes, uint32_t stream)
{
    run(&(struct operands){ dst, dst2, src, src }, bytes, 1, left, 0, stream);
}

/* ENTER and LEAVE set and restore the floating-point environment, or are empty for integers. */
#define KERNEL_BETWEEN(name, op, element, ENTER, LEAVE)                               \
    static AVX2 void name(void *dst, void *dst2, const void *a, const void *b, size_t count, uint32_t stream, uint32_t n) \
    {                                                                                 \
        ENTER                                                                         \
        run(&(struct operands){ dst, dst2, a, b }, count * (element), element, op, n, \
            (element) == 1 ? stream & ~TT_STREAM_DST2 : stream);                      \
        LEAVE                                                                         \
    }
#define ENTER \
    const tt_float_env kept = tt_float_env_enter(); \
    TT_FLOAT_PIN(n);
#define LEAVE tt_float_env_leave(kept);
#define INT_KERNEL(name, op, element) KERNEL_BETWEEN(name, op, element, , )
#define KERNEL(name, op, element) KERNEL_BETWEEN(name, op, element, ENTER, LEAVE)
#define SCALE(name, op, element) \
    static AVX2 void name(void *dst, const void *src, size_t count, double scale) \
    { \
        run(&(struct operands){ dst, NULL, src, src }, count * (element), element, op, scale, 0); \
    }

#define INT_KERNELS(bits) \
    INT_KERNEL(run_sum_##bits, sum_##bits, bits / 8) \
    INT_KERNEL(run_prod_##bits, prod_##bits, bits / 8) \
    INT_KERNEL(run_band_##bits, band, bits / 8) \
    INT_KERNEL(run_bor_##bits, bor, bits / 8) \
    INT_KERNEL(run_bxor_##bits, bxor, bits / 8) \
    INT_KERNEL(run_min_i##bits, min_i##bits, bits / 8) \
    INT_KERNEL(run_max_i##bits, max_i##bits, bits / 8) \
    KERNEL(run_sum_div_i##bits, sum_div_i##bits, bits / 8) \
    INT_KERNEL(run_min_u##bits, min_u##bits, bits / 8) \
    INT_KERNEL(run_max_u##bits, max_u##bits, bits / 8) \
    KERNEL(run_sum_div_u##bits, sum_div_u##bits, bits / 8)
#define FLOAT_KERNELS(type, element) \
    KERNEL(run_sum_##type, sum_##type, element) \
    KERNEL(run_prod_##type, prod_##type, element) \
    KERNEL(run_min_##type, min_##type, element) \
    KERNEL(run_max_##type, max_##type, element) \
    KERNEL(run_sum_div_##type, sum_div_##type, element) \
    SCALE(run_scale_##type, scale_##type, element)

INT_KERNELS(8)
INT_KERNELS(16)
INT_KERNELS(32)
INT_KERNELS(64)
FLOAT_KERNELS(f16, 2)
FLOAT_KERNELS(bf16, 2)
FLOAT_KERNELS(f32, 4)
FLOAT_KERNELS(f64, 8)
FLOAT_KERNELS(e4m3, 1)
FLOAT_KERNELS(e5m2, 1)

#define INT_ROW(type, bits) \
    { \
        [TT_KERNEL_SUM] = run_sum_##bits,         [TT_KERNEL_PROD] = run_prod_##bits, \
        [TT_KERNEL_MIN] = run_min_##type,         [TT_KERNEL_MAX] = run_max_##type, \
        [TT_KERNEL_SUM_DIV] = run_sum_div_##type, [TT_KERNEL_BAND] = run_band_##bits, \
        [TT_KERNEL_BOR] = run_bor_##bits,         [TT_KERNEL_BXOR] = run_bxor_##bits, \
    }
#define FLOAT_ROW(type)                                                             \
    {                                                                               \
        [TT_KERNEL_SUM] = run_sum_##type, [TT_KERNEL_PROD] = run_prod_##type, [TT_KERNEL_MIN] = run_min_##type, \
        [TT_KERNEL_MAX] = run_max_##type, [TT_KERNEL_SUM_DIV] = run_sum_div_##type, \
    }

/* clang-format on */

const struct tt_kernels tt_kernels_avx2 = {
    .name = "avx2",
    .reduce = {
        [TUTTI_I8] = INT_ROW(i8, 8),      [TUTTI_U8] = INT_ROW(u8, 8),
        [TUTTI_I16] = INT_ROW(i16, 16),   [TUTTI_U16] = INT_ROW(u16, 16),
        [TUTTI_I32] = INT_ROW(i32, 32),   [TUTTI_U32] = INT_ROW(u32, 32),
        [TUTTI_I64] = INT_ROW(i64, 64),   [TUTTI_U64] = INT_ROW(u64, 64),
        [TUTTI_F16] = FLOAT_ROW(f16),     [TUTTI_BF16] = FLOAT_ROW(bf16),
        [TUTTI_F32] = FLOAT_ROW(f32),     [TUTTI_F64] = FLOAT_ROW(f64),
        [TUTTI_F8E4M3] = FLOAT_ROW(e4m3), [TUTTI_F8E5M2] = FLOAT_ROW(e5m2),
    },
    .scale_float = {
        [TUTTI_F16] = run_scale_f16,     [TUTTI_BF16] = run_scale_bf16,
        [TUTTI_F32] = run_scale_f32,     [TUTTI_F64] = run_scale_f64,
        [TUTTI_F8E4M3] = run_scale_e4m3, [TUTTI_F8E5M2] = run_scale_e5m2,
    },
    .copy = copy_avx2,
    .hash = &tt_hash_avx2,
    .quant = &tt_quant_avx2,
};

#endif
