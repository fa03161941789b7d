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

enum { RANKS = 4, CALLS = 200, COUNT = 600, SEED = 20260403 };

struct setting {
    const char *name;
    int rounding, traps;
    bool flushes;
};

static const struct setting settings[] = {
    { "flush-to-zero and denormals-are-zero", FE_TONEAREST, 0, true },
    { "rounding upwards", FE_UPWARD, 0, false },
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
        cmocka_unit_test(environment_does_not_affect_algorithm_selection),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
