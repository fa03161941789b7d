/* Applications that change the floating-point environment of their threads: results are bitwise
 * identical on all ranks and in all calls, no trap ends a rank, and the environment is unchanged
 * when a call returns. */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#include "job.h"
#include "support/unit.h"
#include "tutti/moe.h"

enum { RANKS = 4, CALLS = 200, COUNT = 600, SEED = 20260403 };

struct setting {
    const char *name;
    int rounding, traps;
    bool flushes;
};

static const struct setting settings[] = {
    { "flush-to-zero and denormals-are-zero", FE_TONEAREST, 0, true },
    { "rounding upwards", FE_UPWARD, 0, false },
    { "rounding downwards", FE_DOWNWARD, 0, false },
    { "rounding towards zero", FE_TOWARDZERO, 0, false },
    { "all traps", FE_TONEAREST, FE_ALL_EXCEPT, false },
};
#define NSETTINGS (sizeof settings / sizeof *settings)

/* Applies to the calling thread. */
static void set(const struct setting *s)
{
    feclearexcept(FE_ALL_EXCEPT);
    fesetround(s->rounding);
    feenableexcept(s->traps);
#if defined(__x86_64__)
    if (s->flushes)
        _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

static unsigned control(void)
{
#if defined(__x86_64__)
    return _mm_getcsr();
#else
    return (unsigned)fegetround() | (unsigned)fegetexcept() << 16;
#endif
}

/* Fills the inputs. With `nan`, some are signalling NaNs, which trap if traps are enabled. */
static void fill(uint32_t *src, uint32_t rank, bool nan)
{
    for (uint32_t i = 0; i < COUNT; i++)
        src[i] = nan && i % 50 == 7   ? 0x7fa00001 + i      /* a signalling NaN */
                 : i % 2              ? 0x00000100 + 3 * i + rank     /* denormal */
                                    : 0x3f800001 + 77 * i + 5 * rank;      /* sums are inexact */
}

static const struct setting *setting_of(const struct rank *r) { return r->job->arg; }

/* 200 calls with the same input, alternately blocking and not. The caller may test the request
 * rarely, so that the progress thread reduces. Rank 0 of a job keeps the default environment. */
static void call_often(struct rank *r)
{
    static const tutti_redop ops[] = { TUTTI_SUM, TUTTI_MAX, TUTTI_AVG, TUTTI_PROD };
    static uint32_t src[COUNT], dst[COUNT], first[sizeof ops / sizeof *ops][COUNT];
    unsigned mine;

    if (r->rank > 0)
        set(setting_of(r));
    mine = control();
    job_open(r);
    if (control() != mine)
        job_fail(r, __FILE__, __LINE__, "creating a communicator left 0x%x, not 0x%x", control(),
                 mine);
    for (uint32_t k = 0; k < CALLS; k++) {
        const size_t op = k % (sizeof ops / sizeof *ops);
        tutti_request *request = NULL;
        const tutti_call how = { .size = sizeof how, .request = k % 3 ? &request : NULL };

        fill(src, r->rank, ops[op] == TUTTI_MAX);
        memset(dst, 0xa5, sizeof dst);
        job_step(r, "call %u, %s, under %s", k, tutti_redop_name(ops[op]), setting_of(r)->name);
        CHECK_OK(r, tutti_allreduce(src, dst, COUNT, TUTTI_F32, ops[op], r->comm, &how));
        if (request) {
            if (k % 3 == 2)
                job_meet(r);    /* all have started, and no rank calls Tutti: only the thread
                                   makes progress */
            CHECK_OK(r, tutti_wait(request));
        }
        if (control() != mine)
            job_fail(r, __FILE__, __LINE__, "call %u left 0x%x, not 0x%x", k, control(), mine);
        if (k < sizeof ops / sizeof *ops)
            memcpy(first[op], dst, sizeof dst);
        for (uint32_t i = 0; i < COUNT; i++)
            if (dst[i] != first[op][i])
                job_fail(r, __FILE__, __LINE__,
                         "call %u: element %u is 0x%08x, and was 0x%08x in the first call", k, i,
                         dst[i], first[op][i]);
    }
    for (size_t op = 0; op < sizeof ops / sizeof *ops; op++) {      /* the same on all ranks */
        uint64_t hash = 0;

        for (uint32_t i = 0; i < COUNT; i++)
            hash = tt_mix64(hash ^ first[op][i]);
        atomic_store(&r->board->word[r->rank][op], hash);
        for (uint32_t i = 1; i < COUNT && op == 0; i += 2)
            CHECK(r, first[op][i] != 0);     /* sums of denormals; none is zero */
    }
    job_meet(r);
    for (uint32_t k = 0; k < r->nranks; k++)
        for (size_t op = 0; op < sizeof ops / sizeof *ops; op++)
            if (atomic_load(&r->board->word[k][op]) != atomic_load(&r->board->word[r->rank][op]))
                job_fail(r, __FILE__, __LINE__, "%s has other bits on rank %u",
                         tutti_redop_name(ops[op]), k);
}

static void over_settings(const char *wires)
{
    for (size_t s = 0; s < NSETTINGS; s++) {
        const struct job job = {
            .wires = wires, .nranks = RANKS, .seed = job_seed(SEED) + s, .arg = &settings[s]
        };

        job_run(&job, call_often);
    }
}

static void tcp_results_ignore_the_environment(void **state)
{
    (void)state;
    over_settings("tcp");
}

static void shm_results_ignore_the_environment(void **state)
{
    (void)state;
    over_settings("shm");
}

/* Runs a role under each setting, over tcp and in shared memory. */
static void over_wires(void (*role)(struct rank *))
{
    static const char *const wires[] = { "tcp", "shm" };

    for (size_t i = 0; i < 2 * NSETTINGS; i++) {
        const struct job job = { .wires = wires[i % 2],
                                 .nranks = RANKS,
                                 .seed = job_seed(SEED) + i,
                                 .arg = &settings[i / 2] };

        job_run(&job, role);
    }
}

/* ---- quantized calls ---- */

#define QUANT_CALLS 12          /* of each encoding and type, after the reference call */

/* Input, output and residuals of a quantized call. */
struct packed {
    uint64_t src[COUNT], dst[COUNT];
    float residual[COUNT];
};

/* Fills src[COUNT] of `type` with denormal and normal numbers, and one block with signalling
 * NaNs. */
static void fill_packed(void *src, tutti_dtype type, uint32_t rank)
{
    uint64_t *wide = src;
    uint32_t *word = src;
    uint16_t *half = src;

    for (uint32_t i = 0; i < COUNT; i++) {
        const bool nan = i == COUNT - 1, tiny = i % 2;

        if (type == TUTTI_F64)
            wide[i] = nan    ? UINT64_C(0x7ff4000000000001)
                      : tiny ? UINT64_C(0x380fffff00000000) + 3 * i + rank   /* denormal in f32 */
                             : UINT64_C(0x3ff0000000000001) + 77 * i + 5 * rank;
        else if (type == TUTTI_F32)
            word[i] = nan    ? 0x7fa00001
                      : tiny ? 0x100 + 3 * i + rank
                             : 0x3f800001 + 77777 * i + rank;
        else if (type == TUTTI_F16)
            half[i] = (uint16_t)(nan    ? 0x7d01
                                 : tiny ? 1 + (3 * i + rank) % 0x3ff
                                        : 0x3c00 + (77 * i + 5 * rank) % 0x1000);
        else
            half[i] = (uint16_t)(nan    ? 0x7fa1
                                 : tiny ? 1 + (3 * i + rank) % 0x7f
                                        : 0x3f80 + (77 * i + 5 * rank) % 0x200);
    }
}

/* Fills src with denormal numbers only (f32 and bf16), so that the scales of the blocks are
 * denormal, too. */
static void make_tiny(void *src, tutti_dtype type, uint32_t rank)
{
    for (uint32_t i = 0; i < COUNT; i++)
        if (type == TUTTI_F32)
            ((uint32_t *)src)[i] = 0x100 + 3001 * i + rank;
        else if (type == TUTTI_BF16)
            ((uint16_t *)src)[i] = (uint16_t)(1 + (31 * i + rank) % 0x7f);
}

static void quantized_call(struct rank *r, struct packed *p, tutti_dtype type, tutti_quant quant,
                           uint32_t k)
{
    const tutti_redop op = k / 2 % 2 ? TUTTI_AVG : TUTTI_SUM;
    tutti_request *request = NULL;
    const tutti_call how = { .size = sizeof how,
                             .algo = "allreduce_ring",
                             .quant = quant,
                             .error_feedback = p->residual,
                             .request = k % 3 ? &request : NULL };

    fill_packed(p->src, type, r->rank);
    if (k % 2)
        make_tiny(p->src, type, r->rank);
    memset(p->dst, 0xa5, sizeof p->dst);
    memset(p->residual, 0, sizeof p->residual);
    CHECK_OK(r, tutti_allreduce(p->src, p->dst, COUNT, type, op, r->comm, &how));
    if (request) {
        if (k % 3 == 2)
            job_meet(r);        /* only the progress thread continues */
        CHECK_OK(r, tutti_wait(request));
    }
}

/* References are computed in the default environment, by all ranks. Then all ranks except rank 0
 * change theirs, and repeat the calls. */
static void quantized_role(struct rank *r)
{
    static const tutti_dtype types[] = { TUTTI_F32, TUTTI_F64, TUTTI_F16, TUTTI_BF16 };
    enum { NTYPES = sizeof types / sizeof *types, KINDS = 4 };
    static struct packed first[NTYPES][TUTTI_QUANT_COUNT][KINDS], again;
    unsigned mine;

    job_open(r);
    for (uint32_t t = 0; t < NTYPES; t++)
        for (uint32_t q = 1; q < TUTTI_QUANT_COUNT; q++)
            for (uint32_t k = 0; k < KINDS; k++)
                quantized_call(r, &first[t][q][k], types[t], (tutti_quant)q, k);
    if (r->rank > 0)
        set(setting_of(r));
    mine = control();
    for (uint32_t t = 0; t < NTYPES; t++)
        for (uint32_t q = 1; q < TUTTI_QUANT_COUNT; q++)
            for (uint32_t k = 0; k < QUANT_CALLS; k++) {
                const struct packed *before = &first[t][q][k % KINDS];

                job_step(r, "call %u, %s of %s, under %s", k, tutti_quant_name((tutti_quant)q),
                         tutti_dtype_name(types[t]), setting_of(r)->name);
                quantized_call(r, &again, types[t], (tutti_quant)q, k);
                if (control() != mine)
                    job_fail(r, __FILE__, __LINE__, "the call left 0x%x, not 0x%x", control(),
                             mine);
                CHECK(r, !memcmp(again.dst, before->dst, sizeof again.dst));
                CHECK(r, !memcmp(again.residual, before->residual, sizeof again.residual));
            }
    job_close(r);
}

static void quantized_results_ignore_the_environment(void **state)
{
    (void)state;
    over_wires(quantized_role);
}

/* ---- mixture of experts ---- */

enum { HIDDEN = 40, TOKENS = 12, TOP = 2, EXPERTS = 2 * RANKS, MOE_RUNS = 3 };

/* The tokens of a rank, and their results. Half of the tokens are denormal. */
struct moe_case {
    uint32_t tokens[TOKENS * HIDDEN], experts[TOKENS * TOP];
    float weights[TOKENS * TOP], out[TOKENS * HIDDEN];
};

static void fill_tokens(struct moe_case *c, uint32_t rank)
{
    for (uint32_t i = 0; i < TOKENS * HIDDEN; i++)
        c->tokens[i] = i / HIDDEN % 2 ? 0x100 + 3001 * i + rank : 0x3f800001 + 77777 * i + rank;
    for (uint32_t i = 0; i < TOKENS * TOP; i++) {
        c->experts[i] = (i / TOP + i % TOP * (EXPERTS / TOP) + rank) % EXPERTS;
        c->weights[i] = i % TOP ? 0.3f : 0.7f;
    }
}

/* Each expert returns its tokens unchanged: all arithmetic is the library's. */
static void moe_pass(struct rank *r, tutti_moe *moe, struct moe_case *c)
{
    static float rows[16 * HIDDEN];
    const tutti_moe_routing routing = { .size = sizeof routing,
                                        .tokens = c->tokens,
                                        .ntokens = TOKENS,
                                        .experts = c->experts,
                                        .weights = c->weights };
    tutti_moe_tile tile = { .size = sizeof tile };

    memset(c->out, 0xa5, sizeof c->out);
    CHECK_OK(r, tutti_moe_dispatch(moe, &routing, 0));
    for (;;) {
        CHECK_OK(r, tutti_moe_next(moe, &tile, 0));
        if (!tile.rows)
            break;
        CHECK_OK(r, tutti_moe_read(moe, &tile, rows));
        CHECK_OK(r, tutti_moe_give(moe, &tile, rows));
    }
    CHECK_OK(r, tutti_moe_combine(moe, c->out, 0));
}

/* The first run is in the default environment; then all ranks except rank 0 change theirs. */
static void moe_role(struct rank *r)
{
    static const tutti_dtype sent[] = { TUTTI_F32, TUTTI_BF16, TUTTI_F8E4M3 };
    enum { NSENT = sizeof sent / sizeof *sent, LAYERS = NSENT * TUTTI_MOE_FORMS };
    static struct moe_case first[LAYERS], again;
    tutti_moe *moe[LAYERS];
    unsigned mine;

    job_open(r);
    for (uint32_t i = 0; i < LAYERS; i++) {
        const tutti_moe_conf conf = { .size = sizeof conf,
                                      .form = (tutti_moe_form)(i / NSENT),
                                      .hidden = HIDDEN,
                                      .experts = EXPERTS,
                                      .top_k = TOP,
                                      .max_tokens = TOKENS,
                                      .type = TUTTI_F32,
                                      .there = sent[i % NSENT],
                                      .back = sent[i % NSENT] };

        CHECK_OK(r, tutti_moe_create(r->comm, &conf, &moe[i]));
        fill_tokens(&first[i], r->rank);
        moe_pass(r, moe[i], &first[i]);
    }
    fill_tokens(&again, r->rank);
    if (r->rank > 0)
        set(setting_of(r));
    mine = control();
    for (uint32_t k = 0; k < MOE_RUNS * LAYERS; k++) {
        job_step(r, "layer %u, under %s", k % LAYERS, setting_of(r)->name);
        moe_pass(r, moe[k % LAYERS], &again);
        if (control() != mine)
            job_fail(r, __FILE__, __LINE__, "the call left 0x%x, not 0x%x", control(), mine);
        CHECK(r, !memcmp(again.out, first[k % LAYERS].out, sizeof again.out));
    }
    for (uint32_t i = 0; i < LAYERS; i++)
        CHECK_OK(r, tutti_moe_free(moe[i]));
    job_close(r);
}

static void moe_results_ignore_the_environment(void **state)
{
    (void)state;
    over_wires(moe_role);
}

/* ---- plans ---- */

/* Shapes of all sizes are planned on demand: ranks with different environments must compute equal
 * plans. */
static void plan_many(struct rank *r)
{
    enum { MOST = 1 << 18 };
    uint8_t *src, *dst;

    if (r->rank % 2)
        set(setting_of(r));
    job_open(r);
    src = job_have(r, calloc(MOST, 1));
    dst = job_have(r, calloc(MOST, RANKS));
    for (size_t bytes = 8; bytes <= MOST; bytes = bytes * 9 / 7 / 8 * 8 + 8) {
        const tutti_call how = { .size = sizeof how, .scale = 1e-310 };

        if (bytes > MOST)
            break;
        job_step(r, "%zu bytes under %s", bytes, setting_of(r)->name);
        CHECK_OK(r,
                 tutti_allreduce(src, dst, bytes / 8, TUTTI_F64, TUTTI_PREMUL_SUM, r->comm, &how));
        CHECK_OK(r, tutti_allgather(src, dst, bytes, TUTTI_U8, r->comm, NULL));
    }
    free(src);
    free(dst);
}

static void environment_does_not_affect_algorithm_selection(void **state)
{
    (void)state;
    for (size_t s = 0; s < NSETTINGS; s++) {
        const struct job job = {
            .wires = "shm,tcp", .nranks = RANKS, .seed = job_seed(SEED) + s, .arg = &settings[s]
        };

        job_run(&job, plan_many);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tcp_results_ignore_the_environment),
        cmocka_unit_test(shm_results_ignore_the_environment),
        cmocka_unit_test(quantized_results_ignore_the_environment),
        cmocka_unit_test(moe_results_ignore_the_environment),
        cmocka_unit_test(environment_does_not_affect_algorithm_selection),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
