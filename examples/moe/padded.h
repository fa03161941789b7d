/* The exchange of a layer by a program that must not ask how much comes before it says how much it wants: two allgathers, of how many rows each rank has for each other and of
 * all ranks' routes, and an alltoall of as many rows as one rank may ever have for another; and the same alltoall back. What is to be gained by late sizes and by tiles
 * is measured beside it. */
#ifndef PADDED_H
#define PADDED_H

#include <stdbool.h>
#include <tutti/moe_device.h>

/* Rank r holds the experts [r * experts / nranks, (r + 1) * experts / nranks). */
struct padded {
    tutti_comm *comm;
    uint32_t rank, nranks, tokens, top_k, experts, hidden;
    uint32_t rows_max;          /* of one rank for another */
    tutti_moe_row there, back;
    uint32_t *first;            /* [experts + 1], while routes are sorted */
    uint32_t *sorted;           /* [tokens * top_k]: token * top_k + choice, by expert */
    uint32_t *places;           /* [tokens * top_k]: which of all the blocks' rows is that of a token's choice */
    uint32_t *counts;           /* [nranks] */
    uint32_t *all_counts;       /* [nranks][nranks] */
    uint32_t *all_experts;      /* [nranks][tokens][top_k] */
    uint32_t *in_experts;       /* [nranks][rows_max]: of what came */
    uint8_t *out, *in;          /* [nranks][rows_max] rows there, and back */
};

/* False: no memory. Ended by padded_fini in any case. */
bool padded_init(struct padded *p, tutti_comm *comm, uint32_t tokens, uint32_t top_k, uint32_t experts, uint32_t hidden,
                 tutti_dtype there, tutti_dtype back);
void padded_fini(struct padded *p);

/* Sends this rank's tokens[tokens][hidden] by experts[tokens][top_k], and takes those of all. */
tutti_status padded_dispatch(struct padded *p, const float *tokens, const uint32_t *experts);
/* How many rows have come from that rank; their experts, those of one together. */
uint32_t padded_rows(const struct padded *p, uint32_t source, const uint32_t **experts);
void padded_read(const struct padded *p, uint32_t source, uint32_t row, float *x);
/* Once all that came has been read. */
void padded_give(struct padded *p, uint32_t source, uint32_t row, const float *y);
/* out[tokens][hidden]: results, weighted and added up. */
tutti_status padded_combine(struct padded *p, const float *weights, float *out);

#endif
