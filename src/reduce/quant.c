/* Encodes and decodes blocks of any type with the kernels. A block is converted to f32; then its
 * range, parameters and codes are computed; decoding is the reverse. A block stays in the L1 cache
 * meanwhile. */
#include "reduce/quant.h"

#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "reduce/float_env.h"
#include "reduce/quant_data.h"

/* Keeps arithmetic between float_env's enter and leave. */
#define APART __attribute__((noinline))

/* ---- sizes ---- */

bool tt_quant_defined(const struct tt_quant *q, tutti_dtype type)
{
    const uint32_t block = q->block;

    return (unsigned)q->codec < TT_QUANT_CODEC_COUNT && block >= TT_QUANT_BLOCK_MIN &&
           block <= TT_QUANT_BLOCK_MAX && block % 2 == 0 &&
           (type == TUTTI_F32 || type == TUTTI_F64 || type == TUTTI_F16 || type == TUTTI_BF16);
}

const char *tt_quant_name(enum tt_quant_codec codec)
{
    return (unsigned)codec < TT_QUANT_CODEC_COUNT ? tutti_quant_name((tutti_quant)codec + 1) : "?";
}

size_t tt_quant_bytes(const struct tt_quant *q, size_t count)
{
    const size_t nblocks = count / q->block + (count % q->block != 0);

    tt_assert(count <= SIZE_MAX / 16);
    return nblocks * tt_quant_head_bytes(q->codec) + tt_quant_data_bytes(q->codec, count);
}

static size_t block_length(const struct tt_quant *q, size_t at, size_t count)
{
    return count - at < q->block ? count - at : q->block;
}

/* ---- encoding ---- */

static APART size_t quant_encode_blocks(const struct tt_quant *q, uint8_t *to, const char *src,
                                        size_t count, tutti_dtype type)
{
    size_t npoisoned = 0;
    float x[TT_QUANT_BLOCK_MAX];
    struct tt_quant_block b;

    for (size_t at = 0; at < count; at += q->block) {
        const size_t n = block_length(q, at, count);

        tt_quant_widen(x, src + at * tt_quant_element_bytes(type), n, type);
        to += tt_quant_encode_block(to, &b, x, n, q->codec, type);
        npoisoned += b.poisoned;
    }
    return npoisoned;
}

size_t tt_quant_encode(const struct tt_quant *q, void *out, const void *src, size_t count,
                       tutti_dtype type)
{
    tt_float_env kept;
    size_t npoisoned;

    tt_assert(tt_quant_defined(q, type));
    kept = tt_float_env_enter();
    npoisoned = quant_encode_blocks(q, out, src, count, type);
    tt_float_env_leave(kept);
    return npoisoned;
}

/* residual = x - the value of its code. A poisoned block leaves no residual, which would poison all
 * later ones. */
static void residual_set(float *residual, const float *x, const float *value, size_t n,
                         bool poisoned)
{
    for (size_t i = 0; i < n; i++)
        residual[i] = poisoned ? 0 : x[i] - value[i];
}

static APART size_t encode_all_feedback(const struct tt_quant *q, uint8_t *to, const char *src,
                                        float *residual, size_t count, tutti_dtype type)
{
    size_t npoisoned = 0;
    float x[TT_QUANT_BLOCK_MAX], value[TT_QUANT_BLOCK_MAX];
    struct tt_quant_block b;

    for (size_t at = 0; at < count; at += q->block) {
        const size_t n = block_length(q, at, count), head = tt_quant_head_bytes(q->codec);
        const uint8_t *codes = to + head;

        tt_quant_widen(x, src + at * tt_quant_element_bytes(type), n, type);
        tt_quant_add_f32(x, x, residual + at, n);
        to += tt_quant_encode_block(to, &b, x, n, q->codec, type);
        tt_quant_decode_data(value, codes, n, q->codec, &b);
        residual_set(residual + at, x, value, n, b.poisoned);
        npoisoned += b.poisoned;
    }
    return npoisoned;
}

size_t tt_quant_encode_feedback(const struct tt_quant *q, void *out, const void *src,
                                float *residual, size_t count, tutti_dtype type)
{
    tt_float_env kept;
    size_t npoisoned;

    tt_assert(tt_quant_defined(q, type));
    kept = tt_float_env_enter();
    npoisoned = encode_all_feedback(q, out, src, residual, count, type);
    tt_float_env_leave(kept);
    return npoisoned;
}

/* ---- decoding ---- */

static tutti_status check_block_head(const struct tt_quant *q, const uint8_t *from, size_t at,
                                     size_t n, tutti_dtype type)
{
    struct tt_quant_block b;
    struct tt_reader r;

    if (!tt_quant_read_head(&b, from, q->codec, type)) {
        tt_reader_init(&r, from, tt_quant_head_bytes(q->codec));
        return tt_fail(
            TUTTI_ERR_PROTOCOL,
            "quantized data: the %s block of elements %zu to %zu has invalid parameters: 0x%08x",
            tt_quant_name(q->codec), at, at + n - 1, tt_read_u32(&r));
    }
    if (tt_quant_is_half_bytes(q->codec) && n % 2 &&
        from[tt_quant_head_bytes(q->codec) + n / 2] >> 4)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "quantized data: the padding after the last element, %zu, is not zero",
                       at + n - 1);
    return TUTTI_OK;
}

/* Checks all of in[bytes] before anything is written. */
static tutti_status check_input(const struct tt_quant *q, const uint8_t *in, size_t bytes,
                                size_t count, tutti_dtype type)
{
    const size_t stride = tt_quant_head_bytes(q->codec) + tt_quant_data_bytes(q->codec, q->block);
    tutti_status st = TUTTI_OK;

    if (bytes != tt_quant_bytes(q, count))
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "quantized data: wrong length: %zu bytes received, but %zu elements as %s "
                       "in blocks of %u occupy %zu",
                       bytes, count, tt_quant_name(q->codec), q->block, tt_quant_bytes(q, count));
    for (size_t at = 0; at < count && st == TUTTI_OK; at += q->block, in += stride)
        st = check_block_head(q, in, at, block_length(q, at, count), type);
    return st;
}

/* dst = the values, or a + the values if a is not NULL. */
static APART void quant_decode_blocks(const struct tt_quant *q, char *dst, const char *a,
                                      const uint8_t *in, size_t count, tutti_dtype type)
{
    const size_t head = tt_quant_head_bytes(q->codec), element = tt_quant_element_bytes(type);
    float x[TT_QUANT_BLOCK_MAX];

    for (size_t at = 0; at < count; at += q->block) {
        const size_t n = block_length(q, at, count);
        struct tt_quant_block b = { .poisoned = true };

        tt_quant_read_head(&b, in, q->codec, type);      /* if a peer has changed it since the
                                                            check, the block is poisoned */
        tt_quant_decode_data(x, in + head, n, q->codec, &b);
        if (a)
            tt_quant_add(dst + at * element, a + at * element, x, n, type);
        else
            tt_quant_narrow(dst + at * element, x, n, type);
        in += head + tt_quant_data_bytes(q->codec, n);
    }
}

static tutti_status decode_or_add(const struct tt_quant *q, void *dst, const void *a,
                                  const void *in, size_t bytes, size_t count, tutti_dtype type)
{
    tutti_status st;
    tt_float_env kept;

    tt_assert(tt_quant_defined(q, type));
    kept = tt_float_env_enter();
    st = check_input(q, in, bytes, count, type);
    if (st == TUTTI_OK)
        quant_decode_blocks(q, dst, a, in, count, type);
    tt_float_env_leave(kept);
    return st;
}

tutti_status tt_quant_decode(const struct tt_quant *q, void *dst, const void *in, size_t bytes,
                             size_t count, tutti_dtype type)
{
    return decode_or_add(q, dst, NULL, in, bytes, count, type);
}

tutti_status tt_quant_decode_add(const struct tt_quant *q, void *dst, const void *a, const void *in,
                                 size_t bytes, size_t count, tutti_dtype type)
{
    tt_assert(a || count == 0);
    return decode_or_add(q, dst, a, in, bytes, count, type);
}
