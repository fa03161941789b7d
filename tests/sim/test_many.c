/* The executor at scale: thousands of instances in one process, and the cost of each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algos.h"
#include "support/sim.h"
#include "support/unit.h"

#define RANKS 10000u
#define COUNT 64u
#define RING (UNIT_SHARE > 1 ? 200u : 500u)

struct many {
    struct tt_coll *coll;
    void **src, **dst;
    uint32_t *in, *out;
};

static void many_init(struct many *m, enum tt_coll_kind kind, uint32_t nranks, uint32_t count)
{
    m->coll = calloc(nranks, sizeof *m->coll);
    m->src = calloc(nranks, sizeof *m->src);
    m->dst = calloc(nranks, sizeof *m->dst);
    m->in = calloc((size_t)nranks * count, sizeof *m->in);
    m->out = calloc((size_t)nranks * count, sizeof *m->out);
    for (uint32_t r = 0; r < nranks; r++) {
        m->coll[r] = (struct tt_coll){
            .kind = kind, .rank = r, .nranks = nranks, .elem_bytes = 4, .bytes = 4ull * count
        };
        m->src[r] = m->in + (size_t)r * count;
        m->dst[r] = m->out + (size_t)r * count;
        for (uint32_t i = 0; i < count; i++)
            m->in[(size_t)r * count + i] = r * 31 + i;
    }
}

static void many_fini(struct many *m)
{
    free(m->coll);
    free(m->src);
    free(m->dst);
    free(m->in);
    free(m->out);
}

static struct tt_sim_conf conf_of(const struct many *m, const char *algo, uint32_t nranks)
{
    struct tt_sim_conf c = {
        .algo = tt_algo_find(&m->coll[0], algo),
        .coll = m->coll,
        .nranks = nranks,
        .segment_bytes = 4096,
        .eager_bytes = 4096,
        .streams = 2,
        .depth = 4,
        .seed = 7,
        .latency_ns = 2000,
        .jitter_ns = 5000,
        .byte_ns = 0.1,
        .kernel = tt_reduce_kernel(TUTTI_U32, TUTTI_SUM, false),
        .kernel_finish = tt_reduce_kernel(TUTTI_U32, TUTTI_SUM, true),
    };

    assert_non_null(c.algo);
    return c;
}

static void ten_thousand_executors_fit_one_process(void **state)
{
    struct tt_sim_result result;
    char why[256] = "";
    uint32_t sum = 0;
    struct many m;

    (void)state;
    many_init(&m, TT_ALLREDUCE, RANKS, COUNT);
    for (uint32_t r = 0; r < RANKS; r++)
        sum += r * 31;
    const struct tt_sim_conf conf = conf_of(&m, "allreduce_doubling", RANKS);
    if (tt_sim_run(&conf, m.src, m.dst, &result, why, sizeof why))
        fail_msg("%s (seed %llu)", why, (unsigned long long)conf.seed);
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t i = 0; i < COUNT; i++)
            if (m.out[r * COUNT + i] != sum + RANKS * i)
                fail_msg("rank %u, element %u: %u, not %u", r, i, m.out[r * COUNT + i],
                         sum + RANKS * i);
    print_message("%u executors, %llu messages, %.1f us simulated, %llu bytes each\n", RANKS,
                  (unsigned long long)result.messages, (double)result.time_ns / 1e3,
                  (unsigned long long)result.bytes_per_executor);
    many_fini(&m);
}

/* A program of 2 (n - 1) rounds is never completely in memory: only its window is. */
static void long_ring_keeps_only_a_window(void **state)
{
    struct tt_sim_result result;
    char why[256] = "";
    struct many m;

    (void)state;
    many_init(&m, TT_ALLREDUCE, RING, RING);
    const struct tt_sim_conf conf = conf_of(&m, "allreduce_ring", RING);
    if (tt_sim_run(&conf, m.src, m.dst, &result, why, sizeof why))
        fail_msg("%s (seed %llu)", why, (unsigned long long)conf.seed);
    for (uint32_t i = 1; i < RING; i++)
        assert_memory_equal(m.dst[i], m.dst[0], RING * 4);
    assert_in_range(result.bytes_per_executor, 1, 16384);
    many_fini(&m);
}

static void executor_with_17_peers_is_small(void **state)
{
    (void)state;
    assert_in_range(sizeof(struct tt_exec) + 17 * sizeof(struct tt_exec_peer), 1, 16384);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_executors_fit_one_process),
        cmocka_unit_test(long_ring_keeps_only_a_window),
        cmocka_unit_test(executor_with_17_peers_is_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
