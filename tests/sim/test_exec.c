/* With the executor every registered algorithm gives the right result, for any delays and
 * reordering of messages, in every mode: eager and streamed messages, many or few segments, streams
 * and slots, open final buffers or not, mapped slots or not, a transport that refuses sends. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "left_heavy.h"
#include "support/sim.h"
#include "support/cases.h"
#include "support/memory.h"
#include "support/unit.h"

/* ---- modes ---- */

struct mode {
    uint64_t segment_bytes, eager_bytes;
    uint8_t streams, depth;
    bool direct, mapped, refuses, in_order;
};

#define MODES (3 * 3 * 4 * 4 * 2 * 2 * 2 * 2)

/* Returns a different mode for each i below MODES. */
static struct mode mode_of(uint32_t i)
{
    static const uint64_t segments[] = { 8, 64, 4096 };
    const uint64_t segment = segments[i % 3];
    const uint64_t eagers[] = { 0, segment / 8, segment };

    return (struct mode){
        .segment_bytes = segment,
        .eager_bytes = eagers[i / 3 % 3],
        .streams = (uint8_t)(1 + i / 9 % 4),
        .depth = (uint8_t)(1u << i / 36 % 4),
        .direct = i / 144 % 2,
        .mapped = i / 288 % 2,
        .refuses = i / 576 % 2,
        .in_order = i / 1152 % 2,
    };
}

static const char *mode_text(const struct mode *m, uint64_t seed)
{
    static char text[256];

    snprintf(text, sizeof text,
             "segments of %" PRIu64 ", eager up to %" PRIu64
             ", %u streams, depth %u, %s, %s, %s, %s, network seed %" PRIu64,
             m->segment_bytes, m->eager_bytes, m->streams, m->depth,
             m->direct ? "direct" : "not direct", m->mapped ? "mapped" : "not mapped",
             m->refuses ? "refusing" : "never refusing",
             m->in_order ? "straight in order" : "straight or not", seed);
    return text;
}

/* ---- one run ---- */

static tutti_status run(const struct case_memory *memory, const struct mode *m,
                        tt_reduce_fn *kernel, tt_reduce_fn *finish, uint64_t seed, char *why,
                        size_t why_bytes)
{
    struct tt_sim_result result;
    const struct tt_sim_conf conf = {
        .algo = memory->spec->algo,
        .coll = memory->calls->coll,
        .nranks = memory->spec->nranks,
        .segment_bytes = m->segment_bytes,
        .eager_bytes = m->eager_bytes,
        .streams = m->streams,
        .depth = m->depth,
        .direct = m->direct,
        .mapped = m->mapped,
        .in_order = m->in_order,
        .refuse_one_in = m->refuses ? 3 : 0,
        .seed = seed,
        .latency_ns = 1000,
        .jitter_ns = 1 + seed % 4 * 5000,
        .byte_ns = 1,
        .kernel = kernel,
        .kernel_finish = finish,
    };

    return tt_sim_run(&conf, memory->src, memory->dst, &result, why, why_bytes);
}

/* Returns false, with the reason, if the ranks are deadlocked or a byte is wrong. */
static bool right(const struct case_spec *spec, const struct case_calls *calls,
                  const struct mode *m, uint64_t seed, char *why, size_t why_bytes)
{
    struct case_memory memory;
    bool good;

    case_memory_init(&memory, spec, calls);
    good = run(&memory, m, case_kernel(spec->elem_bytes, false),
               case_kernel(spec->elem_bytes, true), seed, why, why_bytes) == TUTTI_OK;
    for (uint32_t r = 0; r < spec->nranks && good; r++)
        good = case_memory_right(&memory, r, why, why_bytes);
    case_memory_fini(&memory);
    return good;
}

static uint64_t runs;

static void check(const struct case_spec *spec, const struct case_calls *calls, uint32_t mode,
                  uint64_t seed)
{
    const struct mode m = mode_of(mode);
    char why[256] = "";

    if (unit_draw() && !right(spec, calls, &m, seed, why, sizeof why))
        case_fail(spec, "%s (%s)", why, mode_text(&m, seed));
    runs++;
}

/* ---- every case, in random modes ---- */

static uint32_t modes_each, nranks_min;

static void check_some_modes(const struct case_spec *spec, const struct case_calls *calls)
{
    static uint64_t drawn;

    for (uint32_t i = 0; i < modes_each && spec->nranks >= nranks_min; i++, drawn++)
        check(spec, calls, (uint32_t)(tt_mix64(drawn) % MODES), drawn);
}

static void check_cases(uint32_t nranks_from, uint32_t nranks_to, const uint64_t *counts,
                        uint32_t ncounts, uint32_t modes, uint64_t at_least)
{
    nranks_min = nranks_from;
    modes_each = modes;
    runs = 0;
    case_for_each(nranks_to, counts, ncounts, 1, check_some_modes);
    print_message("%" PRIu64 " runs\n", runs);
    assert_in_range(runs, at_least, UINT64_MAX);
}

static void results_hold_for_1_to_9(void **state)
{
    static const uint64_t counts[] = { 0, 1, 7, 40, 129 };

    (void)state;
    check_cases(1, 9, counts, 5, 2, 10000);
}

static void results_hold_for_10_to_17(void **state)
{
    static const uint64_t counts[] = { 37 };

    (void)state;
    check_cases(10, 17, counts, 1, 1, 1000);
}

static void results_are_right_for_many_segments(void **state)
{
    static const uint64_t counts[] = { 4099 };

    (void)state;
    check_cases(2, 5, counts, 1, 1, 100);
}

/* ---- every mode ---- */

/* One case of each algorithm and place. With three places, each runs a third of the modes. */
static void check_every_mode(const struct case_spec *spec, const struct case_calls *calls)
{
    const enum tt_coll_kind kind = spec->algo->kind;
    const bool p2p = kind == TT_SEND || kind == TT_RECV;
    struct case_spec in_place = *spec;

    if (spec->nranks != (p2p ? 2 : 4) || spec->root != (case_is_rooted(kind) ? 3 : 0) ||
        !spec->packed)
        return;
    in_place.place = IN_PLACE;
    for (uint32_t i = (uint32_t)spec->place; i < MODES;
         i += case_exists(&in_place) ? CASE_PLACES : 1)
        check(spec, calls, i, i);
}

static void results_are_right_in_every_mode(void **state)
{
    static const uint64_t counts[] = { 50 };

    (void)state;
    runs = 0;
    case_for_each(4, counts, 1, 1, check_every_mode);
    print_message("%" PRIu64 " runs\n", runs);
    assert_in_range(runs, tt_nalgos * MODES, UINT64_MAX);
}

/* ---- left and right ---- */

static void check_operands(const struct case_spec *spec, const struct case_calls *calls)
{
    static const struct mode whole = {
        .segment_bytes = 4096, .eager_bytes = 4096, .streams = 1, .depth = 1, .in_order = true
    };
    struct case_memory expected, memory;
    struct mode m;
    char why[256];

    if (spec->elem_bytes != 4)
        return;
    if (!unit_draw()) {
        runs += 4;
        return;
    }
    case_memory_init(&expected, spec, calls);
    assert_int_equal(run(&expected, &whole, left_heavy, left_heavy, 0, why, sizeof why), TUTTI_OK);
    for (uint32_t i = 0; i < 4; i++, runs++) {
        m = mode_of((uint32_t)(tt_mix64(runs) % MODES));
        case_memory_init(&memory, spec, calls);
        assert_int_equal(run(&memory, &m, left_heavy, left_heavy, i, why, sizeof why), TUTTI_OK);
        for (uint32_t r = 0; r < spec->nranks; r++)
            if (memcmp(memory.dst[r], expected.dst[r], memory.bytes[r][TT_BUF_DST]) ||
                memcmp(memory.src[r], expected.src[r], memory.bytes[r][TT_BUF_SRC]))
                case_fail(spec, "rank %u reduces in another order (%s)", r, mode_text(&m, i));
        case_memory_fini(&memory);
    }
    case_memory_fini(&expected);
}

static void every_mode_reduces_in_order(void **state)
{
    static const uint64_t counts[] = { 0, 0, 60 };      /* the third has elements of 4 bytes */

    (void)state;
    runs = 0;
    case_for_each(9, counts, 3, 1, check_operands);
    assert_in_range(runs, 1000, UINT64_MAX);
}

/* ---- checks of the tests above ---- */

static void every_wrong_byte_is_noticed(void **state)
{
    static struct case_calls calls;
    const struct mode m = mode_of(0);
    struct case_memory memory;
    char why[256];
    uint32_t n = 0;

    (void)state;
    for (size_t a = 0; a < tt_nalgos; a++) {
        const struct case_spec spec = {
            .algo = tt_algos[a],
            .nranks = 2,
            .elem_bytes = 2,
            .count = 9,
            .place = OUT_OF_PLACE,
            .packed = true,
            .seed = a,
        };

        case_make(&calls, &spec);
        case_memory_init(&memory, &spec, &calls);
        assert_int_equal(
            run(&memory, &m, case_kernel(2, false), case_kernel(2, true), a, why, sizeof why),
            TUTTI_OK);
        for (uint32_t r = 0; r < spec.nranks; r++)
            for (int b = 0; b < 2; b++)
                for (uint64_t i = 0; i < memory.bytes[r][b]; i++, n++) {
                    uint8_t *byte = (uint8_t *)(b == TT_BUF_SRC ? memory.src : memory.dst)[r] + i;

                    *byte ^= 0x10;
                    if (case_memory_right(&memory, r, why, sizeof why))
                        case_fail(&spec, "byte %u of rank %u is wrong, and nobody sees it",
                                  (unsigned)i, r);
                    *byte ^= 0x10;
                    assert_true(case_memory_right(&memory, r, why, sizeof why));
                }
        case_memory_fini(&memory);
    }
    assert_in_range(n, 1000, UINT32_MAX);
}

enum fault { LOST_PUT, FINISH, SHORT, FAULTS };

/* The error in the executed program. */
static struct {
    const struct tt_algo *algo;
    enum fault fault;
    uint32_t rank, step;
    uint64_t round;
} crooked;

static bool suits(const struct tt_step *s, enum fault fault)
{
    switch (fault) {
    case LOST_PUT:
        return s->opcode == TT_PUT && s->a.buf != TT_BUF_PIPE;
    case FINISH:
        return s->opcode == TT_REDUCE_STEP;
    default:
        return s->opcode == TT_COPY && s->out.buf != TT_BUF_PIPE && s->a.buf != TT_BUF_PIPE &&
               !s->out.block && !s->a.block && s->bytes > 4; /* no program has a copy of 0 bytes */
    }
}

static void crooked_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    crooked.algo->round(s, c, k);
    if (c->rank != crooked.rank || k != crooked.round)
        return;
    if (crooked.fault == LOST_PUT) {
        s->n--;
        memmove(&s->steps[crooked.step], &s->steps[crooked.step + 1],
                (s->n - crooked.step) * sizeof s->steps[0]);
    } else if (crooked.fault == FINISH) {
        s->steps[crooked.step].finish ^= true;
    } else {
        s->steps[crooked.step].bytes -= c->elem_bytes;
    }
}

/* Picks a step of any rank for the error. Returns false if there is none. */
static bool draw_fault(const struct case_spec *spec, const struct case_calls *calls,
                       struct tt_prng *p)
{
    uint32_t found = 0;

    crooked.algo = spec->algo;
    crooked.fault = (enum fault)tt_prng_below(p, FAULTS);
    for (uint32_t r = 0; r < spec->nranks; r++)
        for (uint64_t k = 0; k < spec->algo->nrounds(&calls->coll[r]); k++) {
            struct tt_step steps[TT_ROUND_STEPS_MAX];
            struct tt_sched s = { .steps = steps, .cap = TT_ROUND_STEPS_MAX };

            spec->algo->round(&s, &calls->coll[r], k);
            for (uint32_t i = 0; i < s.n; i++)
                if (suits(&steps[i], crooked.fault) && tt_prng_below(p, ++found) == 0) {
                    crooked.rank = r;
                    crooked.round = k;
                    crooked.step = i;
                }
        }
    return found > 0;
}

static void check_crooked(const struct case_spec *spec, const struct case_calls *calls)
{
    static const char *const names[FAULTS] = { "without a put", "with a step that finishes or not",
                                               "with a short copy" };
    static uint64_t drawn;
    struct case_spec altered = *spec;
    struct tt_algo algo = *spec->algo;
    struct tt_prng p;
    struct mode m;
    char why[256];

    tt_prng_init(&p, drawn++);
    m = mode_of((uint32_t)tt_prng_below(&p, MODES));
    if (spec->elem_bytes != 4 || !unit_draw() || !draw_fault(spec, calls, &p))
        return;
    algo.round = crooked_round;
    altered.algo = &algo;
    if (right(&altered, calls, &m, runs, why, sizeof why))
        case_fail(spec, "right all the same %s: rank %u, round %u, step %u (%s)",
                  names[crooked.fault], crooked.rank, (unsigned)crooked.round, crooked.step,
                  mode_text(&m, runs));
    runs++;
}

static void crooked_programs_are_noticed(void **state)
{
    static const uint64_t counts[] = { 0, 0, 12 };      /* the third has elements of 4 bytes */

    (void)state;
    runs = 0;
    case_for_each(5, counts, 3, 1, check_crooked);
    assert_in_range(runs, 400 / unit_share(), UINT64_MAX);
}

/* A broadcast from rank 1 to rank 0 that stores its bytes in WORK while later messages use DST:
 * correct only if nothing lands in DST before its wait. */
static void parking_round(struct tt_sched *s, const struct tt_coll *c, uint64_t k)
{
    (void)k;
    if (c->rank == 1) {
        tt_sched_put(s, 0, tt_src(0), tt_dst(0), c->bytes, 0);
        tt_sched_put(s, 0, tt_work(0), tt_dst(0), c->bytes, 1);
        tt_sched_copy(s, tt_dst(0), tt_src(0), c->bytes);
    } else {
        tt_sched_wait(s, 1, tt_dst(0), c->bytes, 0);
        tt_sched_copy(s, tt_work(0), tt_dst(0), c->bytes);
        tt_sched_wait(s, 1, tt_dst(0), c->bytes, 1);
        tt_sched_copy(s, tt_dst(0), tt_work(0), c->bytes);
    }
}

static uint64_t parking_work(const struct tt_coll *c) { return c->bytes; }

static void undeclared_scratch_is_overwritten(void **state)
{
    static struct case_calls calls;
    struct tt_algo algo = {
        .name = "broadcast_parking",
        .kind = TT_BROADCAST,
        .fits = tt_fits_always,
        .nrounds = tt_rounds_one,
        .round = parking_round,
        .work_bytes = parking_work,
        .npeers = tt_npeers_all,
    };
    const struct case_spec spec = {
        .algo = &algo, .nranks = 2, .root = 1, .elem_bytes = 1, .count = 100, .seed = 5
    };
    uint32_t wrong[2] = { 0, 0 };
    char why[256];

    (void)state;
    case_make(&calls, &spec);
    for (int says = 0; says < 2; says++) {
        algo.direct_unsafe = says;
        for (uint32_t i = 0; i < MODES; i++) {
            const struct mode m = mode_of(i);

            wrong[says] += !right(&spec, &calls, &m, i, why, sizeof why);
        }
    }
    assert_in_range(wrong[0], 100, MODES / 2);
    assert_int_equal(wrong[1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_hold_for_1_to_9),
        cmocka_unit_test(results_hold_for_10_to_17),
        cmocka_unit_test(results_are_right_for_many_segments),
        cmocka_unit_test(results_are_right_in_every_mode),
        cmocka_unit_test(every_mode_reduces_in_order),
        cmocka_unit_test(every_wrong_byte_is_noticed),
        cmocka_unit_test(crooked_programs_are_noticed),
        cmocka_unit_test(undeclared_scratch_is_overwritten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
