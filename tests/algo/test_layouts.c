/* Layout-dependent algorithms for many layouts: the verifier proves them, and their declared
 * properties and traffic patterns hold. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "algo/blocks.h"
#include "sched/verify.h"
#include "interpreter.h"
#include "rounds.h"
#include "support/cases.h"
#include "support/layouts.h"
#include "support/unit.h"

/* The algorithms that use the layout; all others ignore it. */
static const char *const names[] = {
    "allgather_parallel_rings",
    "allgather_parallel_rings_linear",
    "allgather_parallel_rings_doubling",
    "allgather_parallel_rings_halving",
    "allgather_parallel_rings_knomial",
    "allgather_parallel_rings_sockets",
    "allgatherv_parallel_rings",
    "reduce_scatter_parallel_rings",
    "reduce_scatterv_parallel_rings",
    "allreduce_parallel_rings",
    "allreduce_hierarchical",
    "alltoall_two_level",
    "alltoallv_by_hosts",
    "alltoallv_two_level",
};

#define NNAMES (sizeof names / sizeof names[0])

static const struct tt_algo *algo_of(const char *name)
{
    for (size_t a = 0; a < tt_nalgos; a++)
        if (strcmp(tt_algos[a]->name, name) == 0)
            return tt_algos[a];
    fail_msg("no algorithm %s", name);
    return NULL;
}

/* ---- one case on one layout ---- */

static uint32_t kind;

static void make(struct case_calls *calls, const struct case_spec *spec, struct tt_layout *l)
{
    case_make(calls, spec);
    layout_make(l, kind, spec->nranks, spec->seed);
    for (uint32_t r = 0; r < spec->nranks; r++)
        calls->coll[r].layout = l;
}

#define FAIL(spec, ...) \
    do { \
        print_error("%s: ", layout_text(kind)); \
        case_fail(spec, __VA_ARGS__); \
    } while (0)

static uint64_t ncases;

/* Calls a function for each algorithm on every layout, for the ranks [from, to] and one count; for
 * one case in `every`. */
typedef void layout_fn(const struct case_spec *spec, const struct case_calls *calls);
static void for_each(uint32_t from, uint32_t to, uint32_t every, uint64_t count, layout_fn *fn)
{
    static struct case_calls calls;

    for (size_t a = 0; a < NNAMES; a++)
        for (kind = 0; kind < layout_kinds; kind++)
            for (uint32_t n = from; n <= to; n++) {
                struct case_spec spec = {
                    .algo = algo_of(names[a]),
                    .nranks = n,
                    .count = count,
                    .elem_bytes = 1u << n % 4,
                    .place = (enum case_place)((n + kind) % CASE_PLACES),
                    .packed = (n / 2 + kind) % 2,
                    .seed = 100 * n + kind,
                };
                struct tt_layout l;

                /* These have the most segments (slabs, rows of any size): run fewer cases. */
                if ((n + kind + a) % (spec.algo->kind == TT_REDUCE_SCATTERV ? 5 * every : every))
                    continue;

                if (!case_exists(&spec))
                    spec.packed = true;
                if (!case_exists(&spec))
                    spec.place = OUT_OF_PLACE;
                make(&calls, &spec, &l);
                if (unit_draw() && spec.algo->fits(&calls.coll[0]))
                    fn(&spec, &calls);
                tt_layout_fini(&l);
                ncases++;
            }
}

static void prove(const struct case_spec *spec, const struct case_calls *calls)
{
    struct tt_program p;
    char why[1024] = "";

    assert_int_equal(tt_program_init(&p, spec->algo, calls->coll, spec->nranks), TUTTI_OK);
    if (tt_verify(&p, why, sizeof why) != TUTTI_OK)
        FAIL(spec, "%s", why);
    tt_program_fini(&p);
}

static void layouts_are_proven_to_24_ranks(void **state)
{
    static const uint64_t counts[] = { 0, 1, 7, 70000 };

    (void)state;
    for (int i = 0; i < 4; i++)
        for_each(1, 24, 1, counts[i], prove);
}

static void layouts_are_proven_to_64_ranks(void **state)
{
    (void)state;
    for_each(25, 64, 7, 65, prove);
}

/* ---- guarantees of rounds ---- */

static void look_at_rounds(const struct case_spec *spec, const struct case_calls *calls)
{
    static struct round_steps rounds[CASE_RANKS_MAX];
    const uint64_t nrounds = spec->algo->nrounds(&calls->coll[0]);
    uint64_t peers[CASE_RANKS_MAX] = { 0 };

    for (uint32_t r = 0; r < spec->nranks; r++) {
        if (spec->algo->nrounds(&calls->coll[r]) != nrounds)
            FAIL(spec, "rank %u has another number of rounds", r);
        if (!spec->algo->fits(&calls->coll[r]))
            FAIL(spec, "it fits on rank 0, but not on rank %u", r);
        if (spec->algo->work_bytes(&calls->coll[r]) > TT_WORK_MAX + TT_SLAB_BYTES)
            FAIL(spec, "rank %u wants %" PRIu64 " B of WORK", r,
                 spec->algo->work_bytes(&calls->coll[r]));
    }
    for (uint64_t k = 0; k < nrounds; k++) {
        for (uint32_t r = 0; r < spec->nranks; r++)
            round_emit(&rounds[r], spec->algo, &calls->coll[r], k);
        for (uint32_t r = 0; r < spec->nranks; r++) {
            const char *flaw = round_flaw(rounds, r, true);

            if (flaw)
                FAIL(spec, "round %u of rank %u %s", (unsigned)k, r, flaw);
            for (uint32_t i = 0; i < rounds[r].s.n; i++)
                if (rounds[r].step[i].opcode <= TT_WAIT)
                    peers[r] |= 1ull << rounds[r].step[i].peer;
        }
    }
    for (uint32_t r = 0; r < spec->nranks; r++)
        if ((uint32_t)__builtin_popcountll(peers[r]) > spec->algo->npeers(&calls->coll[r]))
            FAIL(spec, "rank %u has %u peers, not at most %u", r,
                 (unsigned)__builtin_popcountll(peers[r]), spec->algo->npeers(&calls->coll[r]));
}

static void rounds_peers_work_match_the_table(void **state)
{
    (void)state;
    for_each(1, 40, 2, 9, look_at_rounds);
    for_each(63, 64, 2, 70000, look_at_rounds);
}

/* If row lengths are sent with the rows, they arrive in the declared rounds. */
static void check_lengths(const struct case_spec *spec, const struct case_calls *calls)
{
    static const struct manner how = { .window = UINT32_MAX / 2, .seed = 1 };
    char why[256] = "";

    if (!spec->algo->length_at)
        return;
    if (!interpret(spec, calls, NULL, &how, why, sizeof why))
        FAIL(spec, "%s", why);
    for (uint32_t r = 0; r < spec->nranks; r++)
        for (uint64_t k = spec->algo->length_rounds(&calls->coll[r]);
             k < spec->algo->nrounds(&calls->coll[r]); k++) {
            struct round_steps round;

            round_emit(&round, spec->algo, &calls->coll[r], k);
            for (uint32_t i = 0; i < round.s.n; i++)
                if (round.step[i].opcode == TT_WAIT && round.step[i].tag == 0)
                    FAIL(spec, "rank %u awaits padded bytes in round %u still", r, (unsigned)k);
        }
}

static void row_lengths_arrive_with_rows(void **state)
{
    (void)state;
    for_each(1, 12, 1, 9, check_lengths);
    for_each(13, 20, 7, 300, check_lengths);
}

/* No step is redundant. */
static void drop_each_step(const struct case_spec *spec, const struct case_calls *calls)
{
    struct tt_program p;
    char why[1024];

    assert_int_equal(tt_program_init(&p, spec->algo, calls->coll, spec->nranks), TUTTI_OK);
    for (uint32_t r = 0; r < spec->nranks; r++)
        for (uint64_t i = 0; i < p.nsteps[r]; i++) {
            const struct tt_step step = p.steps[r][i];

            p.nsteps[r]--;
            memmove(&p.steps[r][i], &p.steps[r][i + 1], (p.nsteps[r] - i) * sizeof step);
            if (tt_verify(&p, why, sizeof why) == TUTTI_OK)
                FAIL(spec, "nobody misses step %u of rank %u", (unsigned)i, r);
            memmove(&p.steps[r][i + 1], &p.steps[r][i], (p.nsteps[r] - i) * sizeof step);
            p.steps[r][i] = step;
            p.nsteps[r]++;
        }
    tt_program_fini(&p);
}

static void dropping_any_step_is_noticed(void **state)
{
    (void)state;
    for_each(2, 11, 3, 9, drop_each_step);
}

/* 131,072 ranks on hosts of 8: each round can be emitted alone, in a time independent of their
 * number. */
static void single_round_of_131072_ranks_works(void **state)
{
    struct tt_layout l;
    uint64_t emitted = 0;

    (void)state;
    for (int node = 0; node < 2; node++)
        for (size_t a = 0; a < NNAMES; a++) {
            const struct tt_algo *algo = algo_of(names[a]);
            struct tt_coll c = {
                .kind = algo->kind,
                .nranks = 131072,
                .elem_bytes = 4,
                .bytes = 64 << 10,
                .layout = &l,
            };

            tt_layout_regular(&l, c.nranks, 8, 2, 8, node ? TT_NODE_SOCKETS : TT_NODE_MESH);
            if (case_is_v(algo->kind) || !algo->fits(&c))
                continue;
            assert_in_range(algo->nrounds(&c), 1, 240000);     /* hosts times the 7 hops of each,
                                                              twice */
            for (uint64_t k = 0; k < algo->nrounds(&c); k += 1 + 10 * unit_share())
                for (c.rank = 0; c.rank < c.nranks; c.rank += 13107) {
                    struct round_steps round;

                    round_emit(&round, algo, &c, k);
                    emitted += round.s.n;
                }
        }
    assert_in_range(emitted, 1000000 / unit_share(), UINT64_MAX);
}

/* ---- traffic patterns ---- */

/* Creates all programs of a call on a layout. */
static void programs(struct tt_program *p, struct case_calls *calls, const char *name,
                     uint32_t nranks, const struct tt_layout *l)
{
    const struct case_spec spec = {
        .algo = algo_of(name), .nranks = nranks, .count = 8, .elem_bytes = 8, .packed = true
    };

    case_make(calls, &spec);
    for (uint32_t r = 0; r < nranks; r++)
        calls->coll[r].layout = l;
    assert_int_equal(tt_program_init(p, spec.algo, calls->coll, nranks), TUTTI_OK);
}

/* Returns the maximum number of puts by a rank to distances of `from` and more. */
static uint32_t puts_far(const struct tt_program *p, const struct tt_layout *l,
                         enum tt_distance from)
{
    uint32_t most = 0;

    for (uint32_t r = 0; r < p->nranks; r++) {
        uint32_t n = 0;

        for (uint64_t i = 0; i < p->nsteps[r]; i++)
            n += p->steps[r][i].opcode == TT_PUT &&
                 tt_layout_distance(l, r, p->steps[r][i].peer) >= from;
        most = n > most ? n : most;
    }
    return most;
}

static void sixty_four_ranks_take_15_steps(void **state)
{
    static struct case_calls calls;
    static const struct {
        const char *name;
        uint32_t puts;
    } wanted[] = {
        { "allgather_parallel_rings", 15 },
        { "reduce_scatter_parallel_rings", 15 },
        { "allreduce_parallel_rings", 30 },
        { "allgather_ring", 63 },
        { "allreduce_hierarchical", 4 },
        { "alltoall_two_level", 15 },
        { "alltoall_direct", 60 },
    };
    struct tt_program p;
    struct tt_layout l;

    (void)state;
    for (int node = 0; node < 2; node++) {
        tt_layout_regular(&l, 64, 4, 2, 4, node ? TT_NODE_SOCKETS : TT_NODE_MESH);
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
            programs(&p, &calls, wanted[i].name, 64, &l);
            if (puts_far(&p, &l, TT_NEAR_RACK) != wanted[i].puts)
                fail_msg("%s: %u puts between hosts, not %u", wanted[i].name,
                         puts_far(&p, &l, TT_NEAR_RACK), wanted[i].puts);
            tt_program_fini(&p);
        }
    }
}

/* Returns how many times block `block` is put from outside into the group of `level` that contains
 * `into`. */
static uint32_t entries(const struct tt_program *p, const struct tt_layout *l, uint32_t block,
                        uint32_t into, bool sockets)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < p->nranks; r++)
        for (uint64_t i = 0; i < p->nsteps[r]; i++) {
            const struct tt_step *s = &p->steps[r][i];

            if (s->opcode != TT_PUT || s->out.offset != tt_block_of(&p->coll[r], block).offset)
                continue;
            if (sockets)
                n += tt_layout_socket(l, s->peer) == tt_layout_socket(l, into) &&
                     tt_layout_socket(l, r) != tt_layout_socket(l, into);
            else
                n += tt_layout_host(l, s->peer) == tt_layout_host(l, into) &&
                     tt_layout_host(l, r) != tt_layout_host(l, into);
        }
    return n;
}

static void block_enters_each_group_once(void **state)
{
    static struct case_calls calls;
    static const struct {
        uint32_t host_ranks, sockets;
    } shapes[] = { { 4, 2 }, { 8, 2 }, { 8, 4 }, { 2, 2 }, { 6, 3 } };
    struct tt_program p;
    struct tt_layout l;

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const uint32_t n = 3 * shapes[i].host_ranks;

        tt_layout_regular(&l, n, shapes[i].host_ranks, shapes[i].sockets, 1, TT_NODE_SOCKETS);
        programs(&p, &calls, "allgather_parallel_rings", n, &l);
        for (uint32_t block = 0; block < n; block++)
            for (uint32_t into = 0; into < n; into++) {
                const bool own_host = tt_layout_host(&l, block) == tt_layout_host(&l, into);
                const bool own_socket = tt_layout_socket(&l, block) == tt_layout_socket(&l, into);

                assert_int_equal(entries(&p, &l, block, into, false), own_host ? 0 : 1);
                assert_int_equal(entries(&p, &l, block, into, true), own_socket ? 0 : 1);
            }
        tt_program_fini(&p);
    }
}

/* One host with two sockets of two ranks. In order: every rank puts its own block to its pair; then
 * 0 to 2, 1 to 3, 2 to 1 and 3 to 0; then these blocks are put to the pair. */
static void four_gpus_go_in_three_phases(void **state)
{
    static struct case_calls calls;
    static const uint32_t peer[4][3] = { { 1, 2, 1 }, { 0, 3, 0 }, { 3, 1, 3 }, { 2, 0, 2 } };
    static const uint32_t block[4][3] = { { 0, 0, 3 }, { 1, 1, 2 }, { 2, 2, 0 }, { 3, 3, 1 } };
    struct tt_program p;
    struct tt_layout l;

    (void)state;
    tt_layout_regular(&l, 4, 4, 2, 1, TT_NODE_SOCKETS);
    programs(&p, &calls, "allgather_parallel_rings", 4, &l);
    for (uint32_t r = 0; r < 4; r++) {
        uint32_t n = 0;

        for (uint64_t i = 0; i < p.nsteps[r]; i++) {
            const struct tt_step *s = &p.steps[r][i];

            if (s->opcode != TT_PUT)
                continue;
            assert_in_range(n, 0, 2);
            assert_int_equal(s->peer, peer[r][n]);
            assert_int_equal(s->out.offset, block[r][n] * 64);
            n++;
        }
        assert_int_equal(n, 3);
    }
    tt_program_fini(&p);
}

/* Returns the round in which a rank has the given step. */
static uint64_t round_of(const struct tt_algo *algo, const struct tt_coll *c, enum tt_opcode opcode,
                         uint32_t peer, uint64_t offset)
{
    for (uint64_t k = 0; k < algo->nrounds(c); k++) {
        struct round_steps round;

        round_emit(&round, algo, c, k);
        for (uint32_t i = 0; i < round.s.n; i++)
            if (round.step[i].opcode == opcode && round.step[i].peer == peer &&
                round.step[i].out.offset == offset)
                return k;
    }
    fail_msg("no such step");
    return 0;
}

/* Rank 0 of hosts of 4, three rounds per step: the block that step 1 of its ring receives (block 8
 * of 16) goes to its pair and to the next host during step 2, and the block received in step 0 to
 * its pair. */
static void host_phase_overlaps_the_network_phase(void **state)
{
    static struct case_calls calls;
    struct tt_program p;
    struct tt_layout l;

    (void)state;
    tt_layout_regular(&l, 16, 4, 2, 4, TT_NODE_SOCKETS);
    programs(&p, &calls, "allgather_parallel_rings", 16, &l);
    const struct tt_algo *algo = algo_of("allgather_parallel_rings");
    const struct tt_coll *c = &calls.coll[0];

    assert_int_equal(round_of(algo, c, TT_WAIT, 12, 8 * 64), 3);
    assert_int_equal(round_of(algo, c, TT_PUT, 4, 8 * 64), 6);      /* step 2 forwards it */
    /* of step 0: block 15 was received from rank 3 in round 5 */
    assert_int_equal(round_of(algo, c, TT_PUT, 1, 15 * 64), 6);
    assert_int_equal(round_of(algo, c, TT_WAIT, 3, 15 * 64), 5);
    assert_int_equal(round_of(algo, c, TT_PUT, 1, 8 * 64), 7);
    assert_int_equal(round_of(algo, c, TT_PUT, 2, 8 * 64), 8);
    /* 3 steps, and 2 until the last one is complete */
    assert_int_equal(algo->nrounds(c), 3 * 5);
    tt_program_fini(&p);
}

/* On several hosts, rings are selected for long blocks, and a common rail makes them more
 * expensive. On one host, or without a layout, they have no advantage. */
static void rings_serve_long_blocks_across_hosts(void **state)
{
    static const struct tt_cost_model model = {
        .message_ns = 8000,
        .byte_ns = 0.8,
        .reduce_byte_ns = 0.1,
        .copy_byte_ns = 0.08,
        .near_message_ns = 250,
        .near_byte_ns = 0.12,
    };
    static const enum tt_coll_kind kinds[] = { TT_ALLGATHER, TT_REDUCE_SCATTER, TT_ALLREDUCE };
    struct tt_layout rails, one_rail, host;

    (void)state;
    tt_layout_regular(&rails, 16, 4, 1, 4, TT_NODE_MESH);
    tt_layout_regular(&one_rail, 16, 4, 1, 1, TT_NODE_MESH);
    tt_layout_regular(&host, 16, 16, 1, 1, TT_NODE_MESH);
    for (int i = 0; i < 3; i++) {
        struct tt_coll c = {
            .kind = kinds[i], .nranks = 16, .elem_bytes = 4, .bytes = 4 << 20, .layout = &rails
        };
        struct tt_cost cheap, dear;
        char name[64];

        snprintf(name, sizeof name, "%s_parallel_rings", tt_coll_name(c.kind));
        assert_string_equal(tt_algo_choose(&c, &model)->name, name);
        cheap = algo_of(name)->cost(&c);
        c.layout = &one_rail;
        dear = algo_of(name)->cost(&c);
        assert_true(dear.bytes == 4 * cheap.bytes && dear.messages == cheap.messages);
        c.layout = &host;
        assert_string_not_equal(tt_algo_choose(&c, &model)->name, name);
        c.layout = NULL;
        assert_string_not_equal(tt_algo_choose(&c, &model)->name, name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_are_proven_to_24_ranks),
        cmocka_unit_test(layouts_are_proven_to_64_ranks),
        cmocka_unit_test(rounds_peers_work_match_the_table),
        cmocka_unit_test(row_lengths_arrive_with_rows),
        cmocka_unit_test(dropping_any_step_is_noticed),
        cmocka_unit_test(single_round_of_131072_ranks_works),
        cmocka_unit_test(sixty_four_ranks_take_15_steps),
        cmocka_unit_test(block_enters_each_group_once),
        cmocka_unit_test(four_gpus_go_in_three_phases),
        cmocka_unit_test(host_phase_overlaps_the_network_phase),
        cmocka_unit_test(rings_serve_long_blocks_across_hosts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
