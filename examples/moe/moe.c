/* A mixture of experts that is spread over ranks, in several forms: as one kernel of the CPU device that computes tiles as they arrive (megakernel.h), in each mode of the
 * proxy; and as collectives, with the computation between them: of late sizes, and of blocks padded to the most that there may be (padded.h). Every result is compared, bit by bit, with a dense reference. Prints what a round of each takes
 * (report.h).
 *
 *     tutti run -n 4 -- ./moe --shape qwen3-30b --tokens 64 --skew 1 --rounds 5 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "megakernel.h"
#include "model.h"
#include "options.h"
#include "padded.h"
#include "report.h"

/* A tile of the collective form. */
struct taken {
    tutti_moe_tile tile;
    float *x, *y;
};

/* What one rank has. */
struct work {
    const struct options *o;
    struct model model;
    tutti_comm *comm;
    uint32_t rank, nranks, nblocks;
    tutti_moe *tiles, *collective;
    struct padded padded;
    struct ffn ffn;
    uint32_t first_expert;      /* that it holds */
    float *gate, *up, *down;    /* of its experts */
    float *tokens, *weights, *out, *reference;
    uint32_t *experts;
    struct mega mega;
    struct taken *taken;
    uint32_t ntaken;
    uint64_t next_taken;
    float *x, *y;               /* [rows that can come][hidden] */
    double compute_ms;          /* of the last collective round */
    tutti_device_counters counters[FORMS];
};

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Zeroed memory; who has none ends, and so tells the others. */
static void *have(size_t n, size_t bytes)
{
    void *mem = calloc(n ? n : 1, bytes);

    if (!mem) {
        fprintf(stderr, "moe: no memory for %zu times %zu bytes\n", n, bytes);
        exit(1);
    }
    return mem;
}

/* ---- the megakernel ------------------------------------------------------------------------------------------- */

static size_t sends_max(const struct work *w)
{
    return (size_t)w->o->tokens * w->model.shape.top_k / (size_t)w->o->tile + w->nranks;
}

static size_t tiles_max(const struct work *w)
{
    return ((size_t)w->o->tokens * w->model.shape.top_k + (size_t)w->o->tile - 1) / (size_t)w->o->tile;
}

static void make_mega(struct work *w)
{
    struct mega *m = &w->mega;
    const size_t chunks = (size_t)w->o->tokens / MEGA_CHUNK + 1;

    m->ffn = w->ffn;
    m->scratch = have(w->nblocks * mega_scratch(&w->ffn), sizeof *m->scratch);
    m->bells = have(w->nblocks * MEGA_LINE, sizeof *m->bells);
    m->failed = have(1, sizeof *m->failed);
    m->tasks = have(sends_max(w) + w->nranks * tiles_max(w) + chunks, sizeof *m->tasks);
    m->ntiles = have(w->nranks, sizeof *m->ntiles);
    m->low = have(w->nranks, sizeof *m->low);
    m->seen = have(w->nranks * tiles_max(w), 1);
    m->returned = have(sends_max(w), 1);
    m->left = have(chunks, sizeof *m->left);
}

static void free_mega(struct mega *m)
{
    free(m->scratch);
    free(m->bells);
    free(m->failed);
    free(m->tasks);
    free(m->ntiles);
    free(m->low);
    free(m->seen);
    free(m->returned);
    free(m->left);
}

/* As before the first run. */
static void clear_mega(struct work *w)
{
    struct mega *m = &w->mega;

    memset(m->bells, 0, w->nblocks * MEGA_LINE * sizeof *m->bells);
    memset(m->ntiles, 0xff, w->nranks * sizeof *m->ntiles);
    memset(m->low, 0, w->nranks * sizeof *m->low);
    memset(m->seen, 0, w->nranks * tiles_max(w));
    memset(m->returned, 0, sends_max(w));
    memset(m->left, 0, ((size_t)w->o->tokens / MEGA_CHUNK + 1) * sizeof *m->left);
    *m->failed = 0;
    m->nready = m->nhanded = m->ndone = m->nwanted = m->returned_low = m->flawed = m->turn = 0;
}

static tutti_status run_mega(struct work *w, const tutti_moe_routing *routing)
{
    tutti_status st;

    clear_mega(w);
    st = tutti_moe_begin(w->tiles, routing, w->out, &w->mega.view, 0);
    if (st)
        return st;
    st = tutti_device_run(tutti_moe_device(w->tiles), w->nblocks, mega_kernel, &w->mega);
    return tutti_moe_end(w->tiles, st, 0);
}

/* ---- the collective form ------------------------------------------------------------------------------------------ */

static void compute_tile(const struct work *w, const struct taken *t, float *scratch)
{
    const uint32_t hidden = w->ffn.hidden, *experts = t->tile.experts;
    float *gate = scratch, *up = scratch + FFN_TOKENS * (size_t)w->ffn.inner;

    for (uint32_t at = 0, n; at < t->tile.rows; at += n) {
        for (n = 1; n < FFN_TOKENS && at + n < t->tile.rows && experts[at + n] == experts[at];)
            n++;
        ffn_tokens(&w->ffn, experts[at] - w->first_expert, n, t->x + (size_t)at * hidden, gate, up,
                   t->y + (size_t)at * hidden);
    }
}

/* Blocks take tiles until none is left. */
static tutti_status compute_kernel(const tutti_device_view *v, uint32_t block, uint32_t nblocks, void *arg)
{
    struct work *w = arg;

    (void)v, (void)nblocks;
    for (;;) {
        const uint64_t i = tutti_device_add(&w->next_taken, 1);

        if (i >= w->ntaken)
            return TUTTI_OK;
        compute_tile(w, &w->taken[i], w->mega.scratch + block * mega_scratch(&w->ffn));
    }
}

/* By all processors. */
static tutti_status compute(struct work *w)
{
    w->next_taken = 0;
    return tutti_device_run(tutti_moe_device(w->tiles), w->nblocks > 1 ? w->nblocks - 1 : 1, compute_kernel, w);
}

/* Takes all tiles that have come. */
static tutti_status take_all(struct work *w)
{
    size_t rows = 0;
    tutti_status st;

    for (w->ntaken = 0;; w->ntaken++) {
        struct taken *t = &w->taken[w->ntaken];

        t->tile.size = sizeof t->tile;
        st = tutti_moe_next(w->collective, &t->tile, 0);
        if (st || t->tile.rows == 0)
            return st;
        t->x = w->x + rows * w->ffn.hidden;
        t->y = w->y + rows * w->ffn.hidden;
        rows += t->tile.rows;
        st = tutti_moe_read(w->collective, &t->tile, t->x);
        if (st)
            return st;
    }
}

static tutti_status run_collective(struct work *w, const tutti_moe_routing *routing)
{
    double began;
    tutti_status st = tutti_moe_dispatch(w->collective, routing, 0);

    began = now_ms();
    if (!st)
        st = take_all(w);
    if (!st)
        st = compute(w);
    for (uint32_t i = 0; i < w->ntaken && !st; i++)
        st = tutti_moe_give(w->collective, &w->taken[i].tile, w->taken[i].y);
    w->compute_ms = now_ms() - began;
    return st ? st : tutti_moe_combine(w->collective, w->out, 0);
}

/* ---- the padded form ---------------------------------------------------------------------------------------------- */

/* What has come, as tiles. */
static void take_padded(struct work *w)
{
    size_t rows = 0;

    w->ntaken = 0;
    for (uint32_t source = 0; source < w->nranks; source++) {
        const uint32_t *experts, n = padded_rows(&w->padded, source, &experts), most = (uint32_t)w->o->tile;

        for (uint32_t at = 0; at < n; at += most, w->ntaken++) {
            struct taken *t = &w->taken[w->ntaken];

            t->tile = (tutti_moe_tile){
                .source = source, .number = at / most, .rows = n - at < most ? n - at : most, .experts = experts + at,
            };
            t->x = w->x + rows * w->ffn.hidden;
            t->y = w->y + rows * w->ffn.hidden;
            for (uint32_t i = 0; i < t->tile.rows; i++)
                padded_read(&w->padded, source, at + i, t->x + (size_t)i * w->ffn.hidden);
            rows += t->tile.rows;
        }
    }
}

static tutti_status run_padded(struct work *w)
{
    tutti_status st = padded_dispatch(&w->padded, w->tokens, w->experts);

    if (st)
        return st;
    take_padded(w);
    st = compute(w);
    for (uint32_t k = 0; k < w->ntaken && !st; k++) {
        const tutti_moe_tile *t = &w->taken[k].tile;

        for (uint32_t i = 0; i < t->rows; i++)
            padded_give(&w->padded, t->source, t->number * (uint32_t)w->o->tile + i,
                        w->taken[k].y + (size_t)i * w->ffn.hidden);
    }
    return st ? st : padded_combine(&w->padded, w->weights, w->out);
}

/* ---- a round --------------------------------------------------------------------------------------------------------- */

static tutti_moe_routing routing_of(const struct work *w)
{
    return (tutti_moe_routing){
        .size = sizeof(tutti_moe_routing),
        .tokens = w->tokens,
        .ntokens = (size_t)w->o->tokens,
        .experts = w->experts,
        .weights = w->weights,
    };
}

static size_t count_wrong(const struct work *w)
{
    size_t wrong = 0;

    for (size_t i = 0; i < (size_t)w->o->tokens * w->ffn.hidden; i++)
        wrong += tutti_moe_bits(w->out[i]) != tutti_moe_bits(w->reference[i]);
    return wrong;
}

static tutti_status run_form(struct work *w, enum form form)
{
    const tutti_moe_routing routing = routing_of(w);

    if (form == PADDED)
        return run_padded(w);
    return form == COLLECTIVE ? run_collective(w, &routing) : run_mega(w, &routing);
}

/* One form, once: *ms and *compute_ms of the slowest rank, *wrong added up over all ranks. */
static tutti_status measure(struct work *w, enum form form, double *ms, double *compute_ms, int64_t *wrong)
{
    double took[2], worst[2];
    int64_t mine;
    tutti_status st = TUTTI_OK;

    memset(w->out, 0xff, (size_t)w->o->tokens * w->ffn.hidden * sizeof *w->out);
    w->compute_ms = 0;
    if (form >= FULL)
        st =
            tutti_device_set_mode(tutti_moe_device(w->tiles), (tutti_device_mode)(form - FULL), TUTTI_DEVICE_SEQUENCED);
    if (!st)
        st = tutti_device_counters_reset(tutti_moe_device(w->tiles));
    if (!st)
        st = tutti_barrier(w->comm, NULL);
    if (st)
        return st;
    took[0] = now_ms();
    st = run_form(w, form);
    took[0] = now_ms() - took[0];
    took[1] = w->compute_ms;
    if (st)
        return st;
    mine = (int64_t)count_wrong(w);
    w->counters[form].size = sizeof w->counters[form];
    st = tutti_device_read_counters(tutti_moe_device(w->tiles), &w->counters[form]);
    if (!st)
        st = tutti_allreduce(took, worst, 2, TUTTI_F64, TUTTI_MAX, w->comm, NULL);
    *ms = worst[0];
    if (form == COLLECTIVE)
        *compute_ms = worst[1];
    return st ? st : tutti_allreduce(&mine, wrong, 1, TUTTI_I64, TUTTI_SUM, w->comm, NULL);
}

/* A run of each form that is refused on all ranks, as the last one sends a token to an expert that there is none. False: one went otherwise, which was told. */
static bool are_refused(struct work *w)
{
    const uint32_t first = w->experts[0];
    bool good = true;

    if (w->rank == w->nranks - 1)
        w->experts[0] = w->model.shape.experts;
    for (int form = 0; form < FORMS && good; form++) {
        tutti_status st;

        if (!options_want(w->o, form) || form == PADDED)    /* which believes what it is given */
            continue;
        st = run_form(w, (enum form)form);
        good = st == TUTTI_ERR_INVALID;
        if (!good)
            fprintf(stderr, "moe: rank %u, %s: a wrong routing is %s\n", w->rank, options_forms[form], tutti_status_name(st));
    }
    w->experts[0] = first;
    return good;
}

/* times[FORMS + 1][rounds]: of each form, and of the computation. Exit status. */
static int measure_all(struct work *w, double *times)
{
    const size_t rounds = (size_t)w->o->rounds;
    int64_t wrong = 0;
    tutti_status st;

    for (size_t round = 0; round <= rounds; round++)        /* the first, of both, is not counted */
        for (int form = 0; form < FORMS; form++) {
            const size_t at = round ? round - 1 : 0;

            if (!options_want(w->o, form))
                continue;
            st = measure(w, (enum form)form, &times[(size_t)form * rounds + at], &times[FORMS * rounds + at], &wrong);
            if (st) {
                fprintf(stderr, "moe: rank %u, %s: %s\n", w->rank, options_forms[form], tutti_status_name(st));     /* why, Tutti has said */
                return 1;
            }
            if (wrong) {
                if (w->rank == 0)
                    fprintf(stderr, "moe: %s: %lld elements are not those of the reference\n", options_forms[form], (long long)wrong);
                return 1;
            }
        }
    return 0;
}

/* ---- what a rank has -------------------------------------------------------------------------------------------------- */

/* The weights of the experts that this rank holds: those of the default. */
static void make_experts(struct work *w)
{
    const struct shape *s = &w->model.shape;
    const uint32_t first = (uint32_t)((uint64_t)w->rank * s->experts / w->nranks);
    const uint32_t end = (uint32_t)((w->rank + 1ull) * s->experts / w->nranks);
    const size_t wide = ffn_packed(s->hidden, s->inner), back = ffn_packed(s->inner, s->hidden);

    w->first_expert = first;
    w->gate = have((end - first) * wide, sizeof *w->gate);
    w->up = have((end - first) * wide, sizeof *w->up);
    w->down = have((end - first) * back, sizeof *w->down);
    for (uint32_t e = first; e < end; e++)
        model_expert(&w->model, e, w->gate + (e - first) * wide, w->up + (e - first) * wide,
                     w->down + (e - first) * back);
    w->ffn = (struct ffn){ .hidden = s->hidden, .inner = s->inner, .gate = w->gate, .up = w->up, .down = w->down };
}

static void make_tokens(struct work *w)
{
    const struct shape *s = &w->model.shape;
    const uint32_t tokens = (uint32_t)w->o->tokens;
    const tutti_moe_row there = tutti_moe_row_of((uint32_t)w->o->there, s->hidden, 0);
    const tutti_moe_row back = tutti_moe_row_of((uint32_t)w->o->back, s->hidden, 0);
    const size_t rows = (size_t)tokens * s->top_k * w->nranks;

    w->tokens = have((size_t)tokens * s->hidden, sizeof *w->tokens);
    w->out = have((size_t)tokens * s->hidden, sizeof *w->out);
    w->reference = have((size_t)tokens * s->hidden, sizeof *w->reference);
    w->experts = have((size_t)tokens * s->top_k, sizeof *w->experts);
    w->weights = have((size_t)tokens * s->top_k, sizeof *w->weights);
    w->taken = have(w->nranks * tiles_max(w) + 1, sizeof *w->taken);
    w->x = have(rows * s->hidden, sizeof *w->x);
    w->y = have(rows * s->hidden, sizeof *w->y);
    for (uint32_t t = 0; t < tokens; t++)
        model_token(&w->model, w->rank, t, w->tokens + (size_t)t * s->hidden);
    if (!padded_init(&w->padded, w->comm, tokens, s->top_k, s->experts, s->hidden, w->o->there, w->o->back)) {
        fprintf(stderr, "moe: no memory for padded blocks\n");
        exit(1);
    }
    if (!model_route(&w->model, w->rank, tokens, w->experts, w->weights) ||
        !model_reference(&w->model, w->rank, tokens, w->experts, w->weights, &there, &back, w->reference)) {
        fprintf(stderr, "moe: no memory for the reference\n");
        exit(1);
    }
}

static tutti_status make_layers(struct work *w)
{
    const struct shape *s = &w->model.shape;
    const tutti_device_conf device = { .size = sizeof device, .no_direct = w->o->proxied };
    tutti_moe_conf conf = {
        .size = sizeof conf,
        .form = TUTTI_MOE_TILES,
        .hidden = s->hidden,
        .experts = s->experts,
        .top_k = s->top_k,
        .max_tokens = (uint32_t)w->o->tokens,
        .tile_tokens = (uint32_t)w->o->tile,
        .group_experts = (uint32_t)w->o->group,
        .type = TUTTI_F32,
        .there = w->o->there,
        .back = w->o->back,
        .device = &device,
    };
    tutti_status st = tutti_moe_create(w->comm, &conf, &w->tiles);

    conf.form = TUTTI_MOE_COLLECTIVE;
    return st ? st : tutti_moe_create(w->comm, &conf, &w->collective);
}

static void forget(struct work *w)
{
    free_mega(&w->mega);
    padded_fini(&w->padded);
    free(w->gate);
    free(w->up);
    free(w->down);
    free(w->tokens);
    free(w->out);
    free(w->reference);
    free(w->experts);
    free(w->weights);
    free(w->taken);
    free(w->x);
    free(w->y);
}

/* ---- the program ---------------------------------------------------------------------------------------------------------- */

static void print(const struct work *w, const double *times, uint64_t put_bytes)
{
    const struct report r = {
        .o = w->o,
        .shape = &w->model.shape,
        .nranks = w->nranks,
        .nblocks = w->nblocks,
        .put_bytes = put_bytes,
        .ms = times,
        .proxy = w->counters,
    };

    (w->o->json ? report_json : report_table)(&r);
}

/* What the proxy of the rank that puts most has put in a run, by whichever mode was measured. */
static tutti_status most_put(const struct work *w, uint64_t *bytes)
{
    uint64_t mine = 0;

    for (int form = FULL; form < FORMS; form++)
        mine = w->counters[form].put_bytes > mine ? w->counters[form].put_bytes : mine;
    return tutti_allreduce(&mine, bytes, 1, TUTTI_U64, TUTTI_MAX, w->comm, NULL);
}

static int run(struct work *w)
{
    double *times = have((FORMS + 1) * (size_t)w->o->rounds, sizeof *times);
    uint64_t put_bytes = 0;
    tutti_status st;
    int status = 1;

    make_experts(w);
    make_tokens(w);
    make_mega(w);
    st = make_layers(w);
    if (!st)
        status = w->o->wrong && !are_refused(w) ? 1 : measure_all(w, times);
    if (!st && !status)
        st = most_put(w, &put_bytes);
    if (!st && !status && w->rank == 0)
        print(w, times, put_bytes);
    tutti_moe_free(w->tiles);
    tutti_moe_free(w->collective);
    forget(w);
    free(times);
    return st ? 1 : status;
}

int main(int argc, char **argv)
{
    struct options o = {
        .shape = "qwen3-30b",
        .tokens = 64,
        .tile = 16,
        .rounds = 3,
        .seed = 1,
        .skew = -1,
        .there = TUTTI_BF16,
        .back = TUTTI_BF16,
        .forms = (1u << FORMS) - 1,
    };
    struct work w = { .o = &o };
    int status;

    if (!options_take(argc, argv, &o, &w.model.shape, &status))
        return status;
    w.model.seed = (uint64_t)o.seed;
    w.model.skew = o.skew;
    if (tutti_comm_create(&w.comm, NULL))
        return 1;       /* Tutti has said why */
    w.rank = (uint32_t)tutti_comm_rank(w.comm);
    w.nranks = (uint32_t)tutti_comm_size(w.comm);
    w.nblocks = (uint32_t)o.processors + 1;
    status = run(&w);
    tutti_comm_destroy(w.comm);
    return status;
}
