/* The journal: the state that a coordinator needs after a crash. It contains the members, the
 * view and its lost members, and the result of the last round that changed or decided something.
 * It also contains calls taken back since, the shared state of each scope, and the plan of a
 * sync in progress. Members report everything else when they reconnect: their calls, reachable
 * members, and operations. */
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

void tt_coord_log_start(struct tt_coord *c)
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

/* A single record, so that either all of the calls are taken back, or none. */
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

void tt_coord_log_sync(struct tt_coord *c, const struct tt_coord_scope *s)
{
    const uint16_t scope = tt_coord_scope_index(c, s);
    const struct tt_elmsg msg = { .kind = TT_ELMSG_LOG_SYNC,
                                  .what = s->last.what,
                                  .flags = s->known,
                                  .id = s->last.id,
                                  .other = s->last.other,
                                  .epoch = s->epoch,
                                  .number = s->number,
                                  .value = s->revision,
                                  .scope = scope,
                                  .keys = s->keys,
                                  .hash = s->hash };
    struct tt_elmsg_writer w;

    tt_elmsg_begin(&w, c->conf.scratch, TT_ELMSG_BYTES_MAX, &msg);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (m->synced & tt_coord_scope_bit(scope) && (scope == 0 || m->role + 1u == scope) &&
            m->state != TT_COORD_LOST && m->state != TT_COORD_UNKNOWN)
            tt_elmsg_add_id(&w, m->id);
    }
    tt_coord_log(c, tt_elmsg_end(&w));
}

void tt_coord_log_plan(struct tt_coord *c, const struct tt_coord_scope *s)
{
    struct tt_elmsg msg = { .kind = TT_ELMSG_LOG_PLAN,
                            .epoch = c->epoch,
                            .number = tt_coord_last_sync(c, s) + 1,
                            .value = s->next_revision,
                            .scope = tt_coord_scope_index(c, s),
                            .keys = s->next_keys,
                            .hash = s->next_hash };
    struct tt_elmsg_writer w;

    for (uint32_t i = 0; i < c->nmembers; i++)
        msg.most += tt_coord_is_in(&c->conf.members[i], msg.scope) &&
                    c->conf.members[i].part == TT_SYNC_HOLDS;
    tt_elmsg_begin(&w, c->conf.scratch, TT_ELMSG_BYTES_MAX, &msg);
    for (uint8_t part = TT_SYNC_HOLDS; part <= TT_SYNC_RECEIVES; part++)
        for (uint32_t i = 0; i < c->nmembers; i++)
            if (tt_coord_is_in(&c->conf.members[i], msg.scope) && c->conf.members[i].part == part)
                tt_elmsg_add_id(&w, c->conf.members[i].id);
    tt_coord_log(c, tt_elmsg_end(&w));
}

void tt_coord_snapshot(struct tt_coord *c)
{
    tt_assert(c->starts > 0);
    tt_coord_log_start(c);
    for (uint32_t i = 0; i < c->nmembers; i++)
        tt_coord_log_member(c, &c->conf.members[i]);
    for (uint32_t i = 0; i < c->nmembers; i++)
        c->conf.order[i] = i;
    for (uint32_t i = 0; i < c->nmembers; i++) /* sort by rank */
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
