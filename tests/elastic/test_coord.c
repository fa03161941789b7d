/* The coordinator with faulty members, and with members in difficult situations: they affect
 * themselves, and at most a bounded number of others. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "elastic/coord.h"

#define MEMBERS 16u
#define LEASE_NS (100 * TT_MS)

static struct fixture {
    struct tt_coord c;
    struct tt_coord_member members[MEMBERS];
    uint32_t order[MEMBERS];
    uint8_t *scratch;
    struct tt_coord_conn conns[MEMBERS];
    struct tt_elmsg heard;      /* the last RESULT sent to any member, */
    uint32_t nheard;            /* and their number */
    struct tt_elmsg lost;       /* the last LOST, */
    struct tt_loss_name loss;   /* and its first entry */
    struct tt_elmsg asked;      /* the last BEGUN; kind 0: none, */
    uint64_t asked_id;          /* and its receiver */
    struct tt_elmsg refusal;    /* the last REFUSED, */
    uint8_t refused_in;         /* and its version */
    struct tt_op_entry outcome; /* the last outcome of an operation; n 0: none, */
    char result[32];            /* and the result delivered with it */
    uint32_t order_heard;       /* the last kinds of RESULT and LOST, one byte each */
    uint64_t now_ns;
    uint8_t journal[8192];      /* records, each preceded by its length */
    size_t journal_bytes;
} f;

static void read_outcome(struct tt_elmsg *m)
{
    memset(f.result, 0, sizeof f.result);
    tt_elmsg_next_op(m, &f.outcome);
    assert_in_range(f.outcome.nresult, 0, sizeof f.result - 1);
    if (f.outcome.nresult > 0)
        memcpy(f.result, f.outcome.result, f.outcome.nresult);
    f.outcome.result = NULL;
}

static void emit(void *context, const struct tt_coord_act *act)
{
    const uint32_t bytes = (uint32_t)act->bytes;
    struct tt_elmsg m;

    (void)context;
    if (act->kind == TT_COORD_ACT_LOG) {
        assert_true(f.journal_bytes + sizeof bytes + bytes <= sizeof f.journal);
        memcpy(f.journal + f.journal_bytes, &bytes, sizeof bytes);
        memcpy(f.journal + f.journal_bytes + sizeof bytes, act->data, bytes);
        f.journal_bytes += sizeof bytes + bytes;
    }
    if (act->kind != TT_COORD_ACT_SEND)
        return;
    if (tt_elmsg_read_refusal(&m, act->data, act->bytes)) {
        f.refusal = m;
        f.refused_in = tt_elmsg_version(act->data, act->bytes);
    }
    if (!tt_elmsg_read(&m, act->data, act->bytes))
        return;
    if (m.kind == TT_ELMSG_RESULT || m.kind == TT_ELMSG_LOST)
        f.order_heard = f.order_heard << 8 | m.kind;
    if (m.kind == TT_ELMSG_LOST) {
        f.lost = m;
        f.loss = (struct tt_loss_name){ .id = 0 };
        if (m.nlist > 0)
            tt_elmsg_next_loss(&m, &f.loss);
    }
    if (m.kind == TT_ELMSG_OUTCOMES && m.nlist > 0)
        read_outcome(&m);
    if (m.kind == TT_ELMSG_BEGUN) {
        f.asked = m;
        f.asked_id = act->conn->member;
    }
    if (m.kind == TT_ELMSG_RESULT) {
        f.heard = m;
        f.nheard++;
    }
}

static void send_bytes(uint32_t i, const uint8_t *data, size_t bytes)
{
    tt_coord_step(
        &f.c,
        &(struct tt_coord_event){
            .kind = TT_COORD_EV_FRAME, .conn = &f.conns[i], .data = data, .bytes = bytes },
        f.now_ns);
}

static void send_message(uint32_t i, const struct tt_elmsg *m)
{
    uint8_t data[512];

    send_bytes(i, data, tt_elmsg_write(data, sizeof data, m));
}

/* Member i joins, or reconnects: its next round is `number`, or it waits in that round in a call
 * `what`. */
static void come(uint32_t i, uint64_t epoch, uint64_t number, uint8_t what)
{
    struct tt_elmsg m = { .kind = TT_ELMSG_JOIN,
                          .what = what,
                          .epoch = epoch,
                          .number = number,
                          .nroles = 1,
                          .text = "run" };

    m.cookie[0] = (uint8_t)(i + 1);
    tt_coord_step(&f.c, &(struct tt_coord_event){ .kind = TT_COORD_EV_OPEN, .conn = &f.conns[i] },
                  f.now_ns);
    send_message(i, &m);
}

static void join(uint32_t i)
{
    come(i, 0, 0, 0);
}

static void epoch_of(uint32_t i, uint32_t least, uint32_t most)
{
    const struct tt_coord_member *m = tt_coord_find(&f.c, f.conns[i].member);
    struct tt_elmsg call = { .kind = TT_ELMSG_CALL,
                             .what = TT_CALL_EPOCH,
                             .flags = TT_EPOCH_ADMIT,
                             .least = least,
                             .most = most };

    if (m && m->state == TT_COORD_IN_VIEW) {
        call.epoch = f.c.epoch;
        call.number = f.c.round;
    }
    send_message(i, &call);
}

static void epoch(uint32_t i, uint32_t least)
{
    epoch_of(i, least, 0);
}

static void ready(uint32_t i)
{
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_READY, .number = f.c.proposal });
}

/* Advances the time; members 0 to n - 1 send heartbeats. */
static void wait_ns(uint32_t n, uint64_t ns)
{
    for (const uint64_t end = f.now_ns + ns; f.now_ns < end;) {
        f.now_ns += LEASE_NS / 10;
        tt_coord_step(&f.c, &(struct tt_coord_event){ .kind = TT_COORD_EV_TICK }, f.now_ns);
        for (uint32_t i = 0; i < n; i++)
            if (tt_coord_find(&f.c, f.conns[i].member) &&
                tt_coord_find(&f.c, f.conns[i].member)->conn)
                send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_HEARTBEAT });
    }
}

static uint8_t state_of(uint32_t i)
{
    const struct tt_coord_member *m = tt_coord_find(&f.c, f.conns[i].member);

    return m ? m->state : TT_COORD_UNKNOWN;
}

static struct tt_coord_conf conf_of_run(void)
{
    return (struct tt_coord_conf){ .run = "run",
                                   .lease_ns = LEASE_NS,
                                   .grace_ns = LEASE_NS / 4,
                                   .members = f.members,
                                   .members_max = MEMBERS,
                                   .order = f.order,
                                   .scratch = f.scratch,
                                   .emit = emit };
}

/* Starts a run of n members. */
static void begin(uint32_t n)
{
    uint8_t *scratch = f.scratch ? f.scratch : malloc(TT_ELMSG_BYTES_MAX);
    struct tt_coord_conf conf;

    assert_non_null(scratch);
    f = (struct fixture){ .scratch = scratch, .now_ns = 1 };
    conf = conf_of_run();
    tt_coord_init(&f.c, &conf, 1);
    tt_coord_start(&f.c, 1);
    for (uint32_t i = 0; i < n; i++)
        join(i);
    for (uint32_t i = 0; i < n; i++)
        epoch(i, n);
    for (uint32_t i = 0; i < n; i++)
        ready(i);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), n);
}

/* Kills the coordinator, and starts another one from its journal. */
static void restart(void)
{
    const struct tt_coord_conf conf = conf_of_run();
    uint32_t bytes;

    memset(f.members, 0, sizeof f.members);
    memset(f.conns, 0, sizeof f.conns);
    tt_coord_init(&f.c, &conf, f.now_ns);
    for (size_t at = 0; at < f.journal_bytes; at += sizeof bytes + bytes) {
        memcpy(&bytes, f.journal + at, sizeof bytes);
        assert_true(tt_coord_replay(&f.c, f.journal + at + sizeof bytes, bytes));
    }
    tt_coord_start(&f.c, f.now_ns);
    f.nheard = 0;
}

static void suspect(uint32_t i, uint32_t whom)
{
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_SUSPECT,
                                        .what = TT_SUSPECT_CUT,
                                        .id = f.conns[whom].member,
                                        .epoch = f.c.epoch });
}

static void report_gone(uint32_t i, uint32_t whom)
{
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_SUSPECT,
                                        .what = TT_SUSPECT_GONE,
                                        .id = f.conns[whom].member,
                                        .epoch = f.c.epoch });
}

static void end_connection(uint32_t i)
{
    tt_coord_step(&f.c, &(struct tt_coord_event){ .kind = TT_COORD_EV_CLOSED, .conn = &f.conns[i] },
                  f.now_ns);
}

/* A member whose process has ended, according to two other members, gets no grace period, in any
 * order of events. */
static void two_reports_and_disconnect_mean_loss(void **state)
{
    (void)state;
    begin(5);
    report_gone(0, 4);
    report_gone(1, 4);
    assert_int_equal(state_of(4), TT_COORD_IN_VIEW);
    end_connection(4);
    assert_int_equal(state_of(4), TT_COORD_LOST);
    end_connection(3);
    report_gone(0, 3);
    report_gone(0, 3);
    assert_int_equal(state_of(3), TT_COORD_IN_VIEW);
    report_gone(2, 3);
    assert_int_equal(state_of(3), TT_COORD_LOST);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 3);
}

static void one_report_suffices_between_two_members(void **state)
{
    (void)state;
    begin(3);
    end_connection(2);
    report_gone(0, 2);
    assert_int_equal(state_of(2), TT_COORD_IN_VIEW);
    begin(2);
    report_gone(0, 1);
    wait_ns(2, 3 * LEASE_NS);
    assert_int_equal(state_of(1), TT_COORD_IN_VIEW);
    end_connection(1);
    assert_int_equal(state_of(1), TT_COORD_LOST);
}

static void member_suspecting_all_is_excluded(void **state)
{
    (void)state;
    begin(5);
    for (uint32_t i = 1; i < 5; i++)
        suspect(0, i);
    wait_ns(5, LEASE_NS);
    assert_int_equal(state_of(0), TT_COORD_LOST);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 4);
}

static void single_report_excludes_at_most_one(void **state)
{
    (void)state;
    begin(5);
    for (uint32_t i = 1; i < 5; i++) {
        suspect(0, i);
        wait_ns(5, LEASE_NS);
    }
    assert_int_equal(state_of(0), TT_COORD_LOST);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 3);
}

static void silent_member_is_named_and_removable(void **state)
{
    struct tt_elmsg agree = { .kind = TT_ELMSG_CALL, .what = TT_CALL_AGREE };

    (void)state;
    begin(4);
    agree.epoch = f.c.epoch;
    agree.number = f.c.round;
    for (uint32_t i = 0; i < 4; i++)
        if (i != 1)
            send_message(i, &agree);
    send_message(3, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL, .number = f.c.round });
    assert_int_equal(f.heard.what, TT_ROUND_TIMEOUT);
    assert_int_equal(f.heard.id, f.conns[1].member);
    for (uint32_t i = 0; i < 4; i++)
        if (i != 1)
            suspect(i, 1);
    wait_ns(4, LEASE_NS);
    assert_int_equal(state_of(1), TT_COORD_LOST);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 3);
    send_message(3, &agree);
    assert_int_equal(f.heard.what, TT_ROUND_LOST);
}

/* Sends a beat of a member whose connection has this round-trip time. */
static void beat_from(uint32_t i, uint64_t round_trip_ns)
{
    f.conns[i].round_trip_ns = round_trip_ns;
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_HEARTBEAT });
}

/* Members 1 and 2 are silent. Beats of member 0 advance the time. */
static void distant_member_may_be_silent_for_longer(void **state)
{
    (void)state;
    begin(3);
    beat_from(2, LEASE_NS / 10);
    wait_ns(1, LEASE_NS + LEASE_NS / 5);
    assert_int_equal(state_of(1), TT_COORD_LOST);
    assert_int_equal(state_of(2), TT_COORD_IN_VIEW);
    wait_ns(1, LEASE_NS);               /* 2.2 of 2.3 leases */
    assert_int_equal(state_of(2), TT_COORD_IN_VIEW);
    wait_ns(1, LEASE_NS / 5);
    assert_int_equal(state_of(2), TT_COORD_LOST);
}

static void distant_member_has_longer_to_reconnect(void **state)
{
    (void)state;
    begin(3);
    beat_from(2, LEASE_NS / 10);
    end_connection(1);
    end_connection(2);
    wait_ns(1, LEASE_NS / 2);           /* 0.5 of 0.25 and of 0.65 leases */
    assert_int_equal(state_of(1), TT_COORD_LOST);
    assert_int_equal(state_of(2), TT_COORD_IN_VIEW);
    wait_ns(1, LEASE_NS / 5);
    assert_int_equal(state_of(2), TT_COORD_LOST);
}

/* The queues of the link have become empty again, so the lease becomes shorter. */
static void patience_falls_with_the_round_trip(void **state)
{
    (void)state;
    begin(3);
    beat_from(2, LEASE_NS / 2);
    for (int i = 0; i < 200; i++)
        beat_from(2, 1);
    wait_ns(2, LEASE_NS + LEASE_NS / 5);
    assert_int_equal(state_of(1), TT_COORD_IN_VIEW);
    assert_int_equal(state_of(2), TT_COORD_LOST);
}

/* The next tick does not remain that of the earlier, longer lease. */
static void next_tick_comes_earlier_if_the_round_trip_falls(void **state)
{
    (void)state;
    begin(1);
    beat_from(0, LEASE_NS / 2);
    wait_ns(1, 2 * LEASE_NS);
    assert_true(tt_coord_next_ns(&f.c) > f.now_ns + LEASE_NS + LEASE_NS / 5);
    for (int i = 0; i < 200; i++)
        beat_from(0, 1);
    assert_true(tt_coord_next_ns(&f.c) <= f.now_ns + LEASE_NS + LEASE_NS / 5);
}

/* A burst of messages between two measurements does not lower the round-trip time. */
static void each_measurement_is_applied_once(void **state)
{
    (void)state;
    begin(3);
    beat_from(2, LEASE_NS / 10);
    beat_from(2, 1);
    for (int i = 0; i < 200; i++)
        send_message(2, &(struct tt_elmsg){ .kind = TT_ELMSG_HEARTBEAT });
    wait_ns(2, 2 * LEASE_NS);
    assert_int_equal(state_of(2), TT_COORD_IN_VIEW);
    wait_ns(2, LEASE_NS / 2);
    assert_int_equal(state_of(2), TT_COORD_LOST);
}

/* A distant member detects only after its own, longer lease that the earlier coordinator is silent;
 * and the next coordinator does not know its round-trip time. */
static void distant_members_survive_a_restart(void **state)
{
    (void)state;
    begin(4);
    beat_from(2, LEASE_NS / 10);
    restart();
    come(0, 1, f.c.round, 0);
    f.conns[1].round_trip_ns = 1;
    come(1, 1, f.c.round, 0);
    wait_ns(1, LEASE_NS + LEASE_NS / 5);
    assert_int_equal(state_of(1), TT_COORD_LOST);   /* this member is near, and silent again */
    wait_ns(1, LEASE_NS + LEASE_NS / 5);            /* 2.4 leases */
    f.conns[2].round_trip_ns = LEASE_NS / 10;
    come(2, 1, f.c.round, 0);
    assert_int_equal(state_of(2), TT_COORD_IN_VIEW);
    wait_ns(1, 2 * LEASE_NS);
    assert_int_equal(state_of(2), TT_COORD_IN_VIEW);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_LOST), 1);
    wait_ns(1, LEASE_NS);               /* the last member has been silent for more than 5 leases */
    assert_int_equal(state_of(2), TT_COORD_LOST);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_LOST), 3);
}

static void epoch_result_is_kept_until_restart(void **state)
{
    (void)state;
    begin(3);
    assert_int_equal(f.c.cause.came, 3);
    assert_int_equal(f.c.cause.lost + f.c.cause.left + f.c.cause.out + f.c.cause.revoked +
                         f.c.cause.revoker + f.c.cause.ordered,
                     0);
    for (uint32_t i = 0; i < 2; i++)
        epoch(i, 0);
    send_message(
        2, &(struct tt_elmsg){ .kind = TT_ELMSG_REVOKE, .what = TT_REVOKED_BY_CALL, .epoch = 1 });
    assert_true(f.c.revoked);
    epoch(2, 0);
    assert_int_equal(f.c.epoch, 2);
    assert_false(f.c.revoked);
    assert_int_equal(f.c.revoked_epoch, 1);
    assert_true(f.c.cause.revoked);
    assert_int_equal(f.c.cause.revoker, f.conns[2].member);
    assert_int_equal(
        f.c.cause.came + f.c.cause.lost + f.c.cause.left + f.c.cause.out + f.c.cause.ordered, 0);
    join(3);
    epoch(3, 0);
    send_message(2, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW });
    end_connection(1);
    wait_ns(4, LEASE_NS / 2);
    assert_int_equal(state_of(1), TT_COORD_LOST);
    epoch(0, 0);
    ready(0);
    ready(3);
    assert_int_equal(f.c.epoch, 3);
    assert_int_equal(f.c.cause.came, 1);
    assert_int_equal(f.c.cause.lost, 1);
    assert_int_equal(f.c.cause.left, 1);
    assert_int_equal(f.c.cause.revoker, 0);
    restart();
    assert_int_equal(f.c.epoch, 3);
    assert_int_equal(f.c.cause.came, 0);
}

/* Sends a message with one operation, of tag 3, in its list; n 0: without operations. */
static void send_with_operation(uint32_t i, const struct tt_elmsg *m, struct tt_op_entry op)
{
    struct tt_elmsg_writer w;
    uint8_t data[512];

    op.tag = 3;
    tt_elmsg_begin(&w, data, sizeof data, m);
    if (op.n > 0)
        tt_elmsg_add_op(&w, &op);
    send_bytes(i, data, tt_elmsg_end(&w));
}

static void answer_with(uint32_t i, uint8_t op_state, uint64_t n, bool before)
{
    const struct tt_elmsg m = { .kind = TT_ELMSG_ANSWER,
                                .epoch = f.c.epoch,
                                .number = f.c.question };

    send_with_operation(i, &m, (struct tt_op_entry){ .state = op_state, .before = before, .n = n });
}

static void answer(uint32_t i, uint8_t op_state, uint64_t n)
{
    answer_with(i, op_state, n, false);
}

/* Members that continued after tentative operations are up to two operations apart; all report
 * truthfully. */
static void final_anywhere_is_final_everywhere(void **state)
{
    static const struct {
        struct {
            uint8_t state;
            bool before;
            uint64_t n;
        } says[3];
        uint64_t final;
    } cases[] = {
        { { { TT_OP_PENDING, true, 7 }, { TT_OP_PENDING, true, 7 }, { TT_OP_PENDING, true, 7 } },
          5 },
        { { { TT_OP_COMPLETE, false, 6 },
            { TT_OP_COMPLETE, false, 6 },
            { TT_OP_PENDING, true, 7 } },
          5 },
        { { { TT_OP_COMPLETE, false, 7 }, { TT_OP_PENDING, true, 7 }, { TT_OP_PENDING, true, 7 } },
          6 },
        { { { TT_OP_COMPLETE, false, 6 },
            { TT_OP_PENDING, true, 6 },
            { TT_OP_COMPLETE, false, 6 } },
          5 },
        { { { TT_OP_COMPLETE, true, 7 }, { TT_OP_PENDING, true, 7 }, { TT_OP_COMPLETE, true, 7 } },
          5 },
        { { { TT_OP_COMPLETE, true, 7 }, { TT_OP_FINAL, false, 7 }, { TT_OP_COMPLETE, true, 7 } },
          7 },
        { { { TT_OP_PENDING, false, 8 }, { TT_OP_FINAL, false, 7 }, { TT_OP_COMPLETE, true, 7 } },
          7 },
        { { { TT_OP_RESTORED, true, 7 }, { TT_OP_PENDING, true, 7 }, { TT_OP_COMPLETE, false, 6 } },
          5 },
        { { { TT_OP_RESTORED, false, 7 },
            { TT_OP_PENDING, true, 7 },
            { TT_OP_COMPLETE, false, 6 } },
          6 },
        { { { TT_OP_COMPLETE, false, 1 },
            { TT_OP_PENDING, true, 2 },
            { TT_OP_COMPLETE, false, 1 } },
          0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(4);
        send_message(3, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW });
        for (uint32_t k = 0; k < 3; k++)
            answer_with(k, cases[i].says[k].state, cases[i].says[k].n, cases[i].says[k].before);
        assert_true(f.c.decided);
        assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 3);
        assert_int_equal(f.c.outcomes[3].n, cases[i].final);
    }
}

/* Three truthful members, each two steps apart, contradict one liar, which is excluded. */
static void single_lie_does_not_win(void **state)
{
    static const struct {
        uint8_t state;
        uint64_t n;
    } lies[] = { { TT_OP_PENDING, 2 }, { TT_OP_PENDING, 90 } };

    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        begin(5);
        send_message(4, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW });
        answer(3, lies[i].state, lies[i].n);
        answer(0, TT_OP_FINAL, 7);
        answer_with(1, TT_OP_COMPLETE, 7, true);
        answer(2, TT_OP_PENDING, 8);
        assert_int_equal(state_of(3), TT_COORD_LOST);
        assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 3);
    }
}

/* A successful commit makes tentative operations final. It must therefore fail in an epoch that is
 * revoked, since members may already have reported their operations. */
static void revoked_epoch_has_no_successful_commit(void **state)
{
    struct tt_elmsg commit = { .kind = TT_ELMSG_CALL, .what = TT_CALL_COMMIT, .value = 1 };

    (void)state;
    begin(2);
    for (int revoked = 0; revoked < 2; revoked++) {
        commit.epoch = f.c.epoch;
        commit.number = f.c.round;
        send_message(0, &commit);
        if (revoked)
            send_message(1, &(struct tt_elmsg){ .kind = TT_ELMSG_REVOKE, .epoch = f.c.epoch });
        send_message(1, &commit);
        assert_int_equal(f.heard.what, revoked ? TT_ROUND_LOST : TT_ROUND_OK);
        assert_int_equal(f.heard.value, !revoked);
    }
}

/* A commit does not make an operation final that one member has completed within its role and
 * another has not started. The commit ends with MISMATCH, or with LOST if the epoch was revoked. */
static void commit_needs_the_same_operations(void **state)
{
    struct tt_elmsg commit = { .kind = TT_ELMSG_CALL, .what = TT_CALL_COMMIT };

    (void)state;
    begin(2);
    for (int revoked = 0; revoked < 2; revoked++)
        for (uint64_t apart = 0; apart < 2; apart++) {
            commit.epoch = f.c.epoch;
            commit.number = f.c.round;
            commit.value = 7 << 1 | 1;
            if (revoked)
                send_message(1, &(struct tt_elmsg){ .kind = TT_ELMSG_REVOKE, .epoch = f.c.epoch });
            send_message(0, &commit);
            commit.value += apart << 1;
            send_message(1, &commit);
            assert_int_equal(f.heard.what, revoked ? TT_ROUND_LOST
                                           : apart ? TT_ROUND_MISMATCH
                                                   : TT_ROUND_OK);
            assert_int_equal(f.heard.value, !revoked && !apart);
        }
}

/* Otherwise the member would reply without knowing a result that others have received. */
static void missed_result_precedes_the_query(void **state)
{
    struct tt_elmsg commit = { .kind = TT_ELMSG_CALL, .what = TT_CALL_COMMIT, .value = 1 };

    (void)state;
    begin(3);
    commit.epoch = f.c.epoch;
    commit.number = f.c.round;
    for (uint32_t i = 0; i < 3; i++)
        send_message(i, &commit);
    assert_int_equal(f.heard.what, TT_ROUND_OK);
    end_connection(1);
    send_message(2, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW });
    f.order_heard = f.nheard = 0;
    come(1, f.c.epoch, commit.number, TT_CALL_COMMIT);
    assert_int_equal(f.nheard, 1);
    assert_int_equal(f.heard.number, commit.number);
    assert_int_equal(f.order_heard, TT_ELMSG_RESULT << 8 | TT_ELMSG_LOST);
}

/* Whatever member 0 reports about operation 7, which the others have started: member 0 is excluded,
 * the others stay, and their outcome does not depend on its report. */
static void contradicted_reply_excludes_its_sender(void **state)
{
    static const struct {
        uint8_t state;
        uint64_t n;
    } lies[] = { { TT_OP_FINAL, 7 },    { TT_OP_FINAL, 1ull << 63 }, { TT_OP_PENDING, UINT64_MAX },
                 { TT_OP_RESTORED, 9 }, { TT_OP_PENDING, 5 },        { TT_OP_COMPLETE, 2 },
                 { TT_OP_NONE, 0 } };

    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        begin(5);
        send_message(4, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW });
        answer(0, lies[i].state, lies[i].n);
        answer(1, TT_OP_PENDING, 7);
        answer(2, TT_OP_COMPLETE, 7);
        answer(3, TT_OP_PENDING, 7);
        assert_int_equal(state_of(0), TT_COORD_LOST);
        assert_false(f.c.decided);
        answer(1, TT_OP_PENDING, 7);
        answer(2, TT_OP_COMPLETE, 7);
        answer(3, TT_OP_PENDING, 7);
        assert_true(f.c.decided);
        assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 3);
        assert_int_equal(f.c.outcomes[3].n, 6); /* final; later ones are not */
        assert_int_equal(f.c.outcomes[3].state, TT_OP_FINAL);
    }
}

/* ---- leaving in order ---- */

static void leave_with(uint32_t i, uint64_t of_epoch, uint64_t final, uint64_t news)
{
    const struct tt_elmsg m = { .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW, .epoch = of_epoch };

    send_with_operation(
        i, &m,
        (struct tt_op_entry){ .state = TT_OP_FINAL, .n = final, .news = { .number = news } });
}

/* Operations that were final on the leaving member, and complete on all remaining ones, are final,
 * even if the coordinator restarts before those report it. If they have not completed an operation,
 * the leaver's report is a lie without effect on others. */
static void final_operations_of_leaver_stay_final(void **state)
{
    static const struct {
        uint64_t said;
        struct {
            uint8_t state;
            bool before;
            uint64_t n;
        } says[3];
        uint64_t final;
    } cases[] = {
        { 0,
          { { TT_OP_COMPLETE, false, 7 },
            { TT_OP_COMPLETE, false, 7 },
            { TT_OP_COMPLETE, false, 7 } },
          6 },
        { 7,
          { { TT_OP_COMPLETE, false, 7 },
            { TT_OP_COMPLETE, false, 7 },
            { TT_OP_COMPLETE, false, 7 } },
          7 },
        { 6,
          { { TT_OP_COMPLETE, false, 7 },
            { TT_OP_PENDING, true, 7 },
            { TT_OP_COMPLETE, false, 6 } },
          6 },
        { 7,
          { { TT_OP_COMPLETE, true, 7 }, { TT_OP_FINAL, false, 7 }, { TT_OP_PENDING, true, 8 } },
          7 },
        { 7,
          { { TT_OP_COMPLETE, false, 7 },
            { TT_OP_PENDING, false, 7 },
            { TT_OP_COMPLETE, false, 7 } },
          6 },
        { 7,
          { { TT_OP_COMPLETE, false, 7 },
            { TT_OP_RESTORED, false, 7 },
            { TT_OP_COMPLETE, false, 7 } },
          6 },
        { UINT64_MAX,
          { { TT_OP_COMPLETE, false, 7 },
            { TT_OP_PENDING, false, 8 },
            { TT_OP_COMPLETE, false, 7 } },
          7 },
        { 1,
          { { TT_OP_COMPLETE, false, 1 }, { TT_OP_NONE, false, 0 }, { TT_OP_COMPLETE, false, 1 } },
          0 },
        { 1,
          { { TT_OP_COMPLETE, false, 1 },
            { TT_OP_COMPLETE, false, 1 },
            { TT_OP_COMPLETE, false, 1 } },
          1 },
    };

    (void)state;
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        const bool restarts = i % 2;
        const size_t k = i / 2;
        uint64_t next;

        begin(5);
        next = f.c.round;
        leave_with(4, f.c.epoch, cases[k].said, 77);
        leave_with(3, f.c.epoch, 0, 0); /* without a report it has no effect */
        if (restarts) {
            restart();
            for (uint32_t who = 0; who < 3; who++)
                come(who, f.c.epoch, next, 0);
        }
        for (uint32_t who = 0; who < 3; who++)
            answer_with(who, cases[k].says[who].state, cases[k].says[who].n,
                        cases[k].says[who].before);
        assert_true(f.c.decided);
        assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 3);
        assert_int_equal(f.c.outcomes[3].n, cases[k].final);
        if (cases[k].said == 7 && cases[k].final == 7 && cases[k].says[1].state == TT_OP_COMPLETE)
            assert_int_equal(f.c.outcomes[3].news.number, 77);
    }
}

static void leave_report_is_of_its_epoch(void **state)
{
    (void)state;
    begin(3);
    leave_with(2, f.c.epoch + 1, 7, 0);
    answer(0, TT_OP_COMPLETE, 7);
    answer(1, TT_OP_COMPLETE, 7);
    assert_int_equal(f.c.outcomes[3].n, 6);
    begin(4);
    leave_with(3, f.c.epoch, 7, 0);
    for (uint32_t i = 0; i < 3; i++)
        answer(i, TT_OP_COMPLETE, 7);
    assert_int_equal(f.c.outcomes[3].n, 7);
    for (uint32_t i = 0; i < 3; i++)
        epoch(i, 0);
    assert_int_equal(f.c.epoch, 2);
    leave_with(2, f.c.epoch, 0, 0);
    answer(0, TT_OP_COMPLETE, 7);
    answer(1, TT_OP_COMPLETE, 7);
    assert_int_equal(f.c.outcomes[3].n, 6);
}

/* ---- settled operations ---- */

struct says {
    uint8_t state, before;
    uint64_t n;
};

/* Sends a member's report of its operation, with the result if there is one; n 0: of no
 * operation. */
static void send_standing(uint32_t i, uint8_t kind, struct says s)
{
    const struct tt_elmsg m = { .kind = kind,
                                .what = kind == TT_ELMSG_LEAVE ? TT_LEAVE_NOW : 0,
                                .epoch = f.c.epoch,
                                .number = f.c.question };

    send_with_operation(i, &m,
                        (struct tt_op_entry){ .state = s.state,
                                              .before = s.before,
                                              .n = s.n,
                                              .nresult = 5,
                                              .result = (const uint8_t *)"a sum" });
}

/* Checks the outcome. A member that has not received it, and replies again, gets the same one. */
static void check_outcome(uint64_t n, bool settled)
{
    assert_true(f.c.decided);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 3);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(f.outcome.n, n);
        if (n > 0)
            assert_int_equal(f.outcome.state, settled ? TT_OP_SETTLED : TT_OP_FINAL);
        assert_string_equal(f.result, settled ? "a sum" : "");
        f.outcome.n = 0;
        f.result[0] = 0;
        send_standing(1, TT_ELMSG_ANSWER, (struct says){ TT_OP_PENDING, TT_BEFORE_FINAL, n });
    }
}

static void settled_result_is_sent_to_all(void **state)
{
    static const struct {
        struct says says[3];
        uint64_t n;
        bool settled;
    } cases[] = {
        { { { TT_OP_SETTLED, 0, 7 }, { TT_OP_PENDING, 0, 7 }, { TT_OP_PENDING, 0, 7 } }, 7, true },
        { { { TT_OP_PENDING, 0, 1 }, { TT_OP_PENDING, 0, 1 }, { TT_OP_SETTLED, 0, 1 } }, 1, true },
        { { { TT_OP_PENDING, TT_BEFORE_SETTLED, 8 },
            { TT_OP_PENDING, 0, 7 },
            { TT_OP_SETTLED, 0, 7 } },
          7,
          true },
        { { { TT_OP_COMPLETE, TT_BEFORE_SETTLED, 8 },
            { TT_OP_PENDING, 0, 7 },
            { TT_OP_PENDING, 0, 7 } },
          7,
          true },
        { { { TT_OP_RESTORED, TT_BEFORE_SETTLED, 8 },
            { TT_OP_PENDING, 0, 7 },
            { TT_OP_PENDING, 0, 7 } },
          7,
          true },
        { { { TT_OP_SETTLED, 0, 7 },
            { TT_OP_PENDING, TT_BEFORE_TENTATIVE, 7 },
            { TT_OP_PENDING, 0, 7 } },
          7,
          true },
        { { { TT_OP_SETTLED, 0, 7 },
            { TT_OP_PENDING, TT_BEFORE_SETTLED, 7 },
            { TT_OP_PENDING, 0, 7 } },
          7,
          true },
        { { { TT_OP_SETTLED, 0, 8 },
            { TT_OP_PENDING, TT_BEFORE_SETTLED, 8 },
            { TT_OP_SETTLED, 0, 8 } },
          8,
          true },
        { { { TT_OP_COMPLETE, 0, 8 },
            { TT_OP_PENDING, TT_BEFORE_SETTLED, 8 },
            { TT_OP_COMPLETE, 0, 8 } },
          7,
          false },
        { { { TT_OP_PENDING, TT_BEFORE_SETTLED, 8 },
            { TT_OP_PENDING, 0, 8 },
            { TT_OP_PENDING, 0, 8 } },
          7,
          false },
        { { { TT_OP_COMPLETE, TT_BEFORE_SETTLED, 8 },
            { TT_OP_FINAL, 0, 8 },
            { TT_OP_COMPLETE, 0, 8 } },
          8,
          false },
        { { { TT_OP_PENDING, 0, 7 }, { TT_OP_PENDING, 0, 7 }, { TT_OP_PENDING, 0, 7 } }, 6, false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(4);
        send_message(3, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW });
        for (uint32_t k = 0; k < 3; k++)
            send_standing(k, TT_ELMSG_ANSWER, cases[i].says[k]);
        check_outcome(cases[i].n, cases[i].settled);
    }
}

/* No member has settled what another one has not started, or has restored: the minority lies; in a
 * tie, the newer members. */
static void settling_unstarted_operation_is_a_lie(void **state)
{
    static const struct {
        struct says says[3];
        uint32_t lies;
    } cases[] = {
        { { { TT_OP_FINAL, 0, 6 }, { TT_OP_SETTLED, 0, 7 }, { TT_OP_FINAL, 0, 6 } }, 1 },
        { { { TT_OP_SETTLED, 0, 7 }, { TT_OP_PENDING, 0, 7 }, { TT_OP_FINAL, 0, 6 } }, 2 },
        { { { TT_OP_FINAL, 0, 6 }, { TT_OP_PENDING, 0, 7 }, { TT_OP_SETTLED, 0, 7 } }, 2 },
        { { { TT_OP_RESTORED, 0, 7 }, { TT_OP_SETTLED, 0, 7 }, { TT_OP_RESTORED, 0, 7 } }, 1 },
        { { { TT_OP_SETTLED, 0, 1 },
            { TT_OP_NONE, 0, 0 },
            { TT_OP_PENDING, TT_BEFORE_SETTLED, 2 } },
          1 },
        { { { TT_OP_NONE, 0, 0 }, { TT_OP_SETTLED, 0, 1 }, { TT_OP_NONE, 0, 0 } }, 1 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(4);
        send_message(3, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW });
        for (uint32_t k = 0; k < 3; k++)
            send_standing(k, TT_ELMSG_ANSWER, cases[i].says[k]);
        assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 2);
        assert_int_equal(state_of(cases[i].lies), TT_COORD_LOST);
    }
}

/* The result is also sent if the coordinator restarts before the remaining members reply. Those
 * that have not started the operation, or have restored it, are ignored. */
static void settled_result_of_leaver_is_sent(void **state)
{
    static const struct {
        struct says says[3];
        uint64_t n;
        bool settled;
    } cases[] = {
        { { { TT_OP_PENDING, 0, 7 }, { TT_OP_PENDING, 0, 7 }, { TT_OP_PENDING, 0, 7 } }, 7, true },
        { { { TT_OP_PENDING, TT_BEFORE_SETTLED, 7 },
            { TT_OP_PENDING, 0, 7 },
            { TT_OP_PENDING, 0, 7 } },
          7,
          true },
        { { { TT_OP_PENDING, TT_BEFORE_SETTLED, 8 },
            { TT_OP_PENDING, 0, 7 },
            { TT_OP_SETTLED, 0, 7 } },
          7,
          true },
        { { { TT_OP_FINAL, 0, 7 }, { TT_OP_FINAL, 0, 7 }, { TT_OP_COMPLETE, 0, 7 } }, 7, false },
        { { { TT_OP_PENDING, 0, 7 }, { TT_OP_FINAL, 0, 6 }, { TT_OP_PENDING, 0, 7 } }, 6, false },
        { { { TT_OP_PENDING, 0, 7 }, { TT_OP_RESTORED, 0, 7 }, { TT_OP_PENDING, 0, 7 } },
          6,
          false },
        { { { TT_OP_PENDING, 0, 6 }, { TT_OP_PENDING, 0, 6 }, { TT_OP_PENDING, 0, 6 } }, 5, false },
    };
    static const struct says word = { TT_OP_SETTLED, TT_BEFORE_FINAL, 7 };

    (void)state;
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        uint64_t next;

        begin(5);
        next = f.c.round;
        send_standing(4, TT_ELMSG_LEAVE, word);
        leave_with(3, f.c.epoch, 0, 0);
        if (i % 2) {
            restart();
            for (uint32_t who = 0; who < 3; who++)
                come(who, f.c.epoch, next, 0);
        }
        for (uint32_t k = 0; k < 3; k++)
            send_standing(k, TT_ELMSG_ANSWER, cases[i / 2].says[k]);
        check_outcome(cases[i / 2].n, cases[i / 2].settled);
    }
}

/* ---- other versions ---- */

static void other_version_is_refused_in_kind(void **state)
{
    const struct tt_elmsg join = {
        .kind = TT_ELMSG_JOIN, .nroles = 1, .cookie = { 9 }, .text = "run"
    };
    uint8_t data[512];
    const size_t bytes = tt_elmsg_write(data, sizeof data, &join);

    (void)state;
    for (int version = 0; version < 256; version += 51) {
        begin(1);
        tt_coord_step(&f.c,
                      &(struct tt_coord_event){ .kind = TT_COORD_EV_OPEN, .conn = &f.conns[1] },
                      f.now_ns);
        data[0] = (uint8_t)version;
        send_bytes(1, data, bytes - 1); /* its JOIN may have other fields */
        assert_int_equal(f.refused_in, version);
        assert_int_equal(f.refusal.what, TUTTI_ERR_PROTOCOL);
        assert_non_null(strstr(f.refusal.text, "the member has version"));
        assert_non_null(strstr(f.refusal.text, "this coordinator has version 11"));
        assert_int_equal(f.c.nmembers, 1);
    }
    data[0] = TT_ELASTIC_VERSION;
    send_bytes(2, data, bytes - 1);
    assert_int_equal(f.refused_in, TT_ELASTIC_VERSION);
    assert_string_equal(f.refusal.text,
                        "protocol error: the first message of a connection must be JOIN");
}

/* ---- incompatible members ---- */

static void joins_in_vain(struct tt_elmsg join, const char *why)
{
    const uint32_t n = f.c.nmembers;

    join.kind = TT_ELMSG_JOIN;
    join.cookie[0] = 99;
    tt_coord_step(&f.c, &(struct tt_coord_event){ .kind = TT_COORD_EV_OPEN, .conn = &f.conns[5] },
                  f.now_ns);
    send_message(5, &join);
    assert_int_equal(f.refusal.what, TUTTI_ERR_INVALID);
    assert_string_equal(f.refusal.text, why);
    assert_int_equal(f.c.nmembers, n);
}

static void incompatible_member_gets_both_values(void **state)
{
    char name[TT_ELASTIC_TEXT_BYTES], why[TT_ELASTIC_TEXT_BYTES];
    struct tt_elmsg join = { .nroles = 1 };

    (void)state;
    begin(1);
    joins_in_vain((struct tt_elmsg){ .nroles = 1, .text = "walk" },
                  "this coordinator leads the run \"run\", not \"walk\"");
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    memcpy(join.text, name, sizeof name);
    snprintf(why, sizeof why, "this coordinator leads the run \"run\", not \"%.60s\"", name);
    joins_in_vain(join, why);
    joins_in_vain((struct tt_elmsg){ .nroles = 3, .role = 2, .text = "run" },
                  "nroles differs: it is 1 in the run, and 3 for this member");
    begin(0);
    tt_coord_step(&f.c, &(struct tt_coord_event){ .kind = TT_COORD_EV_OPEN, .conn = &f.conns[0] },
                  f.now_ns);
    send_message(0, &(struct tt_elmsg){ .kind = TT_ELMSG_JOIN,
                                        .nroles = 2,
                                        .group = 4,
                                        .role = 1,
                                        .cookie = { 1 },
                                        .text = "run" });
    assert_int_equal(f.c.nmembers, 1);
    joins_in_vain((struct tt_elmsg){ .nroles = 2, .group = 4, .role = 1, .text = "run" },
                  "role 1 of group 4 is taken by member 1");
}

static void silent_newcomer_delays_little(void **state)
{
    (void)state;
    begin(2);
    join(2);
    epoch(2, 1);
    epoch(0, 1);
    epoch(1, 1);
    for (uint32_t tries = 0; tries < TT_COORD_ATTEMPTS; tries++) {
        assert_true(tt_coord_is_proposing(&f.c));
        ready(0);
        ready(1);
        wait_ns(3, 2 * LEASE_NS + LEASE_NS / 5);
    }
    assert_false(tt_coord_is_proposing(&f.c));
    assert_int_equal(state_of(2), TT_COORD_UNKNOWN);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 2);
    assert_int_equal(f.c.round, 3);
}

static void demanding_newcomer_delays_nobody(void **state)
{
    (void)state;
    begin(0);
    for (uint32_t i = 0; i < 3; i++)
        join(i);
    epoch(0, UINT32_MAX);
    epoch(1, 2);
    assert_false(tt_coord_is_proposing(&f.c));
    epoch(2, 2);
    assert_true(tt_coord_is_proposing(&f.c));
    ready(1);
    ready(2);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 2);
    assert_int_equal(state_of(0), TT_COORD_WAITING);
}

/* Newcomers 0 to n - 1 wait, each with its limits, when another one, which required to be alone,
 * cancels its call. Returns the bits of the proposed members. */
static uint32_t first_view_of(const uint32_t *least, const uint32_t *most, uint32_t n)
{
    uint32_t in = 0;

    begin(0);
    for (uint32_t i = 0; i <= n; i++)
        join(i);
    epoch(n, 1);
    for (uint32_t i = 0; i < n; i++)
        epoch_of(i, least[i], most[i]);
    send_message(n, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL });
    for (uint32_t i = 0; i < n; i++)
        in |= (uint32_t)(state_of(i) == TT_COORD_CANDIDATE) << i;
    return in;
}

/* The first view is the largest that all its members accept; if too many would fit, the last
 * newcomers wait. */
static void first_view_satisfies_all_limits(void **state)
{
    static const struct {
        uint32_t least[5], most[5], n, in;
    } cases[] = {
        { { 1, 1, 1, 1 }, { 2, 0, 0, 0 }, 4, 0xe },            /* a newcomer with a low maximum
                                                                  delays none */
        { { 1, 1, 1, 1 }, { 2, 2, 2, 2 }, 4, 0x3 },
        { { 1, 1, 1, 1 }, { 2, 3, 3, 0 }, 4, 0xe },            /* three members, without the one
                                                                  that accepts at most two */
        { { 1, 5, 1, 5 }, { 3, 0, 3, 0 }, 4, 0x5 },            /* a newcomer with a high minimum
                                                                  delays none, either */
        { { 4, 4, 1, 4, 4 }, { 4, 4, 1, 4, 4 }, 5, 0x1b },
        { { 2, 3, 3, 5, 6 }, { 0, 0, 0, 0, 0 }, 5, 0x07 },
        { { 2, 3, 4, 5, 6 }, { 0, 0, 0, 0, 0 }, 5, 0 },        /* each requires one member more than
                                                                  there are */
        { { 2, 2 }, { 1, 1 }, 2, 0 },                          /* impossible for any */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (first_view_of(cases[i].least, cases[i].most, cases[i].n) != cases[i].in)
            fail_msg("case %zu: %x are in the first view, not %x", i,
                     first_view_of(cases[i].least, cases[i].most, cases[i].n), cases[i].in);
}

/* Both members of the view call `epoch` with this maximum. */
static void vote(uint32_t most)
{
    epoch_of(0, 1, most);
    epoch_of(1, 1, most);
}

/* A newcomer's `least` applies to a first view only; the members of a view set the minimum for
 * continuing. */
static void newcomer_limit_excludes_larger_views(void **state)
{
    (void)state;
    begin(2);
    for (uint32_t i = 2; i < 5; i++)
        join(i);
    epoch_of(2, 1, 2);
    assert_int_equal(f.c.news.newcomers, 0); /* not reported: members would call `epoch` without
                                                effect */
    vote(0);
    assert_int_equal(f.heard.what, TT_ROUND_SAME);
    epoch_of(3, 5, 0);
    epoch_of(4, 1, 3);
    assert_int_equal(f.c.news.newcomers, 1); /* two newcomers would exceed the maximum of the last
                                                one */
    vote(0);
    assert_int_equal(state_of(2), TT_COORD_WAITING);
    assert_int_equal(state_of(3), TT_COORD_CANDIDATE);
    assert_int_equal(state_of(4), TT_COORD_WAITING);
    for (uint32_t i = 0; i < 4; i++)
        ready(i);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 3);
    assert_int_equal(f.c.news.newcomers, 0);
}

/* The members' own limit: the first newcomers are admitted. */
static void view_respects_its_members_limit(void **state)
{
    (void)state;
    begin(2);
    for (uint32_t i = 2; i < 5; i++) {
        join(i);
        epoch(i, 1);
    }
    vote(2);
    assert_int_equal(f.heard.what, TT_ROUND_SAME);
    vote(4);
    for (uint32_t i = 0; i < 4; i++)
        ready(i);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 4);
    assert_int_equal(state_of(4), TT_COORD_WAITING);
    assert_int_equal(f.c.news.newcomers, 1);
}

static void slandering_newcomer_fails_alone(void **state)
{
    const struct tt_elmsg slander = { .kind = TT_ELMSG_READY };
    struct tt_elmsg_writer w;
    struct tt_elmsg m = slander;
    uint8_t data[512];

    (void)state;
    begin(1);
    for (uint32_t i = 1; i < 4; i++)
        join(i);
    for (uint32_t i = 1; i < 4; i++)
        epoch(i, 1);
    epoch(0, 1);
    for (uint32_t tries = 0; tries < TT_COORD_ATTEMPTS; tries++) {
        m.number = f.c.proposal;
        ready(0);
        ready(2);
        ready(3);
        tt_elmsg_begin(&w, data, sizeof data, &m);
        tt_elmsg_add_id(&w, f.conns[2].member);
        tt_elmsg_add_id(&w, f.conns[3].member);
        send_bytes(1, data, tt_elmsg_end(&w));
    }
    assert_int_equal(state_of(1), TT_COORD_UNKNOWN);
    ready(0);
    ready(2);
    ready(3);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 3);
}

/* ---- rounds that ended with SAME, which are not in the journal ---- */

/* Member i calls in round `number`, which may be wrong. */
static void call(uint32_t i, uint8_t what, uint64_t number)
{
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_CALL,
                                        .what = what,
                                        .flags = what == TT_CALL_EPOCH ? TT_EPOCH_ADMIT : 0,
                                        .epoch = f.c.epoch,
                                        .number = number,
                                        .value = 1 });
}

/* Starts a run with two rounds that end with SAME; returns the next round. */
static uint64_t begin_and_stay(uint32_t n)
{
    size_t bytes;

    begin(n);
    bytes = f.journal_bytes;
    for (int rounds = 0; rounds < 2; rounds++)
        for (uint32_t i = 0; i < n; i++)
            epoch(i, 0);
    assert_int_equal(f.heard.what, TT_ROUND_SAME);
    assert_int_equal(f.nheard, 2 * n);
    assert_int_equal(f.journal_bytes, bytes);
    return f.c.round;
}

static void assert_differs(uint8_t differs, uint64_t value, uint64_t also)
{
    assert_int_equal(f.heard.what, TT_ROUND_MISMATCH);
    assert_int_equal(f.heard.flags, differs);
    assert_int_equal(f.heard.value, value);
    assert_int_equal(f.heard.also, also);
}

/* Otherwise a member in the second round would be left behind while another is in the first. */
static void different_calls_fail_when_all_called(void **state)
{
    uint64_t next;

    (void)state;
    next = begin_and_stay(3);
    f.nheard = 0;
    call(0, TT_CALL_COMMIT, next);
    call(1, TT_CALL_EPOCH, next);
    assert_int_equal(f.nheard, 0);
    call(2, TT_CALL_EPOCH, next);
    assert_int_equal(f.nheard, 3);
    assert_true(f.heard.id != f.heard.other);
    assert_int_equal(f.c.round, next + 1);
    assert_differs(TT_DIFFERS_CALL, TT_CALL_COMMIT, TT_CALL_EPOCH);
}

/* The result contains the difference and two of the values, also after a reconnection, and after a
 * restart of the coordinator. */
static void call_differences_are_reported(void **state)
{
    static const struct {
        struct tt_elmsg a, b;
        uint8_t differs;
        uint64_t value, also;
    } cases[] = {
        { { .what = TT_CALL_EPOCH, .flags = TT_EPOCH_ADMIT },
          { .what = TT_CALL_EPOCH },
          TT_DIFFERS_FLAGS,
          TT_EPOCH_ADMIT,
          0 },
        { { .what = TT_CALL_EPOCH, .least = 1 },
          { .what = TT_CALL_EPOCH, .least = 2 },
          TT_DIFFERS_LEAST,
          1,
          2 },
        { { .what = TT_CALL_EPOCH, .most = 7 }, { .what = TT_CALL_EPOCH }, TT_DIFFERS_MOST, 7, 0 },
        { { .what = TT_CALL_OPTIMIZE, .value = 1ull << 40 },
          { .what = TT_CALL_OPTIMIZE, .value = 9 },
          TT_DIFFERS_BYTES,
          1ull << 40,
          9 },
        { { .what = TT_CALL_OPTIMIZE, .least = 5 },
          { .what = TT_CALL_OPTIMIZE },
          TT_DIFFERS_GAIN,
          5,
          0 },
        { { .what = TT_CALL_COMMIT, .value = 3 },
          { .what = TT_CALL_COMMIT, .value = 5 },
          TT_DIFFERS_OPERATIONS,
          0,
          0 },
        { { .what = TT_CALL_AGREE },
          { .what = TT_CALL_COMMIT },
          TT_DIFFERS_CALL,
          TT_CALL_AGREE,
          TT_CALL_COMMIT },
    };

    (void)state;
    begin(2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_elmsg a = cases[i].a, b = cases[i].b;

        a.kind = b.kind = TT_ELMSG_CALL;
        a.epoch = b.epoch = f.c.epoch;
        a.number = b.number = f.c.round;
        send_message(0, &a);
        send_message(1, &b);
        assert_differs(cases[i].differs, cases[i].value, cases[i].also);
        f.nheard = 0;
        send_message(1, &b); /* member 1 had not received the reply */
        assert_int_equal(f.nheard, 1);
        assert_differs(cases[i].differs, cases[i].value, cases[i].also);
        restart();
        assert_int_equal(f.c.last.differs, cases[i].differs);
        assert_int_equal(f.c.last.value, cases[i].value);
        assert_int_equal(f.c.last.also, cases[i].also);
        for (uint32_t k = 0; k < 2; k++)
            come(k, f.c.epoch, f.c.round, 0);
    }
}

/* No member causes a lack of newcomers: the result has the number of missing ones. */
static void timeout_without_newcomers_names_present_members(void **state)
{
    (void)state;
    begin(2);
    epoch(0, 4);
    epoch(1, 4);
    join(2);
    epoch(2, 0);
    f.nheard = 0;
    send_message(0, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL, .number = f.c.round });
    assert_int_equal(f.nheard, 1);
    assert_int_equal(f.heard.what, TT_ROUND_TIMEOUT);
    assert_int_equal(f.heard.id, 0);
    assert_int_equal(f.heard.value, 2);
    assert_int_equal(f.heard.other, 1);
    send_message(2, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL });
    assert_int_equal(f.heard.id, f.conns[0].member); /* which cancelled its call */
}

/* Two members wait with the same deadline, which one of them reaches slightly earlier. */
static void member_without_call_is_named_first(void **state)
{
    struct tt_elmsg m = { .kind = TT_ELMSG_CANCEL };

    (void)state;
    begin(3);
    m.number = f.c.round;
    for (uint32_t i = 0; i < 2; i++)
        call(i, TT_CALL_AGREE, f.c.round);
    for (uint32_t i = 0; i < 2; i++) {
        send_message(i, &m);
        assert_int_equal(f.heard.what, TT_ROUND_TIMEOUT);
        assert_int_equal(f.heard.id, f.conns[2].member);
    }
    call(2, TT_CALL_AGREE, f.c.round);
    send_message(2, &m);
    assert_int_equal(f.heard.id, f.conns[0].member);
}

/* If a newcomer is excluded by its own limits or its group, whatever the others call, the result
 * does not name a member that has not called. */
static void own_limits_are_reported_as_reason(void **state)
{
    (void)state;
    begin(2);
    join(2);
    for (uint32_t most = 1; most <= 3; most++) {
        epoch_of(2, 0, most);
        send_message(2, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL });
        assert_int_equal(f.heard.what, TT_ROUND_TIMEOUT);
        assert_int_equal(f.heard.flags, most < 3 ? TT_KEPT_OUT_MOST : TT_KEPT_OUT_NOT);
        assert_int_equal(f.heard.id, most < 3 ? 0 : f.conns[0].member);
        assert_int_equal(f.heard.value, most < 3 ? 2 : 0);
    }
    /* this makes space for the newcomer */
    send_message(1, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOTICE });
    epoch_of(2, 0, 2);
    send_message(2, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL });
    assert_int_equal(f.heard.flags, TT_KEPT_OUT_NOT);
}

static void join_group(uint32_t i)
{
    struct tt_elmsg m = {
        .kind = TT_ELMSG_JOIN, .group = i / 2, .role = i % 2, .nroles = 2, .text = "run"
    };

    m.cookie[0] = (uint8_t)(i + 1);
    tt_coord_step(&f.c, &(struct tt_coord_event){ .kind = TT_COORD_EV_OPEN, .conn = &f.conns[i] },
                  f.now_ns);
    send_message(i, &m);
}

static void incomplete_group_is_reported_as_reason(void **state)
{
    (void)state;
    begin(0);
    for (uint32_t i = 0; i < 4; i++)
        join_group(i);
    for (uint32_t i = 0; i < 2; i++)
        epoch(i, 2);
    for (uint32_t i = 0; i < 2; i++)
        ready(i);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 2);
    epoch(2, 0);
    send_message(2, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL });
    assert_int_equal(f.heard.what, TT_ROUND_TIMEOUT);
    assert_int_equal(f.heard.flags, TT_KEPT_OUT_GROUP); /* the other one has not called */
    assert_int_equal(f.heard.id, 0);
    epoch(3, 0);
    epoch_of(2, 0, 3);
    send_message(2, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL });
    assert_int_equal(f.heard.flags, TT_KEPT_OUT_MOST);
    epoch_of(2, 0, 4);
    send_message(2, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL });
    assert_int_equal(f.heard.flags, TT_KEPT_OUT_NOT);
    assert_int_equal(f.heard.id, f.conns[0].member);
    /* and its group with it */
    send_message(0, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOTICE });
    epoch_of(2, 0, 2);
    send_message(2, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL });
    assert_int_equal(f.heard.what, TT_ROUND_TIMEOUT);
    assert_int_equal(f.heard.flags, TT_KEPT_OUT_NOT);
}

/* All receive the revoking member and its reason; but never a member that was only notified, and
 * reports this to a restarted coordinator. */
static void revoker_and_reason_are_reported(void **state)
{
    (void)state;
    begin(3);
    send_message(
        1, &(struct tt_elmsg){
               .kind = TT_ELMSG_REVOKE, .what = TT_REVOKED_CUT, .id = 77, .epoch = f.c.epoch });
    assert_int_equal(f.lost.what, TT_REVOKED_CUT);
    assert_int_equal(f.lost.id, f.conns[1].member);
    assert_int_equal(f.lost.other, 77);
    send_message(
        2, &(struct tt_elmsg){
               .kind = TT_ELMSG_REVOKE, .what = TT_REVOKED_CUT, .id = 78, .epoch = f.c.epoch });
    send_message(0, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW });
    assert_int_equal(f.lost.nlist, 1);
    assert_int_equal(f.loss.id, f.conns[0].member);
    assert_int_equal(f.loss.why, TT_LOSS_LEFT);
    assert_int_equal(f.lost.what, TT_REVOKED_CUT);
    assert_int_equal(f.lost.id, f.conns[1].member); /* the first */
    assert_int_equal(f.lost.other, 77);
    for (uint32_t i = 1; i < 3; i++)
        epoch(i, 0);
    send_message(1, &(struct tt_elmsg){ .kind = TT_ELMSG_REVOKE, .epoch = f.c.epoch });
    assert_int_equal(f.lost.nlist, 0);
    assert_int_equal(f.lost.what, TT_REVOKED_NO_REASON);
    assert_int_equal(f.lost.id, 0);
    assert_int_equal(f.lost.other, 0);
}

/* ---- calls and operations ---- */

/* Member i reports that it waits in operation 4 of tag 2. Returns the index of the member that is
 * queried about it; -1: none. */
static int queried_for(uint32_t i, uint8_t needs)
{
    f.asked.kind = 0;
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_INSIDE,
                                        .epoch = f.c.epoch,
                                        .op = { .tag = 2, .n = 4, .needs = needs } });
    for (uint32_t k = 0; k < MEMBERS && f.asked.kind; k++)
        if (f.conns[k].member == f.asked_id)
            return (int)k;
    return -1;
}

/* Member i reports that it has not started the operation of member `inside`. */
static void has_not_begun(uint32_t i, uint32_t inside, uint8_t needs, uint64_t epoch)
{
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_NOT_BEGUN,
                                        .id = f.conns[inside].member,
                                        .epoch = epoch,
                                        .op = { .tag = 2, .n = 4, .needs = needs, .count = 7 } });
}

static void call_against_operation_is_reported(void **state)
{
    uint64_t round;

    (void)state;
    begin(3);
    round = f.c.round;
    assert_int_equal(queried_for(0, TT_OP_NEEDS_ALL), -1);
    has_not_begun(1, 0, TT_OP_NEEDS_ALL, f.c.epoch); /* which has not called */
    call(1, TT_CALL_AGREE, round);
    assert_int_equal(queried_for(0, TT_OP_NEEDS_ALL), 1);
    call(2, TT_CALL_AGREE, round);
    assert_int_equal(queried_for(0, TT_OP_NEEDS_ALL), 2); /* the next one, because the first may
                                                             never reply */
    assert_int_equal(queried_for(0, TT_OP_NEEDS_ALL), 1);
    assert_int_equal(queried_for(1, TT_OP_NEEDS_ALL), -1); /* a calling member is in no operation */
    has_not_begun(1, 0, TT_OP_NEEDS_ALL, f.c.epoch - 1);
    has_not_begun(1, 2, TT_OP_NEEDS_ALL, f.c.epoch);
    assert_int_equal(f.nheard, 0);
    assert_false(f.c.revoked);
    has_not_begun(1, 0, TT_OP_NEEDS_ALL, f.c.epoch);
    assert_int_equal(f.nheard, 2);
    assert_differs(TT_DIFFERS_INSIDE | TT_DIFFERS_BACK, TT_CALL_AGREE, 0);
    assert_int_equal(f.heard.id, f.conns[1].member);
    assert_int_equal(f.heard.other, f.conns[0].member);
    assert_int_equal(f.heard.op.n, 4);
    assert_int_equal(f.heard.op.count, 7);
    assert_int_equal(f.c.round, round);
    assert_int_equal(f.lost.what, TT_REVOKED_APART);
    assert_int_equal(f.lost.id, f.conns[1].member);
    assert_int_equal(f.lost.other, f.conns[0].member);
    assert_int_equal(f.lost.value, TT_CALL_AGREE);
    assert_int_equal(f.lost.op.tag, 2);
    call(1, TT_CALL_EPOCH, round);
    assert_int_equal(queried_for(0, TT_OP_NEEDS_ALL), -1); /* the epoch is over */
    has_not_begun(1, 0, TT_OP_NEEDS_ALL, f.c.epoch);
    assert_int_equal(f.nheard, 2);
}

/* Member i makes call number `attempt`. */
static void attempt(uint32_t i, uint8_t what, uint64_t round, uint64_t attempt)
{
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_CALL,
                                        .what = what,
                                        .epoch = f.c.epoch,
                                        .number = round,
                                        .also = attempt });
}

/* Member 2 reconnects, and repeats its call: it receives the reason why the call was taken back,
 * and then makes another call. */
static void check_told_again(uint64_t round)
{
    const struct tt_coord_member *m;

    f.nheard = 0;
    come(2, f.c.epoch, round, TT_CALL_AGREE);
    attempt(2, TT_CALL_AGREE, round, 9);
    m = tt_coord_find(&f.c, f.conns[2].member);
    assert_int_equal(f.nheard, 1);
    assert_differs(TT_DIFFERS_INSIDE | TT_DIFFERS_BACK, TT_CALL_AGREE, 0);
    assert_int_equal(f.heard.id, f.conns[1].member);
    assert_int_equal(f.heard.op.n, 4);
    assert_int_equal(f.heard.number, round);
    assert_int_equal(f.heard.epoch, f.c.epoch);
    assert_false(m->called);
    /* the call's deadline passed meanwhile */
    send_message(2, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL, .number = round });
    assert_int_equal(f.nheard, 1);
    attempt(2, TT_CALL_EPOCH, round, 10);
    assert_true(m->called);
    assert_int_equal(m->what, TT_CALL_EPOCH);
}

/* This holds even if the notification is lost repeatedly and the coordinator is killed; a rewritten
 * journal contains it, too. */
static void revoked_call_stays_revoked(void **state)
{
    uint64_t round;

    (void)state;
    for (int restarts = 0; restarts < 3; restarts++) {
        begin(3);
        round = f.c.round;
        attempt(1, TT_CALL_AGREE, round, 1);
        attempt(2, TT_CALL_AGREE, round, 9);
        end_connection(2);
        has_not_begun(1, 0, TT_OP_NEEDS_ALL, f.c.epoch);
        assert_int_equal(f.nheard, 1);
        if (restarts == 2) {
            f.journal_bytes = 0;
            tt_coord_snapshot(&f.c);
        }
        if (restarts > 0) {
            restart();
            come(0, f.c.epoch, round, 0);
            come(1, f.c.epoch, round, 0);
        }
        check_told_again(round);
    }
}

static void offer(uint32_t i, uint16_t scope)
{
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_OFFER,
                                        .what = TT_SYNC_POPULAR,
                                        .epoch = f.c.epoch,
                                        .number = 1,
                                        .scope = scope });
}

/* Four members in two groups. */
static void only_needed_members_are_queried(void **state)
{
    (void)state;
    begin(0);
    for (uint32_t i = 0; i < 4; i++)
        join_group(i);
    for (uint32_t i = 0; i < 4; i++)
        epoch(i, 4);
    for (uint32_t i = 0; i < 4; i++)
        ready(i);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 4);
    call(1, TT_CALL_COMMIT, f.c.round);
    assert_int_equal(queried_for(0, TT_OP_NEEDS_ROLE), -1);
    assert_int_equal(queried_for(0, TT_OP_NEEDS_GROUP), 1);
    assert_int_equal(queried_for(2, TT_OP_NEEDS_GROUP), -1);
    assert_int_equal(queried_for(2, TT_OP_NEEDS_ALL), 1);
    assert_int_equal(queried_for(3, TT_OP_NEEDS_ROLE), 1);
    has_not_begun(1, 0, TT_OP_NEEDS_ROLE, f.c.epoch);
    offer(2, 1); /* of role 0 */
    assert_int_equal(queried_for(3, TT_OP_NEEDS_GROUP), -1);
    assert_int_equal(queried_for(0, TT_OP_NEEDS_ROLE), 2);
    has_not_begun(2, 3, TT_OP_NEEDS_ALL, f.c.epoch);
    assert_false(f.c.revoked);
    has_not_begun(2, 0, TT_OP_NEEDS_ROLE, f.c.epoch);
    assert_true(f.c.revoked);
    assert_int_equal(f.nheard, 1); /* and one sync is taken back */
    assert_int_equal(f.heard.value, TT_CALL_SYNC);
    for (uint32_t i = 1; i < 3; i++)
        assert_false(tt_coord_find(&f.c, f.conns[i].member)->called);
}

/* A reconnecting member may have been in a round that has ended for the other member. */
static void reconnected_member_is_queried_later(void **state)
{
    uint64_t next;

    (void)state;
    next = begin_and_stay(3);
    restart();
    come(0, f.c.epoch, next - 1, TT_CALL_EPOCH);
    call(0, TT_CALL_EPOCH, next - 1);
    come(1, f.c.epoch, next, 0);
    assert_int_equal(queried_for(1, TT_OP_NEEDS_ALL), -1);
    has_not_begun(0, 1, TT_OP_NEEDS_ALL, f.c.epoch);
    assert_false(f.c.revoked);
    come(2, f.c.epoch, next, 0);
    assert_int_equal(f.nheard, 1);
    assert_int_equal(queried_for(1, TT_OP_NEEDS_ALL), -1);
    call(0, TT_CALL_EPOCH, next);
    assert_int_equal(queried_for(1, TT_OP_NEEDS_ALL), 0);
}

static void same_round_is_repeated_after_restart(void **state)
{
    uint64_t next;

    (void)state;
    next = begin_and_stay(3);
    restart();
    assert_int_not_equal(f.c.round, next);
    come(0, f.c.epoch, next - 1, TT_CALL_EPOCH);
    call(0, TT_CALL_EPOCH, next - 1);
    come(1, f.c.epoch, next, 0);
    assert_int_equal(f.nheard, 0);
    come(2, f.c.epoch, next - 1, TT_CALL_EPOCH);
    assert_int_equal(f.nheard, 1);
    assert_int_equal(f.heard.what, TT_ROUND_SAME);
    assert_int_equal(f.heard.number, next - 1);
    call(2, TT_CALL_EPOCH, next - 1);
    assert_int_equal(f.nheard, 2);
    assert_int_equal(f.c.round, next);
    for (uint32_t i = 0; i < 3; i++)
        call(i, TT_CALL_COMMIT, next);
    assert_int_equal(f.nheard, 5);
    assert_int_equal(f.heard.what, TT_ROUND_OK);
    assert_int_equal(f.heard.value, 1);
    restart();
    assert_int_equal(f.c.round, next + 1);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 3);
}

static void call_waits_for_the_round(void **state)
{
    uint64_t next;

    (void)state;
    next = begin_and_stay(3);
    restart();
    for (uint32_t i = 0; i < 2; i++)
        come(i, f.c.epoch, next, TT_CALL_AGREE);
    call(0, TT_CALL_AGREE, next);
    call(1, TT_CALL_AGREE, next);
    send_message(1, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL, .number = next });
    assert_int_equal(f.nheard, 0);
    come(2, f.c.epoch, next, 0);
    assert_int_equal(f.nheard, 1);
    assert_int_equal(f.heard.what, TT_ROUND_TIMEOUT);
    assert_int_equal(f.heard.number, next);
    assert_int_equal(f.heard.id, f.conns[2].member);
    call(2, TT_CALL_AGREE, next);
    call(1, TT_CALL_AGREE, next);
    assert_int_equal(f.nheard, 4);
    assert_int_equal(f.heard.what, TT_ROUND_OK);
}

static void round_known_to_lost_is_repeated(void **state)
{
    uint64_t next;

    (void)state;
    next = begin_and_stay(3);
    restart();
    for (uint32_t i = 0; i < 2; i++) {
        come(i, f.c.epoch, next - 1, TT_CALL_EPOCH);
        call(i, TT_CALL_EPOCH, next - 1);
    }
    wait_ns(2, 6 * LEASE_NS);   /* a silent member has five leases after a restart */
    assert_int_equal(f.c.round, next);
    assert_int_equal(f.c.last.round, next - 1);
    assert_true(f.c.last.is_view);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 2);
}

static void member_ahead_of_all_is_lost(void **state)
{
    static const uint64_t ahead[] = { 1, 2, 1000, UINT64_MAX / 2, UINT64_MAX - 100 };
    uint64_t next;

    (void)state;
    for (size_t k = 0; k < sizeof ahead / sizeof *ahead; k++) {
        next = begin_and_stay(4);
        restart();
        come(0, f.c.epoch, next + ahead[k], TT_CALL_EPOCH);
        for (uint32_t i = 1; i < 4; i++)
            come(i, f.c.epoch, next, i == 1 ? TT_CALL_AGREE : 0);
        assert_int_equal(state_of(0), TT_COORD_LOST);
        assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 3);
        assert_int_equal(f.c.round, next);
        for (uint32_t i = 1; i < 4; i++)
            call(i, TT_CALL_AGREE, next);
        assert_int_equal(f.heard.what, TT_ROUND_LOST);
    }
}

static void member_behind_all_is_lost(void **state)
{
    uint64_t next;

    (void)state;
    next = begin_and_stay(4);
    restart();
    come(0, f.c.epoch, next - 1, 0); /* that round ended only after all had called `epoch` */
    for (uint32_t i = 1; i < 4; i++)
        come(i, f.c.epoch, next, 0);
    assert_int_equal(state_of(0), TT_COORD_LOST);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 3);
    assert_int_equal(f.c.round, next);
}

static void a_cookie_of_zeros_is_refused(void **state)
{
    (void)state;
    begin(1);
    tt_coord_step(&f.c, &(struct tt_coord_event){ .kind = TT_COORD_EV_OPEN, .conn = &f.conns[1] },
                  f.now_ns);
    send_message(1, &(struct tt_elmsg){ .kind = TT_ELMSG_JOIN, .nroles = 1, .text = "run" });
    assert_int_equal(f.c.nmembers, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_reports_and_disconnect_mean_loss),
        cmocka_unit_test(one_report_suffices_between_two_members),
        cmocka_unit_test(member_suspecting_all_is_excluded),
        cmocka_unit_test(single_report_excludes_at_most_one),
        cmocka_unit_test(different_calls_fail_when_all_called),
        cmocka_unit_test(silent_member_is_named_and_removable),
        cmocka_unit_test(distant_member_may_be_silent_for_longer),
        cmocka_unit_test(distant_member_has_longer_to_reconnect),
        cmocka_unit_test(patience_falls_with_the_round_trip),
        cmocka_unit_test(next_tick_comes_earlier_if_the_round_trip_falls),
        cmocka_unit_test(each_measurement_is_applied_once),
        cmocka_unit_test(distant_members_survive_a_restart),
        cmocka_unit_test(final_anywhere_is_final_everywhere),
        cmocka_unit_test(single_lie_does_not_win),
        cmocka_unit_test(epoch_result_is_kept_until_restart),
        cmocka_unit_test(revoked_epoch_has_no_successful_commit),
        cmocka_unit_test(commit_needs_the_same_operations),
        cmocka_unit_test(missed_result_precedes_the_query),
        cmocka_unit_test(contradicted_reply_excludes_its_sender),
        cmocka_unit_test(final_operations_of_leaver_stay_final),
        cmocka_unit_test(leave_report_is_of_its_epoch),
        cmocka_unit_test(settled_result_is_sent_to_all),
        cmocka_unit_test(settling_unstarted_operation_is_a_lie),
        cmocka_unit_test(settled_result_of_leaver_is_sent),
        cmocka_unit_test(other_version_is_refused_in_kind),
        cmocka_unit_test(incompatible_member_gets_both_values),
        cmocka_unit_test(silent_newcomer_delays_little),
        cmocka_unit_test(demanding_newcomer_delays_nobody),
        cmocka_unit_test(first_view_satisfies_all_limits),
        cmocka_unit_test(newcomer_limit_excludes_larger_views),
        cmocka_unit_test(view_respects_its_members_limit),
        cmocka_unit_test(slandering_newcomer_fails_alone),
        cmocka_unit_test(call_differences_are_reported),
        cmocka_unit_test(timeout_without_newcomers_names_present_members),
        cmocka_unit_test(member_without_call_is_named_first),
        cmocka_unit_test(own_limits_are_reported_as_reason),
        cmocka_unit_test(incomplete_group_is_reported_as_reason),
        cmocka_unit_test(revoker_and_reason_are_reported),
        cmocka_unit_test(call_against_operation_is_reported),
        cmocka_unit_test(revoked_call_stays_revoked),
        cmocka_unit_test(only_needed_members_are_queried),
        cmocka_unit_test(reconnected_member_is_queried_later),
        cmocka_unit_test(same_round_is_repeated_after_restart),
        cmocka_unit_test(call_waits_for_the_round),
        cmocka_unit_test(round_known_to_lost_is_repeated),
        cmocka_unit_test(member_ahead_of_all_is_lost),
        cmocka_unit_test(member_behind_all_is_lost),
        cmocka_unit_test(a_cookie_of_zeros_is_refused),
    };
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);

    free(f.scratch);
    return failures;
}
