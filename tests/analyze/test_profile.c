/* The profile of small dumps whose times are known. */
#include <stdio.h>
#include <string.h>
#include "support/unit.h"

#include "analyze/profile.h"

/* A dump of rank `rank` of 3, on a host of its own with the given clock error. */
struct text {
    char at[4096];
    size_t n;
};

static void begin(struct text *t, unsigned rank, const char *clock)
{
    t->n = (size_t)snprintf(
        t->at, sizeof t->at,
        "{\"tutti_trace\":1,\"job\":\"9f3c\",\"rank\":%u,\"ranks\":3,\"host\":\"h%u\","
        "\"now\":90000,\"clock\":%s,\"lost\":0}\n"
        "{\"comm\":\"1f\",\"name\":\"dp\",\"members\":\"0-2\"}\n",
        rank, rank, clock);
}

static void add_op(struct text *t, unsigned number, unsigned seq, const char *kind, long called,
                   long ended, const char *more)
{
    t->n += (size_t)snprintf(
        t->at + t->n, sizeof t->at - t->n,
        "{\"op\":%u,\"comm\":\"1f\",\"seq\":%u,\"kind\":\"%s\",\"algo\":\"%s_ring\",\"bytes\":3000,"
        "\"called\":%ld,\"started\":%ld,\"ended\":%ld,\"status\":\"OK\"%s}\n",
        number, seq, kind, kind, called, called + 5, ended, more);
}

static void give(struct tt_dumps *d, struct text *t)
{
    t->n += (size_t)snprintf(t->at + t->n, sizeof t->at - t->n, "{\"end\":1}\n");
    assert_int_equal(tt_dumps_read_text(d, "dump", t->at, t->n), TUTTI_OK);
}

#define CLOCK(ERROR) "{\"offset_ns\":0,\"error_ns\":" #ERROR "}"

static void take(struct tt_dumps *d, struct tt_instances *in, struct tt_profile *p)
{
    assert_int_equal(d->nproblems, 0);
    assert_int_equal(tt_dumps_index(d), TUTTI_OK);
    assert_int_equal(tt_instances_init(in, d), TUTTI_OK);
    assert_int_equal(tt_profile_init(p, in), TUTTI_OK);
}

static void end(struct tt_dumps *d, struct tt_instances *in, struct tt_profile *p)
{
    tt_profile_fini(p);
    tt_instances_fini(in);
    tt_dumps_fini(d);
}

/* Rank r calls at 1000 + 100 r, and all calls end at 1500. `first`: the rest of rank 0's record. */
static void give_three_callers(struct tt_dumps *d, const char *clock, const char *first)
{
    struct text t;

    for (unsigned r = 0; r < 3; r++) {
        begin(&t, r, clock);
        add_op(&t, 1, 4, "allreduce", 1000 + 100 * (long)r, 1500, r == 0 ? first : "");
        give(d, &t);
    }
}

/* Rank 2 calls last; ranks 0 and 1 lose 200 and 100. */
static void last_caller_and_lost_time_are_exact(void **state)
{
    struct tt_dumps d;
    struct tt_instances in;
    struct tt_profile p;

    (void)state;
    assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
    give_three_callers(&d, CLOCK(10), "");
    take(&d, &in, &p);
    assert_true(p.nrows == 1 && p.nlate == 1 && p.ninstances == 1 && p.nknown == 1);
    assert_true(p.late[0].rank == 2 && p.late[0].times == 1 && p.late[0].of == 1);
    assert_float_equal(p.late[0].lost_ns, 300, 0);
    assert_true(p.rows[0].calls == 3 && p.rows[0].bytes == 9000 && p.rows[0].bytes_from == 2048);
    assert_float_equal(p.rows[0].total_ns, 500 + 400 + 300, 0);
    assert_float_equal(p.rows[0].waited_ns, 300, 0);
    assert_float_equal(p.rows[0].queued_ns, 15, 0);
    assert_true(p.rows[0].median_ns == 400 && p.rows[0].max_ns == 500);
    assert_int_equal(p.rows[0].transfer_ns, 300);
    assert_float_equal(p.rows[0].busbw, 2.0 * 3000 * 2 / 3 / 300, 1e-9);
    assert_true(p.begin == 1000 && p.end == 1500);
    end(&d, &in, &p);
}

/* Differences within the error of the clocks are no waiting time. */
static void differences_within_the_clock_error_do_not_count(void **state)
{
    struct tt_dumps d;
    struct tt_instances in;
    struct tt_profile p;
    struct text t;

    (void)state;
    assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
    for (unsigned r = 0; r < 3; r++) {
        begin(&t, r, CLOCK(75));
        add_op(&t, 1, 4, "allreduce", 1000 + 100 * (long)r, 1500, "");
        give(&d, &t);
    }
    take(&d, &in, &p);
    assert_float_equal(p.rows[0].waited_ns, 200, 0);
    end(&d, &in, &p);
}

/* A member without a dump, without a comparable clock or without the record may be the last. */
static void last_caller_is_unknown_without_all_members(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 3; way++) {
        struct tt_dumps d;
        struct tt_instances in;
        struct tt_profile p;
        struct text t;

        assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
        for (unsigned r = 0; r < 3; r++) {
            const bool is_last = r == 2;

            if (is_last && way == 0)
                continue;
            begin(&t, r, is_last && way == 1 ? "null" : CLOCK(0));
            add_op(&t, 1, is_last && way == 2 ? 5 : 4, "allreduce", 1000 + 100 * (long)r, 1500, "");
            give(&d, &t);
        }
        take(&d, &in, &p);
        assert_true(p.nlate == 0 && p.nknown == 0 && p.rows[0].waited_ns == 0);
        assert_int_equal(p.rows[0].transfer_ns, -1);
        end(&d, &in, &p);
    }
}

/* A rank whose call ended before the last rank called did not wait for that rank. */
static void rank_that_ended_early_did_not_wait(void **state)
{
    struct tt_dumps d;
    struct tt_instances in;
    struct tt_profile p;
    struct text t;

    (void)state;
    assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
    for (unsigned r = 0; r < 3; r++) {
        begin(&t, r, CLOCK(0));
        add_op(&t, 1, 0, "broadcast", 1000 + 1000 * (long)r, r == 0 ? 1100 : 3500, ",\"root\":0");
        give(&d, &t);
    }
    take(&d, &in, &p);
    assert_float_equal(p.rows[0].waited_ns, 1000, 0);
    end(&d, &in, &p);
}

/* Messages of the same ranks and tag match by sequence number; the send comes first. */
static void messages_match_by_peer_tag_and_number(void **state)
{
    struct tt_dumps d;
    struct tt_instances in;
    struct tt_profile p;
    struct text t;
    uint32_t npairs = 0;

    (void)state;
    assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
    begin(&t, 0, CLOCK(0));
    add_op(&t, 1, 0, "send", 2000, 2600, ",\"peer\":1,\"tag\":3");
    add_op(&t, 2, 1, "send", 3000, 3600, ",\"peer\":1,\"tag\":3");
    add_op(&t, 3, 0, "send", 4000, 4600, ",\"peer\":1,\"tag\":4");
    add_op(&t, 4, 0, "recv", 5000, 5600, ",\"peer\":null,\"tag\":4");
    give(&d, &t);
    begin(&t, 1, CLOCK(0));
    add_op(&t, 1, 0, "recv", 1000, 2700, ",\"peer\":0,\"tag\":3");
    add_op(&t, 2, 1, "recv", 2900, 3700, ",\"peer\":0,\"tag\":3");
    give(&d, &t);
    take(&d, &in, &p);
    for (uint32_t i = 0; i < in.n; i++)
        if (in.list[i].n == 2) {
            const struct tt_dumps_op *send = &d.ops[in.order[in.list[i].first]];

            assert_true(in.list[i].is_message && send->is_send && send->rank == 0);
            assert_true(in.list[i].last == (uint32_t)(send - d.ops));
            npairs++;
        }
    assert_true(in.n == 3 && npairs == 2);
    assert_true(p.nlate == 1 && p.late[0].rank == 0 && p.late[0].times == 2);
    assert_float_equal(p.late[0].lost_ns, 1000 + 100, 0);
    end(&d, &in, &p);
}

/* Rank 0 calls at 1000, starts at 1005 and waits for rank 2 until 1200. Its first data is
 * transferred at 1230. Of the remaining 270, its measured stages take 20, 50, 90 and 10. */
static void stages_add_up_to_the_time(void **state)
{
    static const char stages[] =
        ",\"stages\":{\"register\":20,\"send\":50,\"reduce\":90,\"copy\":10,\"first_data\":1230}";
    static const double expected[TT_PROFILE_STAGES] = {
        [TT_PROFILE_QUEUED] = 5,    [TT_PROFILE_WAITED] = 195, [TT_PROFILE_CONTROL] = 30,
        [TT_PROFILE_REGISTER] = 20, [TT_PROFILE_SEND] = 50,    [TT_PROFILE_REDUCE] = 90,
        [TT_PROFILE_COPY] = 10,     [TT_PROFILE_WIRE] = 100
    };
    struct tt_dumps d;
    struct tt_instances in;
    struct tt_profile p;

    (void)state;
    assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
    give_three_callers(&d, CLOCK(0), stages);
    take(&d, &in, &p);
    assert_true(p.nrows == 1 && p.rows[0].calls == 3 && p.rows[0].nstaged == 1);
    for (int k = 0; k < TT_PROFILE_STAGES; k++)
        assert_float_equal(p.rows[0].staged_ns[k], expected[k], 0);
    end(&d, &in, &p);
}

/* Hostile times never make a stage negative, or their sum longer than the operation. */
static void stages_never_exceed_the_time(void **state)
{
    static const char *const stages[] = {
        ",\"stages\":{\"register\":9999999999999999999}",
        ",\"stages\":{\"send\":400,\"reduce\":400,\"copy\":400,\"first_data\":-5}",
        ",\"stages\":{\"copy\":1,\"first_data\":9223372036854775807}",
        ",\"stages\":null",
        ",\"stages\":{}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        struct tt_dumps d;
        struct tt_instances in;
        struct tt_profile p;
        struct text t;
        double all = 0;

        assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
        begin(&t, 0, CLOCK(0));
        add_op(&t, 1, 4, "allreduce", 1000, 1500, stages[i]);
        give(&d, &t);
        take(&d, &in, &p);
        assert_int_equal(p.rows[0].nstaged, strstr(stages[i], "null") == NULL);
        for (int k = 0; k < TT_PROFILE_STAGES; k++) {
            assert_true(p.rows[0].staged_ns[k] >= 0);
            all += p.rows[0].staged_ns[k];
        }
        assert_float_equal(all, p.rows[0].nstaged ? 500 : 0, 1e-6);
        end(&d, &in, &p);
    }
}

static void bus_bandwidth_is_that_of_nccl_tests(void **state)
{
    (void)state;
    assert_float_equal(tt_profile_busbw("allreduce", 1000, 4, 10), 150, 1e-9);
    assert_float_equal(tt_profile_busbw("allgather", 1000, 4, 10), 300, 1e-9);
    assert_float_equal(tt_profile_busbw("reduce_scatter", 1000, 4, 10), 300, 1e-9);
    assert_float_equal(tt_profile_busbw("broadcast", 1000, 4, 10), 100, 1e-9);
    assert_float_equal(tt_profile_busbw("alltoallv", 1000, 4, 10), 75, 1e-9);
    assert_float_equal(tt_profile_busbw("allgatherv", 1000, 4, 10), 0, 0);
    assert_float_equal(tt_profile_busbw("allreduce", 1000, 0, 10), 0, 0);
    assert_float_equal(tt_profile_busbw("allreduce", 1000, 4, 0), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_caller_and_lost_time_are_exact),
        cmocka_unit_test(differences_within_the_clock_error_do_not_count),
        cmocka_unit_test(last_caller_is_unknown_without_all_members),
        cmocka_unit_test(rank_that_ended_early_did_not_wait),
        cmocka_unit_test(messages_match_by_peer_tag_and_number),
        cmocka_unit_test(stages_add_up_to_the_time),
        cmocka_unit_test(stages_never_exceed_the_time),
        cmocka_unit_test(bus_bandwidth_is_that_of_nccl_tests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
