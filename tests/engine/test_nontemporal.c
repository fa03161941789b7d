/* The size from which outputs are written with non-temporal stores, by the ranks' shares of the
 * cache. */
#include "engine/nontemporal.h"
#include "support/unit.h"

#define MIB (1ull << 20)

static void ranks_divide_a_shared_cache(void **state)
{
    (void)state;
    assert_int_equal(tt_nontemporal_least(8 * MIB, 2, 2, 1), 6 * MIB);
    assert_int_equal(tt_nontemporal_least(8 * MIB, 2, 2, 2), 3 * MIB);
    /* more ranks than cores */
    assert_int_equal(tt_nontemporal_least(8 * MIB, 2, 2, 8), 6 * MIB / 8);
    /* a cache for each core */
    assert_int_equal(tt_nontemporal_least(8 * MIB, 1, 8, 8), 6 * MIB);
    assert_int_equal(tt_nontemporal_least(8 * MIB, 4, 8, 8), 6 * MIB / 4);
    /* at least two of them at one cache */
    assert_int_equal(tt_nontemporal_least(8 * MIB, 4, 8, 3), 6 * MIB / 2);
    assert_int_equal(tt_nontemporal_least(8 * MIB, 64, 2, 2), 3 * MIB);
    assert_int_equal(tt_nontemporal_least(UINT64_MAX, 1, 1, 1), 12 * MIB);
}

static void unknown_cache_counts_as_large(void **state)
{
    (void)state;
    assert_int_equal(tt_nontemporal_least(0, 0, 2, 2), 12 * MIB);
    assert_int_equal(tt_nontemporal_least(8 * MIB, 0, 2, 2), 12 * MIB);
    assert_int_equal(tt_nontemporal_least(8 * MIB, 2, 0, 2), 12 * MIB);
    assert_int_equal(tt_nontemporal_least(8 * MIB, 2, 2, 0), 12 * MIB);
}

/* Returns the highest threshold that such a call of 1000 bytes on 4 ranks reaches. */
static uint64_t reaches(enum tt_coll_kind kind, uint32_t rank, bool in_place)
{
    const struct tt_coll c = { .kind = kind,
                               .rank = rank,
                               .nranks = 4,
                               .elem_bytes = 1,
                               .bytes = 1000,
                               .in_place = in_place };
    uint64_t least = 0;

    while (tt_nontemporal_pays(&c, least + 1))
        least++;
    return least;
}

static void shared_memory_counts_once(void **state)
{
    (void)state;
    assert_int_equal(reaches(TT_ALLREDUCE, 1, false), 2000);
    assert_int_equal(reaches(TT_ALLREDUCE, 1, true), 1000);
    assert_int_equal(reaches(TT_ALLTOALL, 1, false), 8000);
    assert_int_equal(reaches(TT_ALLTOALL, 1, true), 4000);
    assert_int_equal(reaches(TT_ALLGATHER, 1, false), 5000);
    assert_int_equal(reaches(TT_REDUCE_SCATTER, 1, true), 4000);
}

static void a_root_and_the_others_agree(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(reaches(TT_BROADCAST, rank, rank == 0), 1250);
        assert_int_equal(reaches(TT_REDUCE, rank, false), 1000);
        assert_int_equal(reaches(TT_SCATTER, rank, false), 2000);
        assert_int_equal(reaches(TT_GATHER, rank, false), 2000);
    }
    assert_int_equal(reaches(TT_SEND, 0, false), 1000);
    assert_int_equal(reaches(TT_RECV, 0, false), 1000);
    assert_int_equal(reaches(TT_BARRIER, 0, false), 0);
}

static void uncached_data_is_not_kept(void **state)
{
    struct tt_coll c = { .kind = TT_GATHER, .nranks = 1024, .elem_bytes = 1, .bytes = 16 << 10 };

    (void)state;
    assert_true(tt_nontemporal_pays(&c, 6 * MIB));
    c.rank = 1;
    assert_false(tt_nontemporal_pays(&c, 6 * MIB));
}

static void v_kinds_count_received_bytes(void **state)
{
    const uint64_t bytes[] = { 10, 500, 30, 40 }, displs[] = { 0, 10, 510, 540 };
    struct tt_coll c = {
        .kind = TT_GATHERV, .nranks = 4, .elem_bytes = 1, .recv_bytes = bytes, .recv_displs = displs
    };

    (void)state;
    assert_true(tt_nontemporal_pays(&c, 290) && !tt_nontemporal_pays(&c, 291));
    c.rank = 1;
    assert_false(tt_nontemporal_pays(&c, 1));
    c = (struct tt_coll){ .kind = TT_SCATTERV,
                          .rank = 1,
                          .nranks = 4,
                          .elem_bytes = 1,
                          .send_bytes = bytes,
                          .send_displs = displs };
    assert_true(tt_nontemporal_pays(&c, 500) && !tt_nontemporal_pays(&c, 501));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_divide_a_shared_cache),
        cmocka_unit_test(unknown_cache_counts_as_large),
        cmocka_unit_test(shared_memory_counts_once),
        cmocka_unit_test(a_root_and_the_others_agree),
        cmocka_unit_test(uncached_data_is_not_kept),
        cmocka_unit_test(v_kinds_count_received_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
