/* Reports: what merging keeps, in any order, and what stays within bounds. */
#include <stdlib.h>
#include <string.h>
#include "base/prng.h"
#include "status/report.h"
#include "support/unit.h"

#define PARTS 40u

/* Merges the rows of one report into another. */
static void merge_into(struct tt_status_report *to, const struct tt_status_report *from)
{
    struct tt_status_cursor at = { .stage = 0 };
    uint8_t rows[TT_STATUS_ROWS_MIN];
    size_t bytes;

    while ((bytes = tt_status_write(from, &at, rows, sizeof rows)) > 0)
        assert_true(tt_status_merge(to, rows, bytes));
}

static void add_member(struct tt_status_report *r, uint64_t hash, uint32_t rank, uint64_t seq)
{
    const struct tt_status_comm c = {
        .hash = hash, .nranks = PARTS, .nreported = 1, .name = "data parallel", .members = "0-39"
    };
    const struct tt_status_group g = { .key = { .seq = seq, .kind = 1, .root = TT_STATUS_NO_RANK },
                                       .age_max_ns = rank,
                                       .age_min_ns = rank,
                                       .nranks = 1,
                                       .nlisted = 1,
                                       .ranks = { rank },
                                       .waits = { rank + 1 } };
    struct tt_status_comm *mine = tt_status_add_comm(r, &c);

    assert_non_null(mine);
    tt_status_add_group(mine, &g);
}

/* One report per rank: half of the ranks are in operation 7, one is behind. */
static void make_part(struct tt_status_report *r, uint32_t rank)
{
    tt_status_report_init(r);
    r->nreported = r->nactive = 1;
    r->ndumps = rank % 2;
    r->ndumping = 1;
    r->bytes_per_s = rank;
    add_member(r, 1, rank, rank == 13 ? 6 : 7);
    add_member(r, 100 + rank / 4, rank, 3);
    tt_status_add_rates(tt_status_find_comm(r, 1),
                        &(struct tt_status_rates){ .calls = rank,
                                                   .bytes = 100,
                                                   .nstaged = 2,
                                                   .staged_ns = { [TT_STATUS_STAGE_WIRE] = rank },
                                                   .nranks = 1,
                                                   .least_rank = rank,
                                                   .least = rank == 13 ? 20 : 700 + rank % 2,
                                                   .most_rank = rank,
                                                   .most = rank == 13 ? 20 : 700 + rank % 2 });
    tt_status_add_op(
        r, &(struct tt_status_op){ .rank = rank, .age_ns = 10 + rank, .peer = TT_STATUS_NO_RANK });
    tt_status_add_lanes(r, &(struct tt_status_lanes){ .wire = "tcp",
                                                      .nranks = 1,
                                                      .nrated = rank % 2,
                                                      .lanes = 4,
                                                      .up = rank == 21 ? 2 : 3,
                                                      .down_rank = rank,
                                                      .down_most = rank == 21 ? 2 : 1,
                                                      .idle = 1,
                                                      .depth = rank % 20,
                                                      .posts_per_s = 2,
                                                      .bytes_per_s = rank,
                                                      .outstanding = 2,
                                                      .outstanding_bytes = rank % 30,
                                                      .most_rank = rank,
                                                      .most_bytes = rank % 30 });
    tt_status_add_shares(r, &(struct tt_status_shares){ .nranks = 1,
                                                        .most = 900 - rank / 2,
                                                        .n = 1,
                                                        .rank = { rank },
                                                        .share = { 900 - rank / 2 } });
    tt_status_add_rank(r, TT_STATUS_SILENT, 1000 + rank % 3, 1);
}

static void check_whole(const struct tt_status_report *r)
{
    const struct tt_status_comm *c = tt_status_find_comm(r, 1);

    assert_int_equal(r->nreported, PARTS);
    assert_int_equal(r->nactive, PARTS);
    assert_int_equal(r->ndumps, PARTS / 2);
    assert_int_equal(r->ndumping, PARTS);
    assert_int_equal(r->bytes_per_s, PARTS * (PARTS - 1) / 2);
    assert_int_equal(r->ncomms, 1 + PARTS / 4);
    assert_int_equal(r->nops, PARTS);
    assert_non_null(c);
    assert_string_equal(c->name, "data parallel");
    assert_string_equal(c->members, "0-39");
    assert_int_equal(c->nreported, PARTS);
    assert_int_equal(c->ngroups, 2);
    assert_true(c->has_rates && c->rates.nranks == PARTS && c->rates.bytes == 100 * PARTS);
    assert_int_equal(c->rates.calls, PARTS * (PARTS - 1) / 2);
    assert_true(c->rates.nstaged == 2 * PARTS && c->rates.staged_ns[0] == 0);
    assert_int_equal(c->rates.staged_ns[TT_STATUS_STAGE_WIRE], PARTS * (PARTS - 1) / 2);
    assert_true(c->rates.least_rank == 13 && c->rates.least == 20);
    assert_true(c->rates.most_rank == 1 && c->rates.most == 701);
    assert_true(r->nlanes == 1 && r->lanes[0].nranks == PARTS && r->lanes[0].lanes == 4 * PARTS);
    assert_true(r->lanes[0].up == 3 * PARTS - 1 && r->lanes[0].idle == PARTS);
    assert_true(r->lanes[0].down_rank == 21 && r->lanes[0].down_most == 2);
    assert_int_equal(r->lanes[0].nrated, PARTS / 2);
    assert_true(r->lanes[0].bytes_per_s == PARTS * (PARTS - 1) / 2);
    assert_true(r->lanes[0].depth == 19 && r->lanes[0].posts_per_s == 2 * PARTS);
    assert_true(r->lanes[0].most_rank == 29 && r->lanes[0].most_bytes == 29);
    assert_false(tt_status_find_comm(r, 100)->has_rates);
    assert_true(r->shares.nranks == PARTS && r->shares.most == 900);
    assert_int_equal(r->shares.n, TT_STATUS_SLOW_MAX);
    for (uint32_t i = 0; i < TT_STATUS_SLOW_MAX; i++) {
        const uint32_t rank = PARTS - 2 - i / 2 * 2 + i % 2;    /* pairs have equal shares */

        assert_true(r->shares.rank[i] == rank && r->shares.share[i] == 900 - rank / 2);
    }
    for (uint32_t i = 0; i < 2; i++) {
        const struct tt_status_group *g = &c->groups[i];
        const bool behind = g->key.seq == 6;

        assert_int_equal(g->nranks, behind ? 1 : PARTS - 1);
        assert_int_equal(g->nlisted, behind ? 1 : TT_STATUS_LISTED_MAX);
        for (uint32_t k = 0; k < g->nlisted; k++) {
            assert_int_equal(g->ranks[k], behind ? 13 : k);
            assert_int_equal(g->waits[k], g->ranks[k] + 1);
        }
        assert_int_equal(g->age_max_ns, behind ? 13 : PARTS - 1);
        assert_int_equal(g->age_min_ns, behind ? 13 : 0);
    }
    assert_int_equal(r->lists[TT_STATUS_SILENT].n, 3);
    assert_int_equal(r->lists[TT_STATUS_SILENT].rank[0], 1000);
    assert_int_equal(r->lists[TT_STATUS_SILENT].reports[0], 14);
    assert_int_equal(r->left_out, 0);
}

/* Reports are merged in pairs, in random order. */
static void the_order_of_merging_does_not_matter(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct tt_status_report part[PARTS];
        struct tt_prng prng;

        tt_prng_init(&prng, seed);
        for (uint32_t i = 0; i < PARTS; i++)
            make_part(&part[i], i);
        for (uint32_t n = PARTS; n > 1; n--) {
            const uint32_t from = (uint32_t)tt_prng_below(&prng, n);
            const uint32_t to = (from + 1 + (uint32_t)tt_prng_below(&prng, n - 1)) % n;

            merge_into(&part[to], &part[from]);
            tt_status_report_fini(&part[from]);
            part[from] = part[n - 1];
        }
        check_whole(&part[0]);
        tt_status_report_fini(&part[0]);
    }
}

static void rows_beyond_the_bounds_are_counted(void **state)
{
    struct tt_status_report r, again;

    (void)state;
    tt_status_report_init(&r);
    tt_status_report_init(&again);
    for (uint32_t i = 0; i < TT_STATUS_COMMS_MAX + 10; i++)
        tt_status_add_comm(&r, &(struct tt_status_comm){ .hash = i + 1, .nranks = 1 });
    for (uint32_t i = 0; i < TT_STATUS_OPS_MAX + 10; i++)
        tt_status_add_op(&r, &(struct tt_status_op){ .rank = i, .age_ns = i });
    for (uint32_t i = 0; i < TT_STATUS_RANKS_MAX + 10; i++)
        tt_status_add_rank(&r, TT_STATUS_LOST, TT_STATUS_RANKS_MAX + 10 - i, 1);
    merge_into(&again, &r);
    assert_int_equal(r.ncomms, TT_STATUS_COMMS_MAX);
    assert_int_equal(r.nops, TT_STATUS_OPS_MAX);
    assert_int_equal(r.left_out, 20);
    for (uint32_t i = 0; i < r.nops; i++)       /* the oldest are kept */
        assert_true(r.ops[i].age_ns >= 10);
    assert_true(r.lists[TT_STATUS_LOST].more);
    assert_int_equal(r.lists[TT_STATUS_LOST].n, TT_STATUS_RANKS_MAX);
    assert_int_equal(r.lists[TT_STATUS_LOST].rank[0], 1);
    assert_true(tt_status_report_bytes(&r) < (16u << 20));
    assert_int_equal(again.ncomms, r.ncomms);
    assert_int_equal(again.nops, r.nops);
    assert_true(again.lists[TT_STATUS_LOST].more);
    tt_status_report_fini(&r);
    tt_status_report_fini(&again);
}

/* More positions than a communicator has groups: their members are counted. */
static void members_in_rare_positions_are_counted(void **state)
{
    struct tt_status_report r;
    const struct tt_status_comm *c;

    (void)state;
    tt_status_report_init(&r);
    for (uint32_t rank = 0; rank < 10; rank++)
        add_member(&r, 1, rank, rank);
    c = tt_status_find_comm(&r, 1);
    assert_int_equal(c->ngroups, TT_STATUS_GROUPS_MAX);
    assert_int_equal(c->nothers, 10 - TT_STATUS_GROUPS_MAX);
    assert_int_equal(c->nreported, 10);
    tt_status_report_fini(&r);
}

static void truncated_rows_are_refused(void **state)
{
    struct tt_status_report r, again;
    struct tt_status_cursor at = { .stage = 0 };
    uint8_t rows[4 * TT_STATUS_ROWS_MIN];
    uint32_t refused = 0;
    size_t bytes;

    (void)state;
    make_part(&r, 13);
    bytes = tt_status_write(&r, &at, rows, sizeof rows);
    for (size_t n = 1; n < bytes; n++) {
        tt_status_report_init(&again);
        refused += !tt_status_merge(&again, rows, n);
        tt_status_report_fini(&again);
    }
    assert_int_equal(refused, bytes - 1 - 9);   /* all but those at the end of one of 10 rows */
    tt_status_report_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_merging_does_not_matter),
        cmocka_unit_test(rows_beyond_the_bounds_are_counted),
        cmocka_unit_test(members_in_rare_positions_are_counted),
        cmocka_unit_test(truncated_rows_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
