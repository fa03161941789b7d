/* Rounds: calls that all members of the view make, in the same order. One round is open at a time.
 * It is decided when every live member has called, and the decision is logged before any member
 * receives it. Members number their calls, so a repeated call counts once, and a lost result is
 * sent again.
 *
 * An `epoch` without a change (SAME) is not logged, because it is frequent, and only the number of
 * the next round depends on it. Therefore, after a restart, the journal may be behind by some such
 * rounds. A reconnecting member reports its next round, and the call that it waits in. A round ends
 * only when all have called. Thus correct members are in the last round or the previous one, and
 * those in the previous one wait in `epoch`. When all live members have reconnected, the highest
 * reported round is the current one. The one before it was SAME, for all members, whether they have
 * received the result or not. If all members that had received it are lost, it is decided again; no
 * remaining member has continued beyond it. */
#include "base/status.h"
#include "elastic/coord_state.h"
#include "elastic/planted.h"
#include "elastic/states.h"

#define ROUND_MAX (UINT64_MAX / 2) /* maximum plausible round */

void tt_coord_call(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg)
{
    const uint64_t round = tt_coord_is_unsure(c) ? m->next_round : c->round;

    if (m->state != TT_COORD_IN_VIEW && msg->what != TT_CALL_EPOCH) {
        tt_coord_lose(c, m, TT_LOSS_ILLEGAL);
        return;
    }
    if (tt_coord_comes_again(m, msg)) {
        tt_coord_send_back(c, m, &m->back_why, msg->number);
        return;
    }
    if (m->state == TT_COORD_IN_VIEW && msg->number + 1 == c->round) {
        tt_coord_send_last(c, m);
        return;
    }
    if (m->state == TT_COORD_IN_VIEW && (msg->number != round || msg->epoch != c->epoch)) {
        if (msg->number >= round)
            tt_coord_lose(c, m, TT_LOSS_ILLEGAL);
        return; /* sent before the view that the member will receive */
    }
    c->stale_news |= m->state != TT_COORD_IN_VIEW && !m->called;
    m->called = true;
    m->attempt = msg->also;
    m->tried = c->round;
    m->cancels = false;
    m->what = msg->what;
    m->flags = msg->flags;
    m->value = msg->value;
    m->least = msg->least;
    m->most = msg->most;
    m->awaits = msg->other;
}

void tt_coord_send_last(struct tt_coord *c, struct tt_coord_member *m)
{
    if (!c->last.is_view) /* views are sent when the member reconnects */
        tt_coord_send_result(c, m, &c->last);
}

static void round_finish(struct tt_coord *c, const struct tt_coord_result *result)
{
    const bool log = result->what != TT_ROUND_SAME;

    c->last = *result;
    c->last.round = c->round;
    tt_coord_end_round(c);
    c->last.epoch = c->epoch;
    if (log && !TT_PLANTED(TT_BUG_JOURNAL_AFTER_REPLY))
        tt_coord_log_result(c);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        if (!tt_coord_is_live(m))
            continue;
        m->called = false;
        tt_coord_send_result(c, m, &c->last);
    }
    if (log && TT_PLANTED(TT_BUG_JOURNAL_AFTER_REPLY))
        tt_coord_log_result(c);
}

/* Returns the oldest member that has not called; 0: all have. Prefers a member without any call
 * in this round to one whose deadline passed. */
static uint64_t round_waits_for(const struct tt_coord *c)
{
    uint64_t late = 0;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (!tt_coord_is_live(m) || m->called)
            continue;
        if (m->tried != c->round)
            return m->id;
        late = late ? late : m->id;
    }
    return late;
}

/* All have called `epoch`, which waits for newcomers, or until they are reachable: sets the numbers
 * of members and of waiting newcomers. */
static void count_present(const struct tt_coord *c, struct tt_coord_result *timeout)
{
    timeout->value = tt_coord_count(c, TT_COORD_IN_VIEW);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        timeout->other +=
            (m->state == TT_COORD_WAITING || m->state == TT_COORD_CANDIDATE) && m->called;
    }
}

/* Returns the oldest member waiting in `optimize` that has not reported its measurement; 0: all
 * have. */
static uint64_t measurement_missing(const struct tt_coord *c)
{
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (tt_coord_is_live(&c->conf.members[i]) &&
            c->conf.members[i].reported < c->conf.members[i].awaits)
            return c->conf.members[i].id;
    return 0;
}

/* Returns the reason for which a newcomer cannot join the next view, whatever its members call.
 * While a member is lost or leaves, the number of remaining groups is unknown. */
static uint8_t kept_out(const struct tt_coord *c, const struct tt_coord_member *newcomer)
{
    uint32_t mates = 0, others = 0, stay = 0;
    bool leaves = false;

    if (tt_coord_is_live(newcomer) || tt_coord_count(c, TT_COORD_IN_VIEW) == 0)
        return TT_KEPT_OUT_NOT;
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];
        const bool waits =
            (m->state == TT_COORD_WAITING || m->state == TT_COORD_CANDIDATE) && m->called;

        stay += tt_coord_is_live(m) && !m->leaving;
        leaves |= tt_coord_is_live(m) && m->leaving;
        mates += m->group == newcomer->group && (waits || tt_coord_is_live(m));
        others += m->group == newcomer->group && tt_coord_is_live(m);
    }
    if (c->nroles > 1 && mates < c->nroles)
        return TT_KEPT_OUT_GROUP;
    stay += c->nroles > 1 ? c->nroles - others : 1;
    if (newcomer->most == 0 || newcomer->most >= stay || tt_coord_count(c, TT_COORD_LOST) > 0 ||
        (c->nroles > 1 && leaves))
        return TT_KEPT_OUT_NOT;
    return TT_KEPT_OUT_MOST;
}

/* Returns the member or condition that the caller has waited for without success. */
static struct tt_coord_result timeout_result(const struct tt_coord *c,
                                             const struct tt_coord_member *m, uint64_t round)
{
    struct tt_coord_result timeout = { .what = TT_ROUND_TIMEOUT,
                                       .differs = kept_out(c, m),
                                       .round = round };

    if (timeout.differs == TT_KEPT_OUT_NOT)
        timeout.id = round_waits_for(c);
    if (timeout.id == 0 && m->what == TT_CALL_EPOCH)
        count_present(c, &timeout);
    else if (timeout.id == 0 && m->what == TT_CALL_OPTIMIZE)
        timeout.other = measurement_missing(c);
    return timeout;
}

/* Takes back the member's call; the calls of other members remain valid. Thus a round is decided
 * only when all have called, and a member that is one round behind has missed only the last result.
 * A member whose call was already taken back because of a mismatch has no call left to cancel. */
void tt_coord_cancel(struct tt_coord *c, struct tt_coord_member *m, uint64_t round)
{
    struct tt_coord_result timeout;

    if (tt_coord_is_live(m) && round + 1 == c->round) {
        tt_coord_send_last(c, m);
        return;
    }
    if (tt_coord_is_live(m) && tt_coord_is_unsure(c) && m->called && m->what != TT_CALL_SYNC &&
        round == m->next_round) {
        m->cancels = true;
        return;
    }
    if ((tt_coord_is_live(m) ? round != c->round : round != 0) || !m->called)
        return;
    if (tt_coord_is_proposing(c) && m->next_rank != TT_COORD_NO_RANK)
        tt_coord_abandon(c);
    timeout = timeout_result(c, m, round);
    m->called = false;
    c->stale_news |= !tt_coord_is_live(m);
    tt_coord_send_result(c, m, &timeout);
}

/* ---- after a restart ---- */

void tt_coord_take_round(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *join)
{
    const bool is_current = join->epoch == c->epoch && join->number >= c->round;

    if (is_current && join->number > ROUND_MAX) {
        tt_coord_lose(c, m, TT_LOSS_ILLEGAL);
        return;
    }
    m->came = true;
    /* otherwise it gets the logged result that it missed */
    m->next_round = is_current ? join->number : c->round;
    m->waits = is_current ? join->what : 0;
}

/* Returns whether the round reported by m is inconsistent with `ahead` as the current round. */
static bool contradicts_round(const struct tt_coord_member *m, uint64_t ahead)
{
    return m->next_round + 1 < ahead || (m->next_round + 1 == ahead && m->waits != TT_CALL_EPOCH);
}

/* Answers the calls that waited until the round was determined. */
static void answer_held_calls(struct tt_coord *c)
{
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];
        const bool cancels = m->cancels;

        m->cancels = false;
        if (!tt_coord_is_live(m) || !m->called || m->what == TT_CALL_SYNC)
            continue;
        if (m->next_round < c->round) {
            m->called = false;
            tt_coord_send_last(c, m);
        } else if (cancels) {
            tt_coord_cancel(c, m, c->round);
        }
    }
}

/* If reports contradict each other, a member of the smaller side is lost; on a tie, the newer one
 * of two members. */
bool tt_coord_catch_up(struct tt_coord *c)
{
    struct tt_coord_member *ahead = NULL, *behind = NULL;
    uint32_t nahead = 0, nbehind = 0;
    uint64_t round = c->round;

    if (!tt_coord_is_unsure(c))
        return false;
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (tt_coord_is_live(m) && !m->came)
            return false;
        if (tt_coord_is_live(m) && m->next_round > round)
            round = m->next_round;
    }
    for (uint32_t i = 0; i < c->nmembers && round > c->round; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        if (!tt_coord_is_live(m))
            continue;
        if (m->next_round == round) {
            ahead = m;
            nahead++;
        } else if (contradicts_round(m, round)) {
            behind = m;
            nbehind++;
        }
    }
    if (behind) {
        tt_coord_lose(c,
                      nahead != nbehind        ? (nahead < nbehind ? ahead : behind)
                      : ahead->id > behind->id ? ahead
                                               : behind,
                      TT_LOSS_ILLEGAL);
        return true;
    }
    if (ahead) {
        c->last = (struct tt_coord_result){ .what = TT_ROUND_SAME,
                                            .round = round - 1,
                                            .epoch = c->epoch };
        c->round = round - 1;
        tt_coord_end_round(c);
    } else {
        tt_coord_set_round(c, TT_COORD_ROUND_OPEN);
    }
    answer_held_calls(c);
    return true;
}

/* ---- decisions ---- */

static bool is_over(const struct tt_coord *c)
{
    return tt_coord_count(c, TT_COORD_LOST) > 0 || c->revoked;
}

/* Returns whether two values differ, and records the mismatch. */
static bool differ(struct tt_coord_result *mismatch, uint8_t what, uint64_t a, uint64_t b)
{
    if (a == b)
        return false;
    mismatch->differs = what;
    mismatch->value = a;
    mismatch->also = b;
    return true;
}

/* Returns whether two members made different calls, and sets *mismatch. A `commit` makes tentative
 * operations final, so all members must have begun the same operations, unless the epoch is
 * over. */
static bool calls_differ(const struct tt_coord *c, const struct tt_coord_member *a,
                         const struct tt_coord_member *b, struct tt_coord_result *mismatch)
{
    *mismatch = (struct tt_coord_result){ .what = TT_ROUND_MISMATCH, .id = a->id, .other = b->id };
    if (differ(mismatch, TT_DIFFERS_CALL, a->what, b->what))
        return true;
    switch (a->what) {
    case TT_CALL_EPOCH:
        return differ(mismatch, TT_DIFFERS_FLAGS, a->flags, b->flags) ||
               differ(mismatch, TT_DIFFERS_LEAST, a->least, b->least) ||
               differ(mismatch, TT_DIFFERS_MOST, a->most, b->most);
    case TT_CALL_COMMIT:
        mismatch->differs = TT_DIFFERS_OPERATIONS;
        return !is_over(c) && a->value >> 1 != b->value >> 1;
    case TT_CALL_OPTIMIZE:
        return differ(mismatch, TT_DIFFERS_BYTES, a->value, b->value) ||
               differ(mismatch, TT_DIFFERS_GAIN, a->least, b->least);
    default:
        return false;
    }
}

/* A `commit` with OK makes tentative operations final. This is possible only if no question was
 * sent in the epoch: no member has stopped before it receives the result, and all receive it before
 * they are queried (reconnect_member). */
static void decide_value(struct tt_coord *c, const struct tt_coord_member *first)
{
    const bool commit = first->what == TT_CALL_COMMIT;
    const bool lost = tt_coord_count(c, TT_COORD_LOST) > 0 || (commit && c->revoked);
    struct tt_coord_result result = { .what = lost ? TT_ROUND_LOST : TT_ROUND_OK,
                                      .value = UINT64_MAX };

    for (uint32_t i = 0; i < c->nmembers; i++)
        if (tt_coord_is_live(&c->conf.members[i]))
            result.value &= c->conf.members[i].value;
    if (commit)
        result.value &= !lost;
    round_finish(c, &result);
}

/* All have called. The result requires all reports that members wait for, and a finished search.
 * False: not available yet. */
static bool decide_ring(struct tt_coord *c)
{
    const struct tt_coord_ring *r = &c->ring;
    const bool ordered = r->ordered && r->number > 0;

    if (is_over(c)) {
        round_finish(c, &(struct tt_coord_result){ .what = TT_ROUND_LOST });
        return true;
    }
    if (r->waited_for || measurement_missing(c) != 0)
        return false;
    round_finish(c, &(struct tt_coord_result){ .what = TT_ROUND_OK,
                                               .value = r->waits,
                                               .id = ordered ? r->was_ns : 0,
                                               .other = ordered ? r->best_ns : 0 });
    return true;
}

/* Returns whether the chosen members are the current view, with equal ranks and plan.
 * *newcomers: some are not in it. */
static bool is_the_view(const struct tt_coord *c, bool *newcomers)
{
    bool same = !c->revoked && !c->ring.waits;

    *newcomers = false;
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        *newcomers |= m->next_rank != TT_COORD_NO_RANK && !tt_coord_is_live(m);
        same &= m->next_rank == m->rank;
    }
    return same;
}

/* All have called, so nothing is open: removes members that gave notice. */
static bool remove_leaving(struct tt_coord *c)
{
    bool some = false;

    for (uint32_t i = 0; i < c->nmembers; i++)
        if (tt_coord_is_live(&c->conf.members[i]) && c->conf.members[i].leaving) {
            tt_coord_lose(c, &c->conf.members[i], TT_LOSS_LEFT);
            some = true;
        }
    return some;
}

static bool decide_epoch(struct tt_coord *c, const struct tt_coord_member *first)
{
    const bool admit = first->flags & TT_EPOCH_ADMIT;
    const uint32_t least = first->least ? first->least : 1;
    uint32_t n;
    bool newcomers;

    if (remove_leaving(c))
        return true;
    n = tt_coord_choose(c, admit, first->most ? first->most : UINT32_MAX);
    if (n < least && admit)
        return false; /* newcomers may join until a deadline passes */
    if (n < least)
        round_finish(c, &(struct tt_coord_result){ .what = TT_ROUND_TOO_FEW, .value = n });
    else if (is_the_view(c, &newcomers))
        round_finish(c, &(struct tt_coord_result){ .what = TT_ROUND_SAME });
    else if (newcomers)
        tt_coord_propose(c);
    else
        tt_coord_install(c);
    return true;
}

/* Without a view, newcomers form the first one when the `least` of each is satisfied. */
static bool round_begin(struct tt_coord *c)
{
    if (tt_coord_choose(c, true, UINT32_MAX) == 0)
        return false;
    tt_coord_propose(c);
    return true;
}

/* All have called, and some called a sync that cannot take place: takes back all calls. If the
 * epoch is over, takes back only the sync calls: the other members have left the epoch. */
static bool separate_syncs(struct tt_coord *c)
{
    const bool over = is_over(c);
    struct tt_coord_result mismatch;

    if (!tt_coord_is_torn(c, &mismatch))
        return false;
    if (over)
        mismatch.differs |= TT_DIFFERS_OVER;
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        m->goes_back = tt_coord_is_live(m) && (!over || m->what == TT_CALL_SYNC);
    }
    tt_coord_take_back(c, &mismatch);
    return true;
}

/* ---- calls and operations -------------------------------------------------------------------- */

/* Returns whether the caller's call also requires a call of m. */
static bool call_needs(const struct tt_coord_member *caller, const struct tt_coord_member *m)
{
    return tt_coord_is_live(caller) && caller->called &&
           (caller->what != TT_CALL_SYNC || tt_coord_is_in(m, caller->scope));
}

/* Returns whether the operation in which m waits also requires `other`. */
static bool operation_needs(const struct tt_op_name *op, const struct tt_coord_member *m,
                            const struct tt_coord_member *other)
{
    return op->needs == TT_OP_NEEDS_ALL || TT_PLANTED(TT_BUG_SCOPES_NOT_KEPT_APART) ||
           (op->needs == TT_OP_NEEDS_ROLE ? m->role == other->role : m->group == other->group);
}

/* Returns whether a report about m is relevant: m may still be in the operation, and the epoch is
 * the current one and not over. */
static bool may_be_apart(const struct tt_coord *c, const struct tt_coord_member *m, uint64_t epoch)
{
    return tt_coord_is_live(m) && !m->called && epoch == c->epoch && !is_over(c) &&
           !tt_coord_is_unsure(c);
}

/* If any member has completed the operation, all required members have begun it, and m will
 * complete it, too. Therefore a single NOT_BEGUN proves the mismatch; without one, the next report
 * queries another member. */
void tt_coord_inside(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg)
{
    const struct tt_elmsg query = {
        .kind = TT_ELMSG_BEGUN, .id = m->id, .epoch = msg->epoch, .op = msg->op
    };
    struct tt_coord_member *first = NULL, *next = NULL;

    if (!may_be_apart(c, m, msg->epoch))
        return;
    for (uint32_t i = 0; i < c->nmembers && !next; i++) {
        struct tt_coord_member *other = &c->conf.members[i];

        if (!other->conn || !call_needs(other, m) || !operation_needs(&msg->op, m, other))
            continue;
        first = first ? first : other;
        next = other->id > c->witness ? other : NULL;
    }
    next = next ? next : first;
    if (!next)
        return;
    c->witness = next->id;
    tt_coord_send_msg(c, next, &query);
}

/* The member's earlier messages on this connection were received, and its call was not affected by
 * messages that it has not received. Therefore it is still in that call. */
void tt_coord_not_begun(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg)
{
    const struct tt_coord_member *inside = tt_coord_member_of(c, msg->id);

    if (!inside || !may_be_apart(c, inside, msg->epoch) || !call_needs(m, inside) ||
        !operation_needs(&msg->op, inside, m))
        return;
    c->apart = (struct tt_coord_result){ .what = TT_ROUND_MISMATCH,
                                         .differs = TT_DIFFERS_INSIDE,
                                         .id = m->id,
                                         .value = m->what,
                                         .other = inside->id,
                                         .op = msg->op };
    for (uint32_t i = 0; i < c->nmembers; i++)
        c->conf.members[i].goes_back = call_needs(&c->conf.members[i], inside);
    tt_coord_take_back(c, &c->apart);
    c->revoked = c->changed = c->stale_news = true;
    c->revoked_epoch = c->epoch;
    c->revocation = TT_REVOKED_APART;
    c->revoker = c->unreached = 0;
}

bool tt_coord_decide_round(struct tt_coord *c)
{
    const struct tt_coord_member *first = NULL;
    struct tt_coord_result mismatch;
    bool differs = false, syncs = false;

    if (tt_coord_is_proposing(c) || tt_coord_is_unsure(c))
        return false;
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (!tt_coord_is_live(m))
            continue;
        if (!m->called)
            return false;
        syncs |= m->what == TT_CALL_SYNC;
        if (!first)
            first = m;
        else
            differs = differs || calls_differ(c, first, m, &mismatch);
    }
    if (!first)
        return round_begin(c);
    if (syncs)
        return separate_syncs(c);
    if (differs) {
        mismatch.differs |= is_over(c) ? TT_DIFFERS_OVER : 0;
        round_finish(c, &mismatch);
        return true;
    }
    if (first->what == TT_CALL_EPOCH)
        return decide_epoch(c, first);
    if (first->what == TT_CALL_OPTIMIZE)
        return decide_ring(c);
    decide_value(c, first);
    return true;
}
