/* Loops of the AVX2 kernels: apply an operation, a function of two 256-bit vectors, to any count
 * and alignment, without scalar code or other loops.
 *  - 1 to 31 bytes: the operands' first and last pieces of the largest power of two that fits are
 *    the halves of one vector. The pieces overlap in the middle, where both store the same values.
 *  - more: the last vector ends exactly at the end, and overlaps the previous one. In an in-place
 *    call, the last vector would read results, so it is computed first and stored last. The same
 *    applies to the first vector if streaming aligns the destination.
 * `run` is inlined into each kernel, and the operation into `run`. */
#ifndef TT_REDUCE_AVX2_RUN_H
#define TT_REDUCE_AVX2_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <immintrin.h>
#include "reduce/reduce.h"

#define AVX2 __attribute__((target("avx2,f16c")))
#define INLINE static inline AVX2 __attribute__((always_inline))

enum {
    VECTOR_BYTES = 32,
    LINE_BYTES = 64,
    BOTH_BYTES = 4096,          /* the block of run_lines_both; whole lines */
    STREAM_BYTES_MIN = 8192,    /* below this the fence (0.4 us until all stores are complete)
                                   costs more than streaming saves */
    PAGE_BYTES = 4096,          /* the prefetchers treat each page separately */
    PAGES_COPIED = 4,           /* pages copied at once, of data from another core */
    PAGES_REDUCED = 2,          /* pages reduced at once: with two operands and a result, more would
                                   compete for the same lines of the L1 cache */
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

/* Loads the first and the last piece of p[bytes], 1 to 31 bytes, as the halves of a vector; zero
 * elsewhere. */
INLINE vector load_small(const uint8_t *p, size_t bytes)
{
    if (bytes >= 16)
        return join(_mm_loadu_si128((const __m128i *)p),
                    _mm_loadu_si128((const __m128i *)(p + bytes - 16)));
    if (bytes >= 8)
        return join(_mm_loadl_epi64((const __m128i *)p),
                    _mm_loadl_epi64((const __m128i *)(p + bytes - 8)));
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

/* Reverses load_small. */
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
        const int16_t first = (int16_t)_mm_cvtsi128_si32(low),
                      last = (int16_t)_mm_cvtsi128_si32(high);

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
    return op(_mm256_loadu_si256((const vector *)(o->a + at)),
              _mm256_loadu_si256((const vector *)(o->b + at)), k);
}

INLINE void store_at(const struct operands *o, size_t at, vector v)
{
    _mm256_storeu_si256((vector *)(o->dst + at), v);
    if (o->dst2)
        _mm256_storeu_si256((vector *)(o->dst2 + at), v);
}

/* The branch is the same for all lines of a call, and its cost is hidden by the loads. */
INLINE void store_line(uint8_t *to, vector low, vector high, bool stream)
{
    if (stream) {
        _mm256_stream_si256((vector *)to, low);
        _mm256_stream_si256((vector *)(to + VECTOR_BYTES), high);
    } else {
        _mm256_storeu_si256((vector *)to, low);
        _mm256_storeu_si256((vector *)(to + VECTOR_BYTES), high);
    }
}

/* Processes the full cache lines from `from` on, line by line; returns the end of the last one. */
INLINE size_t run_lines(const struct operands *o, size_t from, size_t bytes, vector_op *op,
                        double k, bool stream)
{
    size_t at = from;

    for (; at + LINE_BYTES <= bytes; at += LINE_BYTES) {
        const vector low = result_at(o, at, op, k), high = result_at(o, at + VECTOR_BYTES, op, k);

        store_line(o->dst + at, low, high, stream);
        if (o->dst2)
            store_line(o->dst2 + at, low, high, false);
    }
    return at;
}

/* Like run_lines, but in `ways` pages at once, each followed by its own prefetcher, for operands
 * from another core. Processes whole groups of `ways` pages, with ordinary stores. */
INLINE size_t run_pages(const struct operands *o, size_t bytes, vector_op *op, double k,
                        size_t ways)
{
    size_t at = 0;

    for (; at + ways * PAGE_BYTES <= bytes; at += ways * PAGE_BYTES)
        for (size_t in = 0; in < PAGE_BYTES; in += 2 * LINE_BYTES)
            for (size_t way = 0; way < ways; way++) {
                const size_t from = at + way * PAGE_BYTES + in;

                run_lines(o, from, from + 2 * LINE_BYTES, op, k, false);
            }
    return at;
}

/* As run_lines, with non-temporal stores to dst2. Its lines begin `skew` bytes later than dst's, so
 * they are computed separately. This is done block by block, so the operands are in L1 the second
 * time; line by line it takes three times as long. dst may be an operand, so its bytes are written
 * last. The edges of dst2, partial lines, have been stored before. */
INLINE size_t run_lines_both(const struct operands *o, size_t from, size_t skew, size_t bytes,
                             vector_op *op, double k, bool stream)
{
    const struct operands one = { o->dst, NULL, o->a, o->b }, two = { o->dst2, NULL, o->a, o->b };
    size_t at = from;

    while (at + skew + LINE_BYTES <= bytes) {
        const size_t left = bytes - skew - at, block = left < BOTH_BYTES ? left : BOTH_BYTES;

        run_lines(&two, at + skew, at + skew + block, op, k, true);
        at = run_lines(&one, at, at + block, op, k, stream);
    }
    return run_lines(&one, at, bytes, op, k, stream);
}

INLINE void store_edges(const struct operands *o, size_t bytes, vector_op *op, double k)
{
    for (size_t at = 0; at < 2 * LINE_BYTES; at += VECTOR_BYTES) {
        const size_t end = bytes - 2 * LINE_BYTES + at;

        _mm256_storeu_si256((vector *)(o->dst2 + at), result_at(o, at, op, k));
        _mm256_storeu_si256((vector *)(o->dst2 + end), result_at(o, end, op, k));
    }
}

/* Streamed data is first aligned to a cache line, so that whole lines are written; the first `head`
 * bytes of dst are a partial line. */
INLINE void run_streaming(const struct operands *o, size_t head, size_t bytes, vector_op *op,
                          double k, uint32_t stream)
{
    const size_t second = head > VECTOR_BYTES ? head - VECTOR_BYTES : 0;
    const vector head_low = result_at(o, 0, op, k), head_high = result_at(o, second, op, k);
    const vector tail_low = result_at(o, bytes - LINE_BYTES, op, k);
    const vector tail_high = result_at(o, bytes - VECTOR_BYTES, op, k);
    const struct operands edge = { o->dst, stream & TT_STREAM_DST2 ? NULL : o->dst2, o->a, o->b };
    size_t at;

    if (stream & TT_STREAM_DST2) {
        store_edges(o, bytes, op, k);
        at = run_lines_both(o, head, -(uintptr_t)(o->dst2 + head) % LINE_BYTES, bytes, op, k,
                            stream & TT_STREAM_DST);
    } else {
        at = run_lines(o, head, bytes, op, k, true);
    }
    if (head) {
        store_at(&edge, 0, head_low);
        store_at(&edge, second, head_high);
    }
    if (at < bytes) {
        store_at(&edge, bytes - LINE_BYTES, tail_low);
        store_at(&edge, bytes - VECTOR_BYTES, tail_high);
    }
    _mm_sfence();
}

/* Returns which of the requested streams are possible; *head: distance from dst to its first full
 * line. */
INLINE uint32_t streamable(const struct operands *o, size_t bytes, size_t element, uint32_t stream,
                           size_t *head)
{
    *head = -(uintptr_t)o->dst % LINE_BYTES;
    if (bytes < STREAM_BYTES_MIN)
        return 0;
    if (*head % element)
        stream &= ~TT_STREAM_DST;
    if (!o->dst2 || (uintptr_t)o->dst2 % element)
        stream &= ~TT_STREAM_DST2;
    if (!(stream & TT_STREAM_DST))
        *head = 0;
    return stream;
}

/* dst[bytes] = a[bytes] op b[bytes], in elements of `element` bytes. dst may equal a or b. */
INLINE void run(const struct operands *o, size_t bytes, size_t element, vector_op *op, double k,
                uint32_t stream)
{
    const bool far = stream & TT_FROM_OTHER_CORE && !o->dst2;
    size_t at = 0, head;
    vector last;

    if (bytes < VECTOR_BYTES) {
        if (bytes)
            run_small(o, bytes, op, k);
        return;
    }
    stream = streamable(o, bytes, element, stream & (TT_STREAM_DST | TT_STREAM_DST2), &head);
    if (stream) {
        run_streaming(o, head, bytes, op, k, stream);
        return;
    }
    last = result_at(o, bytes - VECTOR_BYTES, op, k);
    if (far)
        at = run_pages(o, bytes, op, k, o->a == o->b ? PAGES_COPIED : PAGES_REDUCED);
    at = run_lines(o, at, bytes, op, k, false);
    if (at + VECTOR_BYTES < bytes)
        store_at(o, at, result_at(o, at, op, k));
    store_at(o, bytes - VECTOR_BYTES, last);
}

#endif
