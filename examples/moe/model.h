/* A synthetic mixture of experts. Its shape, weights, tokens and routes are generated from a seed.
 * Also computes the expected result densely. */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include "ffn.h"

#ifdef __cplusplus
extern "C" {
#endif

struct shape {
    const char *name;
    uint32_t hidden, inner, experts, top_k;
    uint32_t scale;             /* default divisor of hidden and inner */
};

/* The known shapes; the list ends with an entry without a name. */
extern const struct shape shapes[];

struct model {
    struct shape shape;         /* scaled */
    uint64_t seed;
    double skew;                /* exponent of the Zipf distribution of experts; negative:
                                   balanced */
};

/* Generates the weights of an expert: packed gate, up (ffn_packed(hidden, inner) floats) and down
 * (ffn_packed(inner, hidden)). */
void model_expert(const struct model *m, uint32_t expert, float *gate, float *up, float *down);
/* Generates token `token` of a rank: x[hidden]. */
void model_token(const struct model *m, uint32_t rank, uint32_t token, float *x);
/* Generates the routes experts[tokens][top_k] and weights[tokens][top_k]. Weights are positive and
 * sum to 1 per token. Returns false if out of memory. */
bool model_route(const struct model *m, uint32_t rank, uint32_t tokens, uint32_t *experts,
                 float *weights);
/* Computes out[tokens][hidden] of a rank by the definition: each token alone, in floats, with sums
 * in order, and rounded like transfers in the formats `there` and `back`. Returns false if out of
 * memory. */
bool model_reference(const struct model *m, uint32_t rank, uint32_t tokens, const uint32_t *experts,
                     const float *weights, const tutti_moe_row *there, const tutti_moe_row *back,
                     float *out);

#ifdef __cplusplus
}
#endif

#endif
