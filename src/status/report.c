#include "status/report.h"

#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "base/status.h"

#define FIRST_COMMS 8u
#define FIRST_OPS 8u

void tt_status_report_init(struct tt_status_report *r)
{
    memset(r, 0, sizeof *r);
}

void tt_status_report_fini(struct tt_status_report *r)
{
    free(r->comms);
    free(r->index);
    free(r->ops);
    tt_status_report_init(r);
}

size_t tt_status_report_bytes(const struct tt_status_report *r)
{
    return sizeof *r + r->comms_cap * (sizeof *r->comms + 2 * sizeof *r->index) +
           r->ops_cap * sizeof *r->ops;
}

/* ---- communicators ---- */

/* Returns the slot of a hash, or the free slot for it. */
static uint32_t *index_slot(const struct tt_status_report *r, uint64_t hash)
{
    const uint32_t mask = 2 * r->comms_cap - 1;
    uint32_t i = (uint32_t)tt_mix64(hash) & mask;

    while (r->index[i] && r->comms[r->index[i] - 1].hash != hash)
        i = (i + 1) & mask;
    return &r->index[i];
}

/* Makes room for one more communicator. */
static bool grow_comms(struct tt_status_report *r)
{
    const uint32_t cap = r->comms_cap ? 2 * r->comms_cap : FIRST_COMMS;
    struct tt_status_comm *comms;
    uint32_t *index;

    if (r->ncomms < r->comms_cap)
        return true;
    if (r->ncomms >= TT_STATUS_COMMS_MAX)
        return false;
    index = calloc(2 * (size_t)cap, sizeof *index);
    comms = index ? realloc(r->comms, cap * sizeof *comms) : NULL;
    if (!comms) {
        free(index);
        return false;
    }
    free(r->index);
    r->comms = comms;
    r->index = index;
    r->comms_cap = cap;
    for (uint32_t i = 0; i < r->ncomms; i++)
        *index_slot(r, comms[i].hash) = i + 1;
    return true;
}

struct tt_status_comm *tt_status_find_comm(const struct tt_status_report *r, uint64_t hash)
{
    const uint32_t at = r->comms_cap ? *index_slot(r, hash) : 0;

    return at ? &r->comms[at - 1] : NULL;
}

struct tt_status_comm *tt_status_add_comm(struct tt_status_report *r,
                                          const struct tt_status_comm *c)
{
    struct tt_status_comm *mine = tt_status_find_comm(r, c->hash);

    if (!mine && !grow_comms(r)) {
        r->left_out++;
        return NULL;
    }
    if (!mine) {
        mine = &r->comms[r->ncomms++];
        *mine = *c;
        mine->nreported = mine->nothers = 0;
        mine->ngroups = 0;
        mine->has_rates = false;
        *index_slot(r, c->hash) = r->ncomms;
    }
    mine->nreported = tt_status_sum(mine->nreported, c->nreported);
    mine->nothers = tt_status_sum(mine->nothers, c->nothers);
    if (!*mine->name)           /* some ranks may set the name later */
        memcpy(mine->name, c->name, sizeof mine->name);
    if (!*mine->members)
        memcpy(mine->members, c->members, sizeof mine->members);
    return mine;
}

static bool same_position(const struct tt_status_op_key *a, const struct tt_status_op_key *b)
{
    return a->seq == b->seq && a->kind == b->kind && a->state == b->state &&
           a->status == b->status && a->count == b->count && a->type == b->type &&
           a->redop == b->redop && a->root == b->root;
}

/* Inserts a rank into the list of a group, which keeps the lowest ranks. */
static void list_rank(struct tt_status_group *g, uint32_t rank, uint32_t waits)
{
    uint32_t i = g->nlisted;

    if (i == TT_STATUS_LISTED_MAX && g->ranks[i - 1] <= rank)
        return;
    if (i == TT_STATUS_LISTED_MAX)
        i--;
    else
        g->nlisted++;
    for (; i > 0 && g->ranks[i - 1] > rank; i--) {
        g->ranks[i] = g->ranks[i - 1];
        g->waits[i] = g->waits[i - 1];
    }
    g->ranks[i] = rank;
    g->waits[i] = waits;
}

void tt_status_add_group(struct tt_status_comm *c, const struct tt_status_group *g)
{
    for (uint32_t i = 0; i < c->ngroups; i++) {
        struct tt_status_group *mine = &c->groups[i];

        if (!same_position(&mine->key, &g->key))
            continue;
        mine->nranks = tt_status_sum(mine->nranks, g->nranks);
        if (g->age_max_ns > mine->age_max_ns)
            mine->age_max_ns = g->age_max_ns;
        if (g->age_min_ns < mine->age_min_ns)
            mine->age_min_ns = g->age_min_ns;
        for (uint32_t k = 0; k < g->nlisted; k++)
            list_rank(mine, g->ranks[k], g->waits[k]);
        return;
    }
    if (c->ngroups < TT_STATUS_GROUPS_MAX)
        c->groups[c->ngroups++] = *g;
    else
        c->nothers = tt_status_sum(c->nothers, g->nranks);
}

static uint64_t sum_u64(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* If shares are equal, the lower rank is kept, so that the order of merging does not matter. */
void tt_status_add_rates(struct tt_status_comm *c, const struct tt_status_rates *rates)
{
    struct tt_status_rates *mine = &c->rates;
    const uint32_t before = c->has_rates ? mine->nranks : 0;

    if (!c->has_rates)
        *mine = (struct tt_status_rates){ .calls = 0 };
    c->has_rates = true;
    mine->calls = sum_u64(mine->calls, rates->calls);
    mine->bytes = sum_u64(mine->bytes, rates->bytes);
    mine->nstaged = sum_u64(mine->nstaged, rates->nstaged);
    for (int i = 0; i < TT_STATUS_STAGES; i++)
        mine->staged_ns[i] = sum_u64(mine->staged_ns[i], rates->staged_ns[i]);
    if (rates->nranks == 0)
        return;
    if (before == 0 || rates->least < mine->least ||
        (rates->least == mine->least && rates->least_rank < mine->least_rank)) {
        mine->least = rates->least;
        mine->least_rank = rates->least_rank;
    }
    if (before == 0 || rates->most > mine->most ||
        (rates->most == mine->most && rates->most_rank < mine->most_rank)) {
        mine->most = rates->most;
        mine->most_rank = rates->most_rank;
    }
    mine->nranks = tt_status_sum(before, rates->nranks);
}

/* ---- operations and ranks ---- */

static struct tt_status_op *youngest_op(const struct tt_status_report *r)
{
    struct tt_status_op *young = &r->ops[0];

    for (uint32_t i = 1; i < r->nops; i++)
        if (r->ops[i].age_ns < young->age_ns)
            young = &r->ops[i];
    return young;
}

void tt_status_add_op(struct tt_status_report *r, const struct tt_status_op *op)
{
    struct tt_status_op *place;

    if (r->nops == r->ops_cap && r->nops < TT_STATUS_OPS_MAX) {
        const uint32_t cap = r->ops_cap ? 2 * r->ops_cap : FIRST_OPS;
        struct tt_status_op *ops = realloc(r->ops, cap * sizeof *ops);

        if (!ops) {
            r->left_out++;
            return;
        }
        r->ops = ops;
        r->ops_cap = cap;
    }
    if (r->nops < r->ops_cap) {
        r->ops[r->nops++] = *op;
        return;
    }
    r->left_out++;
    place = youngest_op(r);
    if (place->age_ns < op->age_ns)
        *place = *op;
}

/* ---- lanes ---- */

void tt_status_add_lanes(struct tt_status_report *r, const struct tt_status_lanes *l)
{
    struct tt_status_lanes *mine;
    uint32_t i = 0;

    while (i < r->nlanes && strcmp(r->lanes[i].wire, l->wire) != 0)
        i++;
    if (i == TT_STATUS_WIRES_MAX) {
        r->left_out = tt_status_sum(r->left_out, 1);
        return;
    }
    mine = &r->lanes[i];
    if (i == r->nlanes) {
        r->nlanes++;
        *mine = *l;
        return;
    }
    mine->nranks = tt_status_sum(mine->nranks, l->nranks);
    mine->lanes = tt_status_sum(mine->lanes, l->lanes);
    mine->nrated = tt_status_sum(mine->nrated, l->nrated);
    mine->up = tt_status_sum(mine->up, l->up);
    if (l->down_most > mine->down_most ||
        (l->down_most == mine->down_most && l->down_rank < mine->down_rank)) {
        mine->down_rank = l->down_rank;
        mine->down_most = l->down_most;
    }
    mine->idle = tt_status_sum(mine->idle, l->idle);
    mine->depth = l->depth > mine->depth ? l->depth : mine->depth;
    mine->posts_per_s = sum_u64(mine->posts_per_s, l->posts_per_s);
    mine->bytes_per_s = sum_u64(mine->bytes_per_s, l->bytes_per_s);
    mine->outstanding = sum_u64(mine->outstanding, l->outstanding);
    mine->outstanding_bytes = sum_u64(mine->outstanding_bytes, l->outstanding_bytes);
    if (l->most_bytes > mine->most_bytes ||
        (l->most_bytes == mine->most_bytes && l->most_rank < mine->most_rank)) {
        mine->most_rank = l->most_rank;
        mine->most_bytes = l->most_bytes;
    }
}

/* ---- shares ---- */

/* Inserts a rank into the list of the lowest shares; if shares are equal, the lower rank is
 * first. */
static void list_share(struct tt_status_shares *s, uint32_t rank, uint32_t share)
{
    uint32_t i = s->n < TT_STATUS_SLOW_MAX ? s->n++ : TT_STATUS_SLOW_MAX;

    for (;
         i > 0 && (s->share[i - 1] > share || (s->share[i - 1] == share && s->rank[i - 1] > rank));
         i--)
        if (i < TT_STATUS_SLOW_MAX) {
            s->share[i] = s->share[i - 1];
            s->rank[i] = s->rank[i - 1];
        }
    if (i < TT_STATUS_SLOW_MAX) {
        s->share[i] = share;
        s->rank[i] = rank;
    }
}

void tt_status_add_shares(struct tt_status_report *r, const struct tt_status_shares *s)
{
    r->shares.nranks = tt_status_sum(r->shares.nranks, s->nranks);
    r->shares.most = s->most > r->shares.most ? s->most : r->shares.most;
    for (uint32_t i = 0; i < s->n; i++)
        list_share(&r->shares, s->rank[i], s->share[i]);
}

/* ---- lists of ranks ---- */

/* Returns the index of a rank in a list: of the first entry that is not smaller. */
static uint32_t rank_place(const struct tt_status_ranks *l, uint32_t rank)
{
    uint32_t low = 0, high = l->n;

    while (low < high) {
        const uint32_t middle = (low + high) / 2;

        if (l->rank[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool tt_status_has_rank(const struct tt_status_report *r, enum tt_status_list list, uint32_t rank)
{
    const struct tt_status_ranks *l = &r->lists[list];
    const uint32_t i = rank_place(l, rank);

    return i < l->n && l->rank[i] == rank;
}

void tt_status_add_rank(struct tt_status_report *r, enum tt_status_list list, uint32_t rank,
                        uint32_t reports)
{
    struct tt_status_ranks *l = &r->lists[list];
    const uint32_t i = rank_place(l, rank), most = reports < UINT8_MAX ? reports : UINT8_MAX;

    if (i < l->n && l->rank[i] == rank) {
        const uint32_t sum = l->reports[i] + most;

        l->reports[i] = (uint8_t)(sum < UINT8_MAX ? sum : UINT8_MAX);
        return;
    }
    l->more |= l->n == TT_STATUS_RANKS_MAX;
    if (i == TT_STATUS_RANKS_MAX)
        return;
    if (l->n < TT_STATUS_RANKS_MAX)
        l->n++;
    memmove(&l->rank[i + 1], &l->rank[i], (l->n - 1 - i) * sizeof *l->rank);
    memmove(&l->reports[i + 1], &l->reports[i], l->n - 1 - i);
    l->rank[i] = rank;
    l->reports[i] = (uint8_t)most;
}
