/* The state of a sync, and its result as sent to members. */
#include "elastic/coord_state.h"
#include "elastic/states.h"

static const char *const states[] = { [TT_COORD_SYNC_NONE] = "not begun",
                                      [TT_COORD_SYNC_OFFERED] = "offered",
                                      [TT_COORD_SYNC_MOVING] = "moving" };
static const struct tt_state_change changes[] = {
    { TT_COORD_SYNC_NONE, TT_COORD_SYNC_OFFERED, "the first offer arrives" },
    { TT_COORD_SYNC_OFFERED, TT_COORD_SYNC_NONE,
      "no member must receive, no state can win, the calls mismatch, or a view is decided" },
    { TT_COORD_SYNC_OFFERED, TT_COORD_SYNC_MOVING,
      "all offers have arrived, and some members must receive" },
    { TT_COORD_SYNC_MOVING, TT_COORD_SYNC_NONE,
      "all members have the state, one cannot receive it, or a view is "
      "decided" },
    { TT_COORD_SYNC_NONE, TT_COORD_SYNC_MOVING,
      "a new coordinator reads it from the journal of a failed one" },
};
const struct tt_states tt_coord_sync_states = {
    .name = "syncs",
    .of = "a sync of one scope; states in the coordinator",
    .states = states,
    .nstates = TT_COORD_SYNC_STATES,
    .changes = changes,
    .nchanges = sizeof changes / sizeof *changes,
};

void tt_coord_set_sync(struct tt_coord *c, struct tt_coord_scope *s, uint8_t to)
{
    if (s->state == to)
        return;
    c->syncs_covered |= 1ull << tt_states_change(&tt_coord_sync_states, s->state, to);
    s->state = to;
}

void tt_coord_touch_scope(struct tt_coord *c, struct tt_coord_scope *s)
{
    if (s->state != TT_COORD_SYNC_NONE)
        s->dirty = c->syncing = true;
}

/* Call after an offer or the loss of the member, which may make syncs of its scopes decidable. */
void tt_coord_touch_scopes(struct tt_coord *c, const struct tt_coord_member *m)
{
    tt_coord_touch_scope(c, &c->scopes[0]);
    if (m->role + 1u < TT_SYNC_SCOPES)
        tt_coord_touch_scope(c, &c->scopes[1 + m->role]);
}

bool tt_coord_is_source(const struct tt_coord_member *m)
{
    return m->part == TT_SYNC_HOLDS || (m->part == TT_SYNC_RECEIVES && m->vote == TT_SYNC_GOT);
}

void tt_coord_lose_sync(struct tt_coord *c, const struct tt_coord_member *m)
{
    if (tt_coord_is_source(m) && m->scope < TT_SYNC_SCOPES)
        c->scopes[m->scope].replan = true;
    tt_coord_touch_scopes(c, m);
}

void tt_coord_reset_syncs(struct tt_coord *c)
{
    for (uint32_t i = 0; i < c->nmembers; i++)
        c->conf.members[i].part = c->conf.members[i].vote = 0;
    for (uint32_t i = 0; i < TT_SYNC_SCOPES; i++) {
        tt_coord_set_sync(c, &c->scopes[i], TT_COORD_SYNC_NONE);
        c->scopes[i].dirty = c->scopes[i].replan = false;
    }
}

void tt_coord_send_synced(struct tt_coord *c, struct tt_coord_member *m, uint16_t scope,
                          uint64_t number, const struct tt_coord_result *r)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_SYNCED,
                                  .what = r->what,
                                  .flags = r->differs,
                                  .id = r->id,
                                  .other = r->other,
                                  .epoch = c->epoch,
                                  .number = number,
                                  .value = r->value,
                                  .also = r->also,
                                  .op = r->op,
                                  .scope = scope };

    tt_coord_send_msg(c, m, &msg);
}

void tt_coord_send_offer_back(struct tt_coord *c, struct tt_coord_member *m)
{
    struct tt_coord_scope *s = &c->scopes[m->scope];

    /* otherwise a report was false: the plan is in the journal, and the sync continues, or ends
     * with the view */
    if (s->state == TT_COORD_SYNC_OFFERED)
        tt_coord_set_sync(c, s, TT_COORD_SYNC_NONE);
    tt_coord_send_synced(c, m, m->scope, tt_coord_last_sync(c, s) + 1, &m->back_why);
}
