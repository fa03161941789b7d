/* The journal: the state that a coordinator needs after a crash. It contains the members, the
 * view and its lost members, and the result of the last round that changed or decided something.
 * It also contains calls taken back since, the shared state of each scope, and the plan of a
 * sync in progress. Members report everything else when they reconnect: their calls, reachable
 * members, and operations. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "elastic/coord_state.h"
#include "elastic/planted.h"

void tt_coord_log_member(struct tt_coord *c, const struct tt_coord_member *m)
{
    struct tt_elmsg msg = { .kind = TT_ELMSG_LOG_MEMBER,
                            .id = m->id,
                            .group = m->group,
                            .role = m->role,
                            .nroles = c->nroles,
                            .card = m->card };

    memcpy(msg.cookie, m->cookie, TT_COOKIE_BYTES);
    tt_coord_log_msg(c, &msg);
}

void tt_coord_log_gone(struct tt_coord *c, const struct tt_coord_member *m)
{
    tt_coord_log_msg(c, &(struct tt_elmsg){ .kind = TT_ELMSG_LOG_GONE, .id = m->id });
}

void tt_coord_log_lost(struct tt_coord *c, const struct tt_coord_member *m, uint8_t loss)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_LOG_LOST, .id = m->id, .what = loss };
    struct tt_elmsg_writer w;

    tt_elmsg_begin(&w, c->conf.scratch, TT_ELMSG_BYTES_MAX, &msg);
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++)
        if (c->words[tag].n > 0 && !TT_PLANTED(TT_BUG_WORDS_NOT_LOGGED))
            tt_elmsg_add_op(&w, &c->words[tag]);
    tt_coord_log(c, tt_elmsg_end(&w));
}

static void log_start(struct tt_coord *c)
{
    struct tt_elmsg msg = {
        .kind = TT_ELMSG_LOG_START, .id = c->last_id, .epoch = c->epoch, .number = c->starts
    };

    memcpy(msg.cookie, c->secret, TT_COOKIE_BYTES);
    snprintf(msg.text, sizeof msg.text, "%s", c->conf.run);
    tt_coord_log_msg(c, &msg);
}

/* order[] contains the members by their next rank. */
static void log_ids(struct tt_coord *c, bool next)
{
    const struct tt_elmsg msg = {
        .kind = TT_ELMSG_LOG_VIEW, .what = c->plan, .epoch = c->epoch, .number = c->view_round
    };
    struct tt_elmsg_writer w;

    tt_elmsg_begin(&w, c->conf.scratch, TT_ELMSG_BYTES_MAX, &msg);
    for (uint32_t at = 0; at < c->nmembers; at++) {
        const struct tt_coord_member *m = &c->conf.members[c->conf.order[at]];

        if ((next ? m->next_rank : m->rank) != at)
            break;
        tt_elmsg_add_id(&w, m->id);
    }
    tt_coord_log(c, tt_elmsg_end(&w));
}

void tt_coord_log_view(struct tt_coord *c)
{
    log_ids(c, true);
}

void tt_coord_log_result(struct tt_coord *c)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_LOG_RESULT,
                                  .what = c->last.what,
                                  .flags = c->last.differs,
                                  .id = c->last.id,
                                  .other = c->last.other,
                                  .epoch = c->last.epoch,
                                  .number = c->last.round,
                                  .value = c->last.value,
                                  .also = c->last.also };

    tt_coord_log_msg(c, &msg);
}

static void begin_back(struct tt_coord *c, struct tt_elmsg_writer *w,
                       const struct tt_coord_result *why)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_LOG_BACK,
                                  .flags = why->differs,
                                  .id = why->id,
                                  .other = why->other,
                                  .value = why->value,
                                  .also = why->also,
                                  .op = why->op };

    tt_elmsg_begin(w, c->conf.scratch, TT_ELMSG_BYTES_MAX, &msg);
}

/* A single record, so that all of them or none are taken back. */
void tt_coord_log_back(struct tt_coord *c, const struct tt_coord_result *why)
{
    struct tt_elmsg_writer w;

    begin_back(c, &w, why);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (m->goes_back)
            tt_elmsg_add_call(&w, &(struct tt_call_name){ .id = m->id, .attempt = m->attempt });
    }
    tt_coord_log(c, tt_elmsg_end(&w));
}

/* Logs a single member's call that was taken back, if its notification may be lost. */
static void log_back_again(struct tt_coord *c, const struct tt_coord_member *m)
{
    struct tt_elmsg_writer w;

    begin_back(c, &w, &m->back_why);
    tt_elmsg_add_call(&w, &(struct tt_call_name){ .id = m->id, .attempt = m->back });
    tt_coord_log(c, tt_elmsg_end(&w));
}

/* ---- replay ---- */

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
        return tt_coord_replay_plan(c, &msg);
    case TT_ELMSG_LOG_SYNC:
        return tt_coord_replay_sync(c, &msg);
    case TT_ELMSG_LOG_BACK:
        return replay_back(c, &msg);
    default:
        return false;
    }
}

/* Every member has a full lease to reconnect. If a member was lost before, all are queried for
 * the state of their operations. */
void tt_coord_start(struct tt_coord *c, uint64_t now_ns)
{
    c->now_ns = now_ns;
    c->starts++;
    log_start(c);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        c->conf.members[i].heard_ns = now_ns;
        c->conf.members[i].closed_ns = TT_NEVER;
        c->changed |= c->conf.members[i].state == TT_COORD_LOST;
    }
    tt_coord_resume_syncs(c);
    tt_coord_set_round(c, tt_coord_count(c, TT_COORD_IN_VIEW) > 0 &&
                                  !TT_PLANTED(TT_BUG_ROUND_FORGOTTEN)
                              ? TT_COORD_ROUND_UNSURE
                              : TT_COORD_ROUND_OPEN);
    c->stale_news = c->dirty = true;
    c->due_ns = now_ns;
    c->news.number = tt_coord_numbered(c, c->news.number); /* earlier updates are out of date */
}

void tt_coord_snapshot(struct tt_coord *c)
{
    tt_assert(c->starts > 0);
    log_start(c);
    for (uint32_t i = 0; i < c->nmembers; i++)
        tt_coord_log_member(c, &c->conf.members[i]);
    for (uint32_t i = 0; i < c->nmembers; i++)
        c->conf.order[i] = i;
    for (uint32_t i = 0; i < c->nmembers; i++) /* by rank: each to its place */
        while (c->conf.members[c->conf.order[i]].rank != TT_COORD_NO_RANK &&
               c->conf.members[c->conf.order[i]].rank != i) {
            const uint32_t rank = c->conf.members[c->conf.order[i]].rank,
                           other = c->conf.order[rank];

            c->conf.order[rank] = c->conf.order[i];
            c->conf.order[i] = other;
        }
    log_ids(c, false);
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (c->conf.members[i].state == TT_COORD_LOST)
            tt_coord_log_lost(c, &c->conf.members[i], c->conf.members[i].loss);
    if (!c->last.is_view && c->last.round > 0)
        tt_coord_log_result(c);
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (c->conf.members[i].back != 0 && c->conf.members[i].back >= c->conf.members[i].attempt)
            log_back_again(c, &c->conf.members[i]);
    for (uint32_t i = 0; i < TT_SYNC_SCOPES; i++) {
        if (c->scopes[i].number > 0)
            tt_coord_log_sync(c, &c->scopes[i]);
        if (c->scopes[i].state == TT_COORD_SYNC_MOVING)
            tt_coord_log_plan(c, &c->scopes[i]);
    }
}
