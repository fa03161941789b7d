/* Elements of any type to f32 and back, and one block from numbers to bytes and back. */
#include "reduce/quant_data.h"

#include <float.h>
#include <string.h>

#include "base/bytes.h"
#include "reduce/convert.h"
#include "reduce/kernels.h"
#include "reduce/quant_kernels.h"

/* ---- sizes ---- */

bool tt_quant_is_half_bytes(enum tt_quant_codec codec)
{
    return codec == TT_QUANT_MINMAX_U4 || codec == TT_QUANT_ZERO_U4;
}

size_t tt_quant_data_bytes(enum tt_quant_codec codec, size_t n)
{
    return tt_quant_is_half_bytes(codec) ? n / 2 + n % 2 : n;
}

size_t tt_quant_head_bytes(enum tt_quant_codec codec)
{
    return sizeof(uint32_t) * tt_quant_block_words(codec);
}

/* ---- types ---- */

size_t tt_quant_element_bytes(tutti_dtype type)
{
    return type == TUTTI_F64 ? 8 : type == TUTTI_F32 ? 4 : 2;
}

/* Returns the largest finite number of the type, or of f32 if that is less. */
static float largest_finite(tutti_dtype type)
{
    return type == TUTTI_F16    ? 65504.0f
           : type == TUTTI_BF16 ? tt_float_of_bits(0x7f7f0000)
                                : FLT_MAX;
}

void tt_quant_widen(float *x, const char *src, size_t n, tutti_dtype type)
{
    if (type == TUTTI_F32) {
        memcpy(x, src, n * sizeof x[0]);
    } else if (type == TUTTI_F16) {
        tt_kernels_get()->quant->widen_f16(x, src, n);
    } else if (type == TUTTI_BF16) {
        for (size_t i = 0; i < n; i++) {
            uint16_t h;

            memcpy(&h, src + 2 * i, sizeof h);
            x[i] = tt_bf16_widen(h);
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            double d;

            memcpy(&d, src + 8 * i, sizeof d);
            x[i] = (float)d;
        }
    }
}

void tt_quant_narrow(char *dst, const float *x, size_t n, tutti_dtype type)
{
    if (type == TUTTI_F32) {
        memcpy(dst, x, n * sizeof x[0]);
    } else if (type == TUTTI_F16) {
        tt_kernels_get()->quant->narrow_f16(dst, x, n);
    } else if (type == TUTTI_BF16) {
        for (size_t i = 0; i < n; i++) {
            const uint16_t h = tt_bf16_narrow(x[i]);

            memcpy(dst + 2 * i, &h, sizeof h);
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            const double d = (double)x[i];

            memcpy(dst + 8 * i, &d, sizeof d);
        }
    }
}

static void add_f64(char *dst, const char *a, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double d;

        memcpy(&d, a + 8 * i, sizeof d);
        d += (double)x[i];
        d = d == d ? d : (double)tt_float_of_bits(0x7fc00000);
        memcpy(dst + 8 * i, &d, sizeof d);
    }
}

void tt_quant_add_f32(void *dst, const void *a, const float *x, size_t n)
{
    tt_kernels_get()->reduce[TUTTI_F32][TT_KERNEL_SUM](dst, NULL, a, x, n, 0, 1);
}

void tt_quant_add(char *dst, const char *a, const float *x, size_t n, tutti_dtype type)
{
    float sum[TT_QUANT_BLOCK_MAX];

    if (type == TUTTI_F32) {
        tt_quant_add_f32(dst, a, x, n);
    } else if (type == TUTTI_F64) {
        add_f64(dst, a, x, n);
    } else {
        tt_quant_widen(sum, a, n, type);
        tt_quant_add_f32(sum, sum, x, n);
        tt_quant_narrow(dst, sum, n, type);
    }
}

/* ---- one block ---- */

static void encode_data(uint8_t *codes, const float *x, size_t n, enum tt_quant_codec codec,
                        const struct tt_quant_block *b)
{
    const struct tt_quant_kernels *k = tt_kernels_get()->quant;

    if (b->poisoned || (codec != TT_QUANT_E4M3 && codec != TT_QUANT_E5M2 && b->linear.step == 0))
        memset(codes, 0, tt_quant_data_bytes(codec, n));
    else if (codec == TT_QUANT_E4M3)
        k->encode_e4m3(codes, x, n, &b->real);
    else if (codec == TT_QUANT_E5M2)
        k->encode_e5m2(codes, x, n, &b->real);
    else if (tt_quant_is_half_bytes(codec))
        k->encode_u4(codes, x, n, &b->linear);
    else
        k->encode_u8(codes, x, n, &b->linear);
}

void tt_quant_decode_data(float *x, const uint8_t *codes, size_t n, enum tt_quant_codec codec,
                          const struct tt_quant_block *b)
{
    const struct tt_quant_kernels *k = tt_kernels_get()->quant;

    if (b->poisoned) {
        for (size_t i = 0; i < n; i++)
            x[i] = tt_float_of_bits(0x7fc00000);
    } else if (codec == TT_QUANT_E4M3) {
        k->decode_e4m3(x, codes, n, &b->real);
    } else if (codec == TT_QUANT_E5M2) {
        k->decode_e5m2(x, codes, n, &b->real);
    } else if (tt_quant_is_half_bytes(codec)) {
        k->decode_u4(x, codes, n, &b->linear);
    } else {
        k->decode_u8(x, codes, n, &b->linear);
    }
}

size_t tt_quant_encode_block(uint8_t *to, struct tt_quant_block *b, const float *x, size_t n,
                             enum tt_quant_codec codec, tutti_dtype type)
{
    const size_t head = tt_quant_head_bytes(codec);
    float least, largest;
    const bool finite = tt_kernels_get()->quant->range(x, n, &least, &largest);
    struct tt_writer w;

    tt_quant_block_find(b, codec, finite, least, largest, largest_finite(type));
    tt_writer_init(&w, to, head);
    for (uint32_t i = 0; i < tt_quant_block_words(codec); i++)
        tt_write_u32(&w, b->word[i]);
    encode_data(to + head, x, n, codec, b);
    return head + tt_quant_data_bytes(codec, n);
}

bool tt_quant_read_head(struct tt_quant_block *b, const uint8_t *from, enum tt_quant_codec codec,
                        tutti_dtype type)
{
    uint32_t word[TT_QUANT_WORDS_MAX] = { 0 };
    struct tt_reader r;

    tt_reader_init(&r, from, tt_quant_head_bytes(codec));
    for (uint32_t i = 0; i < tt_quant_block_words(codec); i++)
        word[i] = tt_read_u32(&r);
    return tt_quant_block_read(b, codec, word, largest_finite(type));
}
