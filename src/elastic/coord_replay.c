/* Start of a coordinator, and recovery of its state from the journal (coord_journal.c). */
#include <stddef.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "elastic/coord_state.h"
#include "elastic/planted.h"

void tt_coord_init(struct tt_coord *c, const struct tt_coord_conf *conf, uint64_t now_ns)
{
    memset(c, 0, offsetof(struct tt_coord, outcome_results));
    c->conf = *conf;
    memcpy(c->secret, conf->secret, TT_COOKIE_BYTES);
    c->now_ns = now_ns;
    c->round = 1;
    c->due_ns = c->proposal_ns = c->suspicion_ns = TT_NEVER;
    tt_coord_init_ring(c);
}

static bool replay_member(struct tt_coord *c, const struct tt_elmsg *msg)
{
    struct tt_coord_member *m;

    if (c->nmembers == c->conf.members_max ||
        (c->nmembers > 0 && msg->id <= c->conf.members[c->nmembers - 1].id) || msg->id == 0 ||
        (msg->nroles != c->nroles && tt_coord_count(c, TT_COORD_LOST) < c->nmembers))
        return false;
    m = &c->conf.members[c->nmembers++];
    *m = (struct tt_coord_member){ .id = msg->id,
                                   .state = TT_COORD_WAITING,
                                   .group = msg->group,
                                   .role = msg->role,
                                   .rank = TT_COORD_NO_RANK,
                                   .next_rank = TT_COORD_NO_RANK,
                                   .closed_ns = TT_NEVER,
                                   .card = msg->card };
    memcpy(m->cookie, msg->cookie, TT_COOKIE_BYTES);
    c->nroles = msg->nroles;
    if (msg->id > c->last_id)
        c->last_id = msg->id;
    return true;
}

static void replay_gone(struct tt_coord *c, const struct tt_coord_member *m)
{
    const uint32_t at = (uint32_t)(m - c->conf.members);

    c->nmembers--;
    for (uint32_t i = at; i < c->nmembers; i++)
        c->conf.members[i] = c->conf.members[i + 1];
}

static bool replay_view(struct tt_coord *c, struct tt_elmsg *msg)
{
    if (msg->epoch < c->epoch || msg->number == UINT64_MAX)
        return false;
    for (uint32_t i = 0; i < c->nmembers; i++)
        c->conf.members[i].rank = TT_COORD_NO_RANK;
    for (uint32_t rank = 0; rank < msg->nlist; rank++) {
        struct tt_coord_member *m = tt_coord_member_of(c, tt_elmsg_next_id(msg));

        if (!m || m->rank != TT_COORD_NO_RANK || m->state == TT_COORD_LOST)
            return false;
        m->rank = rank;
        m->state = TT_COORD_IN_VIEW;
    }
    for (uint32_t i = c->nmembers; i > 0; i--) {
        struct tt_coord_member *m = &c->conf.members[i - 1];

        if (m->state == TT_COORD_LOST)
            replay_gone(c, m);
        else if (m->state == TT_COORD_IN_VIEW && m->rank == TT_COORD_NO_RANK)
            m->state = TT_COORD_WAITING;
    }
    c->epoch = msg->epoch;
    c->plan = msg->what;
    memset(c->words, 0, sizeof c->words);
    tt_coord_reset_syncs(c);
    c->view_round = msg->number;
    c->round = msg->number + 1;
    c->last =
        (struct tt_coord_result){ .is_view = true, .round = msg->number, .epoch = msg->epoch };
    return true;
}

static bool replay_result(struct tt_coord *c, const struct tt_elmsg *msg)
{
    if (msg->number == UINT64_MAX || msg->number < c->view_round)
        return false;
    c->round = msg->number + 1;
    c->last = (struct tt_coord_result){ .what = msg->what,
                                        .differs = msg->flags,
                                        .round = msg->number,
                                        .epoch = msg->epoch,
                                        .value = msg->value,
                                        .also = msg->also,
                                        .id = msg->id,
                                        .other = msg->other };
    return true;
}

static bool replay_back(struct tt_coord *c, struct tt_elmsg *msg)
{
    const struct tt_coord_result why = { .what = TT_ROUND_MISMATCH,
                                         .differs = msg->flags,
                                         .value = msg->value,
                                         .also = msg->also,
                                         .id = msg->id,
                                         .other = msg->other,
                                         .op = msg->op };
    struct tt_call_name call;

    for (uint32_t i = 0; i < msg->nlist; i++) {
        struct tt_coord_member *m;

        tt_elmsg_next_call(msg, &call);
        m = tt_coord_member_of(c, call.id);
        if (!m)
            return false;
        m->back = call.attempt;
        m->back_why = why;
    }
    return true;
}

static bool replay_plan(struct tt_coord *c, struct tt_elmsg *msg)
{
    struct tt_coord_scope *s = &c->scopes[msg->scope];

    if (msg->epoch != c->epoch || msg->number != tt_coord_last_sync(c, s) + 1 ||
        msg->most > msg->nlist || s->state == TT_COORD_SYNC_MOVING)
        return false;
    tt_coord_set_sync(c, s, TT_COORD_SYNC_MOVING);
    s->next_revision = msg->value;
    s->next_keys = msg->keys;
    s->next_hash = msg->hash;
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (tt_coord_is_in(&c->conf.members[i], msg->scope)) {
            c->conf.members[i].part = TT_SYNC_KEEPS;
            c->conf.members[i].vote = TT_SYNC_NOT_YET;
            c->conf.members[i].scope = msg->scope;
        }
    for (uint32_t i = 0; i < msg->nlist; i++) {
        struct tt_coord_member *m = tt_coord_member_of(c, tt_elmsg_next_id(msg));

        if (!m || !tt_coord_is_in(m, msg->scope))
            return false;
        m->part = i < msg->most ? TT_SYNC_HOLDS : TT_SYNC_RECEIVES;
    }
    return true;
}

static bool replay_sync(struct tt_coord *c, struct tt_elmsg *msg)
{
    struct tt_coord_scope *s = &c->scopes[msg->scope];

    if (msg->epoch > c->epoch || msg->epoch < s->epoch || msg->value == UINT64_MAX)
        return false;
    tt_coord_set_sync(c, s, TT_COORD_SYNC_NONE);
    s->known = msg->flags & 1;
    s->revision = msg->value - (TT_PLANTED(TT_BUG_REVISION_OFF_BY_ONE) && msg->value > 0);
    s->keys = msg->keys;
    s->hash = msg->hash;
    s->epoch = msg->epoch;
    s->number = msg->number;
    s->last = (struct tt_coord_result){ .what = msg->what,
                                        .id = msg->id,
                                        .other = msg->other,
                                        .epoch = msg->epoch,
                                        .value = msg->value };
    for (uint32_t i = 0; i < c->nmembers; i++) {
        if (tt_coord_is_in(&c->conf.members[i], msg->scope))
            c->conf.members[i].part = c->conf.members[i].vote = 0;
        tt_coord_set_synced(&c->conf.members[i], msg->scope, false);
    }
    for (uint32_t i = 0; i < msg->nlist; i++) {
        struct tt_coord_member *m = tt_coord_member_of(c, tt_elmsg_next_id(msg));

        if (!m)
            return false;
        tt_coord_set_synced(m, msg->scope, true);
    }
    return true;
}

bool tt_coord_replay(struct tt_coord *c, const void *data, size_t bytes)
{
    struct tt_elmsg msg;
    struct tt_coord_member *m;

    if (!tt_elmsg_read(&msg, data, bytes) || (c->starts == 0 && msg.kind != TT_ELMSG_LOG_START))
        return false;
    m = msg.id ? tt_coord_member_of(c, msg.id) : NULL;
    switch (msg.kind) {
    case TT_ELMSG_LOG_START:
        if (strcmp(msg.text, c->conf.run) != 0 || msg.number <= c->starts ||
            msg.number >= UINT32_MAX)
            return false;
        if (c->starts > 0 && memcmp(msg.cookie, c->secret, TT_COOKIE_BYTES) != 0)
            return false;
        memcpy(c->secret, msg.cookie, TT_COOKIE_BYTES);
        c->starts = msg.number;
        c->last_id = msg.id > c->last_id ? msg.id : c->last_id;
        c->epoch = msg.epoch > c->epoch ? msg.epoch : c->epoch;
        return true;
    case TT_ELMSG_LOG_MEMBER:
        return replay_member(c, &msg);
    case TT_ELMSG_LOG_GONE:
        if (m)
            replay_gone(c, m);
        return m != NULL;
    case TT_ELMSG_LOG_LOST:
        if (!m || m->state != TT_COORD_IN_VIEW)
            return false;
        m->state = TT_COORD_LOST;
        m->loss = msg.what;
        tt_coord_take_words(c, &msg);
        return true;
    case TT_ELMSG_LOG_VIEW:
        return replay_view(c, &msg);
    case TT_ELMSG_LOG_RESULT:
        return replay_result(c, &msg);
    case TT_ELMSG_LOG_PLAN:
        return replay_plan(c, &msg);
    case TT_ELMSG_LOG_SYNC:
        return replay_sync(c, &msg);
    case TT_ELMSG_LOG_BACK:
        return replay_back(c, &msg);
    default:
        return false;
    }
}

/* Continues the syncs in state MOVING: receivers report their progress again. */
static void resume_syncs(struct tt_coord *c)
{
    for (uint32_t i = 0; i < TT_SYNC_SCOPES; i++)
        if (c->scopes[i].state == TT_COORD_SYNC_MOVING)
            c->scopes[i].replan = c->scopes[i].dirty = c->syncing = true;
}

/* Every member has as much time to reconnect as the most distant one: round trips are not in the
 * journal, and a member may detect only after its own, longer lease that the previous coordinator
 * is silent. If a member was lost before, all are queried for the state of their operations. */
void tt_coord_start(struct tt_coord *c, uint64_t now_ns)
{
    c->now_ns = now_ns;
    c->starts++;
    tt_coord_log_start(c);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        c->conf.members[i].heard_ns = now_ns;
        c->conf.members[i].closed_ns = TT_NEVER;
        c->conf.members[i].round_trip_ns = TT_NEVER;
        c->changed |= c->conf.members[i].state == TT_COORD_LOST;
    }
    resume_syncs(c);
    tt_coord_set_round(c, tt_coord_count(c, TT_COORD_IN_VIEW) > 0 &&
                                  !TT_PLANTED(TT_BUG_ROUND_FORGOTTEN)
                              ? TT_COORD_ROUND_UNSURE
                              : TT_COORD_ROUND_OPEN);
    c->stale_news = c->dirty = true;
    c->due_ns = now_ns;
    c->news.number = tt_coord_numbered(c, c->news.number); /* earlier updates are out of date */
}
