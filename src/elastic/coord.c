/* Members: joining, heartbeats, losses. */
#include "elastic/coord.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "elastic/coord_state.h"
#include "elastic/patience.h"
#include "elastic/planted.h"
#include "elastic/states.h"

static uint64_t later(uint64_t at_ns, uint64_t more_ns)
{
    return at_ns > TT_NEVER - more_ns ? TT_NEVER : at_ns + more_ns;
}

/* Refuses a connection without a valid JOIN. A JOIN of another version is refused in a message
 * of that version. */
static void refuse_stranger(struct tt_coord *c, struct tt_coord_conn *conn, const void *data,
                            size_t bytes)
{
    const uint8_t version = tt_elmsg_version(data, bytes);
    char text[TT_ELASTIC_TEXT_BYTES];

    if (bytes < 2 || version == TT_ELASTIC_VERSION || ((const uint8_t *)data)[1] != TT_ELMSG_JOIN) {
        tt_coord_refuse(c, conn, TUTTI_ERR_PROTOCOL,
                        "protocol error: the first message of a connection must be JOIN");
        return;
    }
    snprintf(
        text, sizeof text,
        "elastic protocol mismatch: the member has version %u, this coordinator has version %u",
        version, TT_ELASTIC_VERSION);
    tt_coord_refuse_as(c, conn, version, TUTTI_ERR_PROTOCOL, text);
}

/* ---- members ---- */

static void remove_unknown(struct tt_coord *c)
{
    uint32_t n = 0;

    if (!c->gone)
        return;
    c->gone = false;
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (c->conf.members[i].state != TT_COORD_UNKNOWN)
            c->conf.members[n++] = c->conf.members[i];
    c->nmembers = n;
}

/* Returns the member that already has this seat (group and role), or 0. Without replica groups,
 * seats need not be unique. */
static uint64_t seat_holder(const struct tt_coord *c, const struct tt_elmsg *msg)
{
    for (uint32_t i = 0; i < c->nmembers && msg->nroles > 1; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (m->state != TT_COORD_LOST && m->state != TT_COORD_UNKNOWN && m->group == msg->group &&
            m->role == msg->role)
            return m->id;
    }
    return 0;
}

static void send_welcome(struct tt_coord *c, struct tt_coord_member *m)
{
    struct tt_elmsg msg = { .kind = TT_ELMSG_WELCOME,
                            .id = m->id,
                            .epoch = m->state == TT_COORD_IN_VIEW ? c->epoch : 0,
                            .number = c->round,
                            .value = c->conf.lease_ns,
                            .news = c->news };

    memcpy(msg.cookie, c->secret, TT_COOKIE_BYTES);
    tt_coord_send_msg(c, m, &msg);
}

/* ---- deadlines ---- */

/* Returns whether a disconnected member has no grace period: two other members, or the only other
 * one, report that its process has ended. */
static bool is_gone(const struct tt_coord *c, const struct tt_coord_member *m)
{
    return m->gone[1] != 0 || (m->gone[0] != 0 && tt_coord_count(c, TT_COORD_IN_VIEW) == 2);
}

/* Returns the time that a disconnected member has to reconnect. */
static uint64_t grace_ns(const struct tt_coord *c, const struct tt_coord_member *m)
{
    return is_gone(c, m)
               ? 0
               : tt_patience_grace_ns(c->conf.grace_ns, c->conf.lease_ns, m->round_trip_ns);
}

static uint64_t due_ns(const struct tt_coord *c, const struct tt_coord_member *m)
{
    const uint64_t silent = later(m->heard_ns,
                                  tt_patience_lease_ns(c->conf.lease_ns, m->round_trip_ns)),
                   gone = later(m->closed_ns, grace_ns(c, m));

    return m->state == TT_COORD_LOST || m->state == TT_COORD_UNKNOWN ? TT_NEVER
           : silent < gone                                           ? silent
                                                                     : gone;
}

/* Updates the member's round trip after a message on its connection. If the round trip has
 * decreased, the member's deadline is earlier than before. */
static void measure_round_trip(struct tt_coord *c, struct tt_coord_member *m)
{
    const uint64_t known_ns = m->round_trip_ns;

    m->round_trip_ns = known_ns == TT_NEVER
                           ? m->conn->round_trip_ns
                           : tt_patience_round_trip_ns(known_ns, m->conn->round_trip_ns);
    m->conn->round_trip_ns = 0;
    if (m->round_trip_ns < known_ns)
        tt_coord_due(c, due_ns(c, m));
}

/* Reconnects a member: messages that it may have missed are sent again. */
static void reconnect_member(struct tt_coord *c, struct tt_coord_member *m,
                             struct tt_coord_conn *conn, const struct tt_elmsg *join)
{
    if (m->conn && m->conn != conn)
        tt_coord_close(c, m->conn);
    m->conn = conn;
    m->closed_ns = TT_NEVER;
    m->gone[0] = m->gone[1] = 0;
    conn->member = m->id;
    measure_round_trip(c, m);
    send_welcome(c, m);
    if (tt_coord_is_live(m)) {
        tt_coord_send_view(c, m);
        if (join->epoch == c->epoch && join->number + 1 == c->round &&
            !TT_PLANTED(TT_BUG_RESULT_AFTER_QUESTION))
            tt_coord_send_last(c, m);
        if (c->querying)
            tt_coord_send_lost(c, m);
    }
    if (tt_coord_is_proposing(c) && m->next_rank != TT_COORD_NO_RANK && !m->ready)
        tt_coord_send_proposal(c, m);
    if (tt_coord_is_unsure(c) && tt_coord_is_live(m))
        tt_coord_take_round(c, m, join);
}

/* Returns whether a live member has declared the number of roles of a group. */
static bool has_roles(const struct tt_coord *c)
{
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (c->conf.members[i].state != TT_COORD_LOST &&
            c->conf.members[i].state != TT_COORD_UNKNOWN)
            return true;
    return false;
}

/* Returns whether the sender of msg must be refused; why[bytes] gets the reason. */
static bool is_refused(const struct tt_coord *c, const struct tt_elmsg *msg, char *why,
                       size_t bytes)
{
    static const uint8_t none[TT_COOKIE_BYTES];
    const uint64_t holder = seat_holder(c, msg);

    if (strcmp(msg->text, c->conf.run) != 0)
        snprintf(why, bytes, "this coordinator leads the run \"%.60s\", not \"%.60s\"", c->conf.run,
                 msg->text);
    else if (c->nmembers == c->conf.members_max)
        snprintf(why, bytes, "too many members: the run has reached its maximum of %" PRIu32,
                 c->nmembers);
    else if (memcmp(msg->cookie, none, TT_COOKIE_BYTES) == 0)
        snprintf(why, bytes, "invalid cookie: all zeros");
    else if (msg->nroles != c->nroles && has_roles(c))
        snprintf(why, bytes,
                 "nroles differs: it is %" PRIu32 " in the run, and %" PRIu32 " for this member",
                 c->nroles, msg->nroles);
    else if (holder)
        snprintf(why, bytes, "role %" PRIu32 " of group %" PRIu32 " is taken by member %" PRIu64,
                 msg->role, msg->group, holder);
    else
        return false;
    return true;
}

static void handle_join(struct tt_coord *c, struct tt_coord_conn *conn, const struct tt_elmsg *msg)
{
    struct tt_coord_member *m;
    char why[TT_ELASTIC_TEXT_BYTES];

    for (uint32_t i = 0; i < c->nmembers; i++) {
        m = &c->conf.members[i];
        if (m->state == TT_COORD_UNKNOWN || memcmp(m->cookie, msg->cookie, TT_COOKIE_BYTES) != 0)
            continue;
        m->heard_ns = c->now_ns;
        if (m->state == TT_COORD_LOST)
            tt_coord_refuse(c, conn, TUTTI_ERR_ABORTED,
                            "the coordinator declared this member lost");
        else
            reconnect_member(c, m, conn, msg);
        return;
    }
    if (is_refused(c, msg, why, sizeof why)) {
        tt_coord_refuse(c, conn, TUTTI_ERR_INVALID, why);
        return;
    }
    m = &c->conf.members[c->nmembers++];
    *m = (struct tt_coord_member){ .id = ++c->last_id,
                                   .group = msg->group,
                                   .role = msg->role,
                                   .rank = TT_COORD_NO_RANK,
                                   .next_rank = TT_COORD_NO_RANK,
                                   .heard_ns = c->now_ns,
                                   .closed_ns = TT_NEVER,
                                   .card = msg->card,
                                   .conn = conn };
    measure_round_trip(c, m);
    memcpy(m->cookie, msg->cookie, TT_COOKIE_BYTES);
    tt_coord_set(c, m, TT_COORD_WAITING);
    c->nroles = msg->nroles;
    conn->member = m->id;
    tt_coord_due(c, later(c->now_ns, c->conf.lease_ns));
    tt_coord_log_member(c, m);
    send_welcome(c, m);
}

static void handle_leave(struct tt_coord *c, struct tt_coord_member *m, struct tt_elmsg *msg)
{
    if (msg->what == TT_LEAVE_NOTICE && tt_coord_is_live(m)) {
        m->leaving = c->stale_news = true;
        return;
    }
    if (tt_coord_is_live(m) && msg->epoch == c->epoch)
        tt_coord_take_words(c, msg);
    tt_coord_lose(c, m, TT_LOSS_LEFT);
}

static void record_gone(struct tt_coord *c, const struct tt_coord_member *by,
                        struct tt_coord_member *m)
{
    if (m->gone[0] == 0)
        m->gone[0] = by->id;
    else if (m->gone[0] != by->id)
        m->gone[1] = by->id;
    tt_coord_due(c, c->now_ns);
}

/* Two members of the view cannot reach each other, although both reach the coordinator: one of them
 * must be removed. The choice is made a quarter of a lease later, when all have had time to
 * report. */
static void handle_suspicion(struct tt_coord *c, struct tt_coord_member *m, uint64_t id,
                             uint8_t what)
{
    struct tt_coord_member *other = tt_coord_member_of(c, id);

    if (!other || other == m || !tt_coord_is_live(other) || !tt_coord_is_live(m))
        return;
    if (what == TT_SUSPECT_GONE) {
        record_gone(c, m, other);
        return;
    }
    m->edges++;
    other->edges++;
    m->accused = id;
    if (c->suspicion_ns == TT_NEVER)
        c->suspicion_ns = later(c->now_ns, c->conf.lease_ns / 4);
    tt_coord_due(c, c->suspicion_ns);
}

/* Returns whether a should be removed rather than b: the member in more suspicions, as suspect or
 * accuser, because a disconnected member suspects all, and all suspect it. On a tie, the member
 * whose reports have caused more losses, then the newer one. */
static bool is_worse(const struct tt_coord_member *a, const struct tt_coord_member *b)
{
    if (a->edges != b->edges)
        return a->edges > b->edges;
    return a->costs != b->costs ? a->costs > b->costs : a->id > b->id;
}

static void judge_suspicions(struct tt_coord *c)
{
    struct tt_coord_member *worst = NULL;

    c->suspicion_ns = TT_NEVER;
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        if (tt_coord_is_live(m) && m->edges > 0 && (!worst || is_worse(m, worst)))
            worst = m;
    }
    for (uint32_t i = 0; i < c->nmembers && worst; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        if (!tt_coord_is_live(m))
            continue;
        m->costs += m->accused == worst->id && m->edges == worst->edges;
        if (m != worst)
            m->edges = 0;
        m->accused = 0;
    }
    if (worst)
        tt_coord_lose(c, worst, TT_LOSS_CUT);
}

/* The member that sends a reason has revoked the epoch. Others repeat the revocation without a
 * reason: after a deadline of another member, and for a restarted coordinator. */
static void handle_revoke(struct tt_coord *c, const struct tt_coord_member *m,
                          const struct tt_elmsg *msg)
{
    if (msg->epoch != c->epoch)
        return;
    if (!c->revoked) {
        c->revoked = c->changed = c->stale_news = true;
        c->revoked_epoch = msg->epoch;
        c->revoker = c->unreached = 0;
    }
    if (c->revocation != TT_REVOKED_NO_REASON || msg->what == TT_REVOKED_NO_REASON)
        return;
    c->revocation = msg->what;
    c->revoker = m->id;
    c->unreached = msg->id;
}

/* ---- events ---- */

static void on_message(struct tt_coord *c, struct tt_coord_member *m, struct tt_elmsg *msg)
{
    static const struct tt_elmsg alive = { .kind = TT_ELMSG_ALIVE };

    c->dirty |= msg->kind != TT_ELMSG_HEARTBEAT;
    switch (msg->kind) {
    case TT_ELMSG_HEARTBEAT:
        tt_coord_send_msg(c, m, &alive);
        return;
    case TT_ELMSG_LEAVE:
        handle_leave(c, m, msg);
        return;
    case TT_ELMSG_CALL:
        tt_coord_call(c, m, msg);
        return;
    case TT_ELMSG_CANCEL:
        tt_coord_cancel(c, m, msg->number);
        return;
    case TT_ELMSG_READY:
        tt_coord_on_ready(c, m, msg);
        return;
    case TT_ELMSG_ANSWER:
        tt_coord_answer(c, m, msg);
        return;
    case TT_ELMSG_OFFER:
        tt_coord_offer(c, m, msg);
        return;
    case TT_ELMSG_WITHDRAW:
        tt_coord_withdraw(c, m, msg);
        return;
    case TT_ELMSG_VOTE:
        tt_coord_vote(c, m, msg);
        return;
    case TT_ELMSG_LINKS:
        tt_coord_links(c, m, msg);
        return;
    case TT_ELMSG_INSIDE:
        tt_coord_inside(c, m, msg);
        return;
    case TT_ELMSG_NOT_BEGUN:
        tt_coord_not_begun(c, m, msg);
        return;
    case TT_ELMSG_SUSPECT:
        if (msg->epoch == c->epoch)
            handle_suspicion(c, m, msg->id, msg->what);
        return;
    case TT_ELMSG_REVOKE:
        if (tt_coord_is_live(m))
            handle_revoke(c, m, msg);
        return;
    default:
        tt_coord_lose(c, m, TT_LOSS_ILLEGAL);
    }
}

static void on_frame(struct tt_coord *c, struct tt_coord_conn *conn, const void *data, size_t bytes)
{
    struct tt_coord_member *m = conn->member ? tt_coord_member_of(c, conn->member) : NULL;
    struct tt_elmsg msg;
    const bool good = tt_elmsg_read(&msg, data, bytes);

    if (m && m->conn == conn) {
        m->heard_ns = c->now_ns;
        measure_round_trip(c, m);
        if (good)
            on_message(c, m, &msg);
        else
            tt_coord_lose(c, m, TT_LOSS_ILLEGAL);
        c->dirty |= !good;
    } else if (good && msg.kind == TT_ELMSG_JOIN && !conn->member) {
        c->dirty = true;
        handle_join(c, conn, &msg);
    } else {
        refuse_stranger(c, conn, data, bytes);
    }
}

static void on_closed(struct tt_coord *c, struct tt_coord_conn *conn)
{
    struct tt_coord_member *m = conn->member ? tt_coord_member_of(c, conn->member) : NULL;

    if (!m || m->conn != conn)
        return;
    m->conn = NULL;
    m->closed_ns = c->now_ns;
    tt_coord_due(c, later(c->now_ns, grace_ns(c, m)));
}

/* Functions that make a deadline earlier call tt_coord_due. Therefore the earliest deadline is
 * recomputed only when it has passed. */
static void lose_expired(struct tt_coord *c)
{
    if (c->now_ns < c->due_ns)
        return;
    if (c->suspicion_ns <= c->now_ns)
        judge_suspicions(c);
    if (tt_coord_is_proposing(c) && c->proposal_ns <= c->now_ns)
        tt_coord_overdue(c);
    c->due_ns = c->suspicion_ns;
    tt_coord_due(c, tt_coord_ring_next_ns(c));
    if (tt_coord_is_proposing(c))
        tt_coord_due(c, c->proposal_ns);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        if (due_ns(c, m) <= c->now_ns)
            tt_coord_lose(c, m, m->conn ? TT_LOSS_SILENT : TT_LOSS_DIED);
        tt_coord_due(c, due_ns(c, m));
    }
    c->dirty = true;
}

uint64_t tt_coord_next_ns(const struct tt_coord *c)
{
    return c->due_ns;
}

/* Makes all possible decisions. Each decision removes its cause, so the loop terminates. Heartbeats
 * cause no decision. */
static void run_decisions(struct tt_coord *c)
{
    if (!c->dirty)
        return;
    c->dirty = false;
    while (tt_coord_query(c) || tt_coord_judge(c) || tt_coord_conclude(c) || tt_coord_catch_up(c) ||
           tt_coord_decide_sync(c) || tt_coord_decide_round(c))
        ;
    tt_coord_send_updates(c);
    remove_unknown(c);
}

void tt_coord_step(struct tt_coord *c, const struct tt_coord_event *ev, uint64_t now_ns)
{
    tt_assert(now_ns >= c->now_ns && c->starts > 0);
    c->now_ns = now_ns;
    if (ev->kind == TT_COORD_EV_OPEN)
        ev->conn->member = 0;
    else if (ev->kind == TT_COORD_EV_FRAME)
        on_frame(c, ev->conn, ev->data, ev->bytes);
    else if (ev->kind == TT_COORD_EV_CLOSED)
        on_closed(c, ev->conn);
    tt_coord_search_ring(c);
    lose_expired(c);
    run_decisions(c);
}
