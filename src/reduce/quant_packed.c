/* Block by block: a block's numbers stay in the L1 cache from its input bytes to its output
 * bytes. */
#include "reduce/quant_packed.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "reduce/float_env.h"
#include "reduce/quant_data.h"

/* Keeps arithmetic between float_env's enter and leave. */
#define APART __attribute__((noinline))

enum { PACKED_BYTES_U8 = 256, PACKED_BYTES_U4 = 128, BLOCK_MAX = 256 };

bool tt_packed_init(struct tt_packed *p, enum tt_quant_codec codec, tutti_dtype type)
{
    struct tt_quant q = { codec, TT_QUANT_BLOCK_DEFAULT };
    uint32_t bytes, data;

    if (!tt_quant_defined(&q, type))
        return false;
    bytes = tt_quant_is_half_bytes(codec) ? PACKED_BYTES_U4 : PACKED_BYTES_U8;
    data = bytes - (uint32_t)tt_quant_head_bytes(codec);
    *p = (struct tt_packed){
        .codec = codec,
        .type = type,
        .block = tt_quant_is_half_bytes(codec) ? 2 * data : data,
        .bytes = bytes,
    };
    tt_assert(p->block <= BLOCK_MAX && p->block % 2 == 0);
    return true;
}

size_t tt_packed_blocks(const struct tt_packed *p, size_t count)
{
    return count / p->block + (count % p->block != 0);
}

static size_t packed_block_length(const struct tt_packed *p, size_t at, size_t count)
{
    return count - at < p->block ? count - at : p->block;
}

/* ---- numbers ---- */

/* Returns whether n elements at `at` can be used directly as a block's numbers. */
static bool is_block(const struct tt_packed *p, const void *at, size_t n)
{
    return p->type == TUTTI_F32 && n == p->block && (uintptr_t)at % sizeof(float) == 0;
}

/* x[block] = src[n], padded with its last element. */
static void take_own(const struct tt_packed *p, float *x, const void *src, const float *residual,
                     size_t n)
{
    tt_quant_widen(x, src, n, p->type);
    if (residual)
        tt_quant_add_f32(x, x, residual, n);
    for (size_t i = n; i < p->block; i++)
        x[i] = x[n - 1];
}

/* x[block] = the values of a packed block, clamped to the range of `type`. */
static void take_packed(const struct tt_packed *p, float *x, const uint8_t *in, tutti_dtype type)
{
    struct tt_quant_block b = { .poisoned = true };

    tt_quant_read_head(&b, in, p->codec, type);     /* if it is invalid, the block stays poisoned */
    tt_quant_decode_data(x, in + tt_quant_head_bytes(p->codec), p->block, p->codec, &b);
}

/* residual = (x - value of its code) * times, or adds that. A poisoned block leaves no residual,
 * which would poison all later ones. */
static void packed_residual_update(const struct tt_packed *p, float *residual, const float *x,
                                   const uint8_t *codes, const struct tt_quant_block *b, size_t n,
                                   uint32_t times, bool more)
{
    float value[BLOCK_MAX];

    if (b->poisoned) {
        memset(residual, 0, n * sizeof *residual);
        return;
    }
    tt_quant_decode_data(value, codes, p->block, p->codec, b);
    for (size_t i = 0; i < n; i++)
        residual[i] = (more ? residual[i] : 0) + (x[i] - value[i]) * (float)times;
}

/* ---- loops over blocks ---- */

static APART void packed_encode_blocks(const struct tt_packed *p, uint8_t *out, const char *src,
                                       float *residual, size_t count)
{
    float x[BLOCK_MAX];
    struct tt_quant_block b;

    for (size_t at = 0; at < count; at += p->block, out += p->bytes) {
        const size_t n = packed_block_length(p, at, count);
        const char *own = src + at * tt_quant_element_bytes(p->type);

        if (!residual && is_block(p, own, n)) {
            tt_quant_encode_block(out, &b, (const float *)own, n, p->codec, TUTTI_F32);
            continue;
        }
        take_own(p, x, own, residual ? residual + at : NULL, n);
        tt_quant_encode_block(out, &b, x, p->block, p->codec, TUTTI_F32);
        if (residual)
            packed_residual_update(p, residual + at, x, out + tt_quant_head_bytes(p->codec), &b, n,
                                   1, false);
    }
}

void tt_packed_encode(const struct tt_packed *p, void *out, const void *src, float *residual,
                      size_t count)
{
    const tt_float_env kept = tt_float_env_enter();

    packed_encode_blocks(p, out, src, residual, count);
    tt_float_env_leave(kept);
}

static APART void packed_decode_blocks(const struct tt_packed *p, char *dst, const uint8_t *in,
                                       size_t count)
{
    float x[BLOCK_MAX];

    for (size_t at = 0; at < count; at += p->block, in += p->bytes) {
        const size_t n = packed_block_length(p, at, count);
        char *to = dst + at * tt_quant_element_bytes(p->type);

        if (is_block(p, to, n)) {
            take_packed(p, (float *)to, in, TUTTI_F32);
            continue;
        }
        take_packed(p, x, in, p->type);
        tt_quant_narrow(to, x, n, p->type);
    }
}

void tt_packed_decode(const struct tt_packed *p, void *dst, const void *in, size_t count)
{
    const tt_float_env kept = tt_float_env_enter();

    packed_decode_blocks(p, dst, in, count);
    tt_float_env_leave(kept);
}

static APART void packed_add_blocks(const struct tt_packed *p, const struct tt_packed_step *s)
{
    const size_t element = tt_quant_element_bytes(p->type), head = tt_quant_head_bytes(p->codec);
    float x[BLOCK_MAX], y[BLOCK_MAX];
    struct tt_quant_block b;

    for (size_t at = 0, byte = 0; at < s->count; at += p->block, byte += p->bytes) {
        const size_t n = packed_block_length(p, at, s->count);
        float *residual = s->residual ? s->residual + at : NULL;
        uint8_t *out = (uint8_t *)s->out + byte;
        const void *part = y;

        if (s->b)
            take_packed(p, y, (const uint8_t *)s->b + byte, TUTTI_F32);
        else if (!residual && is_block(p, (const char *)s->own + at * element, n))
            part = (const char *)s->own + at * element;
        else
            take_own(p, y, (const char *)s->own + at * element, residual, n);
        take_packed(p, x, (const uint8_t *)s->a + byte, TUTTI_F32);
        tt_quant_add_f32(x, part, x, p->block);
        for (size_t i = 0; s->divide_by > 1 && i < p->block; i++)
            x[i] /= (float)s->divide_by;
        tt_quant_encode_block(out, &b, x, p->block, p->codec, TUTTI_F32);
        if (s->out2)
            memcpy((uint8_t *)s->out2 + byte, out, p->bytes);
        if (residual)
            packed_residual_update(p, residual, x, out + head, &b, n, s->divide_by, s->b != NULL);
    }
}

void tt_packed_add(const struct tt_packed *p, const struct tt_packed_step *s)
{
    tt_float_env kept;

    tt_assert(s->divide_by > 0);
    kept = tt_float_env_enter();
    packed_add_blocks(p, s);
    tt_float_env_leave(kept);
}

/* ---- bounds ---- */

static double rounding_of(tutti_dtype type, double value)
{
    switch (type) {
    case TUTTI_F16: return 0x1p-11 * value + 0x1p-25;
    case TUTTI_BF16: return 0x1p-8 * value + 0x1p-134;
    default: return 0;
    }
}

double tt_packed_bound(const struct tt_packed *p, double magnitude, double range, uint32_t times,
                       double value)
{
    const double n = times, top = tt_quant_is_half_bytes(p->codec) ? 15 : 255;
    double off;

    if (p->codec == TT_QUANT_E4M3 || p->codec == TT_QUANT_E5M2)
        off = (pow(1 + (p->codec == TT_QUANT_E4M3 ? 0x1p-4 : 0x1p-3), n) - 1) * magnitude +
              n * 0x1p-135;
    else
        off = n * (range / (2 * top) + 0x1p-20 * magnitude) + n * top * 0x1p-149;
    return off + rounding_of(p->type, fabs(value) + off);
}
