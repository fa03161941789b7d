/* A mixture of experts distributed over ranks, in several forms:
 * - one kernel of the CPU device that computes tiles as they arrive (megakernel.h), in each mode of
 *   the proxy;
 * - collectives with the computation between them, with dynamic sizes, or with blocks padded to the
 *   maximum size (padded.h). Every result is compared bit by bit with a dense reference. Prints the
 *   time of a round of each form (report.h).
 *
 *     tutti run -n 4 -- ./moe --shape qwen3-30b --tokens 64 --skew 1 --rounds 5 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "padded.h"
#include "rank.h"

/* A received tile of the collective form. */
struct taken {
    tutti_moe_tile tile;
    float *x, *y;
};

/* State of one rank. */
struct work {
    struct rank me;
    tutti_moe *collective;
    struct padded padded;
    struct taken *taken;
    uint32_t ntaken;
    uint64_t next_taken;
    float *x, *y;               /* [maximum number of received rows][hidden] */
};

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static tutti_status run_mega(struct work *w, const tutti_moe_routing *routing)
{
    tutti_status st = rank_begin(&w->me, routing);

    if (st)
        return st;
    st = tutti_device_run(tutti_moe_device(w->me.tiles), w->me.nblocks, mega_kernel, &w->me.mega);
    return tutti_moe_end(w->me.tiles, st, 0);
}

/* ---- the collective form ---- */

static void compute_tile(const struct work *w, const struct taken *t, float *scratch)
{
    const uint32_t hidden = w->me.ffn.hidden, *experts = t->tile.experts;
    float *gate = scratch, *up = scratch + FFN_TOKENS * (size_t)w->me.ffn.inner;

    for (uint32_t at = 0, n; at < t->tile.rows; at += n) {
        for (n = 1; n < FFN_TOKENS && at + n < t->tile.rows && experts[at + n] == experts[at];)
            n++;
        ffn_tokens(&w->me.ffn, experts[at] - w->me.first_expert, n, t->x + (size_t)at * hidden,
                   gate, up, t->y + (size_t)at * hidden);
    }
}

/* Blocks take tiles until no tile remains. */
static tutti_status compute_kernel(const tutti_device_view *v, uint32_t block, uint32_t nblocks,
                                   void *arg)
{
    struct work *w = arg;

    (void)v, (void)nblocks;
    for (;;) {
        const uint64_t i = tutti_device_add(&w->next_taken, 1);

        if (i >= w->ntaken)
            return TUTTI_OK;
        compute_tile(w, &w->taken[i], w->me.mega.scratch + block * mega_scratch(&w->me.ffn));
    }
}

/* Computes on all processors. */
static tutti_status compute(struct work *w)
{
    w->next_taken = 0;
    return tutti_device_run(tutti_moe_device(w->me.tiles),
                            w->me.nblocks > 1 ? w->me.nblocks - 1 : 1, compute_kernel, w);
}

/* Receives and reads all tiles. */
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
        t->x = w->x + rows * w->me.ffn.hidden;
        t->y = w->y + rows * w->me.ffn.hidden;
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
    w->me.compute_ms = now_ms() - began;
    return st ? st : tutti_moe_combine(w->collective, w->me.out, 0);
}

/* ---- the padded form ---- */

/* Converts received rows to tiles. */
static void take_padded(struct work *w)
{
    size_t rows = 0;

    w->ntaken = 0;
    for (uint32_t source = 0; source < w->me.nranks; source++) {
        const uint32_t *experts, n = padded_rows(&w->padded, source, &experts),
                                 most = (uint32_t)w->me.o->tile;

        for (uint32_t at = 0; at < n; at += most, w->ntaken++) {
            struct taken *t = &w->taken[w->ntaken];

            t->tile = (tutti_moe_tile){
                .source = source,
                .number = at / most,
                .rows = n - at < most ? n - at : most,
                .experts = experts + at,
            };
            t->x = w->x + rows * w->me.ffn.hidden;
            t->y = w->y + rows * w->me.ffn.hidden;
            for (uint32_t i = 0; i < t->tile.rows; i++)
                padded_read(&w->padded, source, at + i, t->x + (size_t)i * w->me.ffn.hidden);
            rows += t->tile.rows;
        }
    }
}

static tutti_status run_padded(struct work *w)
{
    tutti_status st = padded_dispatch(&w->padded, w->me.tokens, w->me.experts);

    if (st)
        return st;
    take_padded(w);
    st = compute(w);
    for (uint32_t k = 0; k < w->ntaken && !st; k++) {
        const tutti_moe_tile *t = &w->taken[k].tile;

        for (uint32_t i = 0; i < t->rows; i++)
            padded_give(&w->padded, t->source, t->number * (uint32_t)w->me.o->tile + i,
                        w->taken[k].y + (size_t)i * w->me.ffn.hidden);
    }
    return st ? st : padded_combine(&w->padded, w->me.weights, w->me.out);
}

/* ---- the program ---- */

static tutti_status run_form(void *arg, enum form form, const tutti_moe_routing *routing)
{
    struct work *w = arg;

    if (form == PADDED)
        return run_padded(w);
    return form == COLLECTIVE ? run_collective(w, routing) : run_mega(w, routing);
}

/* Allocates the memory of the forms that compute between exchanges. */
static void make_taken(struct work *w)
{
    const struct shape *s = &w->me.model.shape;
    const uint32_t tokens = (uint32_t)w->me.o->tokens;
    const size_t rows = (size_t)tokens * s->top_k * w->me.nranks;

    w->taken = rank_have(w->me.nranks * rank_tiles_max(&w->me) + 1, sizeof *w->taken);
    w->x = rank_have(rows * s->hidden, sizeof *w->x);
    w->y = rank_have(rows * s->hidden, sizeof *w->y);
    if (!padded_init(&w->padded, w->me.comm, tokens, s->top_k, s->experts, s->hidden,
                     w->me.o->there, w->me.o->back)) {
        fprintf(stderr, "moe: out of memory for padded blocks\n");
        exit(1);
    }
}

static tutti_status make_layers(struct work *w)
{
    const tutti_device_conf device = { .size = sizeof device, .no_direct = w->me.o->proxied };
    const tutti_moe_conf tiles = rank_conf(&w->me, TUTTI_MOE_TILES, &device);
    const tutti_moe_conf collective = rank_conf(&w->me, TUTTI_MOE_COLLECTIVE, NULL);
    const tutti_status st = tutti_moe_create(w->me.comm, &tiles, &w->me.tiles);

    return st ? st : tutti_moe_create(w->me.comm, &collective, &w->collective);
}

static void forget(struct work *w)
{
    rank_forget(&w->me);
    tutti_moe_free(w->collective);
    padded_fini(&w->padded);
    free(w->taken);
    free(w->x);
    free(w->y);
}

static int run(struct work *w)
{
    double *times = rank_have((FORMS + 1) * (size_t)w->me.o->rounds, sizeof *times);
    tutti_status st;
    int status = 1;

    rank_make(&w->me);
    make_taken(w);
    st = make_layers(w);
    if (!st)
        status = w->me.o->wrong && !rank_is_refused(&w->me) ? 1 : rank_measure(&w->me, times);
    if (!st && !status)
        st = rank_report(&w->me, times);
    forget(w);
    free(times);
    return st ? 1 : status;
}

int main(int argc, char **argv)
{
    struct options o = options_default;
    struct work w = { .me = { .o = &o, .reach = &reach_host, .run = run_form, .arg = &w } };
    int status;

    if (!options_take(argc, argv, &o, &w.me.model.shape, &status))
        return status;
    if (tutti_comm_create(&w.me.comm, NULL))
        return 1;       /* Tutti has logged the error */
    status = run(&w);
    tutti_comm_destroy(w.me.comm);
    return status;
}
