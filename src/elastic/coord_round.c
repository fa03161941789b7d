/* Rounds: calls that all members of the view make, in the same order. One is open at a time; it is decided when every live member has
 * called, and a decision is logged before anybody hears of it. Members number them, so a call that is said twice counts once, and one
 * whose answer was lost gets it again.
 *
 * An `epoch` that changes nothing (SAME) is not logged, as it is asked for often and nothing depends on it but the number of the next round.
 * So after a restart the journal may be behind by some such rounds. Who comes back says which round is its next, and what it waits in. As a
 * round ends when all have called, those who tell the truth are in the last round or the one before it; and who is in that one waits in
 * `epoch`. Once all that live have come back, the highest of what they say is the round, and the one before it was SAME: for those who did
 * not hear of it as for those who did. If all who had heard of it are lost, it is decided anew; nobody is left who went on. */
#include "base/status.h"
#include "elastic/coord_state.h"
#include "elastic/planted.h"
#include "elastic/states.h"

#define ROUND_MAX (UINT64_MAX / 2) /* that anybody is believed to be in */

static const char *const states[] = {
    [TT_COORD_ROUND_NONE] = "not begun",     [TT_COORD_ROUND_UNSURE] = "unsure",   [TT_COORD_ROUND_OPEN] = "open",
    [TT_COORD_ROUND_PROPOSED] = "proposed", [TT_COORD_ROUND_DECIDED] = "decided",
};
static const struct tt_state_change changes[] = {
    { TT_COORD_ROUND_NONE, TT_COORD_ROUND_OPEN, "the previous round is decided, or the run begins" },
    { TT_COORD_ROUND_NONE, TT_COORD_ROUND_UNSURE,
      "a new coordinator starts after a failure, and this is the next "
      "round" },
    { TT_COORD_ROUND_UNSURE, TT_COORD_ROUND_OPEN,
      "no member that has reconnected received a result of the round" },
    { TT_COORD_ROUND_UNSURE, TT_COORD_ROUND_DECIDED,
      "a member that has reconnected received the result SAME" },
    { TT_COORD_ROUND_OPEN, TT_COORD_ROUND_PROPOSED, "all members call an epoch that admits newcomers" },
    { TT_COORD_ROUND_PROPOSED, TT_COORD_ROUND_OPEN,
      "the proposal fails: a member was lost, was not reached, or "
      "cancelled its call" },
    { TT_COORD_ROUND_OPEN, TT_COORD_ROUND_DECIDED, "all members have called: a result, or a view without newcomers" },
    { TT_COORD_ROUND_PROPOSED, TT_COORD_ROUND_DECIDED, "all members of the proposed view are connected" },
};
const struct tt_states tt_coord_round_states = {
    .name = "rounds",
    .of = "a round; states in the coordinator",
    .states = states,
    .nstates = TT_COORD_ROUND_STATES,
    .changes = changes,
    .nchanges = sizeof changes / sizeof *changes,
};

void tt_coord_set_round(struct tt_coord *c, uint8_t to)
{
    c->rounds_covered |= 1ull << tt_states_change(&tt_coord_round_states, c->round_state, to);
    c->round_state = to;
}

void tt_coord_end_round(struct tt_coord *c)
{
    tt_coord_set_round(c, TT_COORD_ROUND_DECIDED);
    c->round++;
    c->round_state = TT_COORD_ROUND_NONE; /* the next one's */
    tt_coord_set_round(c, TT_COORD_ROUND_OPEN);
}

bool tt_coord_comes_again(const struct tt_coord_member *m, const struct tt_elmsg *call)
{
    return m->back != 0 && m->back == call->also && !TT_PLANTED(TT_BUG_BACK_FORGOTTEN);
}

static void send_result(struct tt_coord *c, struct tt_coord_member *m, const struct tt_coord_result *r)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_RESULT,
                                  .what = r->what,
                                  .flags = r->differs,
                                  .id = r->id,
                                  .other = r->other,
                                  .epoch = r->epoch,
                                  .number = r->round,
                                  .value = r->value,
                                  .also = r->also,
                                  .op = r->op };

    tt_coord_send_msg(c, m, &msg);
}

static void send_back(struct tt_coord *c, struct tt_coord_member *m, const struct tt_coord_result *why, uint64_t round)
{
    struct tt_coord_result result = *why;

    result.round = round;
    result.epoch = c->epoch;
    send_result(c, m, &result);
}

void tt_coord_call(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg)
{
    const uint64_t round = tt_coord_is_unsure(c) ? m->next_round : c->round;

    if (m->state != TT_COORD_IN_VIEW && msg->what != TT_CALL_EPOCH) {
        tt_coord_lose(c, m, TT_LOSS_ILLEGAL);
        return;
    }
    if (tt_coord_comes_again(m, msg)) {
        send_back(c, m, &m->back_why, msg->number);
        return;
    }
    if (m->state == TT_COORD_IN_VIEW && msg->number + 1 == c->round) {
        tt_coord_send_last(c, m);
        return;
    }
    if (m->state == TT_COORD_IN_VIEW && (msg->number != round || msg->epoch != c->epoch)) {
        if (msg->number >= round)
            tt_coord_lose(c, m, TT_LOSS_ILLEGAL);
        return; /* of a time before the view that it will hear of */
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
    if (!c->last.is_view) /* a view it was sent on this connection already */
        send_result(c, m, &c->last);
}

static void finish(struct tt_coord *c, const struct tt_coord_result *result)
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
        send_result(c, m, &c->last);
    }
    if (log && TT_PLANTED(TT_BUG_JOURNAL_AFTER_REPLY))
        tt_coord_log_result(c);
}

/* The oldest that has not called; 0: all have. Rather one that has called nothing in this round than one whose deadline has passed. */
static uint64_t waited_for(const struct tt_coord *c)
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

/* All have called `epoch`, and it waits for newcomers, or for those that wait to be reached: how many there are of both. */
static void tell_who_is_there(const struct tt_coord *c, struct tt_coord_result *timeout)
{
    timeout->value = tt_coord_count(c, TT_COORD_IN_VIEW);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        timeout->other += (m->state == TT_COORD_WAITING || m->state == TT_COORD_CANDIDATE) && m->called;
    }
}

/* Of those who wait in `optimize` the oldest that has not told what it measured; 0: all have. */
static uint64_t measured_for(const struct tt_coord *c)
{
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (tt_coord_is_live(&c->conf.members[i]) && c->conf.members[i].told < c->conf.members[i].awaits)
            return c->conf.members[i].id;
    return 0;
}

/* What keeps a newcomer out of the next view by itself, so that nobody who is in it is to blame. While somebody is lost, or leaves, it is not known
 * how many of groups stay. */
static uint8_t kept_out(const struct tt_coord *c, const struct tt_coord_member *newcomer)
{
    uint32_t mates = 0, others = 0, stay = 0;
    bool leaves = false;

    if (tt_coord_is_live(newcomer) || tt_coord_count(c, TT_COORD_IN_VIEW) == 0)
        return TT_KEPT_OUT_NOT;
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];
        const bool waits = (m->state == TT_COORD_WAITING || m->state == TT_COORD_CANDIDATE) && m->called;

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

/* Whom or what the caller has waited for in vain. */
static struct tt_coord_result reproach(const struct tt_coord *c, const struct tt_coord_member *m, uint64_t round)
{
    struct tt_coord_result timeout = { .what = TT_ROUND_TIMEOUT, .differs = kept_out(c, m), .round = round };

    if (timeout.differs == TT_KEPT_OUT_NOT)
        timeout.id = waited_for(c);
    if (timeout.id == 0 && m->what == TT_CALL_EPOCH)
        tell_who_is_there(c, &timeout);
    else if (timeout.id == 0 && m->what == TT_CALL_OPTIMIZE)
        timeout.other = measured_for(c);
    return timeout;
}

/* The call is taken back; the others' stand. So a round is only decided once all have called, and whoever is behind by one has missed
 * nothing but its last answer. Who has heard of a mismatch with a sync meanwhile has no call to take back. */
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
    timeout = reproach(c, m, round);
    m->called = false;
    c->stale_news |= !tt_coord_is_live(m);
    send_result(c, m, &timeout);
}

/* Whoever misses the word of it hears it when its call comes again, whatever coordinator there is then: so it is written down before. */
void tt_coord_take_back(struct tt_coord *c, const struct tt_coord_result *why)
{
    struct tt_coord_result back = *why;

    back.differs |= TT_DIFFERS_BACK;
    tt_coord_log_back(c, &back);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        if (!m->goes_back)
            continue;
        m->goes_back = m->called = false;
        m->back = m->attempt;
        m->back_why = back;
        if (m->what == TT_CALL_SYNC)
            tt_coord_send_offer_back(c, m);
        else
            send_back(c, m, &back, c->round);
    }
}

/* ---- after a restart ---- */

void tt_coord_take_round(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *join)
{
    const bool knows = join->epoch == c->epoch && join->number >= c->round;

    if (knows && join->number > ROUND_MAX) {
        tt_coord_lose(c, m, TT_LOSS_ILLEGAL);
        return;
    }
    m->came = true;
    m->next_round = knows ? join->number : c->round; /* else what it missed is told to it, which was logged */
    m->waits = knows ? join->what : 0;
}

/* Whether what it says cannot be if `ahead` is the round. */
static bool is_at_odds(const struct tt_coord_member *m, uint64_t ahead)
{
    return m->next_round + 1 < ahead || (m->next_round + 1 == ahead && m->waits != TT_CALL_EPOCH);
}

/* Answers what waited until the round was known. */
static void answer_held(struct tt_coord *c)
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

/* Of those whose words contradict each other the fewer lie; of as many the newest. */
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
        } else if (is_at_odds(m, round)) {
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
        c->last = (struct tt_coord_result){ .what = TT_ROUND_SAME, .round = round - 1, .epoch = c->epoch };
        c->round = round - 1;
        tt_coord_end_round(c);
    } else {
        tt_coord_set_round(c, TT_COORD_ROUND_OPEN);
    }
    answer_held(c);
    return true;
}

/* ---- decisions ---- */

static bool is_over(const struct tt_coord *c)
{
    return tt_coord_count(c, TT_COORD_LOST) > 0 || c->revoked;
}

/* Whether two values differ; then that is what the mismatch is of. */
static bool differ(struct tt_coord_result *mismatch, uint8_t what, uint64_t a, uint64_t b)
{
    if (a == b)
        return false;
    mismatch->differs = what;
    mismatch->value = a;
    mismatch->also = b;
    return true;
}

/* Whether two members did not call the same; then *mismatch says in what. A `commit` that makes final what is tentative is one after the same operations
 * on all. Where the epoch is over some have not begun what others have. */
static bool calls_differ(const struct tt_coord *c, const struct tt_coord_member *a, const struct tt_coord_member *b,
                         struct tt_coord_result *mismatch)
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

/* A `commit` that comes to OK makes final what is tentative. So it only does in an epoch that nobody was asked about: whoever hears of it has not
 * stopped before, and all hear it before they are asked (take_up). */
static void decide_value(struct tt_coord *c, const struct tt_coord_member *first)
{
    const bool commit = first->what == TT_CALL_COMMIT;
    const bool lost = tt_coord_count(c, TT_COORD_LOST) > 0 || (commit && c->revoked);
    struct tt_coord_result result = { .what = lost ? TT_ROUND_LOST : TT_ROUND_OK, .value = UINT64_MAX };

    for (uint32_t i = 0; i < c->nmembers; i++)
        if (tt_coord_is_live(&c->conf.members[i]))
            result.value &= c->conf.members[i].value;
    if (commit)
        result.value &= !lost;
    finish(c, &result);
}

/* All have called, and wait until each has said what it measured, if it could; then the order is searched for. False: that goes on. */
static bool decide_ring(struct tt_coord *c)
{
    const struct tt_coord_ring *r = &c->ring;
    const bool ordered = r->ordered && r->number > 0;

    if (is_over(c)) {
        finish(c, &(struct tt_coord_result){ .what = TT_ROUND_LOST });
        return true;
    }
    if (r->waited_for || measured_for(c) != 0)
        return false;
    finish(c, &(struct tt_coord_result){ .what = TT_ROUND_OK,
                                         .value = r->waits,
                                         .id = ordered ? r->was_ns : 0,
                                         .other = ordered ? r->best_ns : 0 });
    return true;
}

/* Whether the chosen are the view as it is, rank by rank and for what it is; *newcomers: whether some are not in it. */
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

/* All have called, so nothing is open: whoever gave notice goes. */
static bool let_leave(struct tt_coord *c)
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

    if (let_leave(c))
        return true;
    n = tt_coord_choose(c, admit, first->most ? first->most : UINT32_MAX);
    if (n < least && admit)
        return false; /* newcomers may come until somebody's deadline */
    if (n < least)
        finish(c, &(struct tt_coord_result){ .what = TT_ROUND_TOO_FEW, .value = n });
    else if (is_the_view(c, &newcomers))
        finish(c, &(struct tt_coord_result){ .what = TT_ROUND_SAME });
    else if (newcomers)
        tt_coord_propose(c);
    else
        tt_coord_install(c);
    return true;
}

/* Nobody is left in the view, or there never was one: newcomers make the first, as soon as there are as many as each of them wants. */
static bool begin(struct tt_coord *c)
{
    if (tt_coord_choose(c, true, UINT32_MAX) == 0)
        return false;
    tt_coord_propose(c);
    return true;
}

/* All have called, and some a sync that cannot come about: these calls are taken back. Who syncs in an epoch that is over is told alone: the others have
 * gone on to where it comes, too. */
static bool part(struct tt_coord *c)
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

/* ---- calls and operations ---- */

/* Whether the call cannot end before that member has made it, too. */
static bool call_needs(const struct tt_coord_member *caller, const struct tt_coord_member *m)
{
    return tt_coord_is_live(caller) && caller->called &&
           (caller->what != TT_CALL_SYNC || tt_coord_is_in(m, caller->scope));
}

/* Whether the operation that m is in cannot end before that member has begun it, too. */
static bool operation_needs(const struct tt_op_name *op, const struct tt_coord_member *m,
                            const struct tt_coord_member *other)
{
    return op->needs == TT_OP_NEEDS_ALL || TT_PLANTED(TT_BUG_SCOPES_NOT_KEPT_APART) ||
           (op->needs == TT_OP_NEEDS_ROLE ? m->role == other->role : m->group == other->group);
}

/* Of an operation that is no longer under way, or not in this epoch, or where calls may have ended, nothing follows. */
static bool may_be_apart(const struct tt_coord *c, const struct tt_coord_member *m, uint64_t epoch)
{
    return tt_coord_is_live(m) && !m->called && epoch == c->epoch && !is_over(c) && !tt_coord_is_unsure(c);
}

/* Who has ended it knows that all whom it needs have begun it: so it ends for m, too. Therefore one answer is enough; if none comes, the next is asked the
 * next time. */
void tt_coord_inside(struct tt_coord *c, struct tt_coord_member *m, const struct tt_elmsg *msg)
{
    const struct tt_elmsg ask = { .kind = TT_ELMSG_BEGUN, .id = m->id, .epoch = msg->epoch, .op = msg->op };
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
    tt_coord_send_msg(c, next, &ask);
}

/* What it said before on this connection is here, and nothing that it has not heard of has happened to its call: so it is in it. */
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
        return begin(c);
    if (syncs)
        return part(c);
    if (differs) {
        mismatch.differs |= is_over(c) ? TT_DIFFERS_OVER : 0;
        finish(c, &mismatch);
        return true;
    }
    if (first->what == TT_CALL_EPOCH)
        return decide_epoch(c, first);
    if (first->what == TT_CALL_OPTIMIZE)
        return decide_ring(c);
    decide_value(c, first);
    return true;
}
