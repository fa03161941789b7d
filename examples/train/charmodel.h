/* A small character model for training, which predicts the next byte of a text from the bytes
 * before it: an embedding of each byte, one hidden tanh layer, and a softmax; forward and backward
 * in plain C. Parameters and gradient are one vector each, so a training step needs one all-reduce.
 * Pure, except text_load: equal arguments give equal bits, so runs can be compared. */
#ifndef CHARMODEL_H
#define CHARMODEL_H

#include <stddef.h>
#include <stdint.h>

#ifndef CHARMODEL_REAL
#define CHARMODEL_REAL float    /* the test of the gradients uses double */
#endif
typedef CHARMODEL_REAL real;

enum { CONTEXT = 8, EMBED = 12, HIDDEN = 48, SYMBOLS_MAX = 256 };

struct text {
    uint8_t *symbol;        /* [n], each below nsymbols */
    size_t n;
    unsigned nsymbols;      /* number of different bytes in the text */
};

/* Reads a file. Returns false, after a message on stderr, if it cannot be read, is not longer than
 * a context, or is too long. */
int text_load(struct text *t, const char *path);
void text_free(struct text *t);

/* Returns the number of parameters of a model with nsymbols symbols. */
size_t model_size(unsigned nsymbols);
/* Draws small random parameters, which depend only on the seed. */
void model_draw(real *param, unsigned nsymbols, uint64_t seed);

/* The examples of a step. `index` counts the examples of all workers, so that any number of workers
 * can share a batch. */
struct batch {
    uint64_t seed, step;
    uint64_t first, count;
};

/* Adds the gradient of the examples' total loss to gradient[model_size]. Returns the total loss:
 * the sum of -log p(next byte). */
double model_gradient(const real *param, const struct text *t, const struct batch *b,
                      real *gradient);

#endif
