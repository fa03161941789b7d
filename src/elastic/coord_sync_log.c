/* Journal records of shared state: for each scope the result of the last sync, and the plan of a
 * sync in progress. */
#include "elastic/coord_state.h"
#include "elastic/planted.h"

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

/* ---- replay ---- */

bool tt_coord_replay_plan(struct tt_coord *c, struct tt_elmsg *msg)
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

bool tt_coord_replay_sync(struct tt_coord *c, struct tt_elmsg *msg)
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

/* Moving syncs continue: receivers report their progress again. */
void tt_coord_resume_syncs(struct tt_coord *c)
{
    for (uint32_t i = 0; i < TT_SYNC_SCOPES; i++)
        if (c->scopes[i].state == TT_COORD_SYNC_MOVING)
            c->scopes[i].replan = c->scopes[i].dirty = c->syncing = true;
}
