#include "rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

static void *host_have(size_t bytes) { return calloc(1, bytes); }

static void host_copy(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

static void host_fill(void *mem, int byte, size_t bytes) { memset(mem, byte, bytes); }

const struct reach reach_host = {
    .have = host_have, .drop = free, .copy = host_copy, .fill = host_fill
};

static void *must(void *mem, size_t n, size_t bytes)
{
    if (!mem) {
        fprintf(stderr, "moe: out of memory for %zu times %zu bytes\n", n, bytes);
        exit(1);
    }
    return mem;
}

void *rank_have(size_t n, size_t bytes)
{
    return must(calloc(n ? n : 1, bytes), n, bytes);
}

/* As rank_have, for memory of blocks. */
static void *have(const struct rank *me, size_t n, size_t bytes)
{
    return must(me->reach->have((n ? n : 1) * bytes), n, bytes);
}

/* ---- memory of the megakernel ---- */

size_t rank_tiles_max(const struct rank *me)
{
    return ((size_t)me->o->tokens * me->model.shape.top_k + (size_t)me->o->tile - 1) /
           (size_t)me->o->tile;
}

static size_t sends_max(const struct rank *me)
{
    return (size_t)me->o->tokens * me->model.shape.top_k / (size_t)me->o->tile + me->nranks;
}

static size_t chunks_max(const struct rank *me)
{
    return (size_t)me->o->tokens / MEGA_CHUNK + 1;
}

static void make_mega(struct rank *me)
{
    struct mega *m = &me->mega;

    m->ffn = me->ffn;
    m->scratch = have(me, me->nblocks * mega_scratch(&me->ffn), sizeof *m->scratch);
    m->bells = have(me, me->nblocks * MEGA_LINE, sizeof *m->bells);
    m->failed = have(me, 1, sizeof *m->failed);
    m->tasks = have(me, sends_max(me) + me->nranks * rank_tiles_max(me) + chunks_max(me),
                    sizeof *m->tasks);
    m->ntiles = have(me, me->nranks, sizeof *m->ntiles);
    m->low = have(me, me->nranks, sizeof *m->low);
    m->seen = have(me, me->nranks * rank_tiles_max(me), 1);
    m->returned = have(me, sends_max(me), 1);
    m->left = have(me, chunks_max(me), sizeof *m->left);
}

static void forget_mega(const struct rank *me)
{
    const struct mega *m = &me->mega;
    void *const all[] = { m->scratch, m->bells, m->failed,   m->tasks, m->ntiles,
                          m->low,     m->seen,  m->returned, m->left };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        me->reach->drop(all[i]);
}

static void clear_mega(struct rank *me)
{
    struct mega *m = &me->mega;
    void (*const fill)(void *mem, int byte, size_t bytes) = me->reach->fill;

    fill(m->bells, 0, me->nblocks * MEGA_LINE * sizeof *m->bells);
    fill(m->failed, 0, sizeof *m->failed);
    fill(m->ntiles, 0xff, me->nranks * sizeof *m->ntiles);
    fill(m->low, 0, me->nranks * sizeof *m->low);
    fill(m->seen, 0, me->nranks * rank_tiles_max(me));
    fill(m->returned, 0, sends_max(me));
    fill(m->left, 0, chunks_max(me) * sizeof *m->left);
    m->nready = m->nhanded = m->ndone = m->nwanted = m->returned_low = m->flawed = m->turn = 0;
}

tutti_status rank_begin(struct rank *me, const tutti_moe_routing *routing)
{
    clear_mega(me);
    return tutti_moe_begin(me->tiles, routing, me->out, &me->mega.view, 0);
}

/* ---- creation ---- */

/* Generates the weights of this rank's experts, in the default distribution. */
static void make_experts(struct rank *me)
{
    const struct shape *s = &me->model.shape;
    const uint32_t first = (uint32_t)((uint64_t)me->rank * s->experts / me->nranks);
    const uint32_t end = (uint32_t)((me->rank + 1ull) * s->experts / me->nranks);
    const size_t wide = ffn_packed(s->hidden, s->inner), back = ffn_packed(s->inner, s->hidden);
    float *gate = rank_have(wide, sizeof *gate), *up = rank_have(wide, sizeof *up),
          *down = rank_have(back, sizeof *down);

    me->first_expert = first;
    me->gate = have(me, (end - first) * wide, sizeof *me->gate);
    me->up = have(me, (end - first) * wide, sizeof *me->up);
    me->down = have(me, (end - first) * back, sizeof *me->down);
    for (uint32_t e = first; e < end; e++) {
        model_expert(&me->model, e, gate, up, down);
        me->reach->copy(me->gate + (e - first) * wide, gate, wide * sizeof *gate);
        me->reach->copy(me->up + (e - first) * wide, up, wide * sizeof *up);
        me->reach->copy(me->down + (e - first) * back, down, back * sizeof *down);
    }
    me->ffn = (struct ffn){
        .hidden = s->hidden, .inner = s->inner, .gate = me->gate, .up = me->up, .down = me->down
    };
    free(gate);
    free(up);
    free(down);
}

static void make_tokens(struct rank *me)
{
    const struct shape *s = &me->model.shape;
    const uint32_t tokens = (uint32_t)me->o->tokens;
    const tutti_moe_row there = tutti_moe_row_of((uint32_t)me->o->there, s->hidden, 0);
    const tutti_moe_row back = tutti_moe_row_of((uint32_t)me->o->back, s->hidden, 0);
    const size_t elems = (size_t)tokens * s->hidden;

    me->tokens = have(me, elems, sizeof *me->tokens);
    me->out = have(me, elems, sizeof *me->out);
    me->reference = rank_have(elems, sizeof *me->reference);
    me->got = rank_have(elems, sizeof *me->got);
    me->experts = rank_have((size_t)tokens * s->top_k, sizeof *me->experts);
    me->weights = rank_have((size_t)tokens * s->top_k, sizeof *me->weights);
    for (uint32_t t = 0; t < tokens; t++)
        model_token(&me->model, me->rank, t, me->got + (size_t)t * s->hidden);
    me->reach->copy(me->tokens, me->got, elems * sizeof *me->tokens);
    if (!model_route(&me->model, me->rank, tokens, me->experts, me->weights) ||
        !model_reference(&me->model, me->rank, tokens, me->experts, me->weights, &there, &back,
                         me->reference)) {
        fprintf(stderr, "moe: out of memory for the reference\n");
        exit(1);
    }
}

void rank_make(struct rank *me)
{
    me->model.seed = (uint64_t)me->o->seed;
    me->model.skew = me->o->skew;
    me->rank = (uint32_t)tutti_comm_rank(me->comm);
    me->nranks = (uint32_t)tutti_comm_size(me->comm);
    me->nblocks = (uint32_t)me->o->processors + 1;
    make_experts(me);
    make_tokens(me);
    make_mega(me);
}

tutti_moe_conf rank_conf(const struct rank *me, tutti_moe_form form,
                         const tutti_device_conf *device)
{
    const struct shape *s = &me->model.shape;

    return (tutti_moe_conf){
        .size = sizeof(tutti_moe_conf),
        .form = form,
        .hidden = s->hidden,
        .experts = s->experts,
        .top_k = s->top_k,
        .max_tokens = (uint32_t)me->o->tokens,
        .tile_tokens = (uint32_t)me->o->tile,
        .group_experts = (uint32_t)me->o->group,
        .type = TUTTI_F32,
        .there = me->o->there,
        .back = me->o->back,
        .device = device,
    };
}

void rank_forget(struct rank *me)
{
    void *const blocks[] = { me->gate, me->up, me->down, me->tokens, me->out };

    tutti_moe_free(me->tiles);
    forget_mega(me);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        me->reach->drop(blocks[i]);
    free(me->reference);
    free(me->got);
    free(me->experts);
    free(me->weights);
}
