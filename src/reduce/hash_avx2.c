/* Inner loops of the hash for CPUs with AVX2: eight lanes per vector, four vectors per row. */
#include "reduce/hash_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

enum { VECTOR_LANES = 8, VECTORS = TT_HASH_LANES / VECTOR_LANES };

typedef __m256i vector;

static inline AVX2 vector load_vector(const void *at)
{
    return _mm256_loadu_si256(at);
}

static inline AVX2 vector all(uint32_t word)
{
    return _mm256_set1_epi32((int)word);
}

/* This rotation takes one instruction; any other takes three. */
static inline AVX2 vector rotate_16(vector v)
{
    const vector swap = _mm256_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13, 2, 3,
                                         0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);

    _Static_assert(TUTTI_HASH_ROTATE_A == 16, "the two halves of a word change places");
    return _mm256_shuffle_epi8(v, swap);
}

static inline AVX2 vector rotate_b(vector v)
{
    return _mm256_or_si256(_mm256_slli_epi32(v, TUTTI_HASH_ROTATE_B),
                           _mm256_srli_epi32(v, 32 - TUTTI_HASH_ROTATE_B));
}

static AVX2 void rows_avx2(struct tt_hash_lanes *lanes, const uint8_t *data, size_t nrows)
{
    const vector multiply_a = all(TUTTI_HASH_MULTIPLY_A), multiply_b = all(TUTTI_HASH_MULTIPLY_B);
    vector a[VECTORS], b[VECTORS];

    for (int i = 0; i < VECTORS; i++) {
        a[i] = load_vector(lanes->a + i * VECTOR_LANES);
        b[i] = load_vector(lanes->b + i * VECTOR_LANES);
    }
    for (const uint8_t *end = data + nrows * TT_HASH_ROW_BYTES; data < end;
         data += TT_HASH_ROW_BYTES)
        for (int i = 0; i < VECTORS; i++) {
            const vector word = load_vector(data + i * sizeof(vector));

            a[i] = _mm256_mullo_epi32(rotate_16(_mm256_xor_si256(a[i], word)), multiply_a);
            b[i] = _mm256_mullo_epi32(rotate_b(_mm256_add_epi32(b[i], a[i])), multiply_b);
        }
    for (int i = 0; i < VECTORS; i++) {
        _mm256_storeu_si256((vector *)(lanes->a + i * VECTOR_LANES), a[i]);
        _mm256_storeu_si256((vector *)(lanes->b + i * VECTOR_LANES), b[i]);
    }
}

static inline AVX2 uint32_t sum_lanes(vector v)
{
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));

    return (uint32_t)_mm_cvtsi128_si32(two) + (uint32_t)_mm_extract_epi32(two, 1);
}

/* tutti_hash_mix for all lanes, x[word][vector], and their sum. */
static AVX2 void fold_avx2(uint32_t digest[4], const struct tt_hash_lanes *lanes)
{
    const vector multiply = all(TUTTI_HASH_MULTIPLY_MIX);
    vector x[4][VECTORS];

    for (int v = 0; v < VECTORS; v++) {
        x[0][v] = load_vector(lanes->a + v * VECTOR_LANES);
        x[1][v] = load_vector(lanes->b + v * VECTOR_LANES);
        x[2][v] = all(TUTTI_HASH_LANE_2);
        x[3][v] = all(TUTTI_HASH_LANE_3);
    }
    for (int pass = 0; pass < TUTTI_HASH_MIX_PASSES; pass++)
        for (int i = 0; i < 4; i++)
            for (int v = 0; v < VECTORS; v++) {
                const vector product =
                    _mm256_mullo_epi32(_mm256_xor_si256(x[i][v], x[(i + 3) % 4][v]), multiply);

                x[i][v] =
                    _mm256_xor_si256(product, _mm256_srli_epi32(product, TUTTI_HASH_MIX_SHIFT));
            }
    for (int i = 0; i < 4; i++)
        digest[i] = sum_lanes(_mm256_add_epi32(_mm256_add_epi32(x[i][0], x[i][1]),
                                               _mm256_add_epi32(x[i][2], x[i][3])));
}

const struct tt_hash_kernels tt_hash_avx2 = { .rows = rows_avx2, .fold = fold_avx2 };

#endif
