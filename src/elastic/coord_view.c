/* Views: choice of the next one, its proposal, and its installation. A view requires that all its
 * members have reached each other. Members of the view keep the order of their ranks, unless a
 * better ring order is pending (coord_ring.c); newcomers follow in the order of their ids. With
 * replica groups the same applies to whole groups, and newcomers follow in the order of group
 * numbers. The members of a group have consecutive ranks, in the order of their roles. */
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "elastic/coord_state.h"
#include "elastic/planted.h"

#define PROPOSAL_LEASES 2 /* time for all answers, in leases */
#define ANY_SIZE UINT32_MAX

/* ---- choice ---- */

static bool waits_in_epoch(const struct tt_coord_member *m)
{
    return (m->state == TT_COORD_WAITING || m->state == TT_COORD_CANDIDATE) && m->called;
}

/* Returns whether a newcomer accepts a view of n members. Its `least` applies only when the run
 * begins; later the members of the view decide. */
static bool accepts(const struct tt_coord_member *m, uint32_t n, bool begins)
{
    return (!begins || m->least <= n) && (m->most == 0 || m->most >= n);
}

static void swap(uint32_t *a, uint32_t *b)
{
    const uint32_t was = *a;

    *a = *b;
    *b = was;
}

/* Sets the place of each current member's group in the order (without replica groups: of the
 * member). An incomplete group has none; when its member is replaced, it counts as new. */
static void place_groups(struct tt_coord *c)
{
    const uint32_t size = c->nroles > 1 ? c->nroles : 1;
    uint32_t *live = c->conf.order; /* live members by group; the array does not contain the order
                                       yet */

    memset(live, 0, c->nmembers * sizeof *live);
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (tt_coord_is_live(&c->conf.members[i]))
            live[c->conf.members[i].rank / size]++;
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        m->group_place = TT_COORD_NO_RANK;
        if (tt_coord_is_live(m) && live[m->rank / size] == size)
            m->group_place = (c->ring.waits ? m->place : m->rank) / size;
    }
}

static bool is_before(const struct tt_coord *c, const struct tt_coord_member *a,
                      const struct tt_coord_member *b)
{
    if (a->group_place != b->group_place)
        return a->group_place < b->group_place;
    if (c->nroles > 1 && a->group != b->group)
        return a->group < b->group;
    if (c->nroles > 1 && a->role != b->role)
        return a->role < b->role;
    return a->id < b->id;
}

/* Heap sort: moves order[at] down in the heap order[0..n), whose root is the member with the last
 * rank. */
static void sift_down(struct tt_coord *c, uint32_t at, uint32_t n)
{
    const struct tt_coord_member *m = c->conf.members;
    uint32_t *order = c->conf.order;

    for (;;) {
        uint32_t last = at;

        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < n; child++)
            if (is_before(c, &m[order[last]], &m[order[child]]))
                last = child;
        if (last == at)
            return;
        swap(&order[at], &order[last]);
        at = last;
    }
}

/* Lists the members permitted in a view of `size` (ANY_SIZE: ignores the newcomers' limits), in the
 * order of ranks. Members are stored by ID, which usually is already the order of ranks. */
static uint32_t list_permitted(struct tt_coord *c, bool admit, uint32_t size)
{
    const bool begins = tt_coord_count(c, TT_COORD_IN_VIEW) == 0;
    bool sorted = true;
    uint32_t n = 0;

    place_groups(c);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (!tt_coord_is_live(m) &&
            !(admit && waits_in_epoch(m) && (size == ANY_SIZE || accepts(m, size, begins))))
            continue;
        sorted &= n == 0 || is_before(c, &c->conf.members[c->conf.order[n - 1]], m);
        c->conf.order[n++] = i;
    }
    if (sorted)
        return n;
    for (uint32_t at = n / 2; at > 0; at--)
        sift_down(c, at - 1, n);
    for (uint32_t end = n; end > 1; end--) {
        swap(&c->conf.order[0], &c->conf.order[end - 1]);
        sift_down(c, 0, end - 1);
    }
    return n;
}

/* Returns whether order[at..at + nroles) is a complete group. A seat has at most one live holder
 * (coord.c refuses others), so roles are unique. */
static bool is_group(const struct tt_coord *c, uint32_t at, uint32_t n)
{
    const uint32_t group = c->conf.members[c->conf.order[at]].group;

    if (c->nroles <= 1)
        return true;
    for (uint32_t k = 0; k < c->nroles; k++) {
        const struct tt_coord_member *m =
            at + k < n ? &c->conf.members[c->conf.order[at + k]] : NULL;

        if (!m || m->group != group || m->role != k)
            return false;
    }
    return true;
}

static bool is_all_old(const struct tt_coord *c, uint32_t at)
{
    for (uint32_t k = 0; k < c->nroles; k++)
        if (!tt_coord_is_live(&c->conf.members[c->conf.order[at + k]]))
            return false;
    return true;
}

/* Selects complete groups of order[0..n) that are in the view, then others up to `size`; returns
 * the number of members. */
static uint32_t select_groups(struct tt_coord *c, uint32_t n, uint32_t size)
{
    uint32_t chosen = 0, rank = 0;

    for (uint32_t i = 0; i < c->nmembers; i++)
        c->conf.members[i].next_rank = TT_COORD_NO_RANK;
    for (int newcomers = 0; newcomers < 2; newcomers++)
        for (uint32_t at = 0; at < n; at++) {
            if (!is_group(c, at, n))
                continue;
            if (newcomers ? !is_all_old(c, at) && chosen + c->nroles <= size : is_all_old(c, at)) {
                for (uint32_t k = 0; k < c->nroles; k++)
                    c->conf.members[c->conf.order[at + k]].next_rank = 0;
                chosen += c->nroles;
            }
            at += c->nroles - 1;
        }
    for (uint32_t at = 0; at < n; at++)
        if (c->conf.members[c->conf.order[at]].next_rank != TT_COORD_NO_RANK)
            c->conf.members[c->conf.order[at]].next_rank = rank++;
    return chosen;
}

/* Returns the next smaller size to try if only `found` members accept `size`: the largest `most` of
 * a newcomer between both, or `found`. */
static uint32_t next_size(const struct tt_coord *c, uint32_t size, uint32_t found)
{
    uint32_t next = found;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (waits_in_epoch(m) && m->most < size && m->most > next)
            next = m->most;
    }
    return next;
}

/* Finds the largest view that all its newcomers accept. Newcomers that do not accept it wait,
 * without blocking others. Sizes are tried in descending order, at most one per distinct limit. */
uint32_t tt_coord_choose(struct tt_coord *c, bool admit, uint32_t most)
{
    uint32_t size = select_groups(c, list_permitted(c, admit, ANY_SIZE), most), found = size;

    if (!admit)
        return size;
    while ((found = select_groups(c, list_permitted(c, true, size), size)) < size)
        size = next_size(c, size, found);
    return found;
}

/* ---- proposals ---- */

static size_t write_seats(struct tt_coord *c, const struct tt_elmsg *msg, bool proposal)
{
    struct tt_elmsg_writer w;

    tt_elmsg_begin(&w, c->conf.scratch, TT_ELMSG_BYTES_MAX, msg);
    for (uint32_t rank = 0, at = 0; at < c->nmembers; at++) {
        const struct tt_coord_member *m = &c->conf.members[c->conf.order[at]];

        if ((proposal ? m->next_rank : m->rank) != rank)
            break;
        tt_elmsg_add_seat(&w,
                          &(struct tt_surroundings_seat){
                              .id = m->id, .group = m->group, .role = m->role, .card = m->card });
        rank++;
    }
    return tt_elmsg_end(&w);
}

/* Sorts members by rank into order[], those without a rank last. */
static void sort_by_rank(struct tt_coord *c, bool proposal)
{
    uint32_t last = c->nmembers;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        const uint32_t rank = proposal ? c->conf.members[i].next_rank : c->conf.members[i].rank;

        if (rank == TT_COORD_NO_RANK)
            c->conf.order[--last] = i;
        else
            c->conf.order[rank] = i;
    }
}

void tt_coord_send_proposal(struct tt_coord *c, struct tt_coord_member *m)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_PROPOSE,
                                  .epoch = c->epoch + 1,
                                  .number = c->proposal };

    sort_by_rank(c, true);
    tt_coord_send(c, m, write_seats(c, &msg, true));
}

void tt_coord_propose(struct tt_coord *c)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_PROPOSE,
                                  .epoch = c->epoch + 1,
                                  .number = tt_coord_numbered(c, c->proposal) };
    size_t bytes;

    tt_coord_set_round(c, TT_COORD_ROUND_PROPOSED);
    c->proposal = msg.number;
    c->proposal_ns = c->now_ns > TT_NEVER - PROPOSAL_LEASES * c->conf.lease_ns
                         ? TT_NEVER
                         : c->now_ns + PROPOSAL_LEASES * c->conf.lease_ns;
    tt_coord_due(c, c->proposal_ns);
    sort_by_rank(c, true);
    bytes = write_seats(c, &msg, true);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        m->ready = m->failed = false;
        if (m->next_rank == TT_COORD_NO_RANK)
            continue;
        if (m->state == TT_COORD_WAITING) {
            tt_coord_set(c, m, TT_COORD_CANDIDATE);
            m->edges = 0;
        }
        tt_coord_send(c, m, bytes);
    }
}

/* Of two members that did not reach each other, the newcomer failed. Between two newcomers this
 * is decided when all have answered. Members of the view report each other by SUSPECT. */
static void blame(struct tt_coord_member *a, struct tt_coord_member *b)
{
    if (a->state == TT_COORD_CANDIDATE && b->state == TT_COORD_CANDIDATE) {
        a->edges++;
        b->edges++;
    } else if (b->state == TT_COORD_CANDIDATE) {
        b->failed = true;
    } else if (a->state == TT_COORD_CANDIDATE) {
        a->failed = true;
    }
}

/* Among newcomers that did not reach each other, the one in most reports failed; on a tie, the
 * newest. */
static void blame_worst(struct tt_coord *c)
{
    struct tt_coord_member *worst = NULL;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        if (m->state != TT_COORD_CANDIDATE)
            continue;
        if (m->failed)
            return;
        if (m->edges > 0 && (!worst || m->edges >= worst->edges))
            worst = m;
    }
    if (worst)
        worst->failed = true;
}

/* A newcomer that does not answer has failed. If only members of the view do not answer, they
 * are lost as silent. */
void tt_coord_overdue(struct tt_coord *c)
{
    bool newcomers = false;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        if (m->state == TT_COORD_CANDIDATE && !m->ready)
            newcomers = m->failed = true;
    }
    for (uint32_t i = 0; i < c->nmembers && tt_coord_is_proposing(c); i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        if (m->next_rank == TT_COORD_NO_RANK || m->ready)
            continue;
        if (newcomers)
            m->ready = true;
        else
            tt_coord_lose(c, m, TT_LOSS_SILENT);
    }
}

void tt_coord_on_ready(struct tt_coord *c, struct tt_coord_member *m, struct tt_elmsg *msg)
{
    if (!tt_coord_is_proposing(c) || msg->number != c->proposal ||
        m->next_rank == TT_COORD_NO_RANK || m->ready)
        return;
    m->ready = true;
    for (uint32_t i = 0; i < msg->nlist; i++) {
        struct tt_coord_member *other = tt_coord_member_of(c, tt_elmsg_next_id(msg));

        if (other && other != m && other->next_rank != TT_COORD_NO_RANK)
            blame(m, other);
    }
}

/* Newcomers that were not reached are tried again, or refused. */
static bool has_failed(struct tt_coord *c)
{
    bool failed = false;

    blame_worst(c);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        if (m->next_rank == TT_COORD_NO_RANK || !m->failed)
            continue;
        failed = true;
        if (++m->attempts < TT_COORD_ATTEMPTS)
            continue;
        tt_coord_set(c, m, TT_COORD_UNKNOWN);
        tt_coord_log_gone(c, m);
        if (m->conn)
            tt_coord_refuse(
                c, m->conn, TUTTI_ERR_ABORTED,
                "members of the run could not reach this member, or it could not reach them");
        m->conn = NULL;
    }
    return failed;
}

bool tt_coord_conclude(struct tt_coord *c)
{
    if (!tt_coord_is_proposing(c))
        return false;
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (c->conf.members[i].next_rank != TT_COORD_NO_RANK && !c->conf.members[i].ready)
            return false;
    if (has_failed(c))
        tt_coord_abandon(c); /* the round is open again, and leads to a new proposal */
    else
        tt_coord_install(c);
    return true;
}

/* ---- installation ---- */

static size_t write_view(struct tt_coord *c, const struct tt_coord_member *m)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_VIEW,
                                  .what = c->plan,
                                  .epoch = c->epoch,
                                  .number = c->view_round,
                                  .news = c->news };

    sort_by_rank(c, false);
    if (TT_PLANTED(TT_BUG_HALF_ADMITTED) && m->rank % 2 == 0 && tt_coord_is_live(m) && c->epoch > 1)
        c->conf.order[c->nmembers - 1] = c->conf.order[0];
    return write_seats(c, &msg, false);
}

void tt_coord_send_view(struct tt_coord *c, struct tt_coord_member *m)
{
    tt_coord_send(c, m, write_view(c, m));
}

/* Removes members that are not in the new view: lost ones are deleted, others wait again. */
static void remove_from_view(struct tt_coord *c, struct tt_coord_member *m)
{
    const struct tt_elmsg dropped = { .kind = TT_ELMSG_DROPPED, .epoch = c->epoch };

    m->rank = TT_COORD_NO_RANK;
    if (m->state == TT_COORD_LOST) {
        tt_coord_set(c, m, TT_COORD_UNKNOWN);
    } else if (tt_coord_is_live(m)) {
        tt_coord_set(c, m, TT_COORD_WAITING);
        tt_coord_send_msg(c, m, &dropped);
    }
}

static void add_to_view(struct tt_coord *c, struct tt_coord_member *m)
{
    if (m->state == TT_COORD_CANDIDATE)
        tt_coord_set(c, m, TT_COORD_IN_VIEW);
    tt_assert(tt_coord_is_live(m));
    m->rank = m->next_rank;
    m->called = m->answered = false;
    m->attempts = 0;
    m->edges = 0;
    m->gone[0] = m->gone[1] = 0;
    m->reported = 0;
}

/* Returns the purpose of the next view's order: without newcomers, the found order still applies
 * to the remaining members. */
static uint8_t next_plan(const struct tt_coord *c)
{
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (c->conf.members[i].next_rank != TT_COORD_NO_RANK &&
            !tt_coord_is_live(&c->conf.members[i]))
            return TT_RING_UNMEASURED;
    return c->ring.waits ? tt_coord_ring_plan(c) : c->plan;
}

static struct tt_coord_cause cause_of_next(const struct tt_coord *c)
{
    struct tt_coord_cause cause = { .revoked = c->revoked,
                                    .revoker = c->revoked ? c->revoker : 0,
                                    .ordered = c->ring.waits };

    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        cause.came += m->next_rank != TT_COORD_NO_RANK && !tt_coord_is_live(m);
        cause.out += m->next_rank == TT_COORD_NO_RANK && tt_coord_is_live(m);
        cause.left += m->state == TT_COORD_LOST && m->loss == TT_LOSS_LEFT;
        cause.lost += m->state == TT_COORD_LOST && m->loss != TT_LOSS_LEFT;
    }
    return cause;
}

void tt_coord_install(struct tt_coord *c)
{
    size_t bytes = 0;

    c->plan = next_plan(c);
    c->cause = cause_of_next(c);
    tt_coord_reset_ring(c);
    c->epoch++;
    c->last = (struct tt_coord_result){ .is_view = true, .round = c->round, .epoch = c->epoch };
    c->view_round = c->round;
    tt_coord_end_round(c);
    c->stale_news |= c->revoked;    /* the new epoch is not revoked */
    c->revoked = c->querying = c->decided = c->changed = false;
    c->revocation = TT_REVOKED_NO_REASON;
    memset(c->words, 0, sizeof c->words);
    tt_coord_reset_syncs(c);
    sort_by_rank(c, true);
    tt_coord_log_view(c);
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (c->conf.members[i].next_rank == TT_COORD_NO_RANK)
            remove_from_view(c, &c->conf.members[i]);
        else
            add_to_view(c, &c->conf.members[i]);
    tt_coord_send_updates(c);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        if (!tt_coord_is_live(&c->conf.members[i]))
            continue;
        if (bytes == 0 || TT_PLANTED(TT_BUG_HALF_ADMITTED))
            bytes = write_view(c, &c->conf.members[i]);
        tt_coord_send(c, &c->conf.members[i], bytes);
    }
}

/* Counts the newcomers that an epoch without a limit would admit: those that wait in `epoch`, and
 * whose group is complete. */
void tt_coord_send_updates(struct tt_coord *c)
{
    struct tt_elmsg msg = { .kind = TT_ELMSG_UPDATE };
    struct tt_membership now = { .number = c->news.number,
                                 .lost = tt_coord_count(c, TT_COORD_LOST),
                                 .revoked = c->revoked };

    now.better = c->ring.waits;
    if (!c->stale_news || tt_coord_count(c, TT_COORD_IN_VIEW) == 0)
        return;
    c->stale_news = false;
    if (!tt_coord_is_proposing(c))
        tt_coord_choose(c, true, UINT32_MAX);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        now.newcomers += (m->state == TT_COORD_WAITING || m->state == TT_COORD_CANDIDATE) &&
                         m->next_rank != TT_COORD_NO_RANK;
        now.leaving += tt_coord_is_live(m) && m->leaving;
    }
    if (tt_membership_are_same(&now, &c->news))
        return;
    now.number = tt_coord_numbered(c, now.number);
    c->news = now;
    msg.news = now;
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (tt_coord_is_live(&c->conf.members[i]))
            tt_coord_send_msg(c, &c->conf.members[i], &msg);
}
