/* The runner of the AVX2 kernels: it carries an operation, a function of two 256-bit vectors, over any count and
 * alignment, so that there is no scalar code and no other loop.
 *  - 1 to 31 bytes: the operands' first and last pieces of the largest power of two that fits are the halves of one
 *    vector. The pieces overlap in the middle, where both store the same.
 *  - more: the last vector ends exactly at the end, and overlaps the one before it. In place that would read what was
 *    already written, so it is computed first and stored last. The same at the head, when streaming aligns itself.
 * `run` is inlined into each kernel, and the operation into it. */
#ifndef TT_REDUCE_AVX2_RUN_H
#define TT_REDUCE_AVX2_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,f16c")))
#define INLINE static inline AVX2 __attribute__((always_inline))

enum {
    VECTOR_BYTES = 32,
    LINE_BYTES = 64,
    STREAM_BYTES_MIN = 8192,    /* below this the fence (0.4 us until all has left) costs more than it saves */
};

typedef __m256i vector;
/* a op b. `k` is the kernel's parameter: the divisor or the scale. */
typedef vector vector_op(vector a, vector b, double k);

struct operands {
    uint8_t *dst, *dst2;
    const uint8_t *a, *b;
};

INLINE vector join(__m128i low, __m128i high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/* The first and the last piece of p[bytes], 1 to 31 bytes, as the halves of a vector; zero elsewhere. */
INLINE vector load_small(const uint8_t *p, size_t bytes)
{
    if (bytes >= 16)
        return join(_mm_loadu_si128((const __m128i *)p), _mm_loadu_si128((const __m128i *)(p + bytes - 16)));
    if (bytes >= 8)
        return join(_mm_loadl_epi64((const __m128i *)p), _mm_loadl_epi64((const __m128i *)(p + bytes - 8)));
    if (bytes >= 4) {
        int32_t low, high;

        memcpy(&low, p, 4);
        memcpy(&high, p + bytes - 4, 4);
        return join(_mm_cvtsi32_si128(low), _mm_cvtsi32_si128(high));
    }
    if (bytes >= 2) {
        int16_t low, high;

        memcpy(&low, p, 2);
        memcpy(&high, p + bytes - 2, 2);
        return join(_mm_cvtsi32_si128(low), _mm_cvtsi32_si128(high));
    }
    return join(_mm_cvtsi32_si128(*p), _mm_setzero_si128());
}

/* Undoes load_small. */
INLINE void store_small(uint8_t *p, size_t bytes, vector v)
{
    const __m128i low = _mm256_castsi256_si128(v), high = _mm256_extracti128_si256(v, 1);

    if (bytes >= 16) {
        _mm_storeu_si128((__m128i *)p, low);
        _mm_storeu_si128((__m128i *)(p + bytes - 16), high);
    } else if (bytes >= 8) {
        _mm_storel_epi64((__m128i *)p, low);
        _mm_storel_epi64((__m128i *)(p + bytes - 8), high);
    } else if (bytes >= 4) {
        const int32_t first = _mm_cvtsi128_si32(low), last = _mm_cvtsi128_si32(high);

        memcpy(p, &first, 4);
        memcpy(p + bytes - 4, &last, 4);
    } else if (bytes >= 2) {
        const int16_t first = (int16_t)_mm_cvtsi128_si32(low), last = (int16_t)_mm_cvtsi128_si32(high);

        memcpy(p, &first, 2);
        memcpy(p + bytes - 2, &last, 2);
    } else {
        *p = (uint8_t)_mm_cvtsi128_si32(low);
    }
}

INLINE void run_small(const struct operands *o, size_t bytes, vector_op *op, double k)
{
    const vector v = op(load_small(o->a, bytes), load_small(o->b, bytes), k);

    store_small(o->dst, bytes, v);
    if (o->dst2)
        store_small(o->dst2, bytes, v);
}

INLINE vector result_at(const struct operands *o, size_t at, vector_op *op, double k)
{
    return op(_mm256_loadu_si256((const vector *)(o->a + at)), _mm256_loadu_si256((const vector *)(o->b + at)), k);
}

INLINE void store_at(const struct operands *o, size_t at, vector v)
{
    _mm256_storeu_si256((vector *)(o->dst + at), v);
    if (o->dst2)
        _mm256_storeu_si256((vector *)(o->dst2 + at), v);
}

/* Stores a line that starts at `at`. The branches are the same every time, and hide behind the loads. */
INLINE void store_line_at(const struct operands *o, size_t at, vector low, vector high, bool stream)
{
    if (stream) {
        _mm256_stream_si256((vector *)(o->dst + at), low);
        _mm256_stream_si256((vector *)(o->dst + at + VECTOR_BYTES), high);
    } else {
        _mm256_storeu_si256((vector *)(o->dst + at), low);
        _mm256_storeu_si256((vector *)(o->dst + at + VECTOR_BYTES), high);
    }
    if (o->dst2) {
        _mm256_storeu_si256((vector *)(o->dst2 + at), low);
        _mm256_storeu_si256((vector *)(o->dst2 + at + VECTOR_BYTES), high);
    }
}

/* [from, the last full line) line by line; returns where it stopped. */
INLINE size_t run_lines(const struct operands *o, size_t from, size_t bytes, vector_op *op, double k, bool stream)
{
    size_t at = from;

    for (; at + LINE_BYTES <= bytes; at += LINE_BYTES)
        store_line_at(o, at, result_at(o, at, op, k), result_at(o, at + VECTOR_BYTES, op, k), stream);
    return at;
}

/* dst aligned to a line first, for whole lines to leave the core; `head` bytes are not whole. */
INLINE void run_streaming(const struct operands *o, size_t head, size_t bytes, vector_op *op, double k)
{
    const size_t second = head > VECTOR_BYTES ? head - VECTOR_BYTES : 0;
    const vector head_low = result_at(o, 0, op, k), head_high = result_at(o, second, op, k);
    const vector tail_low = result_at(o, bytes - LINE_BYTES, op, k);
    const vector tail_high = result_at(o, bytes - VECTOR_BYTES, op, k);

    run_lines(o, head, bytes, op, k, true);
    if (head) {
        store_at(o, 0, head_low);
        store_at(o, second, head_high);
    }
    store_at(o, bytes - LINE_BYTES, tail_low);
    store_at(o, bytes - VECTOR_BYTES, tail_high);
    _mm_sfence();
}

/* dst[bytes] = a[bytes] op b[bytes], in elements of `element` bytes. dst may equal a or b. */
INLINE void run(const struct operands *o, size_t bytes, size_t element, vector_op *op, double k, bool stream)
{
    const size_t head = -(uintptr_t)o->dst % LINE_BYTES;
    size_t at;
    vector last;

    if (bytes < VECTOR_BYTES) {
        if (bytes)
            run_small(o, bytes, op, k);
        return;
    }
    if (stream && bytes >= STREAM_BYTES_MIN && head % element == 0) {
        run_streaming(o, head, bytes, op, k);
        return;
    }
    last = result_at(o, bytes - VECTOR_BYTES, op, k);
    at = run_lines(o, 0, bytes, op, k, false);
    if (at + VECTOR_BYTES < bytes)
        store_at(o, at, result_at(o, at, op, k));
    store_at(o, bytes - VECTOR_BYTES, last);
}

#endif
