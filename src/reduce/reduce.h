/* Element-wise reduction and copying: the kernels through which the engine streams data. Pure
 * functions of memory; any thread. The implementation is selected once per process by the CPU
 * (AVX2 and F16C, else portable C); all give bitwise identical results. They compute in the
 * default floating-point environment (float_env.h) and restore the caller's, including its
 * exception flags. */
#ifndef TT_REDUCE_REDUCE_H
#define TT_REDUCE_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

enum { TT_STREAM_DST = 1u << 0, TT_STREAM_DST2 = 1u << 1, TT_FROM_OTHER_CORE = 1u << 2 };

/* A kernel: dst[i] = a[i] op b[i] for i in [0, count), and the same in dst2[i] if dst2 is not NULL.
 * `a` is the left operand. dst may equal a or b exactly; other overlap is not allowed. Any
 * alignment of every pointer.
 * `stream` (TT_STREAM_*) selects which of dst and dst2 are written with non-temporal stores, fenced
 * before return. The fence waits for memory (0.4 us), so calls below 8 KiB ignore `stream`. It is
 * also ignored if the destination is not aligned to its elements, and for dst2 of 8-bit types,
 * which would be computed twice.
 * TT_FROM_OTHER_CORE: an operand was just written by another core, or with non-temporal stores. It
 * is read in several pages at once, each followed by its own prefetcher. Ignored with dst2 and if
 * dst is streamed.
 * `finish_n`, at least 1, is read only by a finishing kernel. A NaN result is the canonical one;
 * MIN (MAX) returns the left operand unless the right one is strictly less (greater), so the left
 * one of +0 and -0. */
typedef void tt_reduce_fn(void *dst, void *dst2, const void *a, const void *b, size_t count,
                          uint32_t stream, uint32_t finish_n);

/* Returns the kernel of (type, op), finishing or not. A finishing kernel of TUTTI_AVG divides the
 * sum by finish_n, once: 16- and 8-bit floats divide the f32 sum and then round once; integers
 * truncate towards zero; f32 and f64 divide. For every other op finishing makes no difference.
 * TUTTI_PREMUL_SUM and unfinished AVG are SUM. NULL if the op is not defined for the type (bitwise
 * on floats). */
tt_reduce_fn *tt_reduce_kernel(tutti_dtype type, tutti_redop op, bool finish);

/* Returns whether (type, op) is defined. */
bool tt_reduce_defined(tutti_dtype type, tutti_redop op);

/* dst[i] = src[i] * scale rounded to the type (PREMUL_SUM's first pass). f32 arithmetic for f32 and
 * narrower floats, f64 for f64, and for integers truncated double arithmetic, with NaN as 0 and
 * results clamped to the type. dst may equal src. */
void tt_reduce_scale(void *dst, const void *src, size_t count, tutti_dtype type, double scale);

/* Returns whether a scale is +0 or -0. Compares bits: denormals are not zero, and a NaN raises no
 * exception, regardless of the thread's settings. */
bool tt_reduce_scale_is_zero(double scale);

/* Copies src[bytes] to dst, and to dst2 if that is not NULL; the ranges must not overlap. stream:
 * see tt_reduce_fn. */
void tt_copy(void *dst, void *dst2, const void *src, size_t bytes, uint32_t stream);

/* Returns TT_FROM_OTHER_CORE if it helps, as on AMD CPUs (copying 32 KiB that another core has
 * written with non-temporal stores takes a quarter less time, bench/README.md); else 0. */
uint32_t tt_other_core_flag(void);

/* Scalar conversions, for tests and tools: round to nearest even, saturating for e4m3, NaN kept. */
float tt_f16_to_f32(uint16_t h);
uint16_t tt_f32_to_f16(float f);
float tt_bf16_to_f32(uint16_t h);
uint16_t tt_f32_to_bf16(float f);
float tt_e4m3_to_f32(uint8_t v);
uint8_t tt_f32_to_e4m3(float f);
float tt_e5m2_to_f32(uint8_t v);
uint8_t tt_f32_to_e5m2(float f);

/* Returns "avx2" or "portable". TUTTI_SIMD=portable selects "portable" (tests compare the two). */
const char *tt_reduce_isa(void);

#endif
