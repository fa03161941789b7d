/* The coordinator's decisions on shared state: the selected content, the receivers, and the
 * excluded members. A failed sync has no effect. */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "elastic/coord.h"

#define MEMBERS 24u
#define LEASE_NS (100 * TT_MS)
#define P TT_SYNC_POPULAR
#define R TT_SYNC_RECEIVE
#define S TT_SYNC_SEND

struct heard {
    struct tt_elmsg plan, synced, result;
    uint64_t holders[TT_SYNC_HOLDERS_MAX];
};

static struct fixture {
    struct tt_coord c;
    struct tt_coord_member members[MEMBERS];
    uint32_t order[MEMBERS];
    uint8_t *scratch;
    struct tt_coord_conn conns[MEMBERS];
    struct heard heard[MEMBERS];
    uint8_t records[1 << 16];
    size_t nrecords;
    uint64_t now_ns;
} f;

static void on_act(void *context, const struct tt_coord_act *act)
{
    const uint32_t bytes = (uint32_t)act->bytes;
    struct heard *heard;
    struct tt_elmsg m;

    (void)context;
    if (act->kind == TT_COORD_ACT_LOG) {
        assert_true(f.nrecords + 4 + bytes <= sizeof f.records);
        memcpy(f.records + f.nrecords, &bytes, 4);
        memcpy(f.records + f.nrecords + 4, act->data, bytes);
        f.nrecords += 4 + bytes;
    }
    if (act->kind != TT_COORD_ACT_SEND)
        return;
    assert_true(tt_elmsg_read(&m, act->data, act->bytes));
    heard = &f.heard[act->conn - f.conns];
    if (m.kind == TT_ELMSG_SYNCED)
        heard->synced = m;
    if (m.kind == TT_ELMSG_RESULT)
        heard->result = m;
    if (m.kind == TT_ELMSG_PLAN) {
        heard->plan = m;
        for (uint32_t i = 0; i < m.nlist; i++)
            heard->holders[i] = tt_elmsg_next_id(&m);
    }
}

static void send_message(uint32_t i, const struct tt_elmsg *m)
{
    uint8_t data[512];
    const size_t bytes = tt_elmsg_write(data, sizeof data, m);

    tt_coord_step(
        &f.c,
        &(struct tt_coord_event){
            .kind = TT_COORD_EV_FRAME, .conn = &f.conns[i], .data = data, .bytes = bytes },
        f.now_ns);
}

static void join(uint32_t i, uint32_t nroles)
{
    struct tt_elmsg m = { .kind = TT_ELMSG_JOIN,
                          .nroles = nroles,
                          .group = i / nroles,
                          .role = i % nroles,
                          .text = "run" };

    m.cookie[0] = (uint8_t)(i + 1);
    tt_coord_step(&f.c, &(struct tt_coord_event){ .kind = TT_COORD_EV_OPEN, .conn = &f.conns[i] },
                  f.now_ns);
    send_message(i, &m);
}

static void start(void)
{
    struct tt_coord_conf conf = { .run = "run",
                                  .lease_ns = LEASE_NS,
                                  .grace_ns = LEASE_NS / 4,
                                  .members = f.members,
                                  .members_max = MEMBERS,
                                  .order = f.order,
                                  .scratch = f.scratch,
                                  .emit = on_act };

    tt_coord_init(&f.c, &conf, f.now_ns);
    for (size_t at = 0; at < f.nrecords;) {
        uint32_t bytes;

        memcpy(&bytes, f.records + at, 4);
        assert_true(tt_coord_replay(&f.c, f.records + at + 4, bytes));
        at += 4 + bytes;
    }
    tt_coord_start(&f.c, f.now_ns);
}

/* Members first to first + n - 1 join, and form a view with the existing members. */
static void come(uint32_t first, uint32_t n, uint32_t nroles)
{
    for (uint32_t i = first; i < first + n; i++)
        join(i, nroles);
    for (uint32_t i = 0; i < first + n; i++) {
        const struct tt_coord_member *m = tt_coord_find(&f.c, f.conns[i].member);
        struct tt_elmsg call = { .kind = TT_ELMSG_CALL,
                                 .what = TT_CALL_EPOCH,
                                 .flags = TT_EPOCH_ADMIT,
                                 .least = i < first ? 0 : n };

        if (!m || m->state == TT_COORD_LOST)
            continue;
        if (m->state == TT_COORD_IN_VIEW) {
            call.epoch = f.c.epoch;
            call.number = f.c.round;
        }
        send_message(i, &call);
    }
    for (uint32_t i = 0; i < first + n; i++)
        if (tt_coord_find(&f.c, f.conns[i].member))
            send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_READY, .number = f.c.proposal });
    for (uint32_t i = first; i < first + n; i++)
        assert_int_equal(tt_coord_find(&f.c, f.conns[i].member)->state, TT_COORD_IN_VIEW);
}

static void begin(uint32_t n, uint32_t nroles)
{
    uint8_t *scratch = f.scratch ? f.scratch : malloc(TT_ELMSG_BYTES_MAX);

    assert_non_null(scratch);
    f = (struct fixture){ .scratch = scratch, .now_ns = 1 };
    start();
    come(0, n, nroles);
}

/* Returns the next sync's number, in scope 0 by default. */
static uint64_t number(uint16_t scope)
{
    const struct tt_coord_scope *s = &f.c.scopes[scope];

    return (s->epoch == f.c.epoch ? s->number : 0) + 1;
}

struct offer {
    uint8_t strategy;
    uint64_t revision;
    uint32_t content, keys;
    uint8_t flags;
};

static void offer_in(uint32_t i, uint16_t scope, struct offer o)
{
    f.heard[i] = (struct heard){ 0 };
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_OFFER,
                                        .what = o.strategy,
                                        .flags = o.flags,
                                        .epoch = f.c.epoch,
                                        .number = number(scope),
                                        .value = o.revision,
                                        .scope = scope,
                                        .keys = { { o.keys } },
                                        .hash = { { o.content } } });
}

static void offer(uint32_t i, struct offer o)
{
    offer_in(i, 0, o);
}

static void vote_of(uint32_t i, uint8_t what, uint16_t scope)
{
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_VOTE,
                                        .what = what,
                                        .other = f.heard[i].plan.other,
                                        .epoch = f.c.epoch,
                                        .number = number(scope),
                                        .scope = scope });
}

static void vote(uint32_t i, uint8_t what)
{
    vote_of(i, what, 0);
}

static void leave(uint32_t i)
{
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW });
}

static uint8_t state_of(uint32_t i)
{
    const struct tt_coord_member *m = tt_coord_find(&f.c, f.conns[i].member);

    return m ? m->state : TT_COORD_UNKNOWN;
}

/* Returns whether i received SYNCED: 0 no, else 1 + what. */
static uint32_t ended(uint32_t i)
{
    return f.heard[i].synced.kind ? 1u + f.heard[i].synced.what : 0;
}

#define assert_ended(i, status, revision)                    \
    do {                                                     \
        assert_int_equal(ended(i), 1 + (status));            \
        assert_int_equal(f.heard[i].synced.value, revision); \
    } while (0)

/* All n members offer the same content at this revision. */
static void agree_on(uint32_t n, uint64_t revision, uint32_t content)
{
    for (uint32_t i = 0; i < n; i++)
        offer(i, (struct offer){ P, revision, content, 0, 0 });
    for (uint32_t i = 0; i < n; i++)
        assert_ended(i, TT_ROUND_SAME, revision);
}

static void most_common_content_wins_when_complete(void **state)
{
    (void)state;
    begin(5, 1);
    offer(0, (struct offer){ P, 70, 1, 0, 0 });
    offer(1, (struct offer){ P, 70, 2, 0, 0 });
    offer(2, (struct offer){ P, 70, 2, 0, 0 });
    offer(3, (struct offer){ P, 12, 3, 0, 0 });
    assert_int_equal(f.heard[0].plan.kind, 0);
    offer(4, (struct offer){ P, 70, 2, 0, 0 });
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(f.heard[i].plan.what, i == 0 || i == 3 ? TT_SYNC_RECEIVES : TT_SYNC_HOLDS);
        assert_int_equal(f.heard[i].plan.hash.word[0], 2);
        assert_int_equal(f.heard[i].plan.nlist, i == 0 || i == 3 ? 3 : 0);
    }
    vote(3, TT_SYNC_GOT);
    assert_int_equal(ended(0), 0);
    assert_false(f.c.scopes[0].known);
    vote(0, TT_SYNC_GOT);
    for (uint32_t i = 0; i < 5; i++)
        assert_ended(i, TT_ROUND_OK, 70);
    agree_on(5, 71, 9);
}

static void oldest_member_breaks_ties(void **state)
{
    (void)state;
    begin(4, 1);
    for (uint32_t i = 0; i < 4; i++)
        offer(3 - i, (struct offer){ P, 1, 1 + (3 - i) % 2, 0, 0 });
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(f.heard[i].plan.what, i % 2 ? TT_SYNC_RECEIVES : TT_SYNC_HOLDS);
}

static void diverged_members_are_excluded(void **state)
{
    (void)state;
    begin(6, 1);
    agree_on(6, 5, 1);
    offer(0, (struct offer){ P, 6, 1, 0, 0 });
    offer(1, (struct offer){ P, 7, 1, 0, 0 });     /* a revision that is too high */
    offer(2, (struct offer){ P, 6, 2, 9, 0 });     /* other arrays */
    offer(3, (struct offer){ P, 3, 4, 0, 0 });     /* behind */
    offer(4, (struct offer){ P, 6, 1, 0, 0 });
    offer(5, (struct offer){ P, 6, 5, 0, 0 });
    assert_int_equal(state_of(1), TT_COORD_LOST);
    assert_int_equal(state_of(2), TT_COORD_LOST);
    assert_int_equal(f.heard[3].plan.what, TT_SYNC_RECEIVES);
    assert_int_equal(f.heard[5].plan.what, TT_SYNC_RECEIVES);
    vote(3, TT_SYNC_GOT);
    vote(5, TT_SYNC_GOT);
    assert_ended(0, TT_ROUND_OK, 6);
    assert_ended(3, TT_ROUND_OK, 6);
}

static void receivers_are_no_candidates(void **state)
{
    (void)state;
    begin(6, 1);
    agree_on(6, 5, 1);
    offer(0, (struct offer){ R, 6, 7, 0, 0 });     /* the most common content, but without a
                                                      sender */
    offer(1, (struct offer){ R, 6, 7, 0, 0 });
    offer(2, (struct offer){ R, 6, 7, 0, 0 });
    offer(3, (struct offer){ S, 6, 2, 0, 0 });
    offer(4, (struct offer){ S, 6, 2, 0, 0 });
    offer(5, (struct offer){ S, 6, 3, 0, 0 });
    assert_int_equal(state_of(5), TT_COORD_LOST);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(f.heard[i].plan.what, TT_SYNC_RECEIVES);
        vote(i, TT_SYNC_GOT);
    }
    assert_ended(4, TT_ROUND_OK, 6);
}

static void popular_excludes_other_strategies(void **state)
{
    (void)state;
    begin(3, 1);
    agree_on(3, 5, 1);
    offer(0, (struct offer){ P, 6, 1, 0, 0 });
    offer(1, (struct offer){ S, 6, 1, 0, 0 });
    offer(2, (struct offer){ P, 6, 1, 0, 0 });
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(ended(i), 1 + TT_ROUND_MISMATCH);
    agree_on(3, 6, 2);
}

/* Member i makes call number `attempt`. */
static void attempt(uint32_t i, uint8_t strategy, uint64_t attempt)
{
    f.heard[i] = (struct heard){ 0 };
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_OFFER,
                                        .what = strategy,
                                        .epoch = f.c.epoch,
                                        .number = number(0),
                                        .value = 6,
                                        .also = attempt });
}

/* A revoked offer is ignored when the others offer next. */
static void revoked_offer_stays_revoked(void **state)
{
    (void)state;
    begin(2, 1);
    attempt(0, P, 3);
    attempt(1, S, 5);
    assert_int_equal(ended(1), 1 + TT_ROUND_MISMATCH);
    attempt(0, P, 3);
    assert_int_equal(ended(0), 1 + TT_ROUND_MISMATCH);
    assert_int_equal(f.heard[0].synced.number, number(0));
    assert_int_equal(f.heard[0].synced.value, P);
    send_message(0, &(struct tt_elmsg){
                        .kind = TT_ELMSG_WITHDRAW, .epoch = f.c.epoch, .number = number(0) });
    attempt(1, P, 6);
    assert_int_equal(ended(1), 0);
    attempt(0, P, 4);
    assert_ended(0, TT_ROUND_SAME, 6);
}

static void call(uint32_t i, uint8_t what)
{
    f.heard[i] = (struct heard){ 0 };
    send_message(i, &(struct tt_elmsg){ .kind = TT_ELMSG_CALL,
                                        .what = what,
                                        .epoch = f.c.epoch,
                                        .number = f.c.round,
                                        .value = 1 });
}

/* All are notified of two members that differ. The calls of `one`, which synced, are taken back,
 * like those of the others; the round keeps its number. */
static void check_torn(uint32_t one, uint32_t other, uint8_t differs, uint64_t value, uint64_t also)
{
    for (uint32_t i = 0; i < f.c.nmembers; i++) {
        const struct heard *h = &f.heard[i];
        const struct tt_elmsg *told = h->synced.kind ? &h->synced : &h->result;

        assert_int_equal(told->what, TT_ROUND_MISMATCH);
        assert_int_equal(told->flags, differs | TT_DIFFERS_BACK);
        assert_int_equal(told->id, f.conns[one].member);
        assert_int_equal(told->value, value);
        assert_int_equal(told->other, f.conns[other].member);
        assert_int_equal(told->also, also);
        assert_false(tt_coord_find(&f.c, f.conns[i].member)->called);
    }
}

static void sync_against_call_is_a_mismatch(void **state)
{
    static const uint8_t calls[] = { TT_CALL_AGREE, TT_CALL_COMMIT, TT_CALL_OPTIMIZE,
                                     TT_CALL_EPOCH };
    uint64_t round;

    (void)state;
    begin(3, 1);
    round = f.c.round;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        offer(i % 2, (struct offer){ P, 6, 1, 0, 0 });
        call(1 - i % 2, calls[i]);
        assert_int_equal(ended(i % 2), 0);
        assert_int_equal(f.heard[1 - i % 2].result.kind, 0); /* not before all have called */
        call(2, calls[i]);
        check_torn(i % 2, 1 - i % 2, TT_DIFFERS_CALL, TT_CALL_SYNC, calls[i]);
        assert_int_equal(f.c.round, round);
    }
    /* the sync's deadline passed meanwhile */
    send_message(1, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL, .number = round });
    for (uint32_t i = 0; i < 3; i++)
        call(i, TT_CALL_AGREE);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(f.heard[i].result.what, TT_ROUND_OK);
        assert_int_equal(f.heard[i].result.number, round);
    }
    agree_on(3, 6, 1);
}

/* Scopes of a role are tested, too. If the sync of another scope can be decided, its members get
 * their result first. */
static void mixed_scopes_are_a_mismatch(void **state)
{
    (void)state;
    begin(4, 2); /* groups of roles 0 and 1: members 0, 1 and 2, 3 */
    offer_in(0, 1, (struct offer){ P, 1, 1, 0, 0 });
    call(2, TT_CALL_AGREE);
    offer_in(1, 2, (struct offer){ P, 9, 2, 0, 0 });
    offer_in(3, 2, (struct offer){ P, 9, 2, 0, 0 });
    assert_ended(1, TT_ROUND_SAME, 9);
    assert_int_equal(ended(0), 0);
    call(1, TT_CALL_AGREE);
    call(3, TT_CALL_AGREE);
    check_torn(0, 2, TT_DIFFERS_CALL, TT_CALL_SYNC, TT_CALL_AGREE);
    offer_in(0, 0, (struct offer){ P, 1, 1, 0, 0 });
    for (uint32_t i = 1; i < 4; i++)
        offer_in(i, (uint16_t)(1 + i % 2), (struct offer){ P, 10, 2, 0, 0 });
    assert_ended(1, TT_ROUND_SAME, 10);
    assert_int_equal(ended(2), 0);
    call(1, TT_CALL_EPOCH);
    call(3, TT_CALL_EPOCH);
    check_torn(0, 1, TT_DIFFERS_CALL, TT_CALL_SYNC, TT_CALL_EPOCH);
    begin(2, 2);
    offer_in(0, 0, (struct offer){ P, 1, 1, 0, 0 });
    offer_in(1, 0, (struct offer){ P, 1, 1, 0, 0 });
    assert_ended(0, TT_ROUND_SAME, 1);
}

/* After a loss, some members still sync while others wait for the next view: the syncing members
 * are notified, and join the view, too. */
static void next_view_waits_for_syncing_members(void **state)
{
    (void)state;
    begin(3, 1);
    leave(2);
    offer(0, (struct offer){ P, 6, 1, 0, 0 });
    call(1, TT_CALL_EPOCH);
    assert_int_equal(ended(0), 1 + TT_ROUND_MISMATCH);
    assert_true(f.heard[0].synced.flags & TT_DIFFERS_OVER);
    assert_int_equal(f.heard[1].result.kind, 0);
    call(0, TT_CALL_EPOCH);
    assert_int_equal(f.c.epoch, 2);
}

static void missing_sender_fails_on_all(void **state)
{
    (void)state;
    begin(3, 1);
    agree_on(3, 5, 1);
    for (uint32_t i = 0; i < 3; i++)
        offer(i, (struct offer){ R, 6, i, 0, 0 });
    for (uint32_t i = 0; i < 3; i++)
        assert_ended(i, TT_ROUND_NOBODY, 5);
    for (uint32_t i = 0; i < 3; i++)
        offer(i, (struct offer){ P, 5, i, 0, 0 });     /* all are outdated: a member with an old
                                                          revision is no candidate */
    assert_ended(2, TT_ROUND_NOBODY, 5);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 3);
    agree_on(3, 6, 2);
}

static void dead_holder_is_replaced(void **state)
{
    (void)state;
    begin(4, 1);
    offer(0, (struct offer){ S, 1, 1, 0, 0 });
    offer(1, (struct offer){ S, 1, 1, 0, 0 });
    offer(2, (struct offer){ R, 0, 0, 0, 0 });
    offer(3, (struct offer){ R, 0, 0, 0, 0 });
    leave(0);
    assert_int_equal(f.heard[3].plan.nlist, 1);
    assert_int_equal(f.heard[3].holders[0], f.conns[1].member);
    vote(2, TT_SYNC_GOT);
    leave(1);
    assert_int_equal(f.heard[3].plan.nlist, 1);
    assert_int_equal(f.heard[3].holders[0], f.conns[2].member);
    vote(3, TT_SYNC_GOT);
    assert_ended(2, TT_ROUND_OK, 1);
    assert_ended(3, TT_ROUND_OK, 1);
}

static void last_holder_loss_changes_nothing(void **state)
{
    (void)state;
    begin(3, 1);
    agree_on(3, 5, 1);
    offer(0, (struct offer){ S, 6, 1, 0, 0 });
    offer(1, (struct offer){ R, 6, 2, 0, 0 });
    offer(2, (struct offer){ R, 6, 3, 0, 0 });
    leave(0);
    assert_ended(1, TT_ROUND_LOST, 5);
    assert_ended(2, TT_ROUND_LOST, 5);
    offer(1, (struct offer){ S, 6, 2, 0, 0 });
    offer(2, (struct offer){ R, 6, 3, 0, 0 });
    vote(2, TT_SYNC_GOT);
    assert_ended(1, TT_ROUND_OK, 6);
}

static void failing_receiver_fails_the_sync(void **state)
{
    (void)state;
    begin(3, 1);
    offer(0, (struct offer){ S, 4, 1, 0, 0 });
    offer(1, (struct offer){ R, 0, 2, 0, 0 });
    offer(2, (struct offer){ R, 0, 3, 0, 0 });
    vote(1, TT_SYNC_GOT);
    leave(2);
    assert_ended(0, TT_ROUND_OK, 4);
    offer(0, (struct offer){ S, 5, 1, 0, 0 });
    offer(1, (struct offer){ R, 0, 2, 0, 0 });
    vote(1, TT_SYNC_UNABLE);
    assert_ended(0, TT_ROUND_NOT_RECEIVED, 4);
    assert_int_equal(f.heard[0].synced.id, f.conns[1].member);
    assert_int_equal(tt_coord_count(&f.c, TT_COORD_IN_VIEW), 2);
}

static void deadline_withdraws_offer_or_ends_sync(void **state)
{
    const struct tt_elmsg back = { .kind = TT_ELMSG_WITHDRAW, .epoch = 1, .number = 1 };

    (void)state;
    begin(2, 1);
    offer(0, (struct offer){ S, 4, 1, 0, 0 });
    send_message(0, &back);
    assert_int_equal(ended(0), 1 + TT_ROUND_TIMEOUT);
    offer(0, (struct offer){ S, 4, 1, 0, 0 });
    offer(1, (struct offer){ R, 0, 2, 0, 0 });
    assert_int_equal(f.heard[1].plan.what, TT_SYNC_RECEIVES);
    send_message(0, &back);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ended(i, TT_ROUND_ABANDONED, 0);
        assert_int_equal(f.heard[i].synced.id, f.conns[0].member);
    }
    assert_false(f.c.scopes[0].known);
}

static void contradicted_receiver_is_lost(void **state)
{
    (void)state;
    begin(4, 1);
    offer(0, (struct offer){ S, 4, 1, 0, 0 });
    offer(1, (struct offer){ S, 4, 1, 0, 0 });
    offer(2, (struct offer){ R, 0, 2, 0, 0 });
    offer(3, (struct offer){ R, 0, 2, 0, 0 });
    vote(2, TT_SYNC_BAD);
    assert_int_equal(state_of(2), TT_COORD_IN_VIEW); /* not before all have made their offers */
    vote(3, TT_SYNC_GOT);
    assert_int_equal(state_of(2), TT_COORD_LOST);
    assert_ended(0, TT_ROUND_OK, 4);
}

static void contradicted_holder_is_lost(void **state)
{
    (void)state;
    begin(3, 1);
    agree_on(3, 5, 1);
    offer(0, (struct offer){ S, 6, 1, 0, 0 });
    offer(1, (struct offer){ R, 0, 2, 0, 0 });
    offer(2, (struct offer){ R, 0, 2, 0, 0 });
    vote(1, TT_SYNC_BAD);
    vote(2, TT_SYNC_BAD);
    assert_int_equal(state_of(0), TT_COORD_LOST);
    assert_ended(1, TT_ROUND_LOST, 5);
}

static void new_cohort_continues_or_replaces(void **state)
{
    (void)state;
    begin(2, 1);
    agree_on(2, 5, 1);
    leave(0);
    leave(1);
    come(2, 2, 1);
    offer(2, (struct offer){ P, 6, 1, 0, 0 });
    offer(3, (struct offer){ P, 5, 2, 0, 0 });
    for (uint32_t i = 2; i < 4; i++)
        assert_ended(i, TT_ROUND_OTHER_STATE, 5);
    offer(2, (struct offer){ P, 5, 1, 0, 0 });     /* a checkpoint of the last sync */
    offer(3, (struct offer){ P, 4, 2, 0, 0 });
    assert_int_equal(f.heard[3].plan.what, TT_SYNC_RECEIVES);
    vote(3, TT_SYNC_GOT);
    assert_ended(2, TT_ROUND_OK, 5);
    for (uint32_t i = 2; i < 4; i++)
        offer(i, (struct offer){ P, 6, 3, 0, 0 });
    assert_ended(3, TT_ROUND_SAME, 6);
    for (uint32_t i = 2; i < 4; i++)
        /* all set `instead`: other arrays, an older revision */
        offer(i, (struct offer){ P, 2, 4, 9, TT_OFFER_INSTEAD });
    assert_ended(2, TT_ROUND_SAME, 2);
}

static void roles_sync_apart(void **state)
{
    (void)state;
    begin(4, 2); /* groups of roles 0 and 1: members 0, 1 and 2, 3 */
    offer_in(0, 1, (struct offer){ S, 3, 1, 0, 0 });
    offer_in(1, 2, (struct offer){ P, 9, 2, 0, 0 });
    offer_in(3, 2, (struct offer){ P, 9, 2, 0, 0 });
    assert_ended(1, TT_ROUND_SAME, 9);
    assert_int_equal(ended(0), 0);
    offer_in(2, 1, (struct offer){ R, 0, 3, 0, 0 });
    vote_of(2, TT_SYNC_GOT, 1);
    assert_ended(0, TT_ROUND_OK, 3);
    assert_int_equal(f.c.scopes[2].revision, 9);
    offer_in(0, 2, (struct offer){ P, 10, 2, 0, 0 }); /* not its own scope */
    assert_int_equal(state_of(0), TT_COORD_LOST);
}

/* The coordinator is killed between any two of its records, and restarted again from a shorter
 * journal. */
static void restarted_coordinator_continues(void **state)
{
    (void)state;
    for (int snapshot = 0; snapshot < 2; snapshot++) {
        begin(3, 1);
        agree_on(3, 5, 1);
        offer(0, (struct offer){ S, 6, 2, 0, 0 });
        offer(1, (struct offer){ S, 6, 2, 0, 0 });
        offer(2, (struct offer){ R, 0, 3, 0, 0 });
        assert_int_equal(f.heard[2].plan.what, TT_SYNC_RECEIVES);
        if (snapshot) {
            f.nrecords = 0;
            tt_coord_snapshot(&f.c);
        }
        start();
        for (uint32_t i = 0; i < 3; i++)
            join(i, 1);
        offer(2, (struct offer){ R, 0, 3, 0, 0 });
        assert_int_equal(f.heard[2].plan.nlist, 2);
        vote(2, TT_SYNC_GOT);
        send_message(0, &(struct tt_elmsg){ /* a repeated offer: the sync had ended before this
                                               member reconnected */
                                            .kind = TT_ELMSG_OFFER,
                                            .what = S,
                                            .epoch = f.c.epoch,
                                            .number = number(0) - 1,
                                            .value = 6,
                                            .hash = { { 2 } } });
        assert_ended(0, TT_ROUND_OK, 6);
        assert_ended(2, TT_ROUND_OK, 6);
        if (snapshot) {
            f.nrecords = 0;
            tt_coord_snapshot(&f.c);
        }
        start();
        for (uint32_t i = 0; i < 3; i++)
            join(i, 1);
        assert_int_equal(f.c.scopes[0].revision, 6);
        for (uint32_t i = 0; i < 3; i++)
            offer(i, (struct offer){ P, 7, 1, 0, 0 });
        assert_ended(1, TT_ROUND_SAME, 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(most_common_content_wins_when_complete),
        cmocka_unit_test(oldest_member_breaks_ties),
        cmocka_unit_test(diverged_members_are_excluded),
        cmocka_unit_test(receivers_are_no_candidates),
        cmocka_unit_test(popular_excludes_other_strategies),
        cmocka_unit_test(revoked_offer_stays_revoked),
        cmocka_unit_test(sync_against_call_is_a_mismatch),
        cmocka_unit_test(mixed_scopes_are_a_mismatch),
        cmocka_unit_test(next_view_waits_for_syncing_members),
        cmocka_unit_test(missing_sender_fails_on_all),
        cmocka_unit_test(dead_holder_is_replaced),
        cmocka_unit_test(last_holder_loss_changes_nothing),
        cmocka_unit_test(failing_receiver_fails_the_sync),
        cmocka_unit_test(deadline_withdraws_offer_or_ends_sync),
        cmocka_unit_test(contradicted_receiver_is_lost),
        cmocka_unit_test(contradicted_holder_is_lost),
        cmocka_unit_test(new_cohort_continues_or_replaces),
        cmocka_unit_test(roles_sync_apart),
        cmocka_unit_test(restarted_coordinator_continues),
    };
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);

    free(f.scratch);
    return failures;
}
