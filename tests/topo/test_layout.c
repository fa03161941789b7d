#include "support/unit.h"

#include <string.h>

#include "base/prng.h"
#include "topo/layout.h"

static void levels_have_names_and_names_are_levels(void **state)
{
    enum tt_distance d;

    (void)state;
    for (int i = 0; i < TT_DISTANCES; i++) {
        assert_true(tt_distance_parse(tt_distance_name((enum tt_distance)i), &d));
        assert_int_equal(d, i);
    }
    assert_false(tt_distance_parse("?", &d));
    assert_false(tt_distance_parse("", &d));
    assert_string_equal(tt_distance_name(TT_DISTANCES), "?");
}

/* 10 ranks in hosts of 4, 2 a socket, 2 rails; racks of 8. */
static void a_regular_layout_counts_ranks_off_host_by_host(void **state)
{
    struct tt_layout l;
    uint32_t g;

    (void)state;
    tt_layout_regular(&l, 10, 4, 2, 2, TT_NODE_SOCKETS);
    l.group_ranks[TT_NEAR_RACK] = 8;
    assert_int_equal(l.nhosts, 3);
    assert_int_equal(tt_layout_host(&l, 7), 1);
    assert_int_equal(tt_layout_socket(&l, 7), 3);
    assert_int_equal(tt_layout_local(&l, 7), 3);
    assert_int_equal(tt_layout_rail(&l, 7), 1);
    assert_int_equal(tt_layout_host_ranks(&l, 1), 4);
    assert_int_equal(tt_layout_host_ranks(&l, 2), 2);
    assert_int_equal(tt_layout_rank(&l, 2, 1), 9);
    assert_int_equal(tt_layout_distance(&l, 5, 5), TT_NEAR_SELF);
    assert_int_equal(tt_layout_distance(&l, 0, 1), TT_NEAR_SOCKET);
    assert_int_equal(tt_layout_distance(&l, 1, 2), TT_NEAR_HOST);
    assert_int_equal(tt_layout_distance(&l, 3, 4), TT_NEAR_RACK);
    assert_int_equal(tt_layout_distance(&l, 7, 8), TT_NEAR_ZONE);
    assert_false(tt_layout_is_even(&l, &g));
    tt_layout_regular(&l, 12, 4, 1, 1, TT_NODE_MESH);
    assert_true(tt_layout_is_even(&l, &g));
    assert_int_equal(g, 4);
    assert_int_equal(tt_layout_distance(&l, 0, 3), TT_NEAR_SOCKET);
}

/* What a regular layout answers, a table with the same groups answers too. */
static void a_table_answers_as_the_regular_layout_it_was_made_from(void **state)
{
    struct tt_layout_seat seats[64];

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct tt_prng p;
        struct tt_layout l, t;
        uint32_t n, per_socket, sockets, ge = 0, gt = 0;

        tt_prng_init(&p, seed);
        n = 1 + (uint32_t)tt_prng_below(&p, 64);
        sockets = 1 + (uint32_t)tt_prng_below(&p, 3);
        per_socket = 1 + (uint32_t)tt_prng_below(&p, 4);
        tt_layout_regular(&l, n, sockets * per_socket, sockets, 1 + (uint32_t)tt_prng_below(&p, 4), TT_NODE_SOCKETS);
        for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
            l.group_ranks[d] = l.group_ranks[d - 1] * (1 + (uint32_t)tt_prng_below(&p, 3));
        memset(seats, 0, sizeof seats);
        for (uint32_t r = 0; r < n; r++) {
            for (int d = TT_NEAR_SOCKET; d < TT_NEAR_WAN; d++)
                seats[r].group[d] = r / l.group_ranks[d];
            seats[r].rail = tt_layout_rail(&l, r);
        }
        assert_true(tt_layout_init(&t, seats, n, l.node, l.nrails));
        assert_int_equal(t.nhosts, l.nhosts);
        for (uint32_t a = 0; a < n; a++) {
            assert_int_equal(tt_layout_host(&t, a), tt_layout_host(&l, a));
            assert_int_equal(tt_layout_socket(&t, a), tt_layout_socket(&l, a));
            assert_int_equal(tt_layout_local(&t, a), tt_layout_local(&l, a));
            assert_int_equal(tt_layout_rail(&t, a), tt_layout_rail(&l, a));
            assert_int_equal(tt_layout_rank(&t, tt_layout_host(&l, a), tt_layout_local(&l, a)), a);
            for (uint32_t b = 0; b < n; b++)
                if (tt_layout_distance(&t, a, b) != tt_layout_distance(&l, a, b))
                    fail_msg("seed %llu: ranks %u and %u", (unsigned long long)seed, a, b);
        }
        for (uint32_t h = 0; h < l.nhosts; h++)
            assert_int_equal(tt_layout_host_ranks(&t, h), tt_layout_host_ranks(&l, h));
        assert_int_equal(tt_layout_is_even(&t, &gt), tt_layout_is_even(&l, &ge));
        assert_int_equal(gt, ge);
        tt_layout_fini(&t);
    }
}

/* Ranks dealt out to hosts in turn, unevenly. */
static void a_table_lists_the_ranks_of_hosts_that_are_not_consecutive(void **state)
{
    static const uint32_t host[] = { 0, 1, 2, 0, 1, 0 };
    struct tt_layout_seat seats[6] = { 0 };
    struct tt_layout l;
    uint32_t g;

    (void)state;
    for (uint32_t r = 0; r < 6; r++) {
        seats[r].group[TT_NEAR_SOCKET] = r;
        seats[r].group[TT_NEAR_HOST] = host[r];
    }
    assert_true(tt_layout_init(&l, seats, 6, TT_NODE_MESH, 1));
    assert_int_equal(l.nhosts, 3);
    assert_int_equal(tt_layout_host_ranks(&l, 0), 3);
    assert_int_equal(tt_layout_host_ranks(&l, 1), 2);
    assert_int_equal(tt_layout_rank(&l, 0, 1), 3);
    assert_int_equal(tt_layout_rank(&l, 0, 2), 5);
    assert_int_equal(tt_layout_rank(&l, 1, 1), 4);
    assert_int_equal(tt_layout_local(&l, 5), 2);
    assert_int_equal(tt_layout_distance(&l, 0, 5), TT_NEAR_HOST);
    assert_int_equal(tt_layout_distance(&l, 0, 1), TT_NEAR_RACK);
    assert_false(tt_layout_is_even(&l, &g));
    tt_layout_fini(&l);
}

/* Groups that nest, of which the last rank is not farthest from the first. */
static void the_farthest_distance_is_that_of_some_pair_and_of_none_more(void **state)
{
    struct tt_prng p;

    (void)state;
    tt_prng_init(&p, 5);
    for (int i = 0; i < 300; i++) {
        const uint32_t n = 1 + (uint32_t)tt_prng_below(&p, 12);
        enum tt_distance farthest = TT_NEAR_SELF;
        struct tt_layout_seat seats[12] = { 0 };
        struct tt_layout l;

        for (uint32_t r = 0; r < n; r++)
            for (int d = TT_NEAR_WAN - 1; d >= TT_NEAR_SOCKET; d--)
                seats[r].group[d] =
                    (d < TT_NEAR_WAN - 1 ? 2 * seats[r].group[d + 1] : 0) + (uint32_t)(tt_prng_below(&p, 4) == 0);
        assert_true(tt_layout_init(&l, seats, n, TT_NODE_MESH, 1));
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < n; b++)
                farthest = tt_layout_distance(&l, a, b) > farthest ? tt_layout_distance(&l, a, b) : farthest;
        assert_int_equal(tt_layout_farthest(&l), farthest);
        tt_layout_fini(&l);
        tt_layout_regular(&l, n, 4, 2, 1, TT_NODE_MESH);
        l.group_ranks[TT_NEAR_RACK] = 8;
        assert_int_equal(tt_layout_farthest(&l), tt_layout_distance(&l, 0, n - 1));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_have_names_and_names_are_levels),
        cmocka_unit_test(a_regular_layout_counts_ranks_off_host_by_host),
        cmocka_unit_test(a_table_answers_as_the_regular_layout_it_was_made_from),
        cmocka_unit_test(a_table_lists_the_ranks_of_hosts_that_are_not_consecutive),
        cmocka_unit_test(the_farthest_distance_is_that_of_some_pair_and_of_none_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
