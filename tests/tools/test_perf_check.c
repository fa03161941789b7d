/* The check of `tutti perf`: it accepts exactly the results defined by each collective. The
 * definitions are repeated here, over the memory of all ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../tools/perf/perf_check.h"
#include "../tools/perf/perf_measure.h"
#include "base/prng.h"
#include "reduce/reduce.h"
#include "support/unit.h"

#define NRANKS_MAX 17

/* All ranks of one case, in one process. */
struct world {
    uint32_t nranks;
    size_t elem;
    struct perf_case rank[NRANKS_MAX];
    void *room[NRANKS_MAX], *other[NRANKS_MAX];
    void *all;              /* the reduction of all inputs */
};

/* src of rank r before the call: in place, the call overwrites it. */
static void *input[NRANKS_MAX];

static void reduce_all(struct world *w)
{
    const struct perf_case *c = &w->rank[0];
    void *scaled = malloc(c->count * w->elem + 1);

    for (uint32_t r = 0; r < w->nranks; r++) {
        const bool last = r + 1 == w->nranks;
        tt_reduce_fn *kernel = tt_reduce_kernel(c->dtype, c->op, last);

        memcpy(scaled, input[r], c->count * w->elem);
        if (c->op == TUTTI_PREMUL_SUM)
            tt_reduce_scale(scaled, scaled, c->count, c->dtype, perf_scale_of(r));
        if (r == 0)
            memcpy(w->all, scaled, c->count * w->elem);
        else
            kernel(w->all, NULL, w->all, scaled, c->count, false, w->nranks);
    }
    free(scaled);
}

static void move(const struct world *w, const struct perf_case *c, size_t at, const void *src,
                 size_t first, size_t count)
{
    memcpy((char *)c->dst + at * w->elem, (const char *)src + first * w->elem, count * w->elem);
}

/* Applies the call to dst of one rank. */
static void define(const struct world *w, const struct perf_case *c)
{
    const uint32_t n = w->nranks, me = c->rank, root = c->root;

    switch (c->coll->kind) {
    case TT_ALLREDUCE:
        move(w, c, 0, w->all, 0, c->count);
        break;
    case TT_REDUCE:
        if (me == root)
            move(w, c, 0, w->all, 0, c->count);
        break;
    case TT_REDUCE_SCATTER: case TT_REDUCE_SCATTERV:
        move(w, c, 0, w->all, c->displs[me], c->counts[me]);
        break;
    case TT_BROADCAST:
        move(w, c, 0, input[root], 0, c->count);
        break;
    case TT_SCATTER: case TT_SCATTERV:
        move(w, c, 0, input[root], c->displs[me], c->counts[me]);
        break;
    case TT_ALLGATHER:
    case TT_ALLGATHERV:
    case TT_GATHER:
    case TT_GATHERV:
        for (uint32_t r = 0; r < n && (me == root || c->coll->kind == TT_ALLGATHER ||
                                       c->coll->kind == TT_ALLGATHERV);
             r++)
            move(w, c, c->displs[r], input[r], 0, c->counts[r]);
        break;
    case TT_ALLTOALL: case TT_ALLTOALLV:
        for (uint32_t r = 0; r < n; r++) {
            assert_int_equal(w->rank[r].counts[me], c->counts[r]);
            move(w, c, c->displs[r], input[r], w->rank[r].displs[me], c->counts[r]);
        }
        break;
    case PERF_SENDRECV:
        move(w, c, 0, input[(me + n - 1) % n], 0, c->count);
        break;
    case PERF_PINGPONG:
        if ((me ^ 1) < n)
            move(w, c, 0, input[me ^ 1], 0, c->count);
        break;
    default:
        break;
    }
}

static void world_init(struct world *w, const struct perf_case *like, size_t bytes)
{
    *w = (struct world){ .nranks = like->nranks, .elem = tutti_dtype_bytes(like->dtype) };
    for (uint32_t r = 0; r < w->nranks; r++) {
        struct perf_case *c = &w->rank[r];

        *c = *like;
        c->rank = r;
        assert_true(perf_case_init(c, bytes));
        w->room[r] = calloc(perf_case_bytes(c) + 1, 1);
        w->other[r] = calloc(perf_case_bytes(c) + 1, 1);
        input[r] = calloc(perf_case_bytes(c) + 1, 1);
        perf_case_place(c, w->room[r], w->other[r]);
        perf_check_fill(c);
        memcpy(input[r], c->src, perf_src_count(c) * w->elem);
    }
    w->all = calloc(perf_case_bytes(&w->rank[0]) + 1, 1);
    if (like->coll->reduces)
        reduce_all(w);
}

static void world_fini(struct world *w)
{
    for (uint32_t r = 0; r < w->nranks; r++) {
        perf_case_fini(&w->rank[r]);
        free(w->room[r]);
        free(w->other[r]);
        free(input[r]);
    }
    free(w->all);
}

static void fail_case(const struct perf_case *c, const char *what)
{
    fail_msg("%s of %zu bytes %s on %u ranks, root %u, %s%s: rank %u: %s", c->coll->name,
             perf_case_bytes(c), tutti_dtype_name(c->dtype), c->nranks, c->root,
             tutti_redop_name(c->op), c->in_place ? ", in place" : "", c->rank, what);
}

/* The right result passes; each modified one does not. */
static void check_case(const struct perf_case *like, size_t bytes, struct tt_prng *p)
{
    struct world w;

    world_init(&w, like, bytes);
    for (uint32_t r = 0; r < w.nranks; r++) {
        const struct perf_case *c = &w.rank[r];
        const size_t count = perf_dst_count(c);
        size_t victim;

        if (!c->in_place && count > 0 && perf_check_wrong(c) < count / 2 + (count == 1))
            fail_case(c, "a call that writes nothing goes unnoticed");
        define(&w, c);
        if (perf_check_wrong(c) != 0)
            fail_case(c, "the right result counts as wrong");
        if (count == 0)
            continue;
        victim = tt_prng_below(p, count * w.elem);
        ((uint8_t *)c->dst)[victim] ^= 0x80;
        if (perf_check_wrong(c) != 1)
            fail_case(c, "one wrong byte is not one wrong element");
        ((uint8_t *)c->dst)[victim] ^= 0x80;
        perf_check_spoil(c, 3);
        if (perf_check_wrong(c) != (count < 3 ? count : 3))
            fail_case(c, "three spoiled elements are not three wrong ones");
    }
    world_fini(&w);
}

static void every_collective_is_checked_per_byte(void **state)
{
    static const size_t sizes[] = { 1, 64, 1000, 20000 };
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 1);
    for (size_t i = 0; i < perf_ncolls; i++)
        for (uint32_t n = perf_colls[i].kind >= TT_COLL_KINDS ? 2 : 1; n <= 6; n++)
            for (size_t s = 0; s < 2 * sizeof sizes / sizeof *sizes; s++) {
                const struct perf_case like = { .coll = &perf_colls[i],
                                                .nranks = n,
                                                .root = n - 1,
                                                .dtype = TUTTI_F32,
                                                .op = TUTTI_SUM,
                                                .in_place = s % 2 };

                if (!like.in_place || like.coll->in_place)
                    check_case(&like, sizes[s / 2], &p);
            }
}

/* 17 ranks: sums that narrow floats cannot represent exactly, for which the error bound applies. A
 * single bit may be within the bound, so only the right result and the spoiled one are
 * distinguished. */
static void types_and_operations_match_the_kernels(void **state)
{
    (void)state;
    for (unsigned type = 0; type < TUTTI_DTYPE_COUNT; type++)
        for (unsigned op = 0; op < TUTTI_REDOP_COUNT; op++)
            for (uint32_t n = 1; n <= 17; n += n < 5 ? 1 : 6) {
                const struct perf_case like = { .coll = perf_coll_find("allreduce"),
                                                .nranks = n,
                                                .dtype = (tutti_dtype)type,
                                                .op = (tutti_redop)op };
                struct world w;

                if (!tt_reduce_defined(like.dtype, like.op))
                    continue;
                world_init(&w, &like, 4096);
                define(&w, &w.rank[0]);
                if (perf_check_wrong(&w.rank[0]) != 0)
                    fail_case(&w.rank[0], "the right result counts as wrong");
                memset(w.rank[0].dst, 0xff, perf_case_bytes(&w.rank[0]));
                if (perf_check_wrong(&w.rank[0]) == 0)
                    fail_case(&w.rank[0], "rubbish counts as right");
                world_fini(&w);
            }
}

static void displaced_data_is_detected(void **state)
{
    static const size_t distances[] = { 1, 2, 3, 64, 1024, 2048, 4095, 4096 };
    struct perf_case like = { .coll = perf_coll_find("broadcast"),
                              .nranks = 2,
                              .dtype = TUTTI_F32 };
    struct world w;

    (void)state;
    world_init(&w, &like, 64 << 10);
    for (size_t i = 0; i < sizeof distances / sizeof *distances; i++) {
        const struct perf_case *c = &w.rank[1];
        const size_t d = distances[i];

        move(&w, c, 0, input[0], 0, c->count);
        move(&w, c, 0, input[0], d, c->count - d);
        assert_true(perf_check_wrong(c) > (c->count - d) * 9 / 10);
    }
    world_fini(&w);

    like.coll = perf_coll_find("allgather");
    world_init(&w, &like, 64 << 10);
    define(&w, &w.rank[0]);
    move(&w, &w.rank[0], w.rank[0].displs[1], input[0], 0, w.rank[0].counts[1]);
    assert_true(perf_check_wrong(&w.rank[0]) > w.rank[0].counts[1] * 9 / 10);
    world_fini(&w);
}

static void busbw_factors_match_nccl_tests(void **state)
{
    static const struct {
        const char *name;
        double of_4;
    } cases[] = {
        { "allreduce", 1.5 },       { "reduce", 1 },
        { "reduce_scatter", 0.75 }, { "reduce_scatterv", 0.75 },
        { "allgather", 0.75 },      { "allgatherv", 0.75 },
        { "broadcast", 1 },         { "gather", 0.75 },
        { "gatherv", 0.75 },        { "scatter", 0.75 },
        { "scatterv", 0.75 },       { "alltoall", 0.75 },
        { "alltoallv", 0.75 },      { "sendrecv", 1 },
        { "pingpong", 1 },          { "barrier", 1 },
    };

    (void)state;
    assert_int_equal(sizeof cases / sizeof *cases, perf_ncolls);
    for (size_t i = 0; i < perf_ncolls; i++) {
        const struct perf_coll *coll = perf_coll_find(cases[i].name);

        assert_non_null(coll);
        assert_true(perf_bus_factor(coll, 4) == cases[i].of_4);
    }
    assert_true(perf_bus_factor(perf_coll_find("allreduce"), 1) == 0);
}

static void sizes_round_to_whole_blocks(void **state)
{
    static const struct {
        const char *coll;
        tutti_dtype type;
        uint32_t nranks;
        size_t asked, got;
    } cases[] = {
        { "allreduce", TUTTI_F32, 3, 1000, 1000 }, { "allreduce", TUTTI_F64, 3, 1001, 1000 },
        { "allreduce", TUTTI_F64, 3, 1, 8 },       { "allgather", TUTTI_F32, 3, 1000, 996 },
        { "alltoallv", TUTTI_F32, 4, 8, 16 },      { "barrier", TUTTI_F32, 4, 64, 0 },
        { "scatter", TUTTI_I8, 7, 50, 49 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(perf_rounded_bytes(perf_coll_find(cases[i].coll), cases[i].type,
                                            cases[i].nranks, cases[i].asked),
                         cases[i].got);
}

static void v_blocks_are_uneven_and_complete(void **state)
{
    (void)state;
    for (size_t i = 0; i < perf_ncolls; i++)
        for (uint32_t n = 2; perf_colls[i].uneven && n <= 7; n++)
            for (uint32_t r = 0; r < n; r++) {
                struct perf_case c = {
                    .coll = &perf_colls[i], .rank = r, .nranks = n, .dtype = TUTTI_U8
                };
                size_t end = 0;

                assert_true(perf_case_init(&c, 1001));
                for (uint32_t s = 0; s < n; s++) {
                    assert_int_equal(c.displs[s], end);
                    end += c.counts[s];
                }
                assert_int_equal(end, c.count);
                assert_true(r + 1 == n || n == 2 || c.counts[0] != c.counts[1]);
                perf_case_fini(&c);
            }
}

static void median_handles_even_counts(void **state)
{
    double odd[] = { 5, 1, 9, 7 }, even[] = { 4, 1, 8, 2, 6 };
    struct perf_times t = perf_summary(odd, 3);

    (void)state;
    assert_true(t.median_us == 5 && t.min_us == 1 && t.max_us == 9 && t.loop_us == 7);
    t = perf_summary(even, 4);
    assert_true(t.median_us == 3 && t.min_us == 1 && t.max_us == 8 && t.loop_us == 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_is_checked_per_byte),
        cmocka_unit_test(types_and_operations_match_the_kernels),
        cmocka_unit_test(displaced_data_is_detected),
        cmocka_unit_test(busbw_factors_match_nccl_tests),
        cmocka_unit_test(sizes_round_to_whole_blocks),
        cmocka_unit_test(v_blocks_are_uneven_and_complete),
        cmocka_unit_test(median_handles_even_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
