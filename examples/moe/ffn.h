/* Feed-forward network of the experts: y = down (silu(gate x) * up x), in floats, by plain loops
 * that compilers vectorize. The same source is used for C and CUDA.
 *
 * Matrices are packed in panels of FFN_PANEL columns: [columns / FFN_PANEL][rows][FFN_PANEL];
 * missing columns are 0. Every sum starts with 0 and adds rows in order, so the bits of a result do
 * not depend on how many tokens are computed together. */
#ifndef FFN_H
#define FFN_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/moe_device.h>

#define FFN_PANEL 8
#define FFN_TOKENS 4            /* tokens computed together, which share each load of a weight */

/* The experts of a rank. */
struct ffn {
    uint32_t hidden, inner;
    const float *gate, *up;     /* [experts][panels of inner][hidden][FFN_PANEL] */
    const float *down;          /* [experts][panels of hidden][inner][FFN_PANEL] */
};

TUTTI_DEVICE uint64_t ffn_panels(uint64_t columns)
{
    return (columns + FFN_PANEL - 1) / FFN_PANEL;
}

/* Returns the number of floats of a packed matrix. */
TUTTI_DEVICE uint64_t ffn_packed(uint64_t rows, uint64_t columns)
{
    return ffn_panels(columns) * rows * FFN_PANEL;
}

/* Returns the scratch size of a block: FFN_TOKENS rows of x, gate, up and y. */
TUTTI_DEVICE uint64_t ffn_scratch(const struct ffn *f)
{
    return FFN_TOKENS * 2 * ((uint64_t)f->hidden + f->inner);
}

/* y[n][columns] = x[n][rows] w[rows][columns]. Callers pass a constant n, so that sums stay in
 * registers. */
TUTTI_DEVICE void ffn_product_of(uint32_t n, const float *w, uint32_t rows, uint32_t columns,
                                 const float *x, float *y)
{
    for (uint32_t p = tutti_device_thread(); p < ffn_panels(columns); p += tutti_device_threads()) {
        const float *panel = w + (uint64_t)p * rows * FFN_PANEL;
        const uint32_t first = p * FFN_PANEL,
                       last = columns - first < FFN_PANEL ? columns - first : FFN_PANEL;
        float sum[FFN_TOKENS][FFN_PANEL] = { { 0 } };

        for (uint32_t i = 0; i < rows; i++)
            for (uint32_t t = 0; t < n; t++)
                for (uint32_t c = 0; c < FFN_PANEL; c++)
                    sum[t][c] += x[(uint64_t)t * rows + i] * panel[(uint64_t)i * FFN_PANEL + c];
        for (uint32_t t = 0; t < n; t++)
            for (uint32_t c = 0; c < last; c++)
                y[(uint64_t)t * columns + first + c] = sum[t][c];
    }
}

TUTTI_DEVICE void ffn_product(uint32_t n, const float *w, uint32_t rows, uint32_t columns,
                              const float *x, float *y)
{
    if (n == 4)
        ffn_product_of(4, w, rows, columns, x, y);
    else if (n == 3)
        ffn_product_of(3, w, rows, columns, x, y);
    else if (n == 2)
        ffn_product_of(2, w, rows, columns, x, y);
    else
        ffn_product_of(1, w, rows, columns, x, y);
}

/* Returns e^x, with an error of at most 2 units in the last place for x from -87 to 88; other x are
 * clamped. expf differs between libraries in the last bits. This function rounds identically
 * wherever multiplications and additions are not fused. Method of Cephes' expf: 2^n e^r with |r| <=
 * ln 2 / 2. ln 2 is split into two parts, and n times the first part is exact. */
TUTTI_DEVICE float ffn_exp(float x)
{
    const float low = x > -87.0f ? x : -87.0f, in = low < 88.0f ? low : 88.0f;
    const float n = floorf(in * 1.44269504f + 0.5f), r = in - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;

    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return (p * (r * r) + r + 1.0f) * tutti_moe_float((uint32_t)((int32_t)n + 127) << 23);
}

TUTTI_DEVICE float ffn_silu(float x)
{
    return x / (1.0f + ffn_exp(-x));
}

/* Computes y[n][hidden] from x[n][hidden] with one expert; n is 1 to FFN_TOKENS. gate and up,
 * [FFN_TOKENS][inner], are scratch of the block. */
TUTTI_DEVICE void ffn_tokens(const struct ffn *f, uint32_t expert, uint32_t n, const float *x,
                             float *gate, float *up, float *y)
{
    const uint64_t wide = ffn_packed(f->hidden, f->inner), back = ffn_packed(f->inner, f->hidden);

    ffn_product(n, f->gate + expert * wide, f->hidden, f->inner, x, gate);
    ffn_product(n, f->up + expert * wide, f->hidden, f->inner, x, up);
    tutti_device_sync();
    for (uint64_t i = tutti_device_thread(); i < (uint64_t)n * f->inner;
         i += tutti_device_threads())
        gate[i] = ffn_silu(gate[i]) * up[i];
    tutti_device_sync();
    ffn_product(n, f->down + expert * back, f->inner, f->hidden, gate, y);
    tutti_device_sync();
}

#endif
