#include "charmodel.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (64u << 20)
#define INPUTS (CONTEXT * EMBED)

/* ---- the text ---- */

static int read_all(FILE *f, uint8_t **out, size_t *n)
{
    size_t room = 0;

    *out = NULL;
    *n = 0;
    for (;;) {
        if (*n == room) {
            uint8_t *more = *n > TEXT_MAX ? NULL : realloc(*out, room ? 2 * room : 65536);

            if (!more)
                return 0;
            *out = more;
            room = room ? 2 * room : 65536;
        }
        const size_t got = fread(*out + *n, 1, room - *n, f);

        *n += got;
        if (got == 0)
            return !ferror(f);
    }
}

/* Numbers the symbols in ascending order of their byte values. */
static void number_symbols(struct text *t)
{
    int number[256] = { 0 };

    for (size_t i = 0; i < t->n; i++)
        number[t->symbol[i]] = 1;
    t->nsymbols = 0;
    for (int b = 0; b < 256; b++)
        if (number[b])
            number[b] = (int)t->nsymbols++;
    for (size_t i = 0; i < t->n; i++)
        t->symbol[i] = (uint8_t)number[t->symbol[i]];
}

int text_load(struct text *t, const char *path)
{
    FILE *f = fopen(path, "rb");
    int good;

    if (!f) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 0;
    }
    good = read_all(f, &t->symbol, &t->n);
    fclose(f);
    if (!good || t->n < CONTEXT + 1 || t->n > TEXT_MAX) {
        fprintf(stderr, "%s: must be a text of %d to %u bytes\n", path, CONTEXT + 1, TEXT_MAX);
        free(t->symbol);
        return 0;
    }
    number_symbols(t);
    return 1;
}

void text_free(struct text *t)
{
    free(t->symbol);
}

/* ---- the parameters ---- */

/* Offsets in the parameter vector: embed[nsymbols][EMBED], in[HIDDEN][INPUTS], in_bias[HIDDEN],
 * out[nsymbols][HIDDEN], out_bias[nsymbols]. */
struct parts {
    size_t embed, in, in_bias, out, out_bias, end;
};

static struct parts parts_of(unsigned nsymbols)
{
    struct parts p = { .embed = 0 };

    p.in = p.embed + (size_t)nsymbols * EMBED;
    p.in_bias = p.in + (size_t)HIDDEN * INPUTS;
    p.out = p.in_bias + HIDDEN;
    p.out_bias = p.out + (size_t)nsymbols * HIDDEN;
    p.end = p.out_bias + nsymbols;
    return p;
}

size_t model_size(unsigned nsymbols)
{
    return parts_of(nsymbols).end;
}

/* SplitMix64 by Sebastiano Vigna, used as a hash. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Draws values from -scale to scale. */
static void draw(real *v, size_t from, size_t to, uint64_t seed, double scale)
{
    for (size_t i = from; i < to; i++)
        v[i] = (real)((2 * (double)(mix(seed ^ mix(i)) >> 11) * 0x1p-53 - 1) * scale);
}

void model_draw(real *param, unsigned nsymbols, uint64_t seed)
{
    const struct parts p = parts_of(nsymbols);

    draw(param, p.embed, p.in, seed, 0.5);
    draw(param, p.in, p.in_bias, seed, 1 / sqrt(INPUTS));
    draw(param, p.in_bias, p.out, seed, 0);
    draw(param, p.out, p.out_bias, seed, 1 / sqrt(HIDDEN));
    draw(param, p.out_bias, p.end, seed, 0);
}

/* ---- one example ---- */

struct pass {
    const uint8_t *seen;        /* [CONTEXT] bytes, followed by the byte to predict */
    real input[INPUTS], hidden[HIDDEN], guess[SYMBOLS_MAX];     /* guess: logits, then
                                                                   probabilities */
};

static real dot(const real *a, const real *b, size_t n)
{
    real sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(real *to, const real *v, real scale, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += scale * v[i];
}

static void forward(struct pass *s, const real *w, const struct parts *p, unsigned nsymbols)
{
    real largest, sum = 0;

    for (size_t c = 0; c < CONTEXT; c++)
        memcpy(s->input + c * EMBED, w + p->embed + (size_t)s->seen[c] * EMBED,
               EMBED * sizeof(real));
    for (size_t h = 0; h < HIDDEN; h++)
        s->hidden[h] =
            (real)tanh((double)(w[p->in_bias + h] + dot(w + p->in + h * INPUTS, s->input, INPUTS)));
    for (size_t k = 0; k < nsymbols; k++)
        s->guess[k] = w[p->out_bias + k] + dot(w + p->out + k * HIDDEN, s->hidden, HIDDEN);
    largest = s->guess[0];
    for (size_t k = 1; k < nsymbols; k++)
        largest = s->guess[k] > largest ? s->guess[k] : largest;
    for (size_t k = 0; k < nsymbols; k++) {
        s->guess[k] = (real)exp((double)(s->guess[k] - largest));
        sum += s->guess[k];
    }
    for (size_t k = 0; k < nsymbols; k++)
        s->guess[k] /= sum;
}

static void backward(struct pass *s, const real *w, const struct parts *p, unsigned nsymbols,
                     real *g)
{
    real hidden[HIDDEN] = { 0 }, input[INPUTS] = { 0 };

    s->guess[s->seen[CONTEXT]] -= 1;        /* now the derivative with respect to the logits */
    for (size_t k = 0; k < nsymbols; k++) {
        add_scaled(hidden, w + p->out + k * HIDDEN, s->guess[k], HIDDEN);
        add_scaled(g + p->out + k * HIDDEN, s->hidden, s->guess[k], HIDDEN);
        g[p->out_bias + k] += s->guess[k];
    }
    for (size_t h = 0; h < HIDDEN; h++) {
        const real d = hidden[h] * (1 - s->hidden[h] * s->hidden[h]);

        add_scaled(input, w + p->in + h * INPUTS, d, INPUTS);
        add_scaled(g + p->in + h * INPUTS, s->input, d, INPUTS);
        g[p->in_bias + h] += d;
    }
    for (size_t c = 0; c < CONTEXT; c++)
        add_scaled(g + p->embed + (size_t)s->seen[c] * EMBED, input + c * EMBED, 1, EMBED);
}

double model_gradient(const real *param, const struct text *t, const struct batch *b,
                      real *gradient)
{
    const struct parts p = parts_of(t->nsymbols);
    double loss = 0;

    for (uint64_t i = 0; i < b->count; i++) {
        const size_t at = mix(b->seed ^ mix(b->step ^ mix(b->first + i))) % (t->n - CONTEXT);
        struct pass s = { .seen = t->symbol + at };

        forward(&s, param, &p, t->nsymbols);
        loss -= log((double)s.guess[s.seen[CONTEXT]] + 1e-30);
        backward(&s, param, &p, t->nsymbols, gradient);
    }
    return loss;
}
