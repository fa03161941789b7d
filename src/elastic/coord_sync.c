/* Shared state. When all live members of a scope have offered their state, one of the offered
 * states is selected. Members that have this state are its holders; the others receive it. The plan
 * is logged before any member gets it. The sync is final when all live receivers have voted that
 * they have received the state; until then no member's state has changed. The result of the last
 * sync outlives all its members. */
#include "elastic/coord_state.h"
#include "elastic/planted.h"
#include "elastic/states.h"

/* ---- small functions ------------------------------------------------------------------------- */

static bool has_offered(const struct tt_coord_member *m, uint16_t scope)
{
    return m->called && m->what == TT_CALL_SYNC && m->scope == scope;
}

/* Ends the sync for all members that called it. The result's value is the current revision, changed
 * or not. */
static void sync_finish(struct tt_coord *c, struct tt_coord_scope *s,
                        const struct tt_coord_result *result)
{
    const uint16_t scope = tt_coord_scope_index(c, s);
    const bool good = result->what == TT_ROUND_OK || result->what == TT_ROUND_SAME;
    const bool again =
        s->known && s->revision == s->next_revision && tt_hash_equal(&s->hash, &s->next_hash);

    s->number = tt_coord_last_sync(c, s) + 1;
    s->epoch = c->epoch;
    s->last = *result;
    tt_coord_set_sync(c, s, TT_COORD_SYNC_NONE);
    s->dirty = s->replan = false;
    if (good) {
        s->known = true;
        s->revision = s->next_revision;
        s->keys = s->next_keys;
        s->hash = s->next_hash;
    }
    s->last.value = s->revision;
    for (uint32_t i = 0; i < c->nmembers && good; i++)
        /* members that had this state before still have it */
        if (tt_coord_is_live(&c->conf.members[i]) || !again)
            tt_coord_set_synced(&c->conf.members[i], scope, tt_coord_is_live(&c->conf.members[i]));
    tt_coord_log_sync(c, s);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        if (!tt_coord_is_in(m, scope) || !has_offered(m, scope))
            continue;
        m->called = false;
        m->part = m->vote = 0;
        tt_coord_send_synced(c, m, scope, s->number, &s->last);
    }
}

/* Returns whether a member of the scope of `one` has made another call, or a sync of another scope;
 * *mismatch describes it. */
static bool find_incompatible(const struct tt_coord *c, const struct tt_coord_member *one,
                              struct tt_coord_result *mismatch)
{
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *other = &c->conf.members[i];
        const bool syncs = other->what == TT_CALL_SYNC;

        if (!tt_coord_is_in(other, one->scope) || has_offered(other, one->scope))
            continue;
        *mismatch = (struct tt_coord_result){ .what = TT_ROUND_MISMATCH,
                                              .differs = syncs ? TT_DIFFERS_SCOPE : TT_DIFFERS_CALL,
                                              .id = one->id,
                                              .value = syncs ? one->scope : TT_CALL_SYNC,
                                              .other = other->id,
                                              .also = syncs ? other->scope : other->what };
        return true;
    }
    return false;
}

bool tt_coord_is_torn(const struct tt_coord *c, struct tt_coord_result *mismatch)
{
    bool torn = false;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (!tt_coord_is_live(m) || m->what != TT_CALL_SYNC)
            continue;
        if (c->scopes[m->scope].state == TT_COORD_SYNC_MOVING)
            return false;
        torn = torn || find_incompatible(c, m, mismatch);
    }
    return torn;
}

/* ---- the plan ---- */

/* Excludes a member that cannot take part, and notifies it of the reason; returns whether it
 * did. */
static bool exclude_member(struct tt_coord *c, const struct tt_coord_scope *s,
                           const struct tt_coord_choice *choice, struct tt_coord_member *m)
{
    if (!tt_hash_equal(&m->keys, &choice->keys))
        tt_coord_lose(c, m, TT_LOSS_KEYS);
    else if (!choice->fresh && m->value > choice->legal)
        tt_coord_lose(c, m, TT_LOSS_AHEAD);
    else if (m->strategy == TT_SYNC_SEND &&
             (m->value != choice->legal || !tt_hash_equal(&m->hash, &s->next_hash)))
        tt_coord_lose(c, m, TT_LOSS_NOT_TAKEN);
    return !tt_coord_is_live(m);
}

/* Assigns each member its part; returns the number of receivers. */
static uint32_t assign_parts(struct tt_coord *c, struct tt_coord_scope *s,
                             const struct tt_coord_choice *choice)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        if (!tt_coord_is_in(m, tt_coord_scope_index(c, s)) || exclude_member(c, s, choice, m))
            continue;
        m->vote = TT_SYNC_NOT_YET;
        m->part = !tt_hash_equal(&m->hash, &s->next_hash) ? TT_SYNC_RECEIVES
                  : tt_coord_is_candidate(s, choice, m)            ? TT_SYNC_HOLDS
                                                          : TT_SYNC_KEEPS;
        n += m->part == TT_SYNC_RECEIVES;
    }
    return n;
}

/* Lists the sources in order[], as indices of members[]; returns their number. */
static uint32_t list_sources(struct tt_coord *c, const struct tt_coord_scope *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->nmembers; i++)
        if (tt_coord_is_in(&c->conf.members[i], tt_coord_scope_index(c, s)) &&
            tt_coord_is_source(&c->conf.members[i]))
            c->conf.order[n++] = i;
    return n;
}

/* order[nsources] is set by list_sources. Each receiver begins with different sources, so that all
 * holders have equal load. */
static void send_plan(struct tt_coord *c, const struct tt_coord_scope *s, struct tt_coord_member *m,
                      uint32_t nsources)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_PLAN,
                                  .what = m->part,
                                  .other = s->plan,
                                  .epoch = c->epoch,
                                  .number = tt_coord_last_sync(c, s) + 1,
                                  .value = s->next_revision,
                                  .scope = tt_coord_scope_index(c, s),
                                  .hash = s->next_hash };
    const uint32_t n = m->part != TT_SYNC_RECEIVES    ? 0
                       : nsources < TT_SYNC_HOLDERS_MAX ? nsources
                                                        : TT_SYNC_HOLDERS_MAX;
    struct tt_elmsg_writer w;

    if (!m->conn || !has_offered(m, msg.scope))
        return;
    tt_elmsg_begin(&w, c->conf.scratch, TT_ELMSG_BYTES_MAX, &msg);
    for (uint32_t k = 0; k < n; k++)
        tt_elmsg_add_id(
            &w,
            c->conf.members[c->conf.order[((uint64_t)m->rank * TT_SYNC_HOLDERS_MAX + k) % nsources]]
                .id);
    tt_coord_send(c, m, tt_elmsg_end(&w));
}

/* Sends a new plan to all. Votes on the previous plan are discarded, except GOT. */
static void send_plans(struct tt_coord *c, struct tt_coord_scope *s)
{
    const uint32_t n = list_sources(c, s);

    s->replan = false;
    s->plan = tt_coord_numbered(c, s->plan);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        if (!tt_coord_is_in(m, tt_coord_scope_index(c, s)))
            continue;
        if (m->vote != TT_SYNC_GOT)
            m->vote = TT_SYNC_NOT_YET;
        send_plan(c, s, m, n);
    }
}

/* Call when all members of the scope have offered. */
static void sync_decide(struct tt_coord *c, struct tt_coord_scope *s)
{
    struct tt_coord_choice choice;
    const uint8_t what = tt_coord_choose_state(c, s, &choice);

    if (what != TT_ROUND_OK) {
        sync_finish(c, s, &(struct tt_coord_result){ .what = what });
    } else if (assign_parts(c, s, &choice) == 0) {
        sync_finish(c, s, &(struct tt_coord_result){ .what = TT_ROUND_SAME });
    } else {
        tt_coord_set_sync(c, s, TT_COORD_SYNC_MOVING);
        tt_coord_log_plan(c, s);
        send_plans(c, s);
    }
}

/* The strategy POPULAR cannot be combined with others. */
static void refuse_mixture(struct tt_coord *c, uint16_t scope, const struct tt_coord_member *one,
                           const struct tt_coord_member *other)
{
    const struct tt_coord_result mismatch = { .what = TT_ROUND_MISMATCH,
                                              .differs = TT_DIFFERS_STRATEGY,
                                              .id = one->id,
                                              .value = one->strategy,
                                              .other = other->id,
                                              .also = other->strategy };

    for (uint32_t i = 0; i < c->nmembers; i++)
        c->conf.members[i].goes_back = tt_coord_is_in(&c->conf.members[i], scope);
    tt_coord_take_back(c, &mismatch);
}

/* Returns whether all live members of the scope have offered; if so, decides. Other calls are
 * detected when all members of the view have called (tt_coord_decide_round). */
static bool sync_gather(struct tt_coord *c, struct tt_coord_scope *s)
{
    const struct tt_coord_member *one = NULL, *other = NULL;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (!tt_coord_is_in(m, tt_coord_scope_index(c, s)))
            continue;
        if (!has_offered(m, tt_coord_scope_index(c, s)))
            return false;
        if (!one)
            one = m;
        else if ((m->strategy == TT_SYNC_POPULAR) != (one->strategy == TT_SYNC_POPULAR))
            other = m;
    }
    if (!one)
        return false;
    if (other)
        refuse_mixture(c, tt_coord_scope_index(c, s), one, other);
    else
        sync_decide(c, s);
    return true;
}

/* ---- second vote ----------------------------------------------------------------------------- */

struct votes {
    uint32_t live, sources, waiting, bad, dead;
    const struct tt_coord_member *unable;
};

static struct votes count_votes(const struct tt_coord *c, uint16_t scope)
{
    struct votes v = { 0 };

    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        v.dead += m->state == TT_COORD_LOST && m->part == TT_SYNC_HOLDS;
        if (!tt_coord_is_in(m, scope))
            continue;
        v.live++;
        v.sources += tt_coord_is_source(m);
        if (m->part != TT_SYNC_RECEIVES)
            continue;
        v.waiting += m->vote == TT_SYNC_NOT_YET;
        v.bad += m->vote == TT_SYNC_BAD;
        if (m->vote == TT_SYNC_UNABLE)
            v.unable = m;
    }
    return v;
}

/* Receivers report that the holders' data differs from their offer: one side is wrong. The smaller
 * side is lost; on a tie, the newest member of both sides. */
static void settle_dispute(struct tt_coord *c, struct tt_coord_scope *s, const struct votes *v)
{
    for (uint32_t i = c->nmembers; i > 0; i--) {
        struct tt_coord_member *m = &c->conf.members[i - 1];
        const bool bad = m->part == TT_SYNC_RECEIVES && m->vote == TT_SYNC_BAD;

        if (!tt_coord_is_in(m, tt_coord_scope_index(c, s)) || !(bad || tt_coord_is_source(m)))
            continue;
        if (v->bad == v->sources || bad == (v->bad < v->sources))
            tt_coord_lose(c, m, TT_LOSS_FALSE);
        if (v->bad == v->sources)
            break;
    }
    s->replan = true;
    tt_coord_touch_scope(c, s);
}

static bool sync_move_on(struct tt_coord *c, struct tt_coord_scope *s)
{
    const struct votes v = count_votes(c, tt_coord_scope_index(c, s));
    const uint32_t ignored = TT_PLANTED(TT_BUG_SENDER_DEATH_IGNORED) ? v.dead : 0;

    if (v.live == 0)
        return false;
    if (v.unable) {
        sync_finish(c, s,
                    &(struct tt_coord_result){ .what = TT_ROUND_NOT_RECEIVED, .id = v.unable->id });
        return true;
    }
    if (v.waiting + v.bad > 0 && v.sources == 0 && (ignored == 0 || v.bad > 0)) {
        sync_finish(c, s, &(struct tt_coord_result){ .what = TT_ROUND_LOST });
        return true;
    }
    if (v.waiting > ignored) {
        if (s->replan)
            send_plans(c, s);
        return false;
    }
    if (v.bad > 0)
        settle_dispute(c, s, &v);
    else
        sync_finish(c, s, &(struct tt_coord_result){ .what = TT_ROUND_OK });
    return true;
}

bool tt_coord_decide_sync(struct tt_coord *c)
{
    bool some = false;

    if (!c->syncing)
        return false;
    c->syncing = false;
    for (uint32_t i = 0; i < TT_SYNC_SCOPES; i++) {
        struct tt_coord_scope *s = &c->scopes[i];

        if (!s->dirty)
            continue;
        s->dirty = false;
        some |= s->state == TT_COORD_SYNC_MOVING ? sync_move_on(c, s) : sync_gather(c, s);
    }
    return some;
}

/* ---- messages of members --------------------------------------------------------------------- */

/* Returns the scope in the message, or NULL if it is not the member's own; then the member is
 * lost. */
static struct tt_coord_scope *scope_of(struct tt_coord *c, struct tt_coord_member *m,
                                       const struct tt_elmsg *msg)
{
    if (tt_coord_is_live(m) && (msg->scope == 0 || msg->scope == m->role + 1u) &&
        msg->epoch <= c->epoch)
        return &c->scopes[msg->scope];
    tt_coord_lose(c, m, TT_LOSS_ILLEGAL);
    return NULL;
}

void tt_coord_offer(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg)
{
    struct tt_coord_scope *s = scope_of(c, m, msg);
    uint64_t last;

    if (!s || msg->epoch < c->epoch)
        return;
    last = tt_coord_last_sync(c, s);
    if (msg->number == 0 || msg->number > last + 1 || msg->value == UINT64_MAX) {
        tt_coord_lose(c, m, TT_LOSS_ILLEGAL);
        return;
    }
    if (msg->number == last)
        tt_coord_send_synced(c, m, msg->scope, last, &s->last);
    if (msg->number <= last)
        return;
    if (tt_coord_comes_again(m, msg)) {
        tt_coord_send_synced(c, m, msg->scope, msg->number, &m->back_why);
        return;
    }
    m->called = true;
    m->attempt = msg->also;
    m->tried_sync = last + 1;
    m->what = TT_CALL_SYNC;
    m->scope = msg->scope;
    if (s->state == TT_COORD_SYNC_MOVING) { /* m took part before, and has reconnected */
        send_plan(c, s, m, list_sources(c, s));
        return;
    }
    m->strategy = msg->what;
    m->flags = msg->flags;
    m->value = msg->value;
    m->keys = msg->keys;
    m->hash = msg->hash;
    tt_coord_set_sync(c, s, TT_COORD_SYNC_OFFERED);
    tt_coord_touch_scopes(c, m);
}

/* Returns the oldest member of the scope that has not offered, whatever other call it made; 0:
 * all have. Prefers one without any offer to one whose deadline passed. */
static uint64_t sync_waits_for(const struct tt_coord *c, uint16_t scope)
{
    uint64_t late = 0;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (!tt_coord_is_in(m, scope) || has_offered(m, scope))
            continue;
        if (m->called || m->tried_sync != tt_coord_last_sync(c, &c->scopes[scope]) + 1)
            return m->id;
        late = late ? late : m->id;
    }
    return late;
}

void tt_coord_withdraw(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg)
{
    struct tt_coord_result timeout = { .what = TT_ROUND_TIMEOUT };
    struct tt_coord_scope *s = scope_of(c, m, msg);

    if (!s || msg->epoch < c->epoch || msg->number == 0 ||
        msg->number > tt_coord_last_sync(c, s) + 1)
        return;
    if (msg->number <= tt_coord_last_sync(c, s)) {
        if (msg->number == tt_coord_last_sync(c, s))
            tt_coord_send_synced(c, m, msg->scope, msg->number, &s->last);
    } else if (s->state == TT_COORD_SYNC_MOVING) {
        sync_finish(c, s, &(struct tt_coord_result){ .what = TT_ROUND_ABANDONED, .id = m->id });
    } else if (has_offered(m, msg->scope)) {
        timeout.id = sync_waits_for(c, msg->scope);
        m->called = false;
        tt_coord_send_synced(c, m, msg->scope, msg->number, &timeout);
    }
}

void tt_coord_vote(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg)
{
    struct tt_coord_scope *s = scope_of(c, m, msg);

    if (!s || msg->epoch < c->epoch || s->state != TT_COORD_SYNC_MOVING ||
        msg->number != tt_coord_last_sync(c, s) + 1 || m->part != TT_SYNC_RECEIVES ||
        m->vote == TT_SYNC_GOT || (msg->what != TT_SYNC_GOT && msg->other != s->plan))
        return;
    m->vote = msg->what;
    tt_coord_touch_scope(c, s);
}
