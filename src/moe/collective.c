/* The form of a layer with two collectives. A dynamic exchange sends the tokens, whose sizes are
 * not known in advance. An alltoallv returns the results, whose sizes are then known on all ranks.
 * In the exchange each slot is a piece of whole rows. An additional piece for all ranks is empty,
 * or describes an error in the routing. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "moe/layer.h"
#include "reduce/float_env.h"

struct gathering {
    uint8_t *send;              /* [nrows_max] rows, or a description of an error */
    uint8_t *recv;              /* [nranks][max_total] */
    uint64_t max_total;
    size_t *lengths, *all_lengths;      /* [nslots + 1], [nranks][nslots + 1] */
    size_t *indices, *block_lens;       /* [nslots + nranks], [nranks] */
    void **recvbuffs;           /* [nranks] */
    uint64_t *begins;           /* [nranks]: index of the first row for this rank in each rank's
                                   data */
    uint32_t *experts;          /* [nranks][stride]: expert of each of these rows */
    uint8_t *results;           /* [nranks][stride] rows */
    size_t *send_counts, *send_displs, *recv_counts, *recv_displs;      /* [nranks] */
};

static struct gathering *collective_own(const tutti_moe *m)
{
    return m->own;
}

static tutti_status collective_init(tutti_moe *m)
{
    const struct tt_holding *h = &m->holding;
    const uint32_t n = h->nranks;
    struct gathering *g = calloc(1, sizeof *g);

    if (!g)
        return tt_fail(TUTTI_ERR_NOMEM, "tutti_moe_create: out of memory for a layer");
    m->own = g;
    g->max_total = m->route.nrows_max * m->view.there.bytes + sizeof(struct tt_route_flaw);
    g->send = tt_moe_alloc(m, g->max_total, 1, "tokens to send");
    g->recv = tt_moe_alloc(m, n, g->max_total, "received tokens");
    g->lengths = tt_moe_alloc(m, h->nslots + 1ull, sizeof *g->lengths, "lengths");
    g->all_lengths = tt_moe_alloc(m, n * (h->nslots + 1ull), sizeof *g->all_lengths, "lengths");
    g->indices = tt_moe_alloc(m, (uint64_t)h->nslots + n, sizeof *g->indices, "indices");
    g->block_lens = tt_moe_alloc(m, n, sizeof *g->block_lens, "indices");
    g->recvbuffs = tt_moe_alloc(m, n, sizeof *g->recvbuffs, "receive buffers");
    g->begins = tt_moe_alloc(m, n, sizeof *g->begins, "ranks");
    g->experts = tt_moe_alloc(m, (uint64_t)n * m->stride, sizeof *g->experts, "experts of rows");
    g->results = tt_moe_alloc(m, (uint64_t)n * m->stride, m->view.back.bytes, "received results");
    g->send_counts = tt_moe_alloc(m, 4ull * n, sizeof *g->send_counts, "counts");
    if (!g->send || !g->recv || !g->lengths || !g->all_lengths || !g->indices || !g->block_lens ||
        !g->recvbuffs || !g->begins || !g->experts || !g->results || !g->send_counts)
        return TUTTI_ERR_NOMEM;
    g->send_displs = g->send_counts + n;
    g->recv_counts = g->send_displs + n;
    g->recv_displs = g->recv_counts + n;
    m->view.results = g->results;
    for (uint32_t r = 0, at = 0; r < n; r++) {
        g->recvbuffs[r] = g->recv + r * g->max_total;
        g->block_lens[r] = h->first[r + 1] - h->first[r] + 1;
        for (uint32_t s = h->first[r]; s < h->first[r + 1]; s++)
            g->indices[at++] = s;
        g->indices[at++] = h->nslots;
    }
    return TUTTI_OK;
}

static tutti_status collective_fini(tutti_moe *m)
{
    free(m->own);
    return TUTTI_OK;
}

/* ---- dispatch ---------------------------------------------------------------------------- */

/* Fills in the lengths of the pieces, and their content. */
static void collective_write_pieces(tutti_moe *m, const struct tt_route_flaw *flaw)
{
    const tutti_moe_view *v = &m->view;
    const uint64_t token_bytes = v->hidden * tutti_dtype_bytes((tutti_dtype)v->type);
    struct gathering *g = collective_own(m);
    tt_float_env kept;

    for (uint32_t s = 0; s < m->holding.nslots; s++)
        g->lengths[s] = m->route.counts[s] * v->there.bytes;
    g->lengths[m->holding.nslots] = flaw->kind ? sizeof *flaw : 0;
    if (flaw->kind)
        memcpy(g->send, flaw, sizeof *flaw);        /* the only piece */
    kept = tt_float_env_enter();
    for (uint32_t i = 0; i < m->route.nrows; i++)
        tutti_moe_row_write(&v->there, g->send + i * v->there.bytes,
                            (const uint8_t *)v->tokens + m->rows[i] / v->top_k * token_bytes,
                            v->type);
    tt_float_env_leave(kept);
}

/* Reads the data of a rank: finds the first row for this rank, the number of rows, and the
 * expert of each. */
static tutti_status read_source(tutti_moe *m, uint32_t source)
{
    const tutti_moe_view *v = &m->view;
    const struct tt_holding *h = &m->holding;
    struct gathering *g = collective_own(m);
    const size_t *lengths = g->all_lengths + source * (h->nslots + 1ull);
    struct tt_moe_source *s = &m->sources[source];
    uint32_t *experts = g->experts + (size_t)source * m->stride;

    g->begins[source] = 0;
    for (uint32_t i = 0; i < h->first[v->device.rank]; i++)
        g->begins[source] += lengths[i];
    s->nrows = 0;
    for (uint32_t i = h->first[v->device.rank]; i < h->first[v->device.rank + 1]; i++) {
        const uint64_t rows = lengths[i] / v->there.bytes;

        if (lengths[i] % v->there.bytes || rows > m->stride - s->nrows)
            return tt_fail(TUTTI_ERR_PROTOCOL,
                           "tutti_moe_dispatch: protocol error: rank %u sent an invalid length of "
                           "%zu bytes for "
                           "expert %u",
                           source, lengths[i], h->expert[i]);
        for (uint64_t k = 0; k < rows; k++)
            experts[s->nrows++] = h->expert[i];
    }
    if (g->begins[source] % v->there.bytes)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "tutti_moe_dispatch: protocol error: rank %u sent incomplete rows", source);
    s->ntiles = (s->nrows + v->tile_tokens - 1) / v->tile_tokens;
    return TUTTI_OK;
}

/* Returns the error of the first rank that has one. */
static tutti_status collective_refuse(tutti_moe *m, int64_t timeout_ms)
{
    const uint32_t nslots = m->holding.nslots;
    const struct gathering *g = collective_own(m);

    (void)timeout_ms;
    for (uint32_t r = 0; r < m->view.device.nranks; r++) {
        struct tt_route_flaw flaw;
        tutti_status st;

        if (g->all_lengths[r * (nslots + 1ull) + nslots] != sizeof flaw)
            continue;
        memcpy(&flaw, g->recvbuffs[r], sizeof flaw);
        st = tt_route_flaw_status(&flaw, m->view.experts, m->max_tokens, r, "tutti_moe_dispatch");
        if (st == TUTTI_ERR_INVALID)
            m->state = TT_MOE_IDLE;
        return st == TUTTI_ERR_INVALID ? st : tt_moe_set_broken(m, st);
    }
    return TUTTI_OK;
}

static tutti_status collective_dispatch(tutti_moe *m, const struct tt_route_flaw *flaw,
                                        int64_t timeout_ms)
{
    struct gathering *g = collective_own(m);
    const tutti_call call = { .size = sizeof call, .timeout_ms = timeout_ms };
    const tutti_dynamic what = {
        .size = sizeof what,
        .sendbuff = g->send,
        .split_lengths = g->lengths,
        .nsplits = m->holding.nslots + 1ull,
        .indices = g->indices,
        .index_block_lens = g->block_lens,
        .recvbuffs = g->recvbuffs,
        .recv_all_split_lengths = g->all_lengths,
        .max_length = g->max_total,
        .max_total = g->max_total,
    };
    tutti_status st;

    collective_write_pieces(m, flaw);
    st = tutti_alltoallv_dynamic(&what, TUTTI_U8, m->comm, &call);
    if (st)
        return tt_moe_set_broken(m, st);
    st = collective_refuse(m, timeout_ms);
    for (uint32_t r = 0; r < m->view.device.nranks && !st; r++)
        st = tt_moe_set_broken(m, read_source(m, r));
    return st;
}

/* ---- received rows, and results -------------------------------------------------------------- */

static tutti_status collective_look(tutti_moe *m, uint32_t source, uint32_t tile)
{
    (void)m, (void)source, (void)tile;
    return TUTTI_OK;            /* all tiles arrived together */
}

static void collective_show(const tutti_moe *m, tutti_moe_tile *tile)
{
    const struct gathering *g = collective_own(m);
    const uint32_t first = tile->number * m->view.tile_tokens,
                   left = m->sources[tile->source].nrows - first;

    tile->rows = left < m->view.tile_tokens ? left : m->view.tile_tokens;
    tile->experts = g->experts + (size_t)tile->source * m->stride + first;
    tile->payload = g->recv + tile->source * g->max_total + g->begins[tile->source] +
                    first * m->view.there.bytes;
}

static tutti_status collective_give(tutti_moe *m, const tutti_moe_tile *tile)
{
    (void)m, (void)tile;
    return TUTTI_OK;            /* all results are sent together */
}

static tutti_status collective_collect(tutti_moe *m, int64_t timeout_ms)
{
    const uint64_t bytes = m->view.back.bytes;
    const tutti_call call = { .size = sizeof call, .timeout_ms = timeout_ms };
    struct gathering *g = collective_own(m);

    for (uint32_t r = 0; r < m->view.device.nranks; r++) {
        g->send_counts[r] = m->sources[r].nrows * bytes;
        g->recv_counts[r] = (m->route.first[r + 1] - m->route.first[r]) * bytes;
        g->send_displs[r] = g->recv_displs[r] = r * m->stride * bytes;
    }
    return tutti_alltoallv(m->view.giving, g->send_counts, g->send_displs, g->results,
                           g->recv_counts, g->recv_displs, TUTTI_U8, m->comm, &call);
}

const struct tt_moe_ops tt_moe_collective = {
    .init = collective_init,
    .fini = collective_fini,
    .dispatch = collective_dispatch,
    .look = collective_look,
    .show = collective_show,
    .give = collective_give,
    .refuse = collective_refuse,
    .collect = collective_collect,
};
