/* The connection to the coordinator, views and calls; operations are in member_ops.c. Unanswered
 * messages are resent on a new connection, so every message may arrive twice. Calls are identified
 * by their round; questions, proposals and views by their number. */
#include "elastic/member.h"

#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "elastic/member_state.h"
#include "elastic/mismatch.h"
#include "elastic/patience.h"

#define FIRST_LEASE_NS TT_SECOND /* until the coordinator sends its own */
#define RETRY_NS (5 * TT_MS)     /* doubles with each failure, up to a quarter of the lease */

static void emit_kind(struct tt_member *m, uint8_t kind)
{
    tt_member_emit(m, &(struct tt_member_act){ .kind = kind });
}

static void at(struct tt_member *m, uint64_t now_ns)
{
    tt_assert(now_ns >= m->now_ns);
    m->now_ns = now_ns;
}

/* ---- the connection ---- */

static void reconnect(struct tt_member *m)
{
    const uint64_t most_ns = m->lease_ns / 4;
    uint64_t delay_ns = 0;

    if (m->failures > 0)
        delay_ns = m->failures < 16 && (RETRY_NS << (m->failures - 1)) < most_ns
                       ? RETRY_NS << (m->failures - 1)
                       : most_ns;
    m->connected = m->welcome = false;
    tt_member_emit(m,
                   &(struct tt_member_act){ .kind = TT_MEMBER_ACT_CONNECT, .delay_ns = delay_ns });
    m->failures++;
}

void tt_member_init(struct tt_member *m, const struct tt_member_conf *conf, uint64_t now_ns)
{
    memset(m, 0, sizeof *m);
    m->conf = *conf;
    m->view = conf->view;
    m->proposed = conf->proposed;
    m->now_ns = now_ns;
    m->lease_ns = FIRST_LEASE_NS;
    reconnect(m);
}

void tt_member_connected(struct tt_member *m, uint64_t now_ns)
{
    struct tt_elmsg join = { .kind = TT_ELMSG_JOIN,
                             .what = !m->calling                ? 0
                                     : tt_member_is_syncing(m) ? TT_CALL_SYNC
                                                               : m->call.what,
                             .epoch = m->epoch,
                             .number = m->round,
                             .group = m->conf.group,
                             .role = m->conf.role,
                             .nroles = m->conf.nroles,
                             .card = m->conf.card };

    at(m, now_ns);
    if (m->over)
        return;
    m->connected = true;
    m->heard_ns = now_ns;
    m->beat_ns = now_ns + m->lease_ns / 4;
    memcpy(join.cookie, m->conf.cookie, TT_COOKIE_BYTES);
    snprintf(join.text, sizeof join.text, "%s", m->conf.run);
    tt_member_send_msg(m, &join);
}

void tt_member_disconnected(struct tt_member *m, uint64_t now_ns)
{
    at(m, now_ns);
    if (!m->over)
        reconnect(m);
}

void tt_member_round_trip(struct tt_member *m, uint64_t round_trip_ns)
{
    m->round_trip_ns = tt_patience_round_trip_ns(m->round_trip_ns, round_trip_ns);
}

/* Returns the time without a message after which the coordinator is considered hung. */
static uint64_t patience_ns(const struct tt_member *m)
{
    return tt_patience_lease_ns(m->lease_ns, m->round_trip_ns);
}

uint64_t tt_member_next_ns(const struct tt_member *m)
{
    const uint64_t silent_ns =
        m->heard_ns > TT_NEVER - patience_ns(m) ? TT_NEVER : m->heard_ns + patience_ns(m);
    uint64_t next_ns = m->parting ? m->part_ns : TT_NEVER;

    if (m->over)
        return TT_NEVER;
    if (m->connected && m->beat_ns < next_ns)
        next_ns = m->beat_ns;
    return m->connected && silent_ns < next_ns ? silent_ns : next_ns;
}

void tt_member_tick(struct tt_member *m, uint64_t now_ns)
{
    at(m, now_ns);
    if (m->parting && !m->over && now_ns >= m->part_ns)
        tt_member_end(m, TUTTI_ERR_TIMEOUT,
                      "no coordinator was notified that this member leaves: other members may "
                      "restore its last "
                      "operations");
    if (m->over || !m->connected)
        return;
    if (now_ns - m->heard_ns >= patience_ns(m)) {
        emit_kind(m, TT_MEMBER_ACT_DISCONNECT);
        reconnect(m);
    } else if (now_ns >= m->beat_ns) {
        m->beat_ns = now_ns + m->lease_ns / 4;
        tt_member_send_msg(m, &(struct tt_elmsg){ .kind = TT_ELMSG_HEARTBEAT });
    }
}

/* ---- calls ---- */

static void send_call(struct tt_member *m)
{
    if (tt_member_is_syncing(m)) {
        tt_member_send_offer(m);
        return;
    }
    m->call.epoch = m->epoch;
    m->call.number = m->round;
    if (m->welcome)
        tt_member_send_msg(m, &m->call);
    if (m->welcome && m->cancelling)
        tt_member_send_msg(m, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL, .number = m->round });
}

tutti_status tt_member_call(struct tt_member *m, const struct tt_elmsg *call, uint64_t now_ns)
{
    at(m, now_ns);
    if (m->over || m->calling || tt_member_is_busy(m) ||
        (m->epoch == 0 && call->what != TT_CALL_EPOCH))
        return TUTTI_ERR_INVALID;
    if (tt_member_is_tentative(m) && call->what != TT_CALL_COMMIT)
        return TUTTI_ERR_INVALID;
    m->call = *call;
    m->call.kind = TT_ELMSG_CALL;
    m->call.also = ++m->attempts;
    if (call->what == TT_CALL_COMMIT)
        m->call.value = (call->value & 1) | tt_member_begun(m) << 1;
    m->calling = true;
    m->cancelling = false;
    send_call(m);
    return TUTTI_OK;
}

void tt_member_cancel(struct tt_member *m, uint64_t now_ns)
{
    at(m, now_ns);
    if (m->over || !m->calling || m->cancelling)
        return;
    m->cancelling = true;
    if (tt_member_is_syncing(m))
        tt_member_send_withdraw(m);
    else if (m->welcome)
        tt_member_send_msg(m, &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL, .number = m->round });
}

/* ---- measurements ---------------------------------------------------------------------------- */

static void send_links(struct tt_member *m)
{
    struct tt_elmsg_writer w;

    tt_elmsg_begin(&w, m->conf.scratch, TT_ELMSG_BYTES_MAX, &m->links.head);
    for (uint32_t from = 0; from < tt_member_nlinks(m); from++)
        tt_elmsg_add_link(&w, &m->links.links[from]);
    tt_member_send(m, tt_elmsg_end(&w));
}

void tt_member_send_links(struct tt_member *m, const struct tt_elmsg *head,
                          const struct tt_ring_link *links, uint64_t now_ns)
{
    at(m, now_ns);
    tt_assert(tt_member_nlinks(m) <= TT_RING_PEERS_MAX && head->number > 0);
    if (m->over || m->epoch == 0)
        return;
    m->links.head = *head;
    m->links.head.kind = TT_ELMSG_LINKS;
    m->links.head.epoch = m->epoch;
    m->links.links = links;
    if (m->welcome)
        send_links(m);
}

/* Returns whether the call was taken back, so that its round is still open. */
static bool is_taken_back(const struct tt_elmsg *msg)
{
    return msg->what == TT_ROUND_TIMEOUT ||
           (msg->what == TT_ROUND_MISMATCH && msg->flags & TT_DIFFERS_BACK);
}

static void on_result(struct tt_member *m, const struct tt_elmsg *msg)
{
    if (!m->calling || tt_member_is_syncing(m) || msg->number != m->round)
        return;
    m->calling = m->cancelling = false;
    if (!is_taken_back(msg)) {
        m->round++;
        m->unheard = false;
    }
    if (msg->what == TT_ROUND_OK && m->call.what == TT_CALL_COMMIT)
        tt_member_on_committed(m);
    tt_member_emit(m, &(struct tt_member_act){ .kind = TT_MEMBER_ACT_CALL_DONE,
                                               .what = msg->what,
                                               .differs = msg->flags,
                                               .value = msg->value,
                                               .also = msg->also,
                                               .id = msg->id,
                                               .other = msg->other,
                                               .op = msg->op });
}

/* ---- views ---- */

/* This member's group is incomplete: it becomes a newcomer again, and its `epoch` call continues
 * to wait. */
static void leave_view(struct tt_member *m)
{
    m->epoch = 0;
    m->round = 0;
    m->nranks = 0;
    m->links.head.number = 0;
    m->stopped = true;
    emit_kind(m, TT_MEMBER_ACT_STOP);
    if (!tt_member_is_syncing(m))
        return;
    m->calling = m->cancelling = false; /* no longer this member's call */
    tt_member_emit(
        m, &(struct tt_member_act){ .kind = TT_MEMBER_ACT_CALL_DONE, .what = TT_ROUND_LOST });
}

static void on_view(struct tt_member *m, struct tt_elmsg *msg)
{
    uint32_t rank = UINT32_MAX;

    if (msg->epoch <= m->epoch)
        return;
    for (uint32_t i = 0; i < msg->nlist; i++) {
        tt_elmsg_next_seat(msg, &m->view[i]);
        if (m->view[i].id == m->id)
            rank = i;
    }
    if (rank == UINT32_MAX || (m->conf.nroles > 1 && msg->nlist % m->conf.nroles != 0) ||
        !m->calling || tt_member_is_syncing(m) || m->call.what != TT_CALL_EPOCH) {
        tt_member_end(m, TUTTI_ERR_PROTOCOL,
                      "protocol error: the coordinator sent an unexpected view");
        return;
    }
    m->epoch = msg->epoch;
    m->rank = rank;
    m->nranks = msg->nlist;
    m->round = msg->number + 1;
    m->plan = msg->what;
    m->links.head.number = 0;
    m->calling = m->cancelling = m->stopped = m->revoking = m->unheard = false;
    m->revocation = TT_REVOKED_NO_REASON;
    m->unreached = 0;
    m->proposal = 0;
    memset(m->ops, 0, sizeof m->ops);
    m->sync = (struct tt_member_sync){ .number = { 1, 1 } };
    if (msg->news.number > m->news.number)
        m->news = msg->news;
    tt_member_emit(m, &(struct tt_member_act){ .kind = TT_MEMBER_ACT_VIEW });
    tt_member_emit(m,
                   &(struct tt_member_act){ .kind = TT_MEMBER_ACT_CALL_DONE, .what = TT_ROUND_OK });
}

static void on_proposal(struct tt_member *m, struct tt_elmsg *msg)
{
    m->proposal = msg->number;
    m->nproposed = msg->nlist;
    for (uint32_t i = 0; i < msg->nlist; i++)
        tt_elmsg_next_seat(msg, &m->proposed[i]);
    emit_kind(m, TT_MEMBER_ACT_REACH);
}

void tt_member_reached(struct tt_member *m, uint64_t proposal, const uint64_t *failed, uint32_t n,
                       uint64_t now_ns)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_READY, .number = proposal };
    struct tt_elmsg_writer w;

    at(m, now_ns);
    if (m->over || proposal != m->proposal)
        return;
    tt_elmsg_begin(&w, m->conf.scratch, TT_ELMSG_BYTES_MAX, &msg);
    for (uint32_t i = 0; i < n; i++)
        tt_elmsg_add_id(&w, failed[i]);
    tt_member_send(m, tt_elmsg_end(&w));
}

/* ---- leaving ---- */

void tt_member_leave(struct tt_member *m, uint8_t how, uint64_t now_ns)
{
    at(m, now_ns);
    if (m->over)
        return;
    m->leaving = true;
    if (m->welcome)
        tt_member_send_leave(m, how);
    if (how == TT_LEAVE_NOW)
        tt_member_end(m, TUTTI_OK, "this member left the run");
}

void tt_member_part(struct tt_member *m, uint64_t now_ns)
{
    if (m->over || m->epoch == 0 || !m->unheard) {
        tt_member_leave(m, TT_LEAVE_NOW, now_ns);
        return;
    }
    at(m, now_ns);
    m->leaving = m->parting = true;
    m->part_ns = now_ns + m->lease_ns;
    if (m->welcome)
        tt_member_send_leave(m, TT_LEAVE_NOW);
}

static void send_suspicion(struct tt_member *m, uint64_t id, uint8_t what)
{
    if (!m->over && m->welcome)
        tt_member_send_msg(
            m, &(struct tt_elmsg){
                   .kind = TT_ELMSG_SUSPECT, .what = what, .id = id, .epoch = m->epoch });
}

void tt_member_suspect(struct tt_member *m, uint64_t id, uint64_t now_ns)
{
    at(m, now_ns);
    send_suspicion(m, id, TT_SUSPECT_CUT);
}

void tt_member_unreachable(struct tt_member *m, uint64_t id, uint64_t now_ns)
{
    at(m, now_ns);
    send_suspicion(m, id, TT_SUSPECT_GONE);
}

static void send_revoke(struct tt_member *m)
{
    tt_member_send_msg(m, &(struct tt_elmsg){ .kind = TT_ELMSG_REVOKE,
                                              .what = m->revocation,
                                              .id = m->unreached,
                                              .epoch = m->epoch });
}

void tt_member_revoke_as(struct tt_member *m, uint8_t why, uint64_t unreached, uint64_t now_ns)
{
    at(m, now_ns);
    if (m->over || m->epoch == 0)
        return;
    if (!m->revoking) {
        m->revocation = why;
        m->unreached = unreached;
    }
    m->revoking = true;
    if (m->welcome)
        send_revoke(m);
}

void tt_member_revoke(struct tt_member *m, uint64_t now_ns)
{
    tt_member_revoke_as(m, TT_REVOKED_BY_CALL, 0, now_ns);
}

/* ---- messages ---- */

/* A coordinator with another journal treats this member as new, and may assign it the same ID by
 * chance; the run's secret then differs. */
static bool was_removed(const struct tt_member *m, const struct tt_elmsg *welcome)
{
    return m->id != 0 &&
           (m->id != welcome->id || memcmp(m->secret, welcome->cookie, TT_COOKIE_BYTES) != 0);
}

static void on_welcome(struct tt_member *m, const struct tt_elmsg *msg)
{
    if (was_removed(m, msg)) {
        if (m->leaving)
            tt_member_end(m, TUTTI_OK, "this member left the run");
        else
            tt_member_end(m, TUTTI_ERR_ABORTED,
                          "the coordinator has removed this member, which was disconnected for "
                          "too long");
        return;
    }
    m->id = msg->id;
    memcpy(m->secret, msg->cookie, TT_COOKIE_BYTES);
    m->welcome = true;
    if (msg->news.number > m->news.number)
        m->news = msg->news;
    m->failures = 0;
    if (msg->value >= 4 * TT_MS && msg->value < TT_NEVER / 2)
        m->lease_ns = msg->value;
    if (m->parting) {
        tt_member_send_leave(m, TT_LEAVE_NOW);
        return;
    }
    if (msg->epoch == 0 && m->epoch > 0)
        leave_view(m); /* the notification DROPPED was lost */
    if (m->leaving)
        tt_member_send_leave(m, TT_LEAVE_NOTICE);
    if ((m->revoking || m->stopped) && m->epoch > 0)
        send_revoke(m); /* a restarted coordinator may not have the revocation */
    if (m->links.head.number > 0)
        send_links(m); /* before the call that waits for the result of the measurement */
    if (m->calling)
        send_call(m);
}

/* Returns whether the coordinator's first message has another version, so that waiting is
 * useless. */
static bool is_other_version(struct tt_member *m, const void *data, size_t bytes)
{
    const uint8_t version = tt_elmsg_version(data, bytes);
    char why[2 * TT_ELASTIC_TEXT_BYTES];
    struct tt_elmsg msg;

    if (m->welcome || version == TT_ELASTIC_VERSION || !tt_elmsg_read_refusal(&msg, data, bytes))
        return false;
    snprintf(why, sizeof why,
             "elastic protocol mismatch: the coordinator has version %u, this member has version "
             "%u; message of the "
             "coordinator: %s",
             version, TT_ELASTIC_VERSION, msg.text);
    tt_member_end(m, TUTTI_ERR_PROTOCOL, why);
    return true;
}

void tt_member_frame(struct tt_member *m, const void *data, size_t bytes, uint64_t now_ns)
{
    struct tt_elmsg msg;

    at(m, now_ns);
    if (m->over || !m->connected || is_other_version(m, data, bytes))
        return;
    m->heard_ns = now_ns;
    if (!tt_elmsg_read(&msg, data, bytes) ||
        (!m->welcome && msg.kind != TT_ELMSG_WELCOME && msg.kind != TT_ELMSG_REFUSED)) {
        emit_kind(m, TT_MEMBER_ACT_DISCONNECT);
        reconnect(m);
        return;
    }
    if (m->parting && msg.kind != TT_ELMSG_WELCOME && msg.kind != TT_ELMSG_REFUSED)
        return; /* this member only waits for the confirmation that it has left */
    if ((msg.kind == TT_ELMSG_PROPOSE || msg.kind == TT_ELMSG_VIEW) &&
        msg.nlist > m->conf.members_max) {
        tt_member_end(m, TUTTI_ERR_NOMEM, "the run has more members than this member supports");
        return;
    }
    switch (msg.kind) {
    case TT_ELMSG_WELCOME:
        on_welcome(m, &msg);
        return;
    case TT_ELMSG_REFUSED:
        tt_member_end(m,
                      msg.what < TUTTI_STATUS_COUNT ? (tutti_status)msg.what : TUTTI_ERR_PROTOCOL,
                      msg.text);
        return;
    case TT_ELMSG_UPDATE:
        if (msg.news.number > m->news.number)
            m->news = msg.news;
        return;
    case TT_ELMSG_PROPOSE:
        on_proposal(m, &msg);
        return;
    case TT_ELMSG_VIEW:
        on_view(m, &msg);
        return;
    case TT_ELMSG_DROPPED:
        if (msg.epoch <= m->epoch || m->epoch == 0)
            return;
        leave_view(m);
        /* the call was cancelled in a round of the view; now it is a newcomer's call */
        if (m->calling && m->cancelling)
            tt_member_send_msg(m,
                               &(struct tt_elmsg){ .kind = TT_ELMSG_CANCEL, .number = m->round });
        return;
    case TT_ELMSG_RESULT:
        on_result(m, &msg);
        return;
    case TT_ELMSG_PLAN:
        tt_member_on_plan(m, &msg);
        return;
    case TT_ELMSG_SYNCED:
        tt_member_on_synced(m, &msg);
        return;
    case TT_ELMSG_BEGUN:
        tt_member_on_begun(m, &msg);
        return;
    case TT_ELMSG_LOST:
        tt_member_on_lost(m, &msg);
        return;
    case TT_ELMSG_OUTCOMES:
        tt_member_on_outcomes(m, &msg);
        return;
    default:
        return; /* ALIVE, or a message that only members or journals contain */
    }
}
