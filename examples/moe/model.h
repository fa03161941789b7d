/* A made-up mixture of experts: its shape, weights, tokens and routes, all of which follow from a seed, and what its layer must give, computed densely. */
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
    uint32_t scale;             /* by which hidden and inner are divided where nothing is said */
};

/* The shapes that are known; ended by one without a name. */
extern const struct shape shapes[];

struct model {
    struct shape shape;         /* scaled */
    uint64_t seed;
    double skew;                /* of Zipf's law by which experts are drawn; negative: each expert gets as many tokens */
};

/* The weights of an expert: packed gate, up (ffn_packed(hidden, inner) floats) and down (ffn_packed(inner, hidden)). */
void model_expert(const struct model *m, uint32_t expert, float *gate, float *up, float *down);
/* x[hidden]: token `token` of a rank. */
void model_token(const struct model *m, uint32_t rank, uint32_t token, float *x);
/* experts[tokens][top_k], weights[tokens][top_k]: positive, and 1 for each token together. False: no memory. */
bool model_route(const struct model *m, uint32_t rank, uint32_t tokens, uint32_t *experts, float *weights);
/* out[tokens][hidden] of that rank by the definition: dense, each token alone, in floats, sums in order, rounded where `there` and `back` round. False: no memory. */
bool model_reference(const struct model *m, uint32_t rank, uint32_t tokens, const uint32_t *experts,
                     const float *weights, const tutti_moe_row *there, const tutti_moe_row *back, float *out);

#ifdef __cplusplus
}
#endif

#endif
