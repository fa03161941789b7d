/* Creation and destruction of a layer of experts. Its runs are in run.c, its two forms in
 * tiles.c and collective.c. */
#include "moe/layer.h"

#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/status.h"
#include "device/device.h"
#include "moe/alike.h"

#define CREATE "tutti_moe_create"
#define TILE_TOKENS_DEFAULT 16u
/* size in the first release with it */
#define CONF_BYTES_FIRST offsetof(tutti_moe_conf, group_experts)
#define TILE_TOKENS_MAX 4096u
#define TOKENS_MAX (1u << 20)
#define HIDDEN_MAX 65536u

/* ---- memory ---------------------------------------------------------------------------------- */

static void layer_free(tutti_moe *m)
{
    while (m->npieces > 0) {
        void *mem = m->pieces[--m->npieces];

        if (m->device.free)
            m->device.free(mem, TUTTI_DEVICE_SHARED, m->device.arg);
        else
            free(mem);
    }
    tt_holding_fini(&m->holding);
    tt_route_fini(&m->route);
    free(m);
}

/* Allocates the memory of a run's plan. */
static tutti_status make_plan_memory(tutti_moe *m)
{
    const uint32_t n = m->holding.nranks, nrows = m->route.nrows_max;
    tutti_moe_view *v = &m->view;

    m->weights = tt_moe_alloc(m, nrows, sizeof *m->weights, "weights");
    m->rows = tt_moe_alloc(m, nrows, sizeof *m->rows, "rows");
    m->row_experts = tt_moe_alloc(m, nrows, sizeof *m->row_experts, "experts of rows");
    m->places = tt_moe_alloc(m, nrows, sizeof *m->places, "places of results");
    m->held_at = tt_moe_alloc(m, v->experts, sizeof *m->held_at, "the experts of this rank");
    m->sum = tt_moe_alloc(m, v->hidden, sizeof *m->sum, "a token");
    m->sources = tt_moe_alloc(m, n, sizeof *m->sources, "ranks");
    m->tiles = tt_moe_alloc(m, (uint64_t)n * v->tiles_max, 1, "tiles");
    v->giving = tt_moe_alloc(m, (uint64_t)n * m->stride, v->back.bytes, "results to send");
    if (!m->weights || !m->rows || !m->row_experts || !m->places || !m->held_at || !m->sum ||
        !m->sources || !m->tiles || !v->giving)
        return TUTTI_ERR_NOMEM;
    v->weights = m->weights;
    v->rows = m->rows;
    v->row_experts = m->row_experts;
    v->places = m->places;
    v->held_at = m->held_at;
    memset(m->held_at, 0xff, v->experts * sizeof *m->held_at);
    for (uint32_t s = m->holding.first[m->comm->rank]; s < m->holding.first[m->comm->rank + 1]; s++)
        m->held_at[m->holding.expert[s]] = s - m->holding.first[m->comm->rank];
    return TUTTI_OK;
}

/* ---- creation -------------------------------------------------------------------------------- */

/* INVALID (logged) unless a number of the conf is 1 to max. */
static tutti_status check_number(const char *name, uint32_t value, uint32_t max)
{
    return value >= 1 && value <= max
               ? TUTTI_OK
               : tt_fail(TUTTI_ERR_INVALID, CREATE ": conf.%s is %u: must be 1 to %u", name, value,
                         max);
}

/* INVALID (logged) unless a type of the conf is f32, bf16 or, for sent tokens, f8e4m3. */
static tutti_status check_type(const char *name, tutti_dtype type, bool travels)
{
    if (type == TUTTI_F32 || type == TUTTI_BF16 || (travels && type == TUTTI_F8E4M3))
        return TUTTI_OK;
    return tt_fail(TUTTI_ERR_INVALID, CREATE ": conf.%s is %d (%s): must be TUTTI_F32%s", name,
                   (int)type, tutti_dtype_bytes(type) ? tutti_dtype_name(type) : "invalid type",
                   travels ? ", TUTTI_BF16 or TUTTI_F8E4M3" : " or TUTTI_BF16");
}

/* Checks a conf with defaults filled in; INVALID (logged). */
static tutti_status layer_check_conf(const tutti_moe_conf *c)
{
    tutti_status st = TUTTI_OK;

    if ((uint32_t)c->form >= TUTTI_MOE_FORMS)
        return tt_fail(
            TUTTI_ERR_INVALID,
            CREATE ": conf.form is %d: must be TUTTI_MOE_TILES (%d) or TUTTI_MOE_COLLECTIVE (%d)",
            (int)c->form, TUTTI_MOE_TILES, TUTTI_MOE_COLLECTIVE);
    st = check_number("hidden", c->hidden, HIDDEN_MAX);
    if (!st)
        st = check_number("experts", c->experts, TT_EXPERTS_MAX);
    if (!st)
        st = check_number("top_k", c->top_k, c->experts < TT_TOP_MAX ? c->experts : TT_TOP_MAX);
    if (!st)
        st = check_number("max_tokens", c->max_tokens, TOKENS_MAX);
    if (!st)
        st = check_number("tile_tokens", c->tile_tokens, TILE_TOKENS_MAX);
    if (!st)
        st = check_type("type", c->type, false);
    if (!st)
        st = check_type("there", c->there, true);
    if (!st)
        st = check_type("back", c->back, true);
    if (st)
        return st;
    if (c->nheld > c->experts)
        return tt_fail(TUTTI_ERR_INVALID,
                       CREATE ": conf.nheld is %u: the maximum is %u (conf.experts)", c->nheld,
                       c->experts);
    return c->nheld && !c->held
               ? tt_fail(TUTTI_ERR_INVALID, CREATE ": conf.nheld is %u, but conf.held is NULL",
                         c->nheld)
               : TUTTI_OK;
}

/* Values that must be equal on all ranks, except nheld; and the status of each rank. */
struct declared {
    uint32_t form, hidden, experts, top_k, max_tokens, tile_tokens, type, there, back, scale_elems,
        nheld, status;
};

static struct declared declare(const tutti_moe_conf *c, uint32_t nheld, tutti_status st)
{
    return (struct declared){
        .form = (uint32_t)c->form,
        .hidden = c->hidden,
        .experts = c->experts,
        .top_k = c->top_k,
        .max_tokens = c->max_tokens,
        .tile_tokens = c->tile_tokens,
        .type = (uint32_t)c->type,
        .there = (uint32_t)c->there,
        .back = (uint32_t)c->back,
        .scale_elems = c->scale_elems,
        .nheld = nheld,
        .status = (uint32_t)st,
    };
}

static const char *form_name(uint64_t form)
{
    return form == TUTTI_MOE_TILES ? "tiles" : form == TUTTI_MOE_COLLECTIVE ? "collective" : "?";
}

static tutti_status layer_compare_with(const struct declared *mine, const struct declared *theirs,
                                       uint32_t own_rank, uint32_t rank)
{
    const struct tt_alike fields[] = {
        { "form", mine->form, theirs->form, form_name },
        { "hidden", mine->hidden, theirs->hidden, NULL },
        { "experts", mine->experts, theirs->experts, NULL },
        { "top_k", mine->top_k, theirs->top_k, NULL },
        { "max_tokens", mine->max_tokens, theirs->max_tokens, NULL },
        { "tile_tokens", mine->tile_tokens, theirs->tile_tokens, NULL },
        { "type", mine->type, theirs->type, tt_alike_dtype },
        { "there", mine->there, theirs->there, tt_alike_dtype },
        { "back", mine->back, theirs->back, tt_alike_dtype },
        { "scale_elems", mine->scale_elems, theirs->scale_elems, NULL },
    };
    const tutti_status st =
        tt_alike_check(CREATE, fields, sizeof fields / sizeof *fields, own_rank, rank);

    if (!st && theirs->nheld > mine->experts)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       CREATE ": protocol error: rank %u declares %u experts: the maximum is %u",
                       rank, theirs->nheld, mine->experts);
    return st;
}

/* Compares the declarations of all ranks; equal result on all. nheld[nranks] receives the number
 * of experts of each rank. */
static tutti_status layer_compare(tutti_comm *comm, const struct declared *mine, uint32_t *nheld)
{
    struct declared *all = calloc(comm->nranks, sizeof *all);
    tutti_status st;

    if (!all)
        return tt_fail(TUTTI_ERR_NOMEM, CREATE ": out of memory for %u ranks", comm->nranks);
    st = tutti_allgather(mine, all, sizeof *mine, TUTTI_U8, comm, NULL);
    for (uint32_t r = 0; r < comm->nranks && !st; r++) {
        const struct declared *theirs = &all[r];

        nheld[r] = theirs->nheld;
        if (mine->status)
            st = (tutti_status)mine->status;
        else if (theirs->status)
            st =
                tt_fail(theirs->status < TUTTI_STATUS_COUNT ? (tutti_status)theirs->status
                                                            : TUTTI_ERR_PROTOCOL,
                        CREATE ": rank %u failed to create its part (see the log of that rank)", r);
        else
            st = layer_compare_with(mine, theirs, comm->rank, r);
    }
    free(all);
    return st;
}

/* Gathers the experts of all ranks, in rank order: all[sum of nheld]. */
static tutti_status gather_held(tutti_comm *comm, const uint32_t *mine, const uint32_t *nheld,
                                uint32_t *all)
{
    size_t *counts = calloc(2 * (size_t)comm->nranks, sizeof *counts),
           *displs = counts + comm->nranks;
    tutti_status st;

    if (!counts)
        return tt_fail(TUTTI_ERR_NOMEM, CREATE ": out of memory for %u ranks", comm->nranks);
    for (uint32_t r = 0; r < comm->nranks; r++) {
        counts[r] = nheld[r];
        displs[r] = r ? displs[r - 1] + counts[r - 1] : 0;
    }
    st = tutti_allgatherv(mine, all, counts, displs, TUTTI_U32, comm, NULL);
    free(counts);
    return st;
}

/* Determines the placement of experts on all ranks, from each rank's list mine[nheld of this
 * rank]. */
static tutti_status make_holding(tutti_moe *m, const struct declared *declared,
                                 const uint32_t *mine)
{
    const uint32_t n = m->comm->nranks;
    uint32_t *nheld = calloc(n, sizeof *nheld), *all = NULL;
    uint64_t sum = 0;
    tutti_status st = nheld ? layer_compare(m->comm, declared, nheld)
                            : tt_fail(TUTTI_ERR_NOMEM, CREATE ": out of memory for %u ranks", n);

    for (uint32_t r = 0; r < n && !st; r++)
        sum += nheld[r];
    if (!st && sum >= TT_EXPERTS_MAX)
        st = tt_fail(TUTTI_ERR_INVALID,
                     CREATE ": all ranks together hold %llu experts: the maximum is %u",
                     (unsigned long long)sum, TT_EXPERTS_MAX - 1);
    if (!st)
        all = calloc(sum + 1, sizeof *all);
    if (!st && !all)
        st = tt_fail(TUTTI_ERR_NOMEM, CREATE ": out of memory for %llu experts",
                     (unsigned long long)sum);
    if (!st)
        st = gather_held(m->comm, mine, nheld, all);
    if (!st)
        st = tt_holding_init(&m->holding, n, declared->experts, nheld, all, CREATE);
    free(nheld);
    free(all);
    return st;
}

/* Returns the default experts of this rank. NULL: out of memory. */
static uint32_t *default_held(const tutti_comm *comm, const tutti_moe_conf *c, uint32_t *nheld)
{
    const uint32_t first = tt_holding_default(comm->nranks, c->experts, comm->rank);
    const uint32_t end = tt_holding_default(comm->nranks, c->experts, comm->rank + 1);
    uint32_t *held = calloc(end - first + 1, sizeof *held);

    *nheld = end - first;
    for (uint32_t i = 0; held && i < end - first; i++)
        held[i] = first + i;
    return held;
}

/* Derives sizes from the conf and the placement of experts. */
static tutti_status make_shape(tutti_moe *m, const tutti_moe_conf *c)
{
    const uint32_t n = m->comm->nranks, most = m->holding.most;
    /* from one rank to another */
    const uint64_t nrows = (uint64_t)c->max_tokens * (c->top_k < most ? c->top_k : most);
    const uint64_t tiles = (nrows + c->tile_tokens - 1) / c->tile_tokens;

    if (n * tiles * c->tile_tokens >= UINT32_MAX)
        return tt_fail(TUTTI_ERR_INVALID,
                       CREATE ": too many rows: %u ranks with %u tokens each and %u experts per "
                              "token exceed 2^32 rows",
                       n, c->max_tokens, c->top_k);
    m->max_tokens = c->max_tokens;
    m->group_experts = c->group_experts;
    m->stride = (uint32_t)tiles * c->tile_tokens;
    m->view = (tutti_moe_view){
        .device = { .rank = m->comm->rank, .nranks = n },
        .hidden = c->hidden,
        .experts = c->experts,
        .top_k = c->top_k,
        .nheld = m->holding.first[m->comm->rank + 1] - m->holding.first[m->comm->rank],
        .tile_tokens = c->tile_tokens,
        .tiles_max = (uint32_t)tiles,
        .type = (uint32_t)c->type,
        .there = tutti_moe_row_of((uint32_t)c->there, c->hidden, c->scale_elems),
        .back = tutti_moe_row_of((uint32_t)c->back, c->hidden, c->scale_elems),
        .head_bytes = (sizeof(tutti_moe_head) + 4ull * c->tile_tokens + 63) / 64 * 64,
    };
    m->view.tile_bytes = m->view.head_bytes + c->tile_tokens * m->view.there.bytes;
    if (!tt_route_init(&m->route, &m->holding, c->max_tokens * c->top_k))
        return tt_fail(TUTTI_ERR_NOMEM, CREATE ": out of memory for routes");
    return make_plan_memory(m);
}

/* Returns the worst status of all ranks: OK on all, or on none. */
static tutti_status layer_agree(tutti_comm *comm, tutti_status mine)
{
    uint32_t st = (uint32_t)mine, worst = 0;
    const tutti_status got = tutti_allreduce(&st, &worst, 1, TUTTI_U32, TUTTI_MAX, comm, NULL);

    if (mine || got)
        return mine ? mine : got;
    return worst ? tt_fail(worst < TUTTI_STATUS_COUNT ? (tutti_status)worst : TUTTI_ERR_PROTOCOL,
                           CREATE
                           ": another rank failed to create its part (see the log of that rank)")
                 : TUTTI_OK;
}

/* Continues after all ranks have valid confs. */
static tutti_status layer_make(tutti_moe *m, const tutti_moe_conf *c)
{
    tutti_status st = layer_agree(m->comm, make_shape(m, c));

    m->ops = c->form == TUTTI_MOE_TILES ? &tt_moe_tiles : &tt_moe_collective;
    return st ? st : layer_agree(m->comm, m->ops->init(m));
}

/* Copies the caller's conf, and its device conf, with defaults. */
static tutti_status layer_copy_conf(tutti_moe_conf *mine, tutti_device_conf *device,
                                    const tutti_moe_conf *conf)
{
    tutti_status st = tt_options_take(mine, sizeof *mine, CONF_BYTES_FIRST, conf, CREATE, "conf",
                                      "tutti_moe_conf");

    device->size = sizeof *device;
    if (!st && mine->form == TUTTI_MOE_TILES && mine->device)
        st = tt_options_take(device, sizeof *device, TT_DEVICE_CONF_BYTES_FIRST, mine->device,
                             CREATE, "conf.device", "tutti_device_conf");
    if (!st && !device->alloc != !device->free) {
        st = tt_fail(TUTTI_ERR_INVALID,
                     CREATE ": conf.device has %s, but not %s: set both or neither",
                     device->alloc ? "alloc" : "free", device->alloc ? "free" : "alloc");
        device->alloc = NULL;
        device->free = NULL;
    }
    if (st)
        return st;
    if (mine->tile_tokens == 0)
        mine->tile_tokens = TILE_TOKENS_DEFAULT;
    return layer_check_conf(mine);
}

tutti_status tutti_moe_create(tutti_comm *comm, const tutti_moe_conf *conf, tutti_moe **out)
{
    tutti_moe_conf mine = { .size = sizeof mine };
    struct declared declared;
    uint32_t *named = NULL, nheld;
    const uint32_t *held;
    tutti_moe *m;
    tutti_status st = tt_comm_check(comm, CREATE);

    if (!st && (!conf || !out))
        st = tt_fail(TUTTI_ERR_INVALID, CREATE ": %s is NULL", conf ? "out" : "conf");
    if (st)
        return st;
    m = calloc(1, sizeof *m);
    if (!m)
        return tt_fail(TUTTI_ERR_NOMEM, CREATE ": out of memory for a layer");
    m->comm = comm;
    st = layer_copy_conf(&mine, &m->device, conf);
    held = mine.held;
    nheld = mine.nheld;
    if (!st && !held) {
        held = named = default_held(comm, &mine, &nheld);
        if (!named)
            st = tt_fail(TUTTI_ERR_NOMEM, CREATE ": out of memory for %u experts", nheld);
    }
    declared = declare(&mine, nheld, st);
    /* a failure of this rank is distributed to the others */
    st = make_holding(m, &declared, held);
    free(named);
    if (!st)
        st = layer_make(m, &mine);
    if (st) {
        if (m->ops)
            m->ops->fini(m);
        layer_free(m);
        return st;
    }
    *out = m;
    return TUTTI_OK;
}

tutti_status tutti_moe_free(tutti_moe *m)
{
    tutti_status st;

    if (!m)
        return TUTTI_OK;
    st = m->ops->fini(m);
    if (st != TUTTI_ERR_FORKED)
        layer_free(m);
    return st;
}
