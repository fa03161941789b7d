/* The decoder of quantized blocks received from a peer: input is refused without output, or every
 * value is finite or the canonical NaN; and decoded values can be encoded and decoded again. The
 * first four bytes select codec, block, type and count; the count is mostly that for the length of
 * the rest. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/status.h"
#include "reduce/quant.h"
#include "reduce/quant_packed.h"

/* Returns the largest count whose encoding is at most `bytes`. */
static size_t count_of(const struct tt_quant *q, size_t bytes)
{
    size_t count = 0;

    while (tt_quant_bytes(q, count + 1) <= bytes)
        count++;
    return count;
}

static void check_f32(const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;

        memcpy(&bits, x + i, sizeof bits);
        tt_assert(isfinite(x[i]) || bits == 0x7fc00000);
    }
}

static void again(const struct tt_quant *q, float *x, size_t count)
{
    const size_t bytes = tt_quant_bytes(q, count);
    uint8_t *encoded = malloc(bytes + 1);

    tt_assert(encoded);
    tt_quant_encode(q, encoded, x, count, TUTTI_F32);
    tt_assert(tt_quant_decode(q, x, encoded, bytes, count, TUTTI_F32) == TUTTI_OK);
    check_f32(x, count);
    free(encoded);
}

/* The buffers have exactly the required sizes, so that sanitizers detect overruns. */
static void decode(const struct tt_quant *q, const uint8_t *in, size_t bytes, size_t count,
                   tutti_dtype type)
{
    const size_t all = count * tutti_dtype_bytes(type);
    uint8_t *values = malloc(all + 1), *sums = malloc(all + 1);
    tutti_status st;

    tt_assert(values && sums);
    memset(values, 0x5a, all + 1);
    memset(sums, 0x5a, all + 1);
    st = tt_quant_decode(q, values, in, bytes, count, type);
    tt_assert(tt_quant_decode_add(q, sums, sums, in, bytes, count, type) == st);
    tt_assert(st == TUTTI_OK || st == TUTTI_ERR_PROTOCOL);
    tt_assert(values[all] == 0x5a && sums[all] == 0x5a);
    for (size_t i = 0; st != TUTTI_OK && i < all; i++)
        tt_assert(values[i] == 0x5a && sums[i] == 0x5a);
    if (st == TUTTI_OK && type == TUTTI_F32) {
        check_f32((const float *)values, count);
        again(q, (float *)values, count);
    }
    free(values);
    free(sums);
}

/* Arbitrary packed blocks are decoded and summed to numbers or NaN, without accesses past an
 * end. */
static void packed(enum tt_quant_codec codec, const uint8_t *in, size_t bytes, tutti_dtype type)
{
    const struct tt_packed_step *step;
    struct tt_packed p;
    size_t count, all;
    uint8_t *values, *sums;
    const bool defined = tt_packed_init(&p, codec, type);

    tt_assert(defined);
    count = bytes / p.bytes * p.block;
    /* the last one may be partial */
    count -= count && bytes % p.bytes ? bytes % p.block : 0;
    all = count * tutti_dtype_bytes(type);
    values = calloc(1, all + 1);
    sums = malloc(bytes + 1);
    tt_assert(values && sums);
    tt_packed_decode(&p, values, in, count);
    step = &(struct tt_packed_step){
        .out = sums, .a = in, .own = values, .count = count, .divide_by = 3
    };
    tt_packed_add(&p, step);
    tt_packed_decode(&p, values, sums, count);
    tt_assert(values[all] == 0);
    if (type == TUTTI_F32)
        check_f32((const float *)values, count);
    free(values);
    free(sums);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const tutti_dtype types[] = { TUTTI_F32, TUTTI_F32, TUTTI_F64, TUTTI_F16, TUTTI_BF16 };
    struct tt_quant q;
    size_t count;

    tt_log_set(TT_LOG_NONE);
    if (bytes < 4)
        return 0;
    q = (struct tt_quant){ (enum tt_quant_codec)(data[0] % TT_QUANT_CODEC_COUNT),
                           32u << data[1] % 8 };
    packed(q.codec, data + 4, bytes - 4, types[data[2] % (sizeof types / sizeof types[0])]);
    count = data[3] % 8 ? count_of(&q, bytes - 4) : data[3];
    decode(&q, data + 4, bytes - 4, count, types[data[2] % (sizeof types / sizeof types[0])]);
    return 0;
}
