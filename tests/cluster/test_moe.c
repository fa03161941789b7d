/* Layers of experts in both forms: random routings compared with their definition, bit by bit, over
 * all transports and modes, and all possible errors in them. */
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "job.h"
#include "support/unit.h"
#include "tutti/moe_device.h"

#define SEED 20261127
#define HIDDEN_MAX 70
#define EXPERTS_MAX 12
#define TOP_MAX 5
#define TOKENS_MAX 24
#define RUNS 5u             /* of a layer: each buffer set is reused */

/* Configuration of transports and proxy. */
struct way {
    const char *name, *wires, *lanes;
    uint32_t nranks;
    bool no_direct;
};

static const struct way ways[] = {
    { "stored to", "shm", "1", 4, false },
    { "mapped, through the FIFO", "shm", "1", 3, true },
    { "tcp", "tcp", "1", 4, false },
    { "tcp, 4 lanes", "tcp", "4", 2, false },
    { "alone", "shm", "1", 1, false },
};
#define NWAYS (sizeof ways / sizeof *ways)

static void open_as(struct rank *r)
{
    const struct way *w = r->job->arg;

    setenv("TUTTI_LANES", w->lanes, 1);
    job_open(r);
}

static void over_ways(void (*role)(struct rank *), uint32_t nranks_min)
{
    for (uint32_t i = 0; i < NWAYS; i++) {
        const struct job job = {
            .wires = ways[i].wires,
            .nranks = ways[i].nranks,
            .seed = job_seed(SEED) + i,
            .arg = &ways[i],
        };

        if (ways[i].nranks < nranks_min || !unit_has_turn(i, 2))
            continue;
        print_message("%s\n", ways[i].name);
        job_run(&job, role);
    }
}

/* ---- a case, equal on all ranks ---- */

enum kind { DRAWN, IDLE_RANK, ONE_EXPERT, HELD_BY_ALL, LEFT_OUT, NOBODY, KINDS };

struct layer {
    enum kind kind;
    uint64_t seed;
    tutti_moe_conf conf;
    tutti_device_conf device;
    uint32_t held[EXPERTS_MAX];
};

static void draw_layer(struct rank *r, uint32_t i, struct layer *l)
{
    static const tutti_dtype types[] = { TUTTI_F32, TUTTI_BF16, TUTTI_F8E4M3 };
    const struct way *w = r->job->arg;
    struct tt_prng *p = &r->common;
    tutti_moe_conf *c = &l->conf;

    *l = (struct layer){ .kind = i % KINDS, .seed = tt_prng_u64(p) };
    l->device = (tutti_device_conf){ .size = sizeof l->device,
                                     .mode = (tutti_device_mode)(i % TUTTI_DEVICE_MODES),
                                     .no_direct = w->no_direct };
    *c = (tutti_moe_conf){
        .size = sizeof *c,
        .form = (tutti_moe_form)(i / KINDS % TUTTI_MOE_FORMS),
        .hidden = 1 + (uint32_t)tt_prng_below(p, HIDDEN_MAX),
        .experts = 1 + (uint32_t)tt_prng_below(p, EXPERTS_MAX),
        .max_tokens = 1 + (uint32_t)tt_prng_below(p, TOKENS_MAX),
        .tile_tokens = (uint32_t)tt_prng_below(p, 7),
        .type = types[tt_prng_below(p, 2)],
        .there = types[tt_prng_below(p, 3)],
        .back = types[tt_prng_below(p, 3)],
        .scale_elems = (uint32_t)tt_prng_below(p, 40),
        .device = &l->device,
    };
    c->group_experts = (uint32_t)tt_prng_below(p, c->experts + 2);
    c->top_k = 1 + (uint32_t)tt_prng_below(p, c->experts < TOP_MAX ? c->experts : TOP_MAX);
    if (l->kind != HELD_BY_ALL)
        return;
    for (uint32_t e = 0; e < c->experts; e++)       /* all ranks hold the first expert; rank 0 and
                                                       some others hold the rest, in different
                                                       orders */
        if (e == 0 || r->rank == 0 || tt_prng_below(&r->prng, 2))
            l->held[c->nheld++] = e;
    for (uint32_t k = 0; k < c->nheld / 2; k++) {
        const uint32_t other = c->nheld - 1 - k, e = l->held[k];

        l->held[k] = l->held[other];
        l->held[other] = e;
    }
    c->held = l->held;
}

/* One rank's part of a run; every rank can generate that of any rank. */
struct part {
    uint32_t ntokens, experts[TOKENS_MAX * TOP_MAX];
    float weights[TOKENS_MAX * TOP_MAX], tokens[TOKENS_MAX * HIDDEN_MAX];
    uint16_t narrow[TOKENS_MAX * HIDDEN_MAX];       /* tokens as bf16 */
    tutti_moe_routing routing;
};

static float draw_float(struct tt_prng *p)
{
    return (float)((double)tt_prng_below(p, 1u << 24) / (1u << 23) - 1) *
           (tt_prng_below(p, 8) ? 1.0f : 1e-4f);
}

static void draw_choices(const struct layer *l, struct tt_prng *p, uint32_t *experts)
{
    const tutti_moe_conf *c = &l->conf;

    for (uint32_t k = 0; k < c->top_k;) {
        bool has = false;

        experts[k] = (uint32_t)tt_prng_below(p, c->experts);
        for (uint32_t j = 0; j < k; j++)
            has |= experts[j] == experts[k];
        k += !has;
    }
    for (uint32_t k = 0; k < c->top_k; k++)
        if (l->kind == ONE_EXPERT)
            experts[k] = k == c->top_k - 1 ? 0 : TUTTI_MOE_NONE;
        else if (l->kind == LEFT_OUT && tt_prng_below(p, 2))
            experts[k] = TUTTI_MOE_NONE;
}

static void draw_part(const struct layer *l, uint32_t run, uint32_t rank, struct part *out)
{
    const tutti_moe_conf *c = &l->conf;
    struct tt_prng p;

    tt_prng_init(&p, l->seed + 100 * run + rank);
    out->ntokens =
        tt_prng_below(&p, 3) ? (uint32_t)tt_prng_below(&p, c->max_tokens + 1) : c->max_tokens;
    if (l->kind == NOBODY || (l->kind == IDLE_RANK && rank == run % 2))
        out->ntokens = 0;
    for (uint32_t t = 0; t < out->ntokens; t++)
        draw_choices(l, &p, out->experts + (size_t)t * c->top_k);
    for (uint32_t k = 0; k < out->ntokens * c->top_k; k++)
        out->weights[k] = draw_float(&p);
    for (uint32_t i = 0; i < out->ntokens * c->hidden; i++) {
        out->tokens[i] = draw_float(&p);
        out->narrow[i] = tutti_moe_to_bf16(out->tokens[i]);
        if (c->type == TUTTI_BF16)
            out->tokens[i] = tutti_moe_from_bf16(out->narrow[i]);
    }
    out->routing = (tutti_moe_routing){
        .size = sizeof out->routing,
        .tokens = c->type == TUTTI_BF16 ? (const void *)out->narrow : out->tokens,
        .ntokens = out->ntokens,
        .experts = out->experts,
        .weights = out->weights,
    };
}

/* Applies an expert to a token. */
static void apply(uint32_t hidden, uint32_t expert, const float *x, float *y)
{
    for (uint32_t i = 0; i < hidden; i++)
        y[i] = x[i] * (float)(expert + 1) - x[(i + 1) % hidden] * 0.5f;
}

/* Computes out[ntokens][hidden] of conf.type by the definition. */
static void define(const struct layer *l, const struct part *p, uint8_t *out)
{
    const tutti_moe_conf *c = &l->conf;
    const tutti_moe_row there = tutti_moe_row_of((uint32_t)c->there, c->hidden, c->scale_elems);
    const tutti_moe_row back = tutti_moe_row_of((uint32_t)c->back, c->hidden, c->scale_elems);
    const size_t bytes = c->hidden * tutti_dtype_bytes(c->type);
    float x[HIDDEN_MAX], y[HIDDEN_MAX], sum[HIDDEN_MAX];
    _Alignas(16) uint8_t row[HIDDEN_MAX * 8 + 64];

    for (uint32_t t = 0; t < p->ntokens; t++) {
        memset(sum, 0, sizeof sum);
        for (uint32_t k = t * c->top_k; k < (t + 1) * c->top_k; k++) {
            if (p->experts[k] == TUTTI_MOE_NONE)
                continue;
            tutti_moe_row_write(&there, row, p->tokens + (size_t)t * c->hidden, TUTTI_F32);
            tutti_moe_row_read(&there, row, x);
            apply(c->hidden, p->experts[k], x, y);
            tutti_moe_row_write(&back, row, y, TUTTI_F32);
            tutti_moe_row_read(&back, row, x);
            for (uint32_t i = 0; i < c->hidden; i++)
                sum[i] += p->weights[k] * x[i];
        }
        for (uint32_t i = 0; i < c->hidden; i++)
            tutti_moe_set((uint32_t)c->type, out + t * bytes, i, sum[i]);
    }
}

/* ---- a run ---- */

static bool holds(const struct rank *r, const struct layer *l, uint32_t expert)
{
    const tutti_moe_conf *c = &l->conf;

    if (!c->held)
        return expert >= r->rank * c->experts / r->nranks &&
               expert < (r->rank + 1) * c->experts / r->nranks;
    for (uint32_t i = 0; i < c->nheld; i++)
        if (c->held[i] == expert)
            return true;
    return false;
}

/* Computes a tile and returns it. Tokens of one expert must be adjacent. */
static tutti_status serve(struct rank *r, const struct layer *l, tutti_moe *moe,
                          const tutti_moe_tile *tile)
{
    const uint32_t hidden = l->conf.hidden, most = l->conf.tile_tokens ? l->conf.tile_tokens : 16;
    float x[16 * HIDDEN_MAX], y[16 * HIDDEN_MAX];

    CHECK(r, tile->rows <= most && tile->source < r->nranks);
    CHECK_OK(r, tutti_moe_read(moe, tile, x));
    for (uint32_t i = 0; i < tile->rows; i++) {
        CHECK(r, holds(r, l, tile->experts[i]));
        for (uint32_t k = 0; k + 1 < i; k++)
            CHECK(r,
                  tile->experts[k] != tile->experts[i] || tile->experts[i - 1] == tile->experts[i]);
        apply(hidden, tile->experts[i], x + (size_t)i * hidden, y + (size_t)i * hidden);
    }
    return tutti_moe_give(moe, tile, y);
}

#define HOARD 8u

/* Serves tiles until none remains, or the run is refused. Some are deferred until others have
 * arrived, and are then served in the opposite order. */
static tutti_status serve_all(struct rank *r, const struct layer *l, tutti_moe *moe)
{
    tutti_moe_tile tiles[HOARD] = { { 0 } };
    const uint32_t most = 1 + (uint32_t)tt_prng_below(&r->prng, HOARD);
    tutti_status st = TUTTI_OK;
    uint32_t n;

    do {
        for (n = 0; n < most; n++) {
            tiles[n].size = sizeof tiles[n];
            st = tutti_moe_next(moe, &tiles[n], 0);
            if (st || !tiles[n].rows)
                break;
        }
        for (uint32_t i = n; i-- > 0 && !st;)
            st = serve(r, l, moe, &tiles[i]);
    } while (!st && n == most);
    return st;
}

static void good_run(struct rank *r, const struct layer *l, tutti_moe *moe, uint32_t run)
{
    const size_t bytes =
        (size_t)l->conf.max_tokens * l->conf.hidden * tutti_dtype_bytes(l->conf.type);
    uint8_t *out = job_have(r, malloc(bytes)), *expected = job_have(r, malloc(bytes));
    struct part *p = job_have(r, malloc(sizeof *p));

    draw_part(l, run, r->rank, p);
    memset(out, 0xee, bytes);
    memset(expected, 0xee, bytes);
    define(l, p, expected);
    CHECK_OK(r, tutti_moe_dispatch(moe, &p->routing, 0));
    memset(p, 0xff, sizeof *p);             /* the memory belongs to this rank again */
    CHECK_OK(r, serve_all(r, l, moe));
    CHECK_OK(r, tutti_moe_combine(moe, out, 0));
    if (memcmp(out, expected, bytes) != 0)
        job_fail(r, __FILE__, __LINE__, "run %u is not what its definition says", run);
    free(p);
    free(expected);
    free(out);
}

#define LAYERS (job_tries_few() ? 2u * KINDS : 4u * KINDS)

static void drawn_role(struct rank *r)
{
    open_as(r);
    for (uint32_t i = 0; i < LAYERS; i++) {
        tutti_moe *moe;
        struct layer l;

        draw_layer(r, i, &l);
        job_step(r, "layer %u: form %d, kind %d, %u experts, top %u, %u elements, %u tokens", i,
                 l.conf.form, l.kind, l.conf.experts, l.conf.top_k, l.conf.hidden,
                 l.conf.max_tokens);
        CHECK_OK(r, tutti_moe_create(r->comm, &l.conf, &moe));
        for (uint32_t run = 0; run < RUNS; run++)
            good_run(r, &l, moe, run);
        CHECK_OK(r, tutti_moe_free(moe));
    }
}

static void every_token_has_its_result(void **state)
{
    (void)state;
    over_ways(drawn_role, 1);
}

/* ---- groups ---- */

#define GROUPED_EXPERTS 8u
#define GROUPED_TOKENS 6u

/* The group of a tile by its definition: rank r of n has the experts in their order. */
static uint32_t group_wanted(const tutti_moe_view *v, const tutti_moe_send_tile *s,
                             uint32_t group_experts)
{
    const uint32_t expert =
        s->rows ? v->row_experts[s->first] : s->peer * GROUPED_EXPERTS / v->device.nranks;

    return group_experts ? expert / group_experts : s->peer;
}

/* Checks that tile i of the plan, which is equal on all ranks, arrives from each rank; or, if not
 * `here`, that it has not arrived. This rank's own tile bypasses groups. */
static void check_tile(struct rank *r, const tutti_moe_view *v, uint32_t i, bool here)
{
    const tutti_moe_send_tile *s = &v->sends[i];
    uint32_t ntiles;

    for (uint32_t source = 0; source < r->nranks && s->peer == r->rank; source++)
        if (here)
            CHECK_OK(r, tutti_device_wait(&v->device,
                                          v->words_at + 8 * tutti_moe_place(v, source, s->number),
                                          TUTTI_AT_LEAST, (uint64_t)v->run << 32, NULL));
        else if (source != r->rank)
            CHECK(r, tutti_moe_poll(v, source, s->number, &ntiles) == TUTTI_PENDING);
}

/* Returns received tiles as zeros. */
static void answer_all(struct rank *r, const tutti_moe_view *v)
{
    const float zeros[HIDDEN_MAX] = { 0 };

    for (uint32_t i = 0; i < v->nsends; i++)
        for (uint32_t source = 0; source < r->nranks && v->sends[i].peer == r->rank; source++) {
            const tutti_moe_send_tile *s = &v->sends[i];

            for (uint32_t row = 0; row < s->rows; row++)
                tutti_moe_result_write(v, source, s->number, row, zeros);
            CHECK_OK(r, s->rows ? tutti_moe_give_back(v, source, s->number, s->rows) : TUTTI_OK);
        }
    for (uint32_t i = 0; i < v->nsends; i++)
        while (v->sends[i].rows &&
               tutti_moe_poll_result(v, v->sends[i].peer, v->sends[i].number) == TUTTI_PENDING)
            sched_yield();
}

/* All ranks send their tiles group by group. The signals of a group are sent with its last tile,
 * and not earlier. */
static void groups_run(struct rank *r, tutti_moe *moe, const tutti_moe_routing *routing,
                       uint32_t group_experts)
{
    float out[GROUPED_TOKENS * HIDDEN_MAX];
    uint32_t ngroups = 0;
    tutti_moe_view v;

    CHECK_OK(r, tutti_moe_begin(moe, routing, out, &v, 0));
    for (uint32_t i = 0; i < v.nsends; i++) {
        const uint32_t group = v.sends[i].group;

        CHECK(r, group == group_wanted(&v, &v.sends[i], group_experts));
        CHECK(r, v.group_first[group] <= i && i < v.group_first[group + 1]);
        ngroups = group + 1;
    }
    for (uint32_t g = 0; g < ngroups; g++) {
        /* any tile may be the last one */
        for (uint32_t i = v.group_first[g + 1]; i-- > v.group_first[g];) {
            job_meet(r);
            check_tile(r, &v, i, false);
            job_meet(r);
            CHECK_OK(r, tutti_moe_send(&v, i));
        }
        for (uint32_t i = v.group_first[g]; i < v.group_first[g + 1]; i++)
            check_tile(r, &v, i, true);
    }
    answer_all(r, &v);
    /* The replies imply that the tiles were read before they are overwritten; but this
     * synchronization passes through other processes, which TSan does not see. */
    CHECK_OK(r, tutti_device_quiet(&v.device, TUTTI_DEVICE_ALL));
    CHECK_OK(r, tutti_moe_end(moe, TUTTI_OK, 0));
}

static void groups_role(struct rank *r)
{
    const struct way *w = r->job->arg;
    const float tokens[GROUPED_TOKENS * HIDDEN_MAX] = { 0 };
    uint32_t experts[GROUPED_TOKENS * 3];
    float weights[GROUPED_TOKENS * 3];
    const tutti_moe_routing routing = {
        .size = sizeof routing,
        .tokens = tokens,
        .ntokens = GROUPED_TOKENS,
        .experts = experts,
        .weights = weights,
    };

    open_as(r);
    for (uint32_t i = 0; i < GROUPED_TOKENS * 3; i++) {
        experts[i] = i * 5 % (GROUPED_EXPERTS - 1);     /* no token is routed to the last expert */
        weights[i] = 1;
    }
    for (uint32_t group_experts = 0; group_experts <= GROUPED_EXPERTS + 1; group_experts++) {
        const tutti_device_conf device = { .size = sizeof device,
                                           .mode = group_experts % 2 ? TUTTI_DEVICE_DECOUPLED
                                                                     : TUTTI_DEVICE_FULL,
                                           .no_direct = w->no_direct };
        const tutti_moe_conf conf = {
            .size = sizeof conf,
            .hidden = 5,
            .experts = GROUPED_EXPERTS,
            .top_k = 3,
            .max_tokens = GROUPED_TOKENS,
            .tile_tokens = 2,
            .type = TUTTI_F32,
            .there = TUTTI_F32,
            .back = TUTTI_F32,
            .device = &device,
            .group_experts = group_experts,
        };
        tutti_moe *moe;

        job_step(r, "groups of %u experts", group_experts);
        CHECK_OK(r, tutti_moe_create(r->comm, &conf, &moe));
        for (uint32_t run = 0; run < 3; run++)
            groups_run(r, moe, &routing, group_experts);
        CHECK_OK(r, tutti_moe_free(moe));
    }
}

static void groups_have_the_requested_experts(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NWAYS; i++) {
        const struct job job = { .wires = ways[i].wires,
                                 .nranks = ways[i].nranks,
                                 .seed = job_seed(SEED),
                                 .arg = &ways[i] };

        /* only in these cases does a leader send the signals */
        if (ways[i].no_direct || strcmp(ways[i].wires, "tcp") == 0)
            job_run(&job, groups_role);
    }
}

/* ---- invalid routings ---- */

enum wrong { MANY, NULL_TOKENS, EXPERT, TWICE, WEIGHT, WRONGS };

static const char *const says[WRONGS] = {
    [MANY] = "is 13, but conf.max_tokens is 12",
    [NULL_TOKENS] = " tokens, but its routing.tokens is NULL",
    [EXPERT] = "token 1, choice 1, to expert 99 (must be 0 to 7)",
    [TWICE] = "again (the experts of a token must differ)",
    [WEIGHT] = " sets the weight of token ",
};

static void spoil(const struct layer *l, struct part *p, enum wrong w)
{
    const uint32_t at = l->conf.top_k + 1;      /* token 1, choice 1 */

    if (w == MANY)
        p->routing.ntokens = l->conf.max_tokens + 1;
    else if (w == NULL_TOKENS)
        p->routing.tokens = NULL;
    else if (w == EXPERT)
        p->experts[at] = 99;
    else if (w == TWICE)
        p->experts[at] = p->experts[at - 1];
    else
        p->weights[at] = l->seed % 2 ? NAN : INFINITY;
}

/* One rank's routing is invalid; all ranks get the error, and the next run works. Two runs in
 * sequence are invalid, because buffer sets alternate. */
static void wrong_role(struct rank *r)
{
    struct part *p = job_have(r, malloc(sizeof *p));

    open_as(r);
    for (uint32_t i = 0; i < TUTTI_MOE_FORMS; i++) {
        tutti_moe *moe;
        struct layer l;

        draw_layer(r, i * KINDS, &l);
        l.conf.experts = 8;
        l.conf.top_k = 3;
        l.conf.max_tokens = 12;
        CHECK_OK(r, tutti_moe_create(r->comm, &l.conf, &moe));
        for (uint32_t k = 0; k < 3 * WRONGS; k++) {
            const uint32_t guilty = (uint32_t)tt_prng_below(&r->common, r->nranks);
            const enum wrong w = k / 3;
            char by[16];
            tutti_status st;

            if (k % 3 == 2) {
                good_run(r, &l, moe, k);
                continue;
            }
            job_step(r, "form %u: rank %u is wrong in way %d", i, guilty, w);
            do
                draw_part(&l, k, r->rank, p);
            while (p->ntokens < 2 && l.seed++);
            if (r->rank == guilty)
                spoil(&l, p, w);
            st = tutti_moe_dispatch(moe, &p->routing, 0);
            CHECK(r, st || (r->rank != guilty && l.conf.form == TUTTI_MOE_TILES));
            if (!st)
                st = serve_all(r, &l, moe);
            CHECK_SAYS(r, st, TUTTI_ERR_INVALID, says[w]);
            snprintf(by, sizeof by, "rank %u ", guilty);
            CHECK(r, strstr(tutti_last_error(), by));
            CHECK_SAYS(r, tutti_moe_combine(moe, p, 0), TUTTI_ERR_INVALID,
                       "no run has been dispatched");
        }
        CHECK_OK(r, tutti_moe_free(moe));
    }
    free(p);
}

static void invalid_routing_fails_on_all_ranks(void **state)
{
    (void)state;
    over_ways(wrong_role, 1);
}

/* ---- invalid arguments ---- */

static void refused(struct rank *r, const tutti_moe_conf *conf, const char *text)
{
    tutti_moe *moe;

    CHECK_SAYS(r, tutti_moe_create(r->comm, conf, &moe), TUTTI_ERR_INVALID, text);
}

static void bad_confs(struct rank *r, const tutti_moe_conf *good)
{
    const uint32_t twice[] = { 0, 0 }, far[] = { 7 }, few[] = { 0, 1, 2 };
    tutti_moe_conf c = *good;

    c.hidden = 0;
    refused(r, &c, "conf.hidden is 0: must be 1 to 65536");
    c = *good;
    c.top_k = 5;
    refused(r, &c, "conf.top_k is 5: must be 1 to 4");
    c = *good;
    c.form = (tutti_moe_form)7;
    refused(r, &c, "conf.form is 7: must be TUTTI_MOE_TILES (0)");
    c = *good;
    c.experts = 65536;
    refused(r, &c, "conf.experts is 65536: must be 1 to 65535");
    c = *good;
    c.max_tokens = (1u << 20) + 1;
    refused(r, &c, "conf.max_tokens is 1048577: must be 1 to 1048576");
    c = *good;
    c.tile_tokens = 4097;
    refused(r, &c, "conf.tile_tokens is 4097: must be 1 to 4096");
    c = *good;
    c.type = TUTTI_F8E4M3;
    refused(r, &c, "conf.type is 12 (f8e4m3): must be TUTTI_F32 or TUTTI_BF16");
    c = *good;
    c.there = TUTTI_F16;
    refused(r, &c, "conf.there is 8 (f16): must be TUTTI_F32, TUTTI_BF16 or TUTTI_F8E4M3");
    c = *good;
    c.back = (tutti_dtype)99;
    refused(r, &c, "conf.back is 99 (invalid type)");
    c = *good;
    c.nheld = 1;
    refused(r, &c, "conf.nheld is 1, but conf.held is NULL");
    c.nheld = 2;
    c.held = twice;
    refused(r, &c, "holds expert 0 twice");
    c.nheld = 5;
    refused(r, &c, "conf.nheld is 5: the maximum is 4");
    c.nheld = 1;
    c.held = far;
    refused(r, &c, "holds expert 7, but there are only 4");
    c.nheld = 3;
    c.held = few;
    refused(r, &c, "no rank holds expert 3");
    c = *good;
    c.max_tokens += r->rank;
    refused(r, &c,
            r->rank ? "conf.max_tokens differs between ranks: 3 on rank 0"
                    : "conf.max_tokens differs between ranks: 4 on rank 1, 3 on rank 0");
    c = *good;
    c.back = r->rank == 1 ? TUTTI_BF16 : TUTTI_F32;
    refused(r, &c,
            r->rank == 1 ? "conf.back differs between ranks: f32 on rank 0, bf16 on rank 1"
                         : "conf.back differs between ranks: bf16 on rank 1, f32 on rank");
    c = *good;
    c.form = r->rank == 1 ? (tutti_moe_form)!good->form : good->form;
    refused(r, &c, "conf.form differs between ranks: ");
    c = *good;
    c.hidden = r->rank == 1 ? 0 : 4;        /* and one rank has an invalid one */
    refused(r, &c, r->rank == 1 ? "hidden" : "rank 1 failed");
}

static void mistakes_role(struct rank *r)
{
    const tutti_moe_conf good = {
        .size = sizeof good,
        .form = r->job->seed % 2 ? TUTTI_MOE_TILES : TUTTI_MOE_COLLECTIVE,
        .hidden = 4,
        .experts = 4,
        .top_k = 1,
        .max_tokens = 3,
        .type = TUTTI_F32,
        .there = TUTTI_F32,
        .back = TUTTI_F32,
    };
    const float tokens[4] = { 1, 2, 3, 4 }, weight = 1;
    const uint32_t expert = 3;
    tutti_moe_routing routing = { .size = sizeof routing,
                                  .tokens = tokens,
                                  .ntokens = 1,
                                  .experts = &expert,
                                  .weights = &weight };
    tutti_moe_tile tile = { .size = sizeof tile }, other;
    float x[12], out[4];
    tutti_moe_view view;
    tutti_moe *moe;

    open_as(r);
    CHECK_SAYS(r, tutti_moe_create(r->comm, NULL, &moe), TUTTI_ERR_INVALID, "conf is NULL");
    bad_confs(r, &good);
    CHECK_OK(r, tutti_moe_create(r->comm, &good, &moe));
    CHECK_SAYS(r, tutti_moe_next(moe, &tile, 0), TUTTI_ERR_INVALID, "no run has been dispatched");
    CHECK_SAYS(r, tutti_moe_dispatch(moe, NULL, 0), TUTTI_ERR_INVALID, "routing is NULL");
    CHECK_SAYS(r, tutti_moe_dispatch(NULL, &routing, 0), TUTTI_ERR_INVALID, "moe is NULL");
    CHECK_SAYS(r, tutti_moe_end(moe, TUTTI_OK, 0), TUTTI_ERR_INVALID, "no run has begun");
    CHECK_OK(r, tutti_moe_dispatch(moe, &routing, 0));
    tile.size = 3;
    CHECK_SAYS(r, tutti_moe_next(moe, &tile, 0), TUTTI_ERR_INVALID, "out.size is 3: must be ");
    CHECK_SAYS(r, tutti_moe_read(moe, &tile, x), TUTTI_ERR_INVALID, "tile.size is 3: must be ");
    tile.size = sizeof tile;
    CHECK_SAYS(r, tutti_moe_dispatch(moe, &routing, 0), TUTTI_ERR_INVALID,
               "the last run has not ended");
    CHECK_SAYS(r, tutti_moe_read(moe, &tile, x), TUTTI_ERR_INVALID,
               "tile 0 of rank 0 was not returned by tutti_moe_next");
    for (;;) {
        CHECK_OK(r, tutti_moe_next(moe, &tile, 0));
        if (!tile.rows)
            break;
        /* held by rank 1 of 2 */
        CHECK(r, r->rank == 1 && tile.rows == 1 && tile.experts[0] == 3);
        CHECK_SAYS(r, tutti_moe_combine(moe, out, 0), TUTTI_ERR_INVALID, "");
        CHECK_OK(r, tutti_moe_read(moe, &tile, x));
        CHECK_SAYS(r, tutti_moe_give(moe, &tile, NULL), TUTTI_ERR_INVALID, "results is NULL");
        other = tile;
        other.number = 1;
        CHECK_SAYS(r, tutti_moe_give(moe, &other, x), TUTTI_ERR_INVALID, "tile 1 of rank");
        CHECK_OK(r, tutti_moe_give(moe, &tile, x));
        CHECK_SAYS(r, tutti_moe_give(moe, &tile, x), TUTTI_ERR_INVALID,
                   "results were already sent");
    }
    CHECK_SAYS(r, tutti_moe_combine(moe, NULL, 0), TUTTI_ERR_INVALID,
               "out is NULL, but there are results of 1 token");
    CHECK_OK(r, tutti_moe_combine(moe, out, 0));
    CHECK(r, memcmp(out, tokens, sizeof out) == 0);
    CHECK_STATUS(r, tutti_moe_begin(moe, &routing, out, &view, 0),
                 good.form == TUTTI_MOE_TILES ? TUTTI_OK : TUTTI_ERR_INVALID);
    if (good.form == TUTTI_MOE_TILES) {         /* a kernel without effect */
        CHECK_SAYS(r, tutti_moe_end(moe, TUTTI_OK, 0), TUTTI_ERR_INVALID,
                   "did not wait for rank 0");
        CHECK_SAYS(r, tutti_moe_dispatch(moe, &routing, 0), TUTTI_ERR_INVALID, "has failed");
    }
    CHECK_OK(r, tutti_moe_free(moe));
    CHECK_OK(r, tutti_moe_free(NULL));
}

static void invalid_arguments_are_refused(void **state)
{
    (void)state;
    for (uint64_t form = 0; form < 2; form++) {
        const struct job job = { .wires = "shm", .nranks = 2, .seed = form, .arg = &ways[0] };

        job_run(&job, mistakes_role);
    }
}

/* ---- failures ---- */

/* The last rank dies between runs: the next run fails on all others, which wait for its tiles. */
static void death_role(struct rank *r)
{
    struct part *p = job_have(r, malloc(sizeof *p));
    const uint32_t last = r->nranks - 1;
    float out[TOKENS_MAX * HIDDEN_MAX];
    tutti_moe *moe;
    struct layer l;
    tutti_status st;

    open_as(r);
    draw_layer(r, 0, &l);
    l.conf.form = r->job->seed % 2 ? TUTTI_MOE_TILES : TUTTI_MOE_COLLECTIVE;
    l.conf.experts = EXPERTS_MAX;
    l.conf.top_k = TOP_MAX;
    CHECK_OK(r, tutti_moe_create(r->comm, &l.conf, &moe));
    good_run(r, &l, moe, 0);
    draw_part(&l, 1, r->rank, p);
    job_meet(r);
    job_step(r, "rank %u dies", last);
    if (r->rank == last) {
        r->board->dies[last] = 1;
        kill(getpid(), SIGKILL);
    }
    st = tutti_moe_dispatch(moe, &p->routing, 0);
    if (!st)
        st = serve_all(r, &l, moe);
    if (!st)
        st = tutti_moe_combine(moe, out, 0);
    CHECK_STATUS(r, st, TUTTI_ERR_PEER_LOST);
    CHECK(r, job_names(tutti_last_error(), last));
    CHECK_STATUS(r, tutti_moe_dispatch(moe, &p->routing, 0), TUTTI_ERR_PEER_LOST);
    CHECK_STATUS(r, tutti_moe_free(moe),
                 l.conf.form == TUTTI_MOE_TILES ? TUTTI_ERR_PEER_LOST : TUTTI_OK);
    free(p);
    job_close(r);
}

static void a_lost_rank_ends_the_run(void **state)
{
    (void)state;
    over_ways(death_role, 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_has_its_result),
        cmocka_unit_test(groups_have_the_requested_experts),
        cmocka_unit_test(invalid_routing_fails_on_all_ranks),
        cmocka_unit_test(invalid_arguments_are_refused),
        cmocka_unit_test(a_lost_rank_ends_the_run),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
