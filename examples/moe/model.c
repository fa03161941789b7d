#include "model.h"

#include <stdlib.h>
#include <string.h>

/* Published shapes: "Qwen3 Technical Report" (arXiv 2505.09388), "DeepSeek-V3 Technical Report"
 * (arXiv 2412.19437), "gpt-oss-120b & gpt-oss-20b Model Card" (arXiv 2508.10925). */
const struct shape shapes[] = {
    { "qwen3-30b", 2048, 768, 128, 8, 8 },
    { "deepseek-v3", 7168, 2048, 256, 8, 16 },
    { "gpt-oss-120b", 2880, 2880, 128, 4, 16 },
    { NULL, 0, 0, 0, 0, 0 },
};

/* SplitMix64: returns the i-th number of a stream. */
static uint64_t mix(uint64_t stream, uint64_t i)
{
    uint64_t x = stream + (i + 1) * 0x9e3779b97f4a7c15ull;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* Returns a number from -1 to 1. */
static float number(uint64_t stream, uint64_t i)
{
    return (float)(int32_t)(mix(stream, i) >> 32) * 0x1p-31f;
}

enum { GATE, UP, DOWN, MATRICES };

static uint64_t stream_of(const struct model *m, uint32_t expert, int matrix)
{
    return mix(m->seed, (uint64_t)expert * MATRICES + (uint64_t)matrix);
}

/* Element [i][j] of a matrix whose sums have `rows` products, scaled so that results have
 * the magnitude of the inputs. */
static float weight(uint64_t stream, uint32_t rows, uint32_t columns, uint32_t i, uint32_t j)
{
    return number(stream, (uint64_t)i * columns + j) * sqrtf(3.0f / (float)rows);
}

static void fill_packed(uint64_t stream, uint32_t rows, uint32_t columns, float *to)
{
    for (uint32_t p = 0; p < ffn_panels(columns); p++)
        for (uint32_t i = 0; i < rows; i++)
            for (uint32_t c = 0; c < FFN_PANEL; c++) {
                const uint32_t j = p * FFN_PANEL + c;

                *to++ = j < columns ? weight(stream, rows, columns, i, j) : 0;
            }
}

void model_expert(const struct model *m, uint32_t expert, float *gate, float *up, float *down)
{
    const uint32_t hidden = m->shape.hidden, inner = m->shape.inner;

    fill_packed(stream_of(m, expert, GATE), hidden, inner, gate);
    fill_packed(stream_of(m, expert, UP), hidden, inner, up);
    fill_packed(stream_of(m, expert, DOWN), inner, hidden, down);
}

void model_token(const struct model *m, uint32_t rank, uint32_t token, float *x)
{
    const uint64_t stream = mix(~m->seed, (uint64_t)rank << 32 | token);

    for (uint32_t i = 0; i < m->shape.hidden; i++)
        x[i] = 1.7f * number(stream, i);
}

/* ---- routes ---- */

/* Draws an expert from a Zipf distribution; until[e] is the cumulative weight of experts 0 to e. */
static uint32_t draw_expert(const struct model *m, const double *until, uint64_t draw)
{
    const uint32_t n = m->shape.experts;
    const double at = (double)(draw >> 11) * 0x1p-53 * until[n - 1];
    uint32_t low = 0, high = n - 1;

    while (low < high) {
        const uint32_t middle = (low + high) / 2;

        if (until[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return (uint32_t)(low * 7919ull % n);       /* distributes popular experts over all ranks */
}

/* Draws top_k different experts. If the model is balanced, the experts are used in turn. */
static void route_token(const struct model *m, const double *until, uint64_t stream, uint64_t token,
                        uint32_t *experts)
{
    const uint32_t top_k = m->shape.top_k;

    for (uint32_t c = 0, i = 0; c < top_k; i++) {
        bool has = false;

        experts[c] = m->skew < 0 ? (uint32_t)((token * top_k + c) % m->shape.experts)
                                 : draw_expert(m, until, mix(stream, i));
        for (uint32_t k = 0; k < c; k++)
            has |= experts[k] == experts[c];
        c += !has;
    }
}

bool model_route(const struct model *m, uint32_t rank, uint32_t tokens, uint32_t *experts,
                 float *weights)
{
    const uint32_t top_k = m->shape.top_k;
    double *until = malloc(m->shape.experts * sizeof *until), all = 0;

    if (!until)
        return false;
    for (uint32_t e = 0; e < m->shape.experts; e++)
        until[e] = all += 1 / pow(e + 1, m->skew < 0 ? 0 : m->skew);
    for (uint32_t t = 0; t < tokens; t++) {
        const uint64_t stream = mix(m->seed ^ 0x726f757465ull, (uint64_t)rank << 32 | t);
        float *w = weights + (size_t)t * top_k, sum = 0;

        route_token(m, until, stream, (uint64_t)rank * tokens + t, experts + (size_t)t * top_k);
        for (uint32_t c = 0; c < top_k; c++)
            sum += w[c] = 1.1f + number(~stream, c);
        for (uint32_t c = 0; c < top_k; c++)
            w[c] /= sum;
    }
    free(until);
    return true;
}

/* ---- the reference ---- */

/* y[columns] = x[rows] w, where the elements of w are generated on the fly, row by row. */
static void product(uint64_t stream, uint32_t rows, uint32_t columns, const float *x, float *y)
{
    memset(y, 0, columns * sizeof *y);
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < columns; j++)
            y[j] += x[i] * weight(stream, rows, columns, i, j);
}

/* Applies the rounding of a transfer in this row format to x. */
static void travel(const tutti_moe_row *row, float *x, uint8_t *room)
{
    tutti_moe_row_write(row, room, x, TUTTI_F32);
    tutti_moe_row_read(row, room, x);
}

/* Applies one expert to one token: y[hidden]. x and y are rounded by their transfers. gate and up
 * are scratch. */
static void apply(const struct model *m, uint32_t expert, const tutti_moe_row *there,
                  const tutti_moe_row *back, float *x, float *gate, float *up, float *y,
                  uint8_t *room)
{
    const uint32_t hidden = m->shape.hidden, inner = m->shape.inner;

    travel(there, x, room);
    product(stream_of(m, expert, GATE), hidden, inner, x, gate);
    product(stream_of(m, expert, UP), hidden, inner, x, up);
    for (uint32_t j = 0; j < inner; j++)
        gate[j] = ffn_silu(gate[j]) * up[j];
    product(stream_of(m, expert, DOWN), inner, hidden, gate, y);
    travel(back, y, room);
}

bool model_reference(const struct model *m, uint32_t rank, uint32_t tokens, const uint32_t *experts,
                     const float *weights, const tutti_moe_row *there, const tutti_moe_row *back,
                     float *out)
{
    const uint32_t hidden = m->shape.hidden, inner = m->shape.inner, top_k = m->shape.top_k;
    float *x = calloc(hidden, sizeof *x), *y = calloc(hidden, sizeof *y);
    float *gate = calloc(inner, sizeof *gate), *up = calloc(inner, sizeof *up);
    uint8_t *room = malloc(there->bytes + back->bytes);
    const bool good = x && y && gate && up && room;

    memset(out, 0, (size_t)tokens * hidden * sizeof *out);
    for (size_t k = 0; good && k < (size_t)tokens * top_k; k++) {
        float *to = out + k / top_k * hidden;

        if (experts[k] == TUTTI_MOE_NONE)
            continue;
        model_token(m, rank, (uint32_t)(k / top_k), x);
        apply(m, experts[k], there, back, x, gate, up, y, room);
        for (uint32_t i = 0; i < hidden; i++)
            to[i] += weights[k] * y[i];
    }
    free(room);
    free(up);
    free(gate);
    free(y);
    free(x);
    return good;
}
