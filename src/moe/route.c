#include "moe/route.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* ---- placement of experts -------------------------------------------------------------------- */

uint32_t tt_holding_default(uint32_t nranks, uint32_t nexperts, uint32_t rank)
{
    return (uint32_t)((uint64_t)rank * nexperts / nranks);
}

static tutti_status check_held(const struct tt_holding *h, const uint32_t *held, const char *call)
{
    uint32_t *by = calloc(h->nexperts, sizeof *by);     /* rank that holds it, + 1 */
    tutti_status st = TUTTI_OK;

    if (!by)
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for %u experts", call, h->nexperts);
    for (uint32_t r = 0; r < h->nranks && !st; r++)
        for (uint32_t s = h->first[r]; s < h->first[r + 1] && !st; s++) {
            if (held[s] >= h->nexperts)
                st = tt_fail(TUTTI_ERR_INVALID,
                             "%s: rank %u holds expert %u, but there are only %u experts", call, r,
                             held[s], h->nexperts);
            else if (by[held[s]] == r + 1)
                st = tt_fail(TUTTI_ERR_INVALID, "%s: rank %u holds expert %u twice", call, r,
                             held[s]);
            else
                by[held[s]] = r + 1;
        }
    for (uint32_t e = 0; e < h->nexperts && !st; e++)
        if (!by[e])
            st = tt_fail(TUTTI_ERR_INVALID, "%s: no rank holds expert %u", call, e);
    free(by);
    return st;
}

static bool alloc_tables(struct tt_holding *h)
{
    h->expert = calloc(h->nslots + 1, sizeof *h->expert);
    h->rank = calloc(h->nslots + 1, sizeof *h->rank);
    h->of_first = calloc(h->nexperts + 1, sizeof *h->of_first);
    h->of = calloc(h->nslots + 1, sizeof *h->of);
    return h->expert && h->rank && h->of_first && h->of;
}

tutti_status tt_holding_init(struct tt_holding *h, uint32_t nranks, uint32_t nexperts,
                             const uint32_t *nheld, const uint32_t *held, const char *call)
{
    tutti_status st;

    *h = (struct tt_holding){ .nranks = nranks, .nexperts = nexperts };
    h->first = calloc(nranks + 1, sizeof *h->first);
    for (uint32_t r = 0; h->first && r < nranks; r++) {
        h->first[r + 1] = h->first[r] + nheld[r];
        h->most = nheld[r] > h->most ? nheld[r] : h->most;
    }
    h->nslots = h->first ? h->first[nranks] : 0;
    if (!h->first || !alloc_tables(h))
        return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for %u ranks and %u experts", call,
                       nranks, nexperts);
    st = check_held(h, held, call);
    if (st)
        return st;
    for (uint32_t s = 0; s < h->nslots; s++) {
        h->expert[s] = held[s];
        h->of_first[held[s] + 1]++;
    }
    for (uint32_t r = 0; r < nranks; r++)
        for (uint32_t s = h->first[r]; s < h->first[r + 1]; s++)
            h->rank[s] = r;
    for (uint32_t e = 0; e < nexperts; e++)
        h->of_first[e + 1] += h->of_first[e];
    /* in reverse: of_first[e + 1] decreases to the first slot of e */
    for (uint32_t s = h->nslots; s-- > 0;)
        h->of[--h->of_first[held[s] + 1]] = s;
    for (uint32_t e = 0; e < nexperts; e++)
        h->of_first[e] = h->of_first[e + 1];
    h->of_first[nexperts] = h->nslots;
    return TUTTI_OK;
}

void tt_holding_fini(struct tt_holding *h)
{
    free(h->first);
    free(h->expert);
    free(h->rank);
    free(h->of_first);
    free(h->of);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* Tests the bits, so that a signalling NaN cannot trap. */
static bool is_finite(const float *weight, uint32_t *bits)
{
    memcpy(bits, weight, sizeof *bits);
    return (*bits & 0x7f800000) != 0x7f800000;
}

static struct tt_route_flaw flaw_of_token(const tutti_moe_routing *routing, uint32_t nexperts,
                                          uint32_t top_k, uint32_t token)
{
    const uint32_t *experts = routing->experts + (size_t)token * top_k;
    const float *weights = routing->weights + (size_t)token * top_k;
    struct tt_route_flaw f = { .token = token };
    uint32_t bits;

    for (f.choice = 0; f.choice < top_k; f.choice++) {
        f.value = experts[f.choice];
        if (f.value == TUTTI_MOE_NONE)
            continue;
        f.kind = f.value >= nexperts ? TT_ROUTE_EXPERT : TT_ROUTE_GOOD;
        for (uint32_t c = 0; c < f.choice && !f.kind; c++)
            f.kind = experts[c] == f.value ? TT_ROUTE_TWICE : TT_ROUTE_GOOD;
        if (!f.kind && !is_finite(&weights[f.choice], &bits)) {
            f.kind = TT_ROUTE_WEIGHT;
            f.value = bits;
        }
        if (f.kind)
            return f;
    }
    return (struct tt_route_flaw){ 0 };
}

struct tt_route_flaw tt_route_check(const tutti_moe_routing *routing, uint32_t nexperts,
                                    uint32_t top_k, uint32_t max_tokens)
{
    const void *const there[] = { routing->tokens, routing->experts, routing->weights };
    struct tt_route_flaw f = { 0 };

    if (routing->ntokens > max_tokens)
        return (struct tt_route_flaw){
            .kind = TT_ROUTE_MANY,
            .value = routing->ntokens < UINT32_MAX ? (uint32_t)routing->ntokens : UINT32_MAX,
        };
    for (uint32_t i = 0; i < 3 && routing->ntokens; i++)
        if (!there[i])
            return (struct tt_route_flaw){ .kind = TT_ROUTE_NULL,
                                           .token = (uint32_t)routing->ntokens,
                                           .value = i };
    for (uint32_t t = 0; t < routing->ntokens && !f.kind; t++)
        f = flaw_of_token(routing, nexperts, top_k, t);
    return f;
}

bool tt_route_flaw_sound(const struct tt_route_flaw *f)
{
    return f->kind > TT_ROUTE_GOOD && f->kind < TT_ROUTE_FLAWS && f->choice < TT_TOP_MAX &&
           (f->kind != TT_ROUTE_NULL || f->value < 3);
}

tutti_status tt_route_flaw_status(const struct tt_route_flaw *f, uint32_t nexperts,
                                  uint32_t max_tokens, uint32_t rank, const char *call)
{
    static const char *const names[] = { "tokens", "experts", "weights" };
    const char *weight;

    if (!tt_route_flaw_sound(f))
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "%s: protocol error: rank %u reports an invalid routing error", call, rank);
    switch ((enum tt_route_flaw_kind)f->kind) {
    case TT_ROUTE_MANY:
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: routing.ntokens of rank %u is %u, but conf.max_tokens is %u", call,
                       rank, f->value, max_tokens);
    case TT_ROUTE_NULL:
        return tt_fail(TUTTI_ERR_INVALID, "%s: rank %u has %u token%s, but its routing.%s is NULL",
                       call, rank, f->token, TT_PLURAL(f->token), names[f->value]);
    case TT_ROUTE_EXPERT:
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: invalid expert: rank %u routes token %u, choice %u, to expert %u (must "
                       "be 0 to %u)",
                       call, rank, f->token, f->choice, f->value, nexperts - 1);
    case TT_ROUTE_TWICE:
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: duplicate expert: rank %u routes token %u, choice %u, to expert %u "
                       "again (the experts of "
                       "a token must differ)",
                       call, rank, f->token, f->choice, f->value);
    default:
        weight = (f->value & 0x7fffffff) > 0x7f800000 ? "nan" : f->value >> 31 ? "-inf" : "inf";
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: invalid weight: rank %u sets the weight of token %u, choice %u, to %s "
                       "(must be finite)",
                       call, rank, f->token, f->choice, weight);
    }
}

/* ---- rows of a run --------------------------------------------------------------------------- */

bool tt_route_init(struct tt_route *t, const struct tt_holding *h, uint32_t nrows_max)
{
    *t = (struct tt_route){ .nrows_max = nrows_max };
    t->counts = calloc(h->nslots + 1, sizeof *t->counts);
    t->first = calloc(h->nranks + 1, sizeof *t->first);
    t->next = calloc(h->nslots + 1, sizeof *t->next);
    return t->counts && t->first && t->next;
}

void tt_route_fini(struct tt_route *t)
{
    free(t->counts);
    free(t->first);
    free(t->next);
}

/* Returns the slot for an expert of a token of this rank: tokens are distributed round-robin over
 * the ranks that hold the expert. */
static uint32_t slot_for(const struct tt_holding *h, uint32_t expert, uint32_t rank, uint32_t token)
{
    const uint32_t n = h->of_first[expert + 1] - h->of_first[expert];

    return h->of[h->of_first[expert] + (n == 1 ? 0 : ((uint64_t)rank + token) % n)];
}

/* Counts the rows of each slot, and determines the first row of each. */
static void count_rows(struct tt_route *t, const struct tt_holding *h,
                       const tutti_moe_routing *routing, uint32_t top_k, uint32_t rank)
{
    memset(t->counts, 0, h->nslots * sizeof *t->counts);
    for (uint32_t k = 0; k < routing->ntokens * top_k; k++)
        if (routing->experts[k] != TUTTI_MOE_NONE)
            t->counts[slot_for(h, routing->experts[k], rank, k / top_k)]++;
    t->nrows = 0;
    for (uint32_t r = 0; r < h->nranks; r++) {
        t->first[r] = t->nrows;
        for (uint32_t s = h->first[r]; s < h->first[r + 1]; s++) {
            t->next[s] = t->nrows;
            t->nrows += t->counts[s];
        }
    }
    t->first[h->nranks] = t->nrows;
}

void tt_route_make(struct tt_route *t, const struct tt_holding *h, const tutti_moe_routing *routing,
                   uint32_t top_k, uint32_t rank, uint32_t stride, uint32_t *rows,
                   uint32_t *experts, uint32_t *places)
{
    count_rows(t, h, routing, top_k, rank);
    tt_assert(t->nrows <= t->nrows_max);
    for (uint32_t k = 0; k < routing->ntokens * top_k; k++) {
        uint32_t slot, at;

        places[k] = TUTTI_MOE_NONE;
        if (routing->experts[k] == TUTTI_MOE_NONE)
            continue;
        slot = slot_for(h, routing->experts[k], rank, k / top_k);
        at = t->next[slot]++;
        rows[at] = k;
        experts[at] = routing->experts[k];
        places[k] = h->rank[slot] * stride + (at - t->first[h->rank[slot]]);
    }
}
