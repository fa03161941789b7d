/* Layout-dependent algorithms, executed on simulated ranks over many layouts: every byte is
 * correct, and results are bitwise identical on all ranks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/prng.h"
#include "left_heavy.h"
#include "support/sim.h"
#include "support/cases.h"
#include "support/layouts.h"
#include "support/memory.h"
#include "support/unit.h"

static uint32_t kind;
static struct case_calls calls;
static struct tt_layout layout;

static void make(const struct case_spec *spec)
{
    case_make(&calls, spec);
    layout_make(&layout, kind, spec->nranks, spec->seed);
    for (uint32_t r = 0; r < spec->nranks; r++)
        calls.coll[r].layout = &layout;
}

#define FAIL(spec, seed, ...) \
    do { \
        print_error("%s, network seed %" PRIu64 ": ", layout_text(kind), (uint64_t)(seed)); \
        case_fail(spec, __VA_ARGS__); \
    } while (0)

static uint32_t shortest;       /* shortest segment size: index into segments */

/* Random execution parameters: segments, streams, slots, landing, a transport that refuses
 * sends. */
static tutti_status run(const struct case_memory *memory, tt_reduce_fn *kernel,
                        tt_reduce_fn *finish, uint64_t seed, char *why, size_t why_bytes)
{
    static const uint64_t segments[] = { 8, 64, 4096 };
    struct tt_sim_result result;
    struct tt_prng p;

    tt_prng_init(&p, seed);
    const uint64_t segment = segments[shortest + tt_prng_below(&p, 3 - shortest)];
    const struct tt_sim_conf conf = {
        .algo = memory->spec->algo,
        .coll = calls.coll,
        .nranks = memory->spec->nranks,
        .segment_bytes = segment,
        .eager_bytes = tt_prng_below(&p, 2) ? segment : 0,
        .streams = (uint8_t)(1 + tt_prng_below(&p, 4)),
        .depth = (uint8_t)(1u << tt_prng_below(&p, 4)),
        .direct = tt_prng_below(&p, 2),
        .mapped = tt_prng_below(&p, 2),
        .in_order = tt_prng_below(&p, 2),
        .refuse_one_in = tt_prng_below(&p, 2) ? 3 : 0,
        .seed = seed,
        .latency_ns = 1000,
        .jitter_ns = 1 + tt_prng_below(&p, 3) * 5000,
        .byte_ns = 1,
        .kernel = kernel,
        .kernel_finish = finish,
    };

    return tt_sim_run(&conf, memory->src, memory->dst, &result, why, why_bytes);
}

static uint64_t runs;

static void check_bytes(const struct case_spec *spec)
{
    struct case_memory memory;
    char why[256] = "";

    case_memory_init(&memory, spec, &calls);
    if (run(&memory, case_kernel(spec->elem_bytes, false), case_kernel(spec->elem_bytes, true),
            runs, why, sizeof why))
        FAIL(spec, runs, "%s", why);
    for (uint32_t r = 0; r < spec->nranks; r++)
        if (!case_memory_right(&memory, r, why, sizeof why))
            FAIL(spec, runs, "%s", why);
    case_memory_fini(&memory);
    runs++;
}

/* The tested algorithms: parts of their names. */
static const char *const ideas[] = { "_parallel_rings", "_hierarchical", "_two_level",
                                     "_by_hosts" };

static bool looks_at_layout(const struct tt_algo *algo)
{
    for (size_t i = 0; i < sizeof ideas / sizeof ideas[0]; i++)
        if (strstr(algo->name, ideas[i]))
            return true;
    return false;
}

static bool goes_by_slabs(const struct tt_algo *algo)
{
    return looks_at_layout(algo) &&
           (algo->kind == TT_REDUCE_SCATTER || algo->kind == TT_REDUCE_SCATTERV);
}

static bool reduces_by_layout(const struct tt_algo *algo)
{
    return looks_at_layout(algo) && tt_coll_reduces(algo->kind);
}

typedef bool of_fn(const struct tt_algo *algo);
typedef void check_fn(const struct case_spec *spec);
static void for_each(uint32_t nranks_max, uint64_t count, uint32_t every, of_fn *of,
                     check_fn *check)
{
    for (size_t a = 0; a < tt_nalgos; a++)
        for (kind = 0; kind < layout_kinds; kind++)
            for (uint32_t n = 1; n <= nranks_max && of(tt_algos[a]); n++) {
                struct case_spec spec = {
                    .algo = tt_algos[a],
                    .nranks = n,
                    .count = count,
                    .elem_bytes = 1u << (n + kind) % 4,
                    .place = (enum case_place)((n + kind) % CASE_PLACES),
                    .packed = (n / 2 + kind) % 2,
                    .seed = 1000 * n + kind,
                };

                if ((n + kind + a) % every)
                    continue;
                if (!case_exists(&spec))
                    spec.packed = true;
                if (!case_exists(&spec))
                    spec.place = OUT_OF_PLACE;
                make(&spec);
                if (tt_algos[a]->fits(&calls.coll[0]) && unit_draw())
                    check(&spec);
                tt_layout_fini(&layout);
            }
}

static void results_are_right_on_every_layout(void **state)
{
    (void)state;
    runs = 0;
    for_each(20, 7, 2, looks_at_layout, check_bytes);
    for_each(33, 150, 29, looks_at_layout, check_bytes);
    print_message("%" PRIu64 " runs\n", runs);
    assert_in_range(runs, 1000 / unit_share(), UINT64_MAX);
}

static void results_of_many_slabs_are_right(void **state)
{
    (void)state;
    runs = 0;
    shortest = 2;
    for_each(9, 40000, 11, goes_by_slabs, check_bytes);
    shortest = 0;
    print_message("%" PRIu64 " runs\n", runs);
    assert_in_range(runs, 20 / unit_share(), UINT64_MAX);
}

/* ---- equal bits ---- */

static void check_bits(const struct case_spec *given)
{
    struct case_spec spec = *given;
    struct case_memory once, again;
    char why[256] = "";

    spec.elem_bytes = 4;
    tt_layout_fini(&layout);
    make(&spec);
    case_memory_init(&once, &spec, &calls);
    case_memory_init(&again, &spec, &calls);
    if (run(&once, left_heavy, left_heavy, runs, why, sizeof why) ||
        run(&again, left_heavy, left_heavy, runs + 1000000, why, sizeof why))
        FAIL(&spec, runs, "%s", why);
    for (uint32_t r = 0; r < spec.nranks; r++)
        if (memcmp(once.dst[r], again.dst[r], once.bytes[r][TT_BUF_DST]) ||
            memcmp(once.src[r], again.src[r], once.bytes[r][TT_BUF_SRC]))
            FAIL(&spec, runs, "rank %u reduces in another order the second time", r);
    for (uint32_t r = 1; r < spec.nranks && spec.algo->kind == TT_ALLREDUCE; r++)
        if (memcmp(once.dst[r], once.dst[0], once.bytes[0][TT_BUF_DST]))
            FAIL(&spec, runs, "ranks 0 and %u have different bits", r);
    case_memory_fini(&once);
    case_memory_fini(&again);
    runs++;
}

static void all_ranks_get_identical_bits(void **state)
{
    (void)state;
    runs = 0;
    for_each(20, 60, 3, reduces_by_layout, check_bits);
    print_message("%" PRIu64 " runs\n", runs);
    assert_in_range(runs, 200 / unit_share(), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_right_on_every_layout),
        cmocka_unit_test(results_of_many_slabs_are_right),
        cmocka_unit_test(all_ranks_get_identical_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
