#include "padded.h"

#include <stdlib.h>
#include <string.h>

static uint32_t first_of(const struct padded *p, uint32_t rank)
{
    return (uint32_t)((uint64_t)rank * p->experts / p->nranks);
}

bool padded_init(struct padded *p, tutti_comm *comm, uint32_t tokens, uint32_t top_k,
                 uint32_t experts, uint32_t hidden, tutti_dtype there, tutti_dtype back)
{
    const uint32_t n = (uint32_t)tutti_comm_size(comm), most = (experts + n - 1) / n,
                   nrows = tokens * top_k;
    size_t rows, bytes;

    *p = (struct padded){
        .comm = comm,
        .rank = (uint32_t)tutti_comm_rank(comm),
        .nranks = n,
        .tokens = tokens,
        .top_k = top_k,
        .experts = experts,
        .hidden = hidden,
        .rows_max = tokens * (top_k < most ? top_k : most),
        .there = tutti_moe_row_of((uint32_t)there, hidden, 0),
        .back = tutti_moe_row_of((uint32_t)back, hidden, 0),
    };
    rows = (size_t)n * p->rows_max;
    bytes = p->there.bytes > p->back.bytes ? p->there.bytes : p->back.bytes;
    p->first = calloc(experts + 1u, sizeof *p->first);
    p->sorted = calloc(nrows, sizeof *p->sorted);
    p->places = calloc(nrows, sizeof *p->places);
    p->counts = calloc(n, sizeof *p->counts);
    p->all_counts = calloc((size_t)n * n, sizeof *p->all_counts);
    p->all_experts = calloc((size_t)n * nrows, sizeof *p->all_experts);
    p->in_experts = calloc(rows, sizeof *p->in_experts);
    p->out = aligned_alloc(64, (rows * bytes + 63) / 64 * 64);
    p->in = aligned_alloc(64, (rows * bytes + 63) / 64 * 64);
    if (!p->first || !p->sorted || !p->places || !p->counts || !p->all_counts || !p->all_experts ||
        !p->in_experts || !p->out || !p->in)
        return false;
    memset(p->out, 0, rows * bytes);    /* padding is sent, too */
    return true;
}

void padded_fini(struct padded *p)
{
    free(p->first);
    free(p->sorted);
    free(p->places);
    free(p->counts);
    free(p->all_counts);
    free(p->all_experts);
    free(p->in_experts);
    free(p->out);
    free(p->in);
}

/* Sorts the rows of experts[tokens][top_k] by expert, with tokens ascending, into p->sorted. Those
 * of expert e begin at p->first[e]. */
static void sort(struct padded *p, const uint32_t *experts)
{
    const uint32_t nrows = p->tokens * p->top_k;

    memset(p->first, 0, (p->experts + 1u) * sizeof *p->first);
    for (uint32_t i = 0; i < nrows; i++)
        p->first[experts[i] + 1]++;
    for (uint32_t e = 0; e < p->experts; e++)
        p->first[e + 1] += p->first[e];
    for (uint32_t i = nrows; i-- > 0;)          /* backwards: first[e + 1] decreases to the start
                                                   of expert e */
        p->sorted[--p->first[experts[i] + 1]] = i;
    for (uint32_t e = 0; e < p->experts; e++)
        p->first[e] = p->first[e + 1];
    p->first[p->experts] = nrows;
}

static uint8_t *row_at(const struct padded *p, uint8_t *blocks, const tutti_moe_row *kind,
                       uint32_t peer, uint32_t row)
{
    return blocks + ((size_t)peer * p->rows_max + row) * kind->bytes;
}

/* Copies each rank's rows to its block. */
static void fill(struct padded *p, const float *tokens, const uint32_t *experts)
{
    sort(p, experts);
    for (uint32_t r = 0; r < p->nranks; r++) {
        const uint32_t first = p->first[first_of(p, r)], end = p->first[first_of(p, r + 1)];

        p->counts[r] = end - first;
        for (uint32_t i = first; i < end; i++) {
            p->places[p->sorted[i]] = r * p->rows_max + (i - first);
            tutti_moe_row_write(&p->there, row_at(p, p->out, &p->there, r, i - first),
                                tokens + (size_t)(p->sorted[i] / p->top_k) * p->hidden, TUTTI_F32);
        }
    }
}

tutti_status padded_dispatch(struct padded *p, const float *tokens, const uint32_t *experts)
{
    const size_t nrows = (size_t)p->tokens * p->top_k;
    tutti_status st;

    fill(p, tokens, experts);
    st = tutti_allgather(p->counts, p->all_counts, p->nranks, TUTTI_U32, p->comm, NULL);
    if (!st)
        st = tutti_allgather(experts, p->all_experts, nrows, TUTTI_U32, p->comm, NULL);
    if (!st)
        st = tutti_alltoall(p->out, p->in, p->rows_max * p->there.bytes, TUTTI_U8, p->comm, NULL);
    for (uint32_t source = 0; source < p->nranks && !st; source++) {
        const uint32_t *theirs = p->all_experts + source * nrows;

        sort(p, theirs);
        for (uint32_t i = 0; i < padded_rows(p, source, NULL); i++)
            p->in_experts[source * p->rows_max + i] =
                theirs[p->sorted[p->first[first_of(p, p->rank)] + i]];
    }
    return st;
}

uint32_t padded_rows(const struct padded *p, uint32_t source, const uint32_t **experts)
{
    if (experts)
        *experts = p->in_experts + (size_t)source * p->rows_max;
    return p->all_counts[source * p->nranks + p->rank];
}

void padded_read(const struct padded *p, uint32_t source, uint32_t row, float *x)
{
    tutti_moe_row_read(&p->there, row_at(p, p->in, &p->there, source, row), x);
}

void padded_give(struct padded *p, uint32_t source, uint32_t row, const float *y)
{
    tutti_moe_row_write(&p->back, row_at(p, p->out, &p->back, source, row), y, TUTTI_F32);
}

tutti_status padded_combine(struct padded *p, const float *weights, float *out)
{
    const tutti_status st =
        tutti_alltoall(p->out, p->in, p->rows_max * p->back.bytes, TUTTI_U8, p->comm, NULL);

    if (st)
        return st;
    memset(out, 0, (size_t)p->tokens * p->hidden * sizeof *out);
    for (uint32_t i = 0; i < p->tokens * p->top_k; i++)
        tutti_moe_row_add(&p->back, row_at(p, p->in, &p->back, 0, p->places[i]), weights[i],
                          out + (size_t)(i / p->top_k) * p->hidden);
    return TUTTI_OK;
}
