/* What a process reports: a trace of operations on many communicators, and on one that the table
 * has no entry for. */
#include "status/snapshot.h"
#include "support/unit.h"
#include "trace/comms.h"
#include "trace/oplog.h"
#include "trace/stages.h"
#include "trace/tick.h"
#include "tutti/tutti.h"

#define NCOMMS 4000u            /* more than a process can have */
#define BUSY 100u               /* communicators with an operation in progress */
#define STEP (NCOMMS / BUSY)
#define RANK 3u

static const struct tt_snapshot_source nothing = { .waits = NULL };

static uint64_t record(uint16_t comm, uint32_t seq)
{
    return tt_oplog_begin(NULL,
                          &(struct tt_oplog_call){ .seq = seq,
                                                   .count = 16,
                                                   .peer = TT_OPLOG_NONE,
                                                   .tag = TT_OPLOG_NONE,
                                                   .comm = comm,
                                                   .kind = 0,
                                                   .type = TUTTI_F32,
                                                   .redop = TUTTI_SUM,
                                                   .algo = TT_OPLOG_NO_ALGO,
                                                   .flags = TT_OPLOG_STARTED | TT_OPLOG_REDUCES });
}

static void take_snapshot(struct tt_status_report *r)
{
    const struct tt_collect_query q = { .what = TT_COLLECT_ALL, .timeout_ms = 1000 };

    tt_status_report_init(r);
    tt_status_snapshot(&q, RANK, &nothing, r);
}

static void an_operation_without_a_known_communicator_is_listed(void **state)
{
    const uint64_t number = record(0, 7);
    struct tt_status_report r;

    (void)state;
    take_snapshot(&r);
    assert_int_equal(r.nactive, 1);
    assert_int_equal(r.nops, 1);
    assert_true(r.ops[0].key.seq == 7 && r.ops[0].comm == 0 && r.ops[0].rank == RANK);
    tt_status_report_fini(&r);
    tt_oplog_end(number, TUTTI_OK);
    take_snapshot(&r);
    assert_int_equal(r.nactive + r.nops, 0);
    tt_status_report_fini(&r);
}

/* Of many open communicators, those in an operation are reported, and the others up to a bound;
 * the rest is counted. */
static void operations_on_many_communicators_are_reported(void **state)
{
    static uint64_t busy[BUSY];
    const uint32_t ranks[] = { RANK, 5 };
    struct tt_status_report r;

    (void)state;
    for (uint32_t i = 0; i < NCOMMS; i++) {
        const uint16_t comm =
            tt_comms_add(&(struct tt_comms_info){ .hash = i + 1, .nranks = 2, .ranks = ranks });
        const uint64_t number = record(comm, i);

        assert_int_not_equal(comm, 0);
        if (i % STEP == 0)
            busy[i / STEP] = number;
        else
            tt_oplog_end(number, TUTTI_OK);
    }
    take_snapshot(&r);
    assert_int_equal(r.nactive, 1);
    assert_int_equal(r.nops, 0);
    assert_int_equal(r.ncomms, BUSY + TT_SNAPSHOT_IDLE_MAX);
    assert_int_equal(r.left_out, NCOMMS - r.ncomms);
    assert_true(tt_status_report_bytes(&r) < (4u << 20));
    for (uint32_t i = 0; i < BUSY; i++) {
        const struct tt_status_comm *c = tt_status_find_comm(&r, 1 + i * STEP);

        assert_non_null(c);
        assert_int_equal(c->ngroups, 1);
        assert_int_equal(c->groups[0].key.state, TT_STATUS_IN);
        assert_int_equal(c->groups[0].key.seq, i * STEP);
        tt_oplog_end(busy[i], TUTTI_OK);
    }
    tt_status_report_fini(&r);
}

/* An operation of a million units of time, whose stages are known. */
static void record_staged(uint16_t comm, uint64_t unit)
{
    static struct tt_oplog_writer writer;
    const struct tt_oplog_call c = { .peer = TT_OPLOG_NONE,
                                     .tag = TT_OPLOG_NONE,
                                     .comm = comm,
                                     .type = TUTTI_F32,
                                     .algo = TT_OPLOG_NO_ALGO };
    const struct tt_stage_times t = { .of = { [TT_STAGE_REGISTER] = 100000 * unit,
                                              [TT_STAGE_SEND] = 50000 * unit,
                                              [TT_STAGE_REDUCE] = 150000 * unit,
                                              [TT_STAGE_COPY] = 200000 * unit },
                                      .first_data = 250000 * unit,
                                      .first_message = 200000 * unit };
    const uint64_t number =
        tt_oplog_ring_begin(&tt_oplog_ring, &writer, &c, tt_tick_now() - 1000000 * unit, 0);

    tt_oplog_ring_set(&tt_oplog_ring, number, TT_OPLOG_WORD_STARTED,
                      tt_oplog_time_word(&tt_oplog_ring, number, 50000 * unit, 0));
    tt_oplog_set_end(number, 1000000 * unit);
    tt_stages_set(number, &t);
}

static void stages_of_long_operations_are_summed(void **state)
{
    static const uint32_t parts[TT_STATUS_STAGES] = {
        [TT_STATUS_STAGE_QUEUE] = 5,   [TT_STATUS_STAGE_PEER] = 15,
        [TT_STATUS_STAGE_CONTROL] = 5,
        [TT_STATUS_STAGE_REGISTER] = 10, [TT_STATUS_STAGE_SEND] = 5,
        [TT_STATUS_STAGE_REDUCE] = 15, [TT_STATUS_STAGE_COPY] = 20,
        [TT_STATUS_STAGE_WIRE] = 25,
    };
    const struct tt_collect_query q = { .what = TT_COLLECT_RATES, .timeout_ms = 1000 };
    const uint32_t ranks[] = { RANK, 5 };
    const uint16_t comm =
        tt_comms_add(&(struct tt_comms_info){ .hash = 0x5a6e, .nranks = 2, .ranks = ranks });
    struct tt_status_report r;
    const struct tt_status_rates *x = NULL;
    const uint64_t due_ns = tt_now_ns() + 300 * TT_SECOND;
    uint64_t all_ns = 0;

    (void)state;
    while (!x || x->nstaged < 3) {      /* of the last second, and of this communicator */
        if (x)
            tt_status_report_fini(&r);
        assert_true(tt_now_ns() < due_ns);
        for (int k = 0; k < 3; k++)
            record_staged(comm, 64);
        tt_status_report_init(&r);
        tt_status_snapshot(&q, RANK, &nothing, &r);
        assert_non_null(tt_status_find_comm(&r, 0x5a6e));
        x = &tt_status_find_comm(&r, 0x5a6e)->rates;
    }
    for (int i = 0; i < TT_STATUS_STAGES; i++)
        all_ns += x->staged_ns[i];
    assert_true(all_ns > 0);
    for (int i = 0; i < TT_STATUS_STAGES; i++) {
        const double part = 100 * (double)x->staged_ns[i] / (double)all_ns;

        assert_true(part > parts[i] - 0.1 && part < parts[i] + 0.1);
    }
    tt_status_report_fini(&r);
    tt_comms_close(comm);
}

static int start_trace(void **state)
{
    (void)state;
    tt_tick_start();
    return tt_oplog_start();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_without_a_known_communicator_is_listed),
        cmocka_unit_test(stages_of_long_operations_are_summed),
        cmocka_unit_test(operations_on_many_communicators_are_reported),
    };

    return cmocka_run_group_tests(tests, start_trace, NULL);
}
