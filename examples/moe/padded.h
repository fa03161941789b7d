/* The exchange of a layer without dynamic sizes: two all-gathers (of the row counts per rank, and
 * of the routes of all ranks), and an all-to-all with the maximum number of rows per pair of ranks;
 * and the same all-to-all back. It is the baseline for dynamic sizes and tiles. */
#ifndef PADDED_H
#define PADDED_H

#include <stdbool.h>
#include <tutti/moe_device.h>

/* Rank r has the experts [r * experts / nranks, (r + 1) * experts / nranks). */
struct padded {
    tutti_comm *comm;
    uint32_t rank, nranks, tokens, top_k, experts, hidden;
    uint32_t rows_max;          /* from one rank to another */
    tutti_moe_row there, back;
    uint32_t *first;            /* [experts + 1], during sorting */
    uint32_t *sorted;           /* [tokens * top_k]: token * top_k + choice, by expert */
    uint32_t *places;           /* [tokens * top_k]: row of a token's choice within all blocks */
    uint32_t *counts;           /* [nranks] */
    uint32_t *all_counts;       /* [nranks][nranks] */
    uint32_t *all_experts;      /* [nranks][tokens][top_k] */
    uint32_t *in_experts;       /* [nranks][rows_max]: experts of received rows */
    uint8_t *out, *in;          /* [nranks][rows_max] rows sent and received */
};

/* Returns false if out of memory. Undone by padded_fini in any case. */
bool padded_init(struct padded *p, tutti_comm *comm, uint32_t tokens, uint32_t top_k,
                 uint32_t experts, uint32_t hidden, tutti_dtype there, tutti_dtype back);
void padded_fini(struct padded *p);

/* Sends this rank's tokens[tokens][hidden] according to experts[tokens][top_k], and receives those
 * of all ranks. */
tutti_status padded_dispatch(struct padded *p, const float *tokens, const uint32_t *experts);
/* Returns the number of rows received from a rank, and their experts; rows of one expert are
 * adjacent. */
uint32_t padded_rows(const struct padded *p, uint32_t source, const uint32_t **experts);
void padded_read(const struct padded *p, uint32_t source, uint32_t row, float *x);
/* Stores the result of a row, after all received rows have been read. */
void padded_give(struct padded *p, uint32_t source, uint32_t row, const float *y);
/* out[tokens][hidden]: weighted sums of the results. */
tutti_status padded_combine(struct padded *p, const float *weights, float *out);

#endif
