/* A member's part of a sync: a call like others, but numbered by scope, with a plan and a vote
 * before its result. Offer and vote are sent again on a new connection. */
#include "base/status.h"
#include "elastic/member_state.h"

bool tt_member_is_syncing(const struct tt_member *m)
{
    return m->calling && m->call.kind == TT_ELMSG_OFFER;
}

uint16_t tt_member_scope(const struct tt_member *m)
{
    return (uint16_t)(m->sync.scope == TT_SYNC_OF_VIEW ? 0 : 1 + m->conf.role);
}

static void send_vote(struct tt_member *m)
{
    if (m->welcome)
        tt_member_send_msg(m, &(struct tt_elmsg){ .kind = TT_ELMSG_VOTE,
                                                  .what = m->sync.vote,
                                                  .other = m->sync.plan,
                                                  .epoch = m->epoch,
                                                  .number = m->sync.number[m->sync.scope],
                                                  .scope = tt_member_scope(m) });
}

void tt_member_send_offer(struct tt_member *m)
{
    m->call.epoch = m->epoch;
    m->call.number = m->sync.number[m->sync.scope];
    if (!m->welcome)
        return;
    tt_member_send_msg(m, &m->call);
    if (m->sync.vote != TT_SYNC_NOT_YET)
        send_vote(m);
    if (m->cancelling)
        tt_member_send_withdraw(m);
}

void tt_member_send_withdraw(struct tt_member *m)
{
    if (m->welcome)
        tt_member_send_msg(m, &(struct tt_elmsg){ .kind = TT_ELMSG_WITHDRAW,
                                                  .epoch = m->epoch,
                                                  .number = m->sync.number[m->sync.scope],
                                                  .scope = tt_member_scope(m) });
}

tutti_status tt_member_sync(struct tt_member *m, const struct tt_sync_offer *offer, uint64_t now_ns)
{
    tt_assert(now_ns >= m->now_ns);
    m->now_ns = now_ns;
    if (m->over || m->calling || tt_member_is_busy(m) || tt_member_is_tentative(m) ||
        m->epoch == 0 || offer->scope > TT_SYNC_OF_ROLE || offer->strategy < TT_SYNC_POPULAR ||
        offer->strategy >= TT_SYNC_STRATEGIES || offer->revision == UINT64_MAX)
        return TUTTI_ERR_INVALID;
    if (offer->scope == TT_SYNC_OF_ROLE && m->conf.role + 1u >= TT_SYNC_SCOPES)
        return TUTTI_ERR_UNSUPPORTED;
    m->calling = true;
    m->cancelling = false;
    m->sync.scope = offer->scope;
    m->sync.part = TT_SYNC_PART_NONE;
    m->sync.vote = TT_SYNC_NOT_YET;
    m->sync.plan = 0;
    m->call = (struct tt_elmsg){ .kind = TT_ELMSG_OFFER,
                                 .what = offer->strategy,
                                 .flags = offer->instead ? TT_OFFER_INSTEAD : 0,
                                 .value = offer->revision,
                                 .also = ++m->attempts,
                                 .scope = tt_member_scope(m),
                                 .keys = offer->keys,
                                 .hash = offer->content };
    tt_member_send_offer(m);
    return TUTTI_OK;
}

void tt_member_vote(struct tt_member *m, uint8_t vote, uint64_t now_ns)
{
    tt_assert(now_ns >= m->now_ns && vote > TT_SYNC_NOT_YET && vote < TT_SYNC_VOTES);
    m->now_ns = now_ns;
    if (m->over || !tt_member_is_syncing(m) || m->sync.part != TT_SYNC_RECEIVES)
        return;
    m->sync.vote = vote;
    send_vote(m);
}

/* Returns whether the message belongs to the current sync. */
static bool is_ours(const struct tt_member *m, const struct tt_elmsg *msg)
{
    return tt_member_is_syncing(m) && msg->epoch == m->epoch && msg->scope == tt_member_scope(m) &&
           msg->number == m->sync.number[m->sync.scope];
}

static uint32_t rank_of(const struct tt_member *m, uint64_t id)
{
    for (uint32_t rank = 0; rank < m->nranks; rank++)
        if (m->view[rank].id == id)
            return rank;
    return UINT32_MAX;
}

void tt_member_on_plan(struct tt_member *m, struct tt_elmsg *msg)
{
    if (!is_ours(m, msg) || msg->other <= m->sync.plan)
        return;
    m->sync.nholders = 0;
    for (uint32_t i = 0; i < msg->nlist; i++) {
        const uint32_t rank = rank_of(m, tt_elmsg_next_id(msg));

        if (rank < m->nranks && rank != m->rank && m->sync.nholders < TT_SYNC_HOLDERS_MAX)
            m->sync.holders[m->sync.nholders++] = rank;
    }
    m->sync.plan = msg->other;
    m->sync.part = msg->what;
    m->sync.revision = msg->value;
    m->sync.content = msg->hash;
    m->sync.vote = TT_SYNC_NOT_YET;
    tt_member_emit(m,
                   &(struct tt_member_act){ .kind = TT_MEMBER_ACT_SYNC_PLAN, .what = msg->what });
}

/* A sync that was taken back had no effect: the next one has the same number. */
void tt_member_on_synced(struct tt_member *m, const struct tt_elmsg *msg)
{
    if (!is_ours(m, msg))
        return;
    m->calling = m->cancelling = false;
    if (msg->what != TT_ROUND_TIMEOUT && msg->what != TT_ROUND_MISMATCH)
        m->sync.number[m->sync.scope]++;
    m->sync.part = TT_SYNC_PART_NONE;
    tt_member_emit(m, &(struct tt_member_act){ .kind = TT_MEMBER_ACT_CALL_DONE,
                                               .what = msg->what,
                                               .differs = msg->flags,
                                               .value = msg->value,
                                               .also = msg->also,
                                               .id = msg->id,
                                               .other = msg->other,
                                               .op = msg->op });
}
