/* The orders of recursive doubling: the peer of each round, with a layout of several buildings; and
 * proofs of every order with this layout, for 1 to 64 ranks. */
#include <stdio.h>
#include "algo/orders.h"
#include "sched/verify.h"
#include "support/cases.h"
#include "support/unit.h"

static const struct tt_algo *named(enum tt_coll_kind kind, const char *name)
{
    const struct tt_algo *algo = tt_algo_named(kind, name);

    assert_non_null(algo);
    return algo;
}

/* Hosts of 2 ranks, buildings of `building` ranks. */
static struct tt_layout layout_of(uint32_t nranks, uint32_t building)
{
    struct tt_layout l;

    tt_layout_regular(&l, nranks, 2, 1, 1, TT_NODE_MESH);
    l.group_ranks[TT_NEAR_RACK] = l.group_ranks[TT_NEAR_ZONE] = l.group_ranks[TT_NEAR_BUILDING] =
        building;
    return l;
}

/* Lists the peer that rank 0 puts to in each round. */
static void peers_of(const struct tt_algo *algo, const struct tt_coll *c, uint32_t *peer)
{
    for (uint64_t k = 0; k < algo->nrounds(c); k++) {
        struct tt_step steps[TT_ROUND_STEPS_MAX];
        struct tt_sched s = { .steps = steps, .cap = TT_ROUND_STEPS_MAX };

        algo->round(&s, c, k);
        peer[k] = UINT32_MAX;
        for (uint32_t i = 0; i < s.n && peer[k] == UINT32_MAX; i++)
            if (steps[i].opcode == TT_PUT)
                peer[k] = steps[i].peer;
    }
}

static void each_order_has_its_peers(void **state)
{
    static const struct {
        enum tt_coll_kind kind;
        const char *name;
        uint32_t peer[4];
    } cases[] = {
        { TT_ALLGATHER, "doubling", { 1, 2, 4, 8 } },
        { TT_ALLGATHER, "far", { 8, 4, 2, 1 } },
        { TT_ALLGATHER, "hybrid", { 8, 1, 2, 4 } },
        { TT_ALLGATHER, "pat", { 8, 4, 2, 1 } },
        { TT_REDUCE_SCATTER, "halving", { 8, 4, 2, 1 } },
        { TT_REDUCE_SCATTER, "near", { 1, 2, 4, 8 } },
        { TT_REDUCE_SCATTER, "hybrid", { 4, 2, 1, 8 } },
        { TT_REDUCE_SCATTER, "pat", { 15, 14, 12, 8 } },
    };
    const struct tt_layout layout = layout_of(16, 8);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tt_coll c = {
            .kind = cases[i].kind, .nranks = 16, .elem_bytes = 4, .bytes = 4, .layout = &layout
        };
        uint32_t peer[8];

        peers_of(named(c.kind, cases[i].name), &c, peer);
        for (int k = 0; k < 4; k++)
            if (peer[k] != cases[i].peer[k])
                fail_msg("%s of %s: round %d is with rank %u, not %u", cases[i].name,
                         tt_coll_name(c.kind), k, peer[k], cases[i].peer[k]);
    }
}

/* Returns the bytes of all messages between buildings. */
static uint64_t crossing(const struct tt_algo *algo, const struct tt_coll *call)
{
    struct tt_coll c = *call;
    uint64_t bytes = 0;

    for (c.rank = 0; c.rank < c.nranks; c.rank++)
        for (uint64_t k = 0; k < algo->nrounds(&c); k++) {
            struct tt_step steps[TT_ROUND_STEPS_MAX];
            struct tt_sched s = { .steps = steps, .cap = TT_ROUND_STEPS_MAX };

            algo->round(&s, &c, k);
            for (uint32_t i = 0; i < s.n; i++)
                if (steps[i].opcode == TT_PUT &&
                    tt_layout_distance(c.layout, c.rank, steps[i].peer) > TT_NEAR_BUILDING)
                    bytes += steps[i].bytes;
        }
    return bytes;
}

static void far_orders_send_less_between_buildings(void **state)
{
    const struct tt_layout layout = layout_of(64, 16);
    const struct tt_coll c = {
        .kind = TT_ALLGATHER, .nranks = 64, .elem_bytes = 4, .bytes = 4, .layout = &layout
    };
    const uint64_t near = crossing(named(TT_ALLGATHER, "doubling"), &c);

    (void)state;
    assert_int_equal(near, 64 * (16 + 32) * 4);     /* the last two rounds cross */
    assert_int_equal(crossing(named(TT_ALLGATHER, "far"), &c), 64 * (1 + 2) * 4);
    assert_int_equal(crossing(named(TT_ALLGATHER, "hybrid"), &c), 64 * (1 + 2) * 4);
    assert_in_range(crossing(named(TT_ALLGATHER, "pat"), &c), 64, near / 2);
}

static void prove(const struct tt_algo *algo, const struct tt_layout *layout, uint32_t nranks,
                  uint64_t bytes, bool in_place)
{
    struct tt_coll coll[64];
    struct tt_program p;
    char why[1024] = "";

    if (!unit_draw())
        return;
    for (uint32_t r = 0; r < nranks; r++)
        coll[r] = (struct tt_coll){
            .kind = algo->kind,
            .rank = r,
            .nranks = nranks,
            .elem_bytes = 4,
            .bytes = bytes,
            .in_place = in_place && r % 3 != 0,
            .layout = layout,
        };
    assert_int_equal(tt_program_init(&p, algo, coll, nranks), TUTTI_OK);
    if (tt_verify(&p, why, sizeof why))
        fail_msg("%s, %u ranks, %llu bytes: %s", algo->name, nranks, (unsigned long long)bytes,
                 why);
    tt_program_fini(&p);
}

static void every_order_is_proven_in_buildings(void **state)
{
    static const uint32_t buildings[] = { 2, 6, 8, 16, 32 };
    const struct tt_algo *const algos[] = { named(TT_ALLGATHER, "hybrid"),
                                            named(TT_REDUCE_SCATTER, "hybrid") };

    (void)state;
    for (uint32_t n = 1; n <= 64; n++)
        for (uint32_t i = 0; i < 2 * 5; i++) {
            const struct tt_layout layout = layout_of(n, buildings[i % 5]);

            prove(algos[i / 5], &layout, n, 4 * (1 + n % 3), n % 2);
        }
}

/* Cases beyond case_for_each: many ranks, and messages limited to few blocks. */
static void flat_and_tree_proven_to_64(void **state)
{
    static const struct {
        enum tt_coll_kind kind;
        const char *name;
        uint64_t bytes[2];
    } cases[] = {
        { TT_ALLGATHER, "far", { 4, 12 } },
        { TT_ALLGATHER, "pat", { 4, 12 } },
        { TT_ALLGATHER, "pat_bounded", { 4, 70000 } },
        { TT_REDUCE_SCATTER, "near", { 4, 12 } },
        { TT_REDUCE_SCATTER, "pat", { 4, 12 } },
        { TT_REDUCE_SCATTER, "pat_bounded", { 12000, 70000 } },
        { TT_ALLREDUCE, "dtree", { 4, 64 } },
        { TT_REDUCE, "dtree", { 4, 64 } },
        { TT_BROADCAST, "dtree", { 4, 64 } },
        { TT_REDUCE, "knomial4", { 4, 64 } },
        { TT_BROADCAST, "knomial8", { 4, 64 } },
        { TT_GATHER, "knomial4", { 4, 64 } },
        { TT_SCATTER, "knomial8", { 4, 64 } },
    };

    (void)state;
    for (uint32_t n = 18; n <= 64; n++)
        for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++)
            prove(named(cases[i / 2].kind, cases[i / 2].name), NULL, n, cases[i / 2].bytes[i % 2],
                  n % 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_order_has_its_peers),
        cmocka_unit_test(far_orders_send_less_between_buildings),
        cmocka_unit_test(every_order_is_proven_in_buildings),
        cmocka_unit_test(flat_and_tree_proven_to_64),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
