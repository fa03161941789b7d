/* A member's state machine alone, in cases that the histories do not cover: how it leaves, and
 * coordinators of other versions. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "elastic/member.h"
#include "elastic/mismatch.h"

#define LEASE_NS (100 * TT_MS)

static struct fixture {
    struct tt_member m;
    struct tt_surroundings_seat view[2], proposed[2];
    uint8_t *scratch;
    uint64_t now_ns;
    struct tt_elmsg said;       /* the last message to the coordinator, */
    struct tt_op_entry first;   /* and the first of its operations; n 0: none, */
    char result[16];            /* with its result */
    uint8_t results[TT_ELASTIC_TAGS][TT_SETTLED_BYTES];
    struct tt_member_act done;  /* the last OP_DONE, */
    char given[16];             /* with its result */
    uint32_t ndone;
    uint32_t nsaid[TT_ELMSG_KINDS];
    struct tt_loss_name loss[2];
    uint32_t nlosses, nlosses_at_stop;
    bool over;
    tutti_status status;
    char why[500];
} f;

static void emit(void *context, const struct tt_member_act *act)
{
    (void)context;
    if (act->kind == TT_MEMBER_ACT_SEND) {
        assert_true(tt_elmsg_read(&f.said, act->data, act->bytes));
        f.nsaid[f.said.kind]++;
        f.first.n = 0;
        memset(f.result, 0, sizeof f.result);
        if ((f.said.kind == TT_ELMSG_LEAVE || f.said.kind == TT_ELMSG_ANSWER) && f.said.nlist > 0) {
            tt_elmsg_next_op(&f.said, &f.first);
            if (f.first.nresult > 0)
                memcpy(f.result, f.first.result, f.first.nresult);
        }
    } else if (act->kind == TT_MEMBER_ACT_OP_DONE) {
        f.done = *act;
        f.ndone++;
        memset(f.given, 0, sizeof f.given);
        if (act->data)
            memcpy(f.given, act->data, act->bytes);
    } else if (act->kind == TT_MEMBER_ACT_LOST) {
        f.loss[f.nlosses % 2] = (struct tt_loss_name){ .id = act->id, .why = act->what };
        f.nlosses++;
    } else if (act->kind == TT_MEMBER_ACT_STOP) {
        f.nlosses_at_stop = f.nlosses;
    } else if (act->kind == TT_MEMBER_ACT_OVER) {
        f.over = true;
        f.status = act->status;
        snprintf(f.why, sizeof f.why, "%s", act->text);
    }
}

static void receive(const struct tt_elmsg *m)
{
    uint8_t data[512];

    tt_member_frame(&f.m, data, tt_elmsg_write(data, sizeof data, m), f.now_ns);
}

static void receive_view(void)
{
    const struct tt_elmsg m = { .kind = TT_ELMSG_VIEW, .epoch = 5, .number = 1 };
    struct tt_elmsg_writer w;
    uint8_t data[512];

    tt_elmsg_begin(&w, data, sizeof data, &m);
    for (uint64_t id = 1; id <= 2; id++)
        tt_elmsg_add_seat(&w, &(struct tt_surroundings_seat){ .id = id });
    tt_member_frame(&f.m, data, tt_elmsg_end(&w), f.now_ns);
}

static void join(void)
{
    struct tt_member_conf conf = {
        .run = "run", .nroles = 1, .cookie = { 1 }, .members_max = 2, .emit = emit
    };

    free(f.scratch);
    f = (struct fixture){ .scratch = malloc(TT_ELMSG_BYTES_MAX), .now_ns = 1 };
    assert_non_null(f.scratch);
    conf.scratch = f.scratch;
    conf.view = f.view;
    conf.proposed = f.proposed;
    conf.results = f.results;
    tt_member_init(&f.m, &conf, f.now_ns);
    tt_member_connected(&f.m, f.now_ns);
}

/* Starts in a view of two members. */
static void begin(void)
{
    join();
    receive(&(struct tt_elmsg){ .kind = TT_ELMSG_WELCOME, .id = 1, .value = LEASE_NS });
    assert_int_equal(tt_member_call(&f.m, &(struct tt_elmsg){ .what = TT_CALL_EPOCH }, f.now_ns),
                     TUTTI_OK);
    receive_view();
    assert_int_equal(f.m.nranks, 2);
}

static void reduce(uint32_t tag, uint64_t times)
{
    struct tt_membership mine;

    for (uint64_t i = 0; i < times; i++) {
        assert_int_equal(tt_member_begin(&f.m, tag, f.now_ns), TUTTI_OK);
        assert_true(tt_member_complete_alone(&f.m, tag, &mine, f.now_ns));
        tt_member_all_complete(&f.m, tag, &(struct tt_membership){ .number = 50 + i }, f.now_ns);
    }
}

static void tick_at(uint64_t now_ns)
{
    f.now_ns = now_ns;
    tt_member_tick(&f.m, now_ns);
}

static const struct tt_elmsg you_left = { .kind = TT_ELMSG_REFUSED,
                                          .what = TUTTI_OK,
                                          .text = "you left" };

static void leaver_waits_for_acknowledgement(void **state)
{
    (void)state;
    begin();
    reduce(3, 4);
    /* which others may never complete */
    assert_int_equal(tt_member_begin(&f.m, 3, f.now_ns), TUTTI_OK);
    assert_true(tt_member_complete_tentative(&f.m, 3, f.now_ns));
    tt_member_part(&f.m, f.now_ns);
    assert_int_equal(f.said.kind, TT_ELMSG_LEAVE);
    assert_int_equal(f.said.what, TT_LEAVE_NOW);
    assert_int_equal(f.said.epoch, 5);
    assert_int_equal(f.first.n, 4);
    assert_int_equal(f.first.tag, 3);
    assert_int_equal(f.first.state, TT_OP_FINAL);
    assert_int_equal(f.first.news.number, 53);
    assert_false(f.over);
    /* the remaining member must reply */
    receive(&(struct tt_elmsg){ .kind = TT_ELMSG_LOST, .epoch = 5, .number = 1 });
    assert_int_equal(f.nsaid[TT_ELMSG_ANSWER], 0);
    tt_member_disconnected(&f.m, f.now_ns);
    tt_member_connected(&f.m, f.now_ns);
    receive(&(struct tt_elmsg){ .kind = TT_ELMSG_WELCOME, .id = 1, .epoch = 5, .value = LEASE_NS });
    assert_int_equal(f.nsaid[TT_ELMSG_LEAVE], 2);
    assert_int_equal(f.first.n, 4);
    receive(&you_left);
    assert_true(f.over);
    assert_int_equal(f.status, TUTTI_OK);
}

/* Losses are reported before the epoch is over, so that its records contain them. */
static void losses_are_reported_with_their_reasons(void **state)
{
    const struct tt_elmsg lost = { .kind = TT_ELMSG_LOST, .epoch = 5, .number = 1 };
    struct tt_elmsg_writer w;
    uint8_t data[512];

    (void)state;
    begin();
    tt_elmsg_begin(&w, data, sizeof data, &lost);
    tt_elmsg_add_loss(&w, &(struct tt_loss_name){ .id = 2, .why = TT_LOSS_SILENT });
    tt_elmsg_add_loss(&w, &(struct tt_loss_name){ .id = 3, .why = TT_LOSS_LEFT });
    tt_member_frame(&f.m, data, tt_elmsg_end(&w), f.now_ns);
    assert_true(f.nlosses == 2 && f.nlosses_at_stop == 2);
    assert_true(f.loss[0].id == 2 && f.loss[0].why == TT_LOSS_SILENT);
    assert_true(f.loss[1].id == 3 && f.loss[1].why == TT_LOSS_LEFT);
}

/* The new coordinator does not recognize the member, and assigns an ID that happens to be the old
 * one. */
static void reassigned_old_number_is_not_trusted(void **state)
{
    (void)state;
    begin();
    tt_member_disconnected(&f.m, f.now_ns);
    tt_member_connected(&f.m, f.now_ns);
    receive(&(struct tt_elmsg){
        .kind = TT_ELMSG_WELCOME, .id = 1, .value = LEASE_NS, .cookie = { 9 } });
    assert_true(f.over);
    assert_int_equal(f.status, TUTTI_ERR_ABORTED);
}

/* A member tolerates a silent coordinator for as long as the coordinator tolerates a silent
 * member. */
static void distant_coordinator_may_be_silent_for_longer(void **state)
{
    static const struct {
        uint64_t round_trip_ns, silent_ns;
    } cases[] = { { 0, LEASE_NS }, { LEASE_NS / 10, LEASE_NS / 10 * 23 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t end_ns = 1 + cases[i].silent_ns;

        begin();
        tt_member_round_trip(&f.m, cases[i].round_trip_ns);
        while (tt_member_next_ns(&f.m) < end_ns) {
            tick_at(tt_member_next_ns(&f.m));
            assert_true(f.m.connected);
        }
        tick_at(end_ns);
        assert_false(f.m.connected);
    }
}

static void leaver_waits_at_most_a_lease(void **state)
{
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        begin();
        reduce(0, 1);
        if (!connected)
            tt_member_disconnected(&f.m, f.now_ns);
        tt_member_part(&f.m, f.now_ns);
        assert_int_equal(f.nsaid[TT_ELMSG_LEAVE], connected);
        while (tt_member_next_ns(&f.m) < 1 + LEASE_NS) {
            assert_false(f.over);
            if (connected)
                receive(&(struct tt_elmsg){ .kind = TT_ELMSG_ALIVE });
            tick_at(tt_member_next_ns(&f.m));
        }
        assert_false(f.over);
        tick_at(1 + LEASE_NS);
        assert_true(f.over);
        assert_int_equal(f.status, TUTTI_ERR_TIMEOUT);
        assert_non_null(strstr(f.why, "no coordinator was notified that this member leaves"));
        assert_true(tt_member_next_ns(&f.m) == TT_NEVER);
    }
}

/* No operation is final here without the others' knowledge, so the member has nothing to report. */
static void leaver_without_report_leaves_at_once(void **state)
{
    (void)state;
    join();
    tt_member_part(&f.m, f.now_ns);
    assert_true(f.over && f.status == TUTTI_OK);
    begin();
    tt_member_part(&f.m, f.now_ns);
    assert_true(f.over && f.status == TUTTI_OK);
    begin();
    reduce(0, 1);
    assert_int_equal(tt_member_call(&f.m, &(struct tt_elmsg){ .what = TT_CALL_AGREE }, f.now_ns),
                     TUTTI_OK);
    receive(&(struct tt_elmsg){
        .kind = TT_ELMSG_RESULT, .what = TT_ROUND_OK, .epoch = 5, .number = 2 });
    tt_member_part(&f.m, f.now_ns);
    assert_true(f.over && f.status == TUTTI_OK);
    assert_int_equal(f.nsaid[TT_ELMSG_LEAVE], 1);
}

/* If a call is taken back because others called `sync`, its round continues; any other mismatch
 * ends the round. */
static void revoked_call_keeps_its_round(void **state)
{
    const struct tt_elmsg agree = { .what = TT_CALL_AGREE };
    struct tt_elmsg mismatch = { .kind = TT_ELMSG_RESULT,
                                 .what = TT_ROUND_MISMATCH,
                                 .flags = TT_DIFFERS_CALL | TT_DIFFERS_BACK,
                                 .epoch = 5,
                                 .number = 2 };

    (void)state;
    begin();
    for (uint64_t times = 0; times < 3; times++) {
        assert_int_equal(tt_member_call(&f.m, &agree, f.now_ns), TUTTI_OK);
        assert_int_equal(f.said.number, 2);
        receive(&mismatch);
        assert_false(f.m.calling);
    }
    assert_int_equal(tt_member_call(&f.m, &agree, f.now_ns), TUTTI_OK);
    mismatch.flags = TT_DIFFERS_CALL;
    receive(&mismatch);
    assert_int_equal(tt_member_call(&f.m, &agree, f.now_ns), TUTTI_OK);
    assert_int_equal(f.said.number, 3);
}

/* The first reason counts, and is reported again to a coordinator after a reconnection; a member
 * that was only notified of the end of the epoch reports none. */
static void revocation_reason_is_reported(void **state)
{
    (void)state;
    for (int revokes = 0; revokes < 2; revokes++) {
        begin();
        if (revokes) {
            tt_member_revoke_as(&f.m, TT_REVOKED_CUT, 7, f.now_ns);
            tt_member_revoke(&f.m, f.now_ns);
            assert_int_equal(f.said.what, TT_REVOKED_CUT);
        }
        receive(&(struct tt_elmsg){ .kind = TT_ELMSG_LOST, .epoch = 5, .number = 1 });
        tt_member_disconnected(&f.m, f.now_ns);
        tt_member_connected(&f.m, f.now_ns);
        receive(
            &(struct tt_elmsg){ .kind = TT_ELMSG_WELCOME, .id = 1, .epoch = 5, .value = LEASE_NS });
        assert_int_equal(f.said.kind, TT_ELMSG_REVOKE);
        assert_int_equal(f.said.what, revokes ? TT_REVOKED_CUT : TT_REVOKED_NO_REASON);
        assert_int_equal(f.said.id, revokes ? 7 : 0);
    }
}

/* A queried member replies with its call, and that it has not started the operation; a member that
 * waits in an operation reports it. */
static void operation_state_is_reported(void **state)
{
    struct tt_elmsg asks = {
        .kind = TT_ELMSG_BEGUN, .id = 2, .epoch = 5, .op = { .tag = 3, .n = 3, .count = 9 }
    };
    struct tt_membership mine;

    (void)state;
    begin();
    reduce(3, 2);
    receive(&asks); /* it may still start it */
    assert_int_equal(tt_member_begin(&f.m, 3, f.now_ns), TUTTI_OK);
    tt_member_report_wait(&f.m, &(struct tt_op_name){ .tag = 2 }, f.now_ns);
    assert_int_equal(f.nsaid[TT_ELMSG_INSIDE], 0);
    tt_member_report_wait(&f.m, &asks.op, f.now_ns);
    assert_int_equal(f.nsaid[TT_ELMSG_INSIDE], 1);
    assert_int_equal(f.said.op.n, 3);
    assert_true(tt_member_complete_alone(&f.m, 3, &mine, f.now_ns));
    tt_member_report_wait(&f.m, &asks.op, f.now_ns);
    assert_int_equal(f.nsaid[TT_ELMSG_INSIDE], 2); /* others may not have completed the operation */
    tt_member_all_complete(&f.m, 3, &mine, f.now_ns);
    assert_int_equal(tt_member_begin(&f.m, 3, f.now_ns), TUTTI_OK);
    assert_true(tt_member_complete_tentative(&f.m, 3, f.now_ns));
    tt_member_report_wait(&f.m, &asks.op, f.now_ns);
    assert_int_equal(f.nsaid[TT_ELMSG_INSIDE], 2); /* the program does not wait in it */
    assert_int_equal(tt_member_call(&f.m, &(struct tt_elmsg){ .what = TT_CALL_COMMIT }, f.now_ns),
                     TUTTI_OK);
    receive(&asks);
    asks.op.n = 4;
    receive(&asks);
    assert_int_equal(f.nsaid[TT_ELMSG_NOT_BEGUN], 0);
    asks.op.n = 5;
    asks.epoch = 4;
    receive(&asks);
    assert_int_equal(f.nsaid[TT_ELMSG_NOT_BEGUN], 0);
    asks.epoch = 5;
    receive(&asks);
    assert_int_equal(f.nsaid[TT_ELMSG_NOT_BEGUN], 1);
    assert_int_equal(f.said.id, 2);
    assert_int_equal(f.said.op.count, 9);
    receive(&(struct tt_elmsg){ .kind = TT_ELMSG_LOST, .epoch = 5, .number = 1 });
    receive(&asks);
    assert_int_equal(f.nsaid[TT_ELMSG_NOT_BEGUN], 1);
}

/* ---- settled operations ---- */

static void begin_small(uint32_t tag)
{
    assert_int_equal(tt_member_begin(&f.m, tag, f.now_ns), TUTTI_OK);
    tt_member_may_settle(&f.m, tag, 5);
}

static void receive_lost(uint64_t question)
{
    receive(&(struct tt_elmsg){ .kind = TT_ELMSG_LOST, .epoch = 5, .number = question });
}

static void receive_outcome(uint64_t question, uint8_t op_state, uint64_t n, const char *result)
{
    const struct tt_elmsg m = { .kind = TT_ELMSG_OUTCOMES, .epoch = 5, .number = question };
    const struct tt_op_entry e = { .state = op_state,
                                   .tag = 3,
                                   .n = n,
                                   .nresult = (uint16_t)strlen(result),
                                   .result = (const uint8_t *)result };
    struct tt_elmsg_writer w;
    uint8_t data[512];

    tt_elmsg_begin(&w, data, sizeof data, &m);
    tt_elmsg_add_op(&w, &e);
    tt_member_frame(&f.m, data, tt_elmsg_end(&w), f.now_ns);
}

static void check_sent(uint8_t kind, uint8_t op_state, uint8_t before, uint64_t n,
                       const char *result)
{
    assert_int_equal(f.said.kind, kind);
    assert_int_equal(f.first.tag, 3);
    assert_int_equal(f.first.state, op_state);
    assert_int_equal(f.first.before, before);
    assert_int_equal(f.first.n, n);
    assert_string_equal(f.result, result);
}

/* The result of the second operation is reported until the third one is complete. */
static void settled_operation_is_reported_until_complete(void **state)
{
    struct tt_membership mine;

    (void)state;
    for (int left = 0; left < 2; left++) {
        begin();
        reduce(3, 1);
        begin_small(3);
        assert_true(tt_member_settle(&f.m, 3, "first", f.now_ns));
        assert_int_equal(f.done.state, TT_OP_SETTLED);
        assert_null(f.done.data);
        begin_small(3);
        if (!left) {
            receive_lost(1);
            check_sent(TT_ELMSG_ANSWER, TT_OP_PENDING, TT_BEFORE_SETTLED, 3, "first");
            /* it has reported that the operation is not settled */
            assert_false(tt_member_settle(&f.m, 3, "other", f.now_ns));
            receive_outcome(1, TT_OP_SETTLED, 2, "first");
            assert_int_equal(f.done.n, 3);
            assert_int_equal(f.done.state, TT_OP_RESTORED);
            receive_lost(2);
            check_sent(TT_ELMSG_ANSWER, TT_OP_RESTORED, TT_BEFORE_SETTLED, 3, "first");
            continue;
        }
        tt_member_take_back(&f.m, 3, f.now_ns);
        assert_int_equal(f.m.ops[3].state, TT_OP_SETTLED);
        tt_member_part(&f.m, f.now_ns);
        check_sent(TT_ELMSG_LEAVE, TT_OP_SETTLED, TT_BEFORE_FINAL, 2, "first");
    }
    begin();
    begin_small(3);
    assert_true(tt_member_settle(&f.m, 3, "first", f.now_ns));
    assert_int_equal(tt_member_begin(&f.m, 3, f.now_ns), TUTTI_OK);
    assert_true(tt_member_complete_alone(&f.m, 3, &mine, f.now_ns));
    receive_lost(1);
    /* the others may not even have started it */
    check_sent(TT_ELMSG_ANSWER, TT_OP_COMPLETE, TT_BEFORE_SETTLED, 2, "first");
    begin();
    begin_small(3);
    assert_true(tt_member_settle(&f.m, 3, "first", f.now_ns));
    assert_int_equal(tt_member_begin(&f.m, 3, f.now_ns), TUTTI_OK);
    assert_true(tt_member_complete_tentative(&f.m, 3, f.now_ns));
    receive_lost(1);
    check_sent(TT_ELMSG_ANSWER, TT_OP_COMPLETE, TT_BEFORE_FINAL, 2, "");
    begin();
    begin_small(3);
    assert_true(tt_member_settle(&f.m, 3, "first", f.now_ns));
    reduce(3, 1);
    receive_lost(1);
    check_sent(TT_ELMSG_ANSWER, TT_OP_FINAL, TT_BEFORE_FINAL, 2, "");
}

/* The member reports a delivered result from then on. The earlier operation is final, tentative or
 * settled. */
static void outcome_delivers_missing_settled_results(void **state)
{
    static const char *const before[] = { "", "tentative", "settled" };

    (void)state;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        begin();
        begin_small(3);
        if (i == 1)
            assert_true(tt_member_complete_tentative(&f.m, 3, f.now_ns));
        else
            assert_true(tt_member_settle(&f.m, 3, "first", f.now_ns));
        if (i == 0)
            reduce(3, 1);
        begin_small(3);
        receive_lost(1);
        f.ndone = 0;
        receive_outcome(1, TT_OP_SETTLED, f.m.ops[3].n, "given");
        assert_int_equal(f.ndone, i == 1 ? 2 : 1);
        assert_int_equal(f.done.state, TT_OP_SETTLED);
        assert_int_equal(f.done.n, f.m.ops[3].n);
        assert_string_equal(f.given, "given");
        assert_int_equal(f.done.news.number, 0);
        receive_outcome(1, TT_OP_SETTLED, f.m.ops[3].n, "again"); /* a repeated outcome has no
                                                                     effect */
        assert_int_equal(f.ndone, i == 1 ? 2 : 1);
        receive_lost(2);
        check_sent(TT_ELMSG_ANSWER, TT_OP_SETTLED, TT_BEFORE_FINAL, f.m.ops[3].n, "given");
        receive_outcome(2, TT_OP_SETTLED, f.m.ops[3].n, "given");
        assert_false(f.over);
    }
}

/* Results of another length, of operations that are not small, and of operations that the member
 * has not started, are ignored. */
static void invalid_result_is_ignored(void **state)
{
    static const struct {
        uint32_t small;
        uint64_t n;
        const char *result;
    } cases[] = { { 5, 2, "longer" }, { 5, 2, "less" }, { 0, 2, "given" }, { 5, 3, "given" } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        reduce(3, 1);
        if (cases[i].n == 2) {
            assert_int_equal(tt_member_begin(&f.m, 3, f.now_ns), TUTTI_OK);
            if (cases[i].small)
                tt_member_may_settle(&f.m, 3, cases[i].small);
        } else {
            reduce(3, 1);
        }
        receive_lost(1);
        f.done.state = TT_OP_NONE;
        receive_outcome(1, TT_OP_SETTLED, cases[i].n, cases[i].result);
        assert_int_equal(f.done.state, cases[i].n == 2 ? TT_OP_RESTORED : TT_OP_NONE);
        assert_false(f.over);
    }
}

static void other_coordinator_version_ends_the_member(void **state)
{
    uint8_t data[300];
    size_t bytes;

    (void)state;
    join();
    bytes = tt_elmsg_write_refusal(data, sizeof data, TT_ELASTIC_VERSION + 1, TUTTI_ERR_PROTOCOL,
                                   "it is not for you");
    tt_member_frame(&f.m, data, bytes - 1, f.now_ns); /* the frame is invalid: the member
                                                         reconnects */
    assert_false(f.over);
    tt_member_connected(&f.m, f.now_ns);
    tt_member_frame(&f.m, data, bytes, f.now_ns);
    assert_true(f.over);
    assert_int_equal(f.status, TUTTI_ERR_PROTOCOL);
    assert_string_equal(
        f.why,
        "elastic protocol mismatch: the coordinator has version 12, this member has version 11; "
        "message of the coordinator: it is not for you");
}

static int tear_down(void **state)
{
    (void)state;
    free(f.scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_reported_with_their_reasons),
        cmocka_unit_test(leaver_waits_for_acknowledgement),
        cmocka_unit_test(reassigned_old_number_is_not_trusted),
        cmocka_unit_test(distant_coordinator_may_be_silent_for_longer),
        cmocka_unit_test(leaver_waits_at_most_a_lease),
        cmocka_unit_test(leaver_without_report_leaves_at_once),
        cmocka_unit_test(revoked_call_keeps_its_round),
        cmocka_unit_test(revocation_reason_is_reported),
        cmocka_unit_test(operation_state_is_reported),
        cmocka_unit_test(settled_operation_is_reported_until_complete),
        cmocka_unit_test(outcome_delivers_missing_settled_results),
        cmocka_unit_test(invalid_result_is_ignored),
        cmocka_unit_test(other_coordinator_version_ends_the_member),
    };

    return cmocka_run_group_tests(tests, NULL, tear_down);
}
