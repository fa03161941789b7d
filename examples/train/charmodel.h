/* A small character model to train with: which byte of a text comes next, guessed from the ones before it. An embedding of each, one
 * hidden layer of tanh, and a softmax; forward and backward in plain C. All its parameters are one vector, as is their gradient, so that a
 * step of training is one all-reduce. Pure but for text_load: the same arguments give the same bits, so runs can be compared. */
#ifndef CHARMODEL_H
#define CHARMODEL_H

#include <stddef.h>
#include <stdint.h>

#ifndef CHARMODEL_REAL
#define CHARMODEL_REAL float    /* the test of the gradients has double */
#endif
typedef CHARMODEL_REAL real;

enum { CONTEXT = 8, EMBED = 12, HIDDEN = 48, SYMBOLS_MAX = 256 };

struct text {
    uint8_t *symbol;        /* [n], each below nsymbols */
    size_t n;
    unsigned nsymbols;      /* different bytes that occur */
};

/* Reads a file. False, and a sentence on stderr: it cannot be read, is shorter than a context and the byte after it, or is very long. */
int text_load(struct text *t, const char *path);
void text_free(struct text *t);

/* Parameters of a model of so many symbols. */
size_t model_size(unsigned nsymbols);
/* Small random ones; the same for the same seed. */
void model_draw(real *param, unsigned nsymbols, uint64_t seed);

/* Which examples of the text a step is about: `index` counts those of all workers, so that any number of them can share a batch. */
struct batch {
    uint64_t seed, step;
    uint64_t first, count;
};

/* Adds to gradient[model_size] that of the sum of the examples' losses, and returns this sum: of -log p(next byte). */
double model_gradient(const real *param, const struct text *t, const struct batch *b, real *gradient);

#endif
