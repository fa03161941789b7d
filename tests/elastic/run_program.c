/* The members' programs, and their invariants. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "base/prng.h"
#include "base/status.h"
#include "elastic/planted.h"
#include "run_state.h"

#define NEWS_BYTES (offsetof(struct tt_membership, better) + sizeof(uint32_t))    /* without padding */

/* The actions of a step depend only on data that is equal on all members. */
static uint64_t plan_of(const struct peer *p)
{
    return tt_mix64(p->m.epoch * 1000003 + p->step_in_view);
}

static uint64_t part_of(uint64_t id, uint64_t epoch, uint32_t tag, uint64_t n)
{
    return tt_mix64(tt_mix64(id * 31 + epoch) + tag * 7919 + n);
}

void plan_program(struct run *r, struct peer *p, uint64_t most_ns)
{
    const uint64_t at_ns = r->w.now_ns + delay(r, p, most_ns);

    if (p->planned)
        return;
    p->planned = true;
    world_plan(&r->w, at_ns, PROGRAM, index_of(r, p), 0, NULL, 0);
}

/* ---- the order of the ring ---- */

/* Returns the link from one member to another. */
static struct tt_ring_link link_between(uint64_t from, uint64_t to)
{
    const uint64_t drawn = tt_mix64(from * 8191 + to);

    return (struct tt_ring_link){ .rate = 1000000 + drawn % 100 * 1000000,
                                  .latency = 1 + (drawn >> 32) % (20 * MS) };
}

#define RING_BYTES (64ull << 20)

/* Returns the predicted time of a ring all-reduce over ids[nids] in this order; with replica
 * groups, the time until the rings of all roles have completed. */
static uint64_t ring_ns(const struct run *r, const uint64_t *ids, uint32_t nids)
{
    static uint64_t rate[PEERS_MAX * PEERS_MAX], latency[PEERS_MAX * PEERS_MAX];
    const struct tt_ring_load load = { .bytes = RING_BYTES, .segment_bytes = 1 << 20 };
    const uint32_t size = r->nroles, n = nids / size;
    const struct tt_ring_matrix m = { .n = n, .rate = rate, .latency = latency };
    uint32_t order[PEERS_MAX];

    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
        for (uint32_t k = 0; k < n; k++) {
            rate[i * n + k] = UINT64_MAX;
            latency[i * n + k] = 0;
            for (uint32_t role = 0; role < size; role++) {
                const struct tt_ring_link link =
                    link_between(ids[i * size + role], ids[k * size + role]);

                rate[i * n + k] = link.rate < rate[i * n + k] ? link.rate : rate[i * n + k];
                latency[i * n + k] =
                    link.latency > latency[i * n + k] ? link.latency : latency[i * n + k];
            }
        }
    }
    return tt_ring_predict(&m, &load, order);
}

/* The step's number serves as the number of the measurement, because it is equal on all members. */
static void send_links(struct run *r, struct peer *p)
{
    const struct tt_elmsg head = {
        .number = p->step_in_view + 1, .value = RING_BYTES, .other = 1000, .least = 5
    };

    for (uint32_t from = 0; from < tt_member_nlinks(&p->m); from++)
        p->links[from] =
            link_between(p->m.view[from * r->nroles + p->m.rank % r->nroles].id, p->m.id);
    tt_member_send_links(&p->m, &head, p->links, r->w.now_ns);
}

/* ---- scopes ---- */

/* Returns the bits of the ranks in the scope of an operation. A group has consecutive ranks, in the
 * order of its roles. */
static uint32_t ranks_of(const struct run *r, const struct peer *p, enum scope scope)
{
    uint32_t bits = 0;

    for (uint32_t rank = 0; rank < p->m.nranks; rank++)
        if (scope == SCOPE_ALL || (scope == SCOPE_ROLE ? rank % r->nroles == p->m.rank % r->nroles
                                                       : rank / r->nroles == p->m.rank / r->nroles))
            bits |= 1u << rank;
    return bits;
}

static enum scope scope_of(const struct run *r, uint64_t drawn)
{
    return r->nroles > 1 ? (enum scope)(drawn % SCOPES) : SCOPE_ALL;
}

/* ---- invariants ---- */

static struct op_record *op_record(struct run *r, uint64_t epoch, uint32_t tag, uint64_t n)
{
    for (uint32_t i = r->nops; i > 0; i--)
        if (r->ops[i - 1].epoch == epoch && r->ops[i - 1].tag == tag && r->ops[i - 1].n == n)
            return &r->ops[i - 1];
    if (r->nops == OPS_MAX) {
        memmove(r->ops, r->ops + OPS_MAX / 2, OPS_MAX / 2 * sizeof *r->ops);
        r->nops = OPS_MAX / 2;
    }
    r->ops[r->nops] = (struct op_record){ .epoch = epoch, .tag = tag, .n = n };
    return &r->ops[r->nops++];
}

static struct epoch_record *epoch_record(struct run *r, uint64_t epoch)
{
    for (uint32_t i = 0; i < r->nepochs; i++)
        if (r->epochs[i].epoch == epoch)
            return &r->epochs[i];
    return NULL;
}

static bool is_among(uint64_t id, const uint64_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* If ranks follow a found ring, their order is not worse than before. */
static void check_order(struct run *r, const struct peer *p, const struct epoch_record *e)
{
    bool same = p->nwas == e->n;

    if (p->m.plan != e->plan)
        broken(r, "member %llu has heard of plan %u for epoch %llu, others of %u",
               (unsigned long long)p->m.id, p->m.plan, (unsigned long long)e->epoch, e->plan);
    for (uint32_t i = 0; i < e->n && same; i++)
        same = is_among(e->ids[i], p->was, p->nwas);
    r->orders += e->plan != TT_RING_UNMEASURED;
    if (same && e->plan == TT_RING_AS_RING &&
        ring_ns(r, e->ids, e->n) > ring_ns(r, p->was, p->nwas))
        broken(r, "epoch %llu has a worse order than the one before", (unsigned long long)e->epoch);
}

/* Checks that the view satisfies the requirements of one of the calls. */
static void check_wishes(struct run *r, struct peer *p)
{
    const struct tt_elmsg *call = &p->m.call;
    uint32_t come = 0;

    for (uint32_t i = 0; i < p->m.nranks; i++)
        come += !is_among(p->m.view[i].id, p->was, p->nwas);
    if (p->dropped)
        return;
    if (p->nwas > 0 && come > 0 && !(call->flags & TT_EPOCH_ADMIT))
        broken(r, "epoch %llu has %u newcomers, and was to have none",
               (unsigned long long)p->m.epoch, come);
    if (come > 0 && call->most > 0 && p->m.nranks > call->most)
        broken(r, "epoch %llu has %u members, and member %llu wanted %u at most",
               (unsigned long long)p->m.epoch, p->m.nranks, (unsigned long long)p->m.id,
               call->most);
    r->shrunk += p->nwas > 0 && !(call->flags & TT_EPOCH_ADMIT);
    r->bounded += come > 0 && p->m.nranks == call->most;
}

/* Checks that there is one view per epoch, and that all members from the previous view have the
 * same state. */
static void check_view(struct run *r, struct peer *p)
{
    struct epoch_record *e = epoch_record(r, p->m.epoch);
    const uint32_t part = r->by_role ? p->role : 0;

    if (!e) {
        if (r->nepochs == EPOCHS_MAX) {
            memmove(r->epochs, r->epochs + 1, (EPOCHS_MAX - 1) * sizeof *r->epochs);
            r->nepochs--;
        }
        e = &r->epochs[r->nepochs++];
        *e = (struct epoch_record){ .epoch = p->m.epoch, .n = p->m.nranks, .plan = p->m.plan };
        memcpy(e->secret, p->m.secret, TT_COOKIE_BYTES);
        for (uint32_t i = 0; i < e->n; i++)
            e->ids[i] = p->m.view[i].id;
    }
    if (e->n != p->m.nranks)
        broken(r, "epoch %llu has %u members and %u", (unsigned long long)e->epoch, e->n,
               p->m.nranks);
    for (uint32_t i = 0; i < e->n && !r->failed; i++)
        if (e->ids[i] != p->m.view[i].id)
            broken(r, "epoch %llu has two members of rank %u", (unsigned long long)e->epoch, i);
    if (memcmp(e->secret, p->m.secret, TT_COOKIE_BYTES) != 0)
        broken(r, "member %llu has another secret than others", (unsigned long long)p->m.id);
    if (p->m.nranks < r->least)
        broken(r, "epoch %llu has %u members, and %u were the least", (unsigned long long)e->epoch,
               e->n, r->least);
    for (uint32_t i = 0; i < p->m.nranks && !r->failed; i++) {
        const struct peer *other = peer_of_id(r, p->m.view[i].id);
        bool old = other == p;

        for (uint32_t k = 0; k < p->nwas; k++)
            old |= p->was[k] == p->m.view[i].id;
        if (!old && (!other || !(p->reached & 1u << index_of(r, other))))
            broken(r, "member %llu is in a view with member %llu that it has not reached",
                   (unsigned long long)p->m.id, (unsigned long long)p->m.view[i].id);
    }
    check_order(r, p, e);
    check_wishes(r, p);
    p->dropped = false;
    p->nwas = p->m.nranks;
    for (uint32_t i = 0; i < p->nwas; i++)
        p->was[i] = p->m.view[i].id;
    if (r->failed || !p->known || p->liar || p->diverged)
        return;
    if (e->known[part] && e->state[part] != p->state)
        broken(r, "member %llu enters epoch %llu with another state than others",
               (unsigned long long)p->m.id, (unsigned long long)e->epoch);
    e->known[part] = true;
    e->state[part] = p->state;
}

uint32_t liars_of(struct run *r, const struct peer *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->m.nranks; i++)
        n += peer_of_id(r, p->m.view[i].id)->liar;
    return n;
}

/* Checks that an operation of any scope that is final anywhere is complete on all members of the
 * view; small settled operations are exempt. */
static void check_final(struct run *r, struct peer *p, uint32_t tag, uint64_t n, enum scope scope,
                        uint64_t got, const struct tt_membership *news)
{
    struct op_record *o = op_record(r, p->m.epoch, tag, n);
    uint32_t all = (uint32_t)((1ull << p->m.nranks) - 1);
    uint64_t sum = 0;
    const bool settled = o->settled != 0;
    const uint32_t liars = liars_of(r, p), among = ranks_of(r, p, scope);

    for (uint32_t i = 0; i < p->m.nranks && liars > 0; i++) {
        const struct peer *other = peer_of_id(r, p->m.view[i].id);
        const struct tt_coord_member *known = tt_coord_find(&r->c, other->m.id);

        if (other->liar || !other->alive || other->over || !known ||
            known->state != TT_COORD_IN_VIEW)
            all &= ~(1u << i); /* a leaving member can be made to consider it final everywhere if
                                  it is final locally */
    }
    for (uint32_t i = 0; i < p->m.nranks; i++)
        if (among & 1u << i)
            sum += part_of(p->m.view[i].id, p->m.epoch, tag, n);
    if (p->liar)
        return;
    if (!settled && (o->completed & all) != all)
        broken(r, "operation %llu of tag %u is final at member %llu, but not complete everywhere",
               (unsigned long long)n, tag, (unsigned long long)p->m.id);
    else if (got != sum)
        broken(r, "a contribution to operation %llu of tag %u is lost or doubled",
               (unsigned long long)n, tag);
    else if (liars == 0 && o->has_news && o->news.number != news->number)
        broken(r, "two members got different news with operation %llu of tag %u",
               (unsigned long long)n, tag);
    o->has_news = true;
    o->news = *news;
}

static struct round_record *round_record(struct run *r, uint64_t epoch, uint64_t round)
{
    for (uint32_t i = r->nrounds; i > 0; i--)
        if (r->rounds[i - 1].epoch == epoch && r->rounds[i - 1].round == round)
            return &r->rounds[i - 1];
    if (r->nrounds == ROUNDS_MAX) {
        memmove(r->rounds, r->rounds + 1, (ROUNDS_MAX - 1) * sizeof *r->rounds);
        r->nrounds--;
    }
    r->rounds[r->nrounds] =
        (struct round_record){ .epoch = epoch, .round = round, .votes = UINT64_MAX };
    return &r->rounds[r->nrounds++];
}

/* Checks that the value of `agree` and `commit` combines all members' votes. */
static void check_value(struct run *r, const struct peer *p, const struct round_record *o,
                        const struct tt_member_act *act)
{
    const bool commit = p->m.call.what == TT_CALL_COMMIT;

    if (act->what == TT_ROUND_OK &&
        (o->voters != (uint32_t)((1ull << p->m.nranks) - 1) || o->votes != act->value))
        broken(r, "round %llu came to %llx, but its votes (of %x) to %llx",
               (unsigned long long)o->round, (unsigned long long)act->value, o->voters,
               (unsigned long long)o->votes);
    if (act->what == TT_ROUND_LOST &&
        (commit ? act->value != 0 : (act->value & o->votes) != o->votes))
        broken(r, "the remaining members' round %llu has the result %llx",
               (unsigned long long)o->round, (unsigned long long)act->value);
}

/* A round that ended with SAME is not in the journal: if all members that received the result are
 * lost, it is decided again, because no remaining member has continued. */
static bool is_forgotten(const struct run *r, const struct peer *p, const struct round_record *o)
{
    bool one_is_left = false;

    for (uint32_t rank = 0; rank < p->m.nranks; rank++) {
        const struct tt_coord_member *m = tt_coord_find(&r->c, p->m.view[rank].id);

        one_is_left |= (o->heard & 1u << rank) && m && m->state == TT_COORD_IN_VIEW;
    }
    return o->what == TT_ROUND_SAME && !one_is_left;
}

static void check_round(struct run *r, struct peer *p, uint64_t epoch, uint64_t round,
                        const struct tt_member_act *act)
{
    struct round_record *o = round_record(r, epoch, round);

    if ((p->phase == VALUE || p->phase == CLOSE) && p->m.call.what != TT_CALL_OPTIMIZE)
        check_value(r, p, o, act);
    if (o->heard == 0 || is_forgotten(r, p, o)) {
        o->heard = 0;
        o->what = act->what;
        o->value = act->value;
    } else if (o->what != act->what || o->value != act->value) {
        broken(r, "round %llu of epoch %llu ended as %u with %llx, at member %llu as %u with %llx",
               (unsigned long long)round, (unsigned long long)epoch, o->what,
               (unsigned long long)o->value, (unsigned long long)p->m.id, act->what,
               (unsigned long long)act->value);
    }
    o->heard |= 1u << p->m.rank;
}

/* ---- operations ---- */

/* Adds an operation to the state: the sum of the parts of all members, whatever its scope. So if a
 * member has kept what others have restored, its state differs from theirs. */
static void add(struct run *r, struct peer *p, uint32_t tag, uint64_t n)
{
    uint64_t sum = 0, change;

    for (uint32_t i = 0; i < p->m.nranks; i++)
        sum += part_of(p->m.view[i].id, p->m.epoch, tag, n);
    change = tt_mix64(sum);
    p->state += change;
    sync_apply(r, p, change);
}

static void clear_parts(struct peer *p, uint32_t tag, uint64_t n)
{
    p->parts[tag].from[n & 1] = 0;
    p->parts[tag].sum[n & 1] = 0;
}

/* The program continues as if the operation had ended; others may soon send their parts of the
 * operation after the next one. */
static void complete_tentative(struct run *r, struct peer *p, uint32_t tag)
{
    const uint64_t n = p->m.ops[tag].n;

    p->kept[tag][n & 1] =
        (struct kept){ .n = n, .sum = p->parts[tag].sum[n & 1], .scope = p->scope[tag] };
    clear_parts(p, tag, n);
    tt_member_complete_tentative(&p->m, tag, r->w.now_ns);
    p->ended[tag] = TT_OP_COMPLETE;
    if (--p->nopen == 0)
        plan_program(r, p, MS / 10);
}

static void vote(struct run *r, struct peer *p, uint32_t tag);

static void complete_if(struct run *r, struct peer *p, uint32_t tag)
{
    const struct tt_member_op *op = &p->m.ops[tag];

    if (p->dying || p->m.stopped || op->state != TT_OP_PENDING ||
        p->parts[tag].from[op->n & 1] != ranks_of(r, p, p->scope[tag]))
        return;
    op_record(r, p->m.epoch, tag, op->n)->completed |= 1u << p->m.rank;
    if (p->settles[tag])
        tt_member_settle(&p->m, tag, &p->parts[tag].sum[op->n & 1], r->w.now_ns);
    else if (p->tentative[tag])
        complete_tentative(r, p, tag);
    else if (r->votes)
        vote(r, p, tag);
    else
        tt_member_complete(&p->m, tag, r->w.now_ns);
}

static void send_to_peer(struct run *r, struct peer *p, const struct peer *to, int kind,
                         const struct held *h)
{
    const uint64_t at_ns = past_parting(p, to, r->w.now_ns + delay(r, p, 3 * MS));
    char what[64];

    if (kind == CONTRIBUTION && is_killed_before(r, p))
        return;
    send_along(r, at_ns, kind, index_of(r, to), h, sizeof *h);
    if (kind == CONTRIBUTION)
        snprintf(what, sizeof what, "part of operation %llu of tag %u", (unsigned long long)h->n,
                 h->tag);
    picture_message(r, index_of(r, p), index_of(r, to), at_ns,
                    kind == CONTRIBUTION ? what : "its part is done");
}

/* If all members of the view have voted, the operation is final, with the latest news. */
static void end_if(struct run *r, struct peer *p, uint32_t tag)
{
    const struct tt_member_op *op = &p->m.ops[tag];
    struct votes *v = &p->votes[tag];
    const struct tt_membership latest = v->latest[op->n & 1];

    if (p->dying || p->m.stopped || op->state != TT_OP_COMPLETE || op->tentative ||
        v->from[op->n & 1] != ranks_of(r, p, SCOPE_ALL))
        return;
    v->from[op->n & 1] = 0;
    memset(&v->latest[op->n & 1], 0, sizeof latest);
    r->voted++;
    tt_member_all_complete(&p->m, tag, &latest, r->w.now_ns);
}

/* Records a vote on the last operation of the tag, or on the next one. */
static void take_vote(struct run *r, struct peer *p, const struct held *h, uint32_t rank)
{
    struct votes *v = &p->votes[h->tag];
    struct tt_membership news = { .number = 0 };

    if (h->epoch != p->m.epoch || p->m.stopped)
        return;
    tt_assert(rank < p->m.nranks);
    memcpy(&news, h->data, NEWS_BYTES);
    v->from[h->n & 1] |= 1u << rank;
    if (news.number > v->latest[h->n & 1].number)
        v->latest[h->n & 1] = news;
    if (h->n == p->m.ops[h->tag].n)
        end_if(r, p, h->tag);
}

/* Votes like an all-reduce that completes operations: it may complete on some members, and not on
 * others. */
static void vote(struct run *r, struct peer *p, uint32_t tag)
{
    struct held mine = { .from_peer = (uint32_t)index_of(r, p),
                         .says = SAYS_VOTE,
                         .tag = tag,
                         .epoch = p->m.epoch,
                         .n = p->m.ops[tag].n };
    struct tt_membership news;

    if (!tt_member_complete_alone(&p->m, tag, &news, r->w.now_ns))
        return;
    memcpy(mine.data, &news, NEWS_BYTES);
    for (uint32_t rank = 0; rank < p->m.nranks; rank++) {
        struct peer *to = peer_of_id(r, p->m.view[rank].id);

        if (to && to != p && to->alive && !is_killed_before(r, p))
            send_to_peer(r, p, to, PEER, &mine);
    }
    take_vote(r, p, &mine, p->m.rank);
}

/* ---- calls and operations ---- */

/* The library reports a wait after a lease. The invariants must hold for any time. */
static void plan_inside(struct run *r, const struct peer *p, const struct begun *b,
                        uint64_t after_ns)
{
    if (r->faults_of == RUN_FAULTS_ALL)
        world_plan(&r->w, r->w.now_ns + after_ns, INSIDE, index_of(r, p), 0, b, sizeof *b);
}

void on_inside(struct run *r, struct peer *p, const struct begun *b)
{
    static const uint8_t needs[SCOPES] = { [SCOPE_ALL] = TT_OP_NEEDS_ALL,
                                           [SCOPE_ROLE] = TT_OP_NEEDS_ROLE,
                                           [SCOPE_GROUP] = TT_OP_NEEDS_GROUP };
    const struct tt_op_name op = { .tag = (uint16_t)b->tag,
                                   .needs = p->tentative[b->tag] ? needs[p->scope[b->tag]] : 0 };

    if (p->m.epoch != b->epoch || p->m.ops[b->tag].n != b->n || p->ended[b->tag] != TT_OP_PENDING)
        return;
    tt_member_report_wait(&p->m, &op, r->w.now_ns);
    plan_inside(r, p, b, LEASE_NS / 4);
}

/* Checks a report that a member waits in a call, and another one in an operation that the first has
 * not started: it must be true, and one of both must have strayed. */
static void check_apart(struct run *r, const struct peer *p, const struct tt_member_act *act,
                        uint64_t id, uint64_t other)
{
    const struct peer *caller = peer_of_id(r, id), *inside = peer_of_id(r, other);
    const struct tt_op_name *op = &act->op;

    r->aparts++;
    if (!caller || !inside || caller == inside || op->tag >= TAGS || act->value == 0 ||
        act->value >= TT_CALL_KINDS)
        broken(r, "member %llu hears that members call and operate who are none",
               (unsigned long long)p->m.id);
    else if (caller->m.epoch == p->m.epoch && caller->m.ops[op->tag].n >= op->n)
        broken(r, "member %llu hears that member %llu has not begun operation %llu of tag %u",
               (unsigned long long)p->m.id, (unsigned long long)id, (unsigned long long)op->n,
               op->tag);
    else if (inside->m.epoch == p->m.epoch && inside->m.ops[op->tag].n < op->n)
        broken(r, "member %llu hears that member %llu has begun operation %llu of tag %u",
               (unsigned long long)p->m.id, (unsigned long long)other, (unsigned long long)op->n,
               op->tag);
    else if (liars_of(r, p) == 0 && caller->strayed_in != p->m.epoch &&
             inside->strayed_in != p->m.epoch)
        broken(r,
               "member %llu hears that members %llu and %llu do different things, and both do what "
               "all do",
               (unsigned long long)p->m.id, (unsigned long long)id, (unsigned long long)other);
}

static void begin(struct run *r, struct peer *p, uint32_t tag, enum scope scope, bool tentative,
                  bool settles)
{
    tutti_status status = tt_member_begin(&p->m, tag, r->w.now_ns);
    struct held part = {
        .from_peer = (uint32_t)index_of(r, p), .says = SAYS_PART, .tag = tag, .epoch = p->m.epoch
    };

    p->owes[tag] |= tentative;
    p->tentative[tag] = tentative;
    p->scope[tag] = scope;
    if (status != TUTTI_OK) {
        if (status != TUTTI_ERR_PEER_LOST)
            broken(r, "member %llu may not begin an operation: status %d",
                   (unsigned long long)p->m.id, (int)status);
        p->refused = true;
        return;
    }
    p->settles[tag] = settles;
    if (p->m.ops[tag].n % 8 == 3) {     /* the first attempt of such operations could not be
                                           started */
        tt_member_take_back(&p->m, tag, r->w.now_ns);
        status = tt_member_begin(&p->m, tag, r->w.now_ns);
        tt_assert(status == TUTTI_OK);
    }
    if (settles)
        tt_member_may_settle(&p->m, tag, sizeof p->parts[tag].sum[0]);
    p->ended[tag] = TT_OP_PENDING;
    p->nopen++;
    part.n = p->m.ops[tag].n;
    plan_inside(r, p, &(struct begun){ .epoch = p->m.epoch, .n = part.n, .tag = tag },
                (1 + tt_mix64(p->m.id + part.n) % 32) * MS);
    part.value = part_of(p->m.id, p->m.epoch, tag, part.n);
    for (uint32_t rank = 0; rank < p->m.nranks; rank++) {
        struct peer *to =
            ranks_of(r, p, scope) & 1u << rank ? peer_of_id(r, p->m.view[rank].id) : NULL;

        if (to == p)
            on_peer_message(r, p, &part);
        else if (to && to->alive)
            send_to_peer(r, p, to, CONTRIBUTION, &part);
    }
}

/* Returns whether a message belongs to a later view, or to an operation after the next one: members
 * of another scope may be ahead by more than one operation. */
static bool is_early(const struct peer *p, const struct held *h)
{
    return h->epoch > p->m.epoch ||
           (h->epoch == p->m.epoch && !p->m.stopped && h->n > p->m.ops[h->tag].n + 1);
}

static void take_part(struct run *r, struct peer *p, const struct held *h, uint32_t rank)
{
    struct parts *parts = &p->parts[h->tag];

    if (h->epoch != p->m.epoch || p->m.stopped)
        return;
    tt_assert(rank < p->m.nranks);
    if (parts->from[h->n & 1] & 1u << rank)
        broken(r, "member %llu gets a second part of operation %llu of tag %u",
               (unsigned long long)p->m.id, (unsigned long long)h->n, h->tag);
    parts->from[h->n & 1] |= 1u << rank;
    parts->sum[h->n & 1] += h->value;
    if (h->n == p->m.ops[h->tag].n)
        complete_if(r, p, h->tag);
}

/* A part of an operation, or a message of the member state machine. */
void on_peer_message(struct run *r, struct peer *p, const struct held *h)
{
    const struct peer *from = &r->peers[h->from_peer];
    bool early = is_early(p, h);
    uint32_t rank = 0;

    while (rank < p->m.nranks && p->m.view[rank].id != from->m.id)
        rank++;
    if (h->says == SAYS_PART && !early) {
        take_part(r, p, h, rank);
    } else if (h->says == SAYS_VOTE && !early) {
        take_vote(r, p, h, rank);
    } else if (!early) {
        const enum tt_peermsg what = tt_member_peer(&p->m, rank < p->m.nranks ? rank : 0, h->data,
                                                    sizeof h->data, r->w.now_ns);

        early = what == TT_PEERMSG_BEFORE_VIEW;
        if (what == TT_PEERMSG_BAD)
            broken(r, "member %llu finds a message of member %llu bad", (unsigned long long)p->m.id,
                   (unsigned long long)from->m.id);
    }
    if (early && p->nheld == HELD_MAX)
        broken(r, "more than %u messages came too early", HELD_MAX);
    else if (early)
        p->held[p->nheld++] = *h;
    after_member(r, p);
}

static void release_held(struct run *r, struct peer *p)
{
    const uint32_t n = p->nheld;
    struct held held[HELD_MAX];

    memcpy(held, p->held, n * sizeof *held);
    p->nheld = 0;
    for (uint32_t i = 0; i < n; i++)
        if (held[i].epoch >= p->m.epoch)
            on_peer_message(r, p, &held[i]);
}

/* ---- actions of the member machine ---- */

static bool has_kept(const struct peer *p)
{
    for (uint32_t tag = 0; tag < TAGS; tag++)
        if (p->kept[tag][0].n || p->kept[tag][1].n)
            return true;
    return false;
}

static bool owes(const struct peer *p)
{
    for (uint32_t tag = 0; tag < TAGS; tag++)
        if (p->owes[tag])
            return true;
    return false;
}

/* Returns whether some members have omitted operations that others have made in this epoch. */
static bool is_torn(struct run *r, const struct peer *p)
{
    const struct epoch_record *e = epoch_record(r, p->m.epoch);

    return e && e->torn;
}

static void on_view(struct run *r, struct peer *p)
{
    picture_mark(r, index_of(r, p), PICTURE_VIEW, "epoch %llu: rank %u of %u",
                 (unsigned long long)p->m.epoch, p->m.rank, p->m.nranks);
    check_view(r, p);
    if (has_kept(p))
        broken(r, "member %llu enters epoch %llu with an operation open",
               (unsigned long long)p->m.id, (unsigned long long)p->m.epoch);
    memset(p->parts, 0, sizeof p->parts);
    memset(p->votes, 0, sizeof p->votes);
    memset(p->owes, 0, sizeof p->owes);
    p->taken_back = false;
    p->step_in_view = 0;
    p->finals_quiet = 0;
}

/* The end of a tentative operation, after which the program had continued. */
static void on_kept_done(struct run *r, struct peer *p, const struct tt_member_act *act,
                         struct kept *k)
{
    if (act->state == TT_OP_FINAL) {
        add(r, p, act->tag, act->n);
        r->tentative_finals++;
        r->scoped_finals += k->scope != SCOPE_ALL;
    } else {
        p->taken_back = true;
        r->tentative_restored++;
        r->scoped_restored += k->scope != SCOPE_ALL;
    }
    k->n = 0;
    if (p->phase == EPOCH)
        plan_program(r, p, MS / 10);
}

static void check_restored(struct run *r, struct peer *p, uint32_t tag, uint64_t n)
{
    struct op_record *o = op_record(r, p->m.epoch, tag, n);

    if (liars_of(r, p) > 0)
        return;
    o->restored = true;
    for (uint32_t rank = 0; rank < p->m.nranks; rank++) {
        const struct tt_coord_member *m = tt_coord_find(&r->c, p->m.view[rank].id);

        if (o->settled & 1u << rank && m && m->state == TT_COORD_IN_VIEW)
            broken(r,
                   "member %llu restores operation %llu of tag %u, which is settled at member %llu",
                   (unsigned long long)p->m.id, (unsigned long long)n, tag,
                   (unsigned long long)p->m.view[rank].id);
    }
    if (o->promised)
        broken(r,
               "member %llu restores operation %llu of tag %u, which was final at one that left in "
               "order",
               (unsigned long long)p->m.id, (unsigned long long)n, tag);
}

static void on_op_done(struct run *r, struct peer *p, const struct tt_member_act *act)
{
    struct kept *k = &p->kept[act->tag][act->n & 1];
    const bool kept = k->n == act->n, stands = act->state != TT_OP_RESTORED;
    uint64_t sum = kept ? k->sum : p->parts[act->tag].sum[act->n & 1];

    picture_mark(r, index_of(r, p), stands ? PICTURE_FINAL : PICTURE_RESTORED,
                 "operation %llu of tag %u: %s", (unsigned long long)act->n, act->tag,
                 !stands                       ? "restored"
                 : act->state == TT_OP_SETTLED ? "settled"
                                               : "final");
    if (act->state == TT_OP_SETTLED) {
        op_record(r, p->m.epoch, act->tag, act->n)->settled |= 1u << p->m.rank;
        r->settled++;
        r->given += act->data != NULL;
    }
    if (act->data) {
        tt_assert(act->bytes == sizeof sum);
        memcpy(&sum, act->data, sizeof sum);
    }
    if (stands) {
        check_final(r, p, act->tag, act->n, kept ? k->scope : p->scope[act->tag], sum, &act->news);
        r->finals++;
        r->kept_for += p->m.stopped && op_record(r, p->m.epoch, act->tag, act->n)->promised;
    } else {
        check_restored(r, p, act->tag, act->n);
        r->restored++;
    }
    if (kept) {
        on_kept_done(r, p, act, k);
        return;
    }
    if (p->ended[act->tag] != TT_OP_PENDING || act->n != p->m.ops[act->tag].n)
        broken(r, "member %llu ends an operation twice", (unsigned long long)p->m.id);
    p->ended[act->tag] = stands ? TT_OP_FINAL : TT_OP_RESTORED;
    if (act->news.number > p->news.number)
        p->news = act->news;
    if (--p->nopen > 0)
        return;
    plan_program(r, p, MS / 10);
    if (p->parts_at_final && stands)
        part_soon(r, p); /* before the program continues */
}

/* The coordinator has received the final operations of a leaving member: the remaining members
 * restore none of them. For each tag, the operation before the last one may also be open
 * elsewhere. */
static void on_parted(struct run *r, struct peer *p)
{
    r->parted++;
    if (r->coord_up && r->crash_after == 0 && r->w.now_ns < r->quiet_ns &&
        tt_prng_below(&r->w.prng, 2) == 0)
        r->crash_after = 1 + tt_prng_below(&r->w.prng, 6); /* possibly before the others have
                                                              received the outcomes */
    for (uint32_t tag = 0; tag < TAGS && p->m.epoch > 0 && liars_of(r, p) == 0; tag++) {
        const struct tt_member_op *op = &p->m.ops[tag];
        const struct tt_op_entry e = { .state = op->state,
                                       .before = op->before                                   ? TT_BEFORE_TENTATIVE
                                                 : op->settled > 0 && op->settled != op->n
                                                     ? TT_BEFORE_SETTLED
                                                     : TT_BEFORE_FINAL,
                                       .n = op->n };
        const uint64_t known = op->n > 0 ? tt_op_last_complete(&e) : 0,
                       last = op->settled > known ? op->settled : known;

        for (uint64_t n = last > 1 ? last - 1 : 1; n <= last; n++) {
            struct op_record *o = op_record(r, p->m.epoch, tag, n);

            o->promised = true;
            if (o->restored)
                broken(r,
                       "operation %llu of tag %u was final at member %llu, which left in order, "
                       "and is restored",
                       (unsigned long long)n, tag, (unsigned long long)p->m.id);
        }
    }
}

/* A commit succeeds only with the consent of all: tentative operations become final, and none was
 * restored. */
static void on_committed(struct run *r, struct peer *p, const struct tt_member_act *act)
{
    if (act->what == TT_ROUND_OK && has_kept(p))
        broken(r, "a commit is good, and leaves a tentative operation of member %llu open",
               (unsigned long long)p->m.id);
    if (act->what == TT_ROUND_OK && p->taken_back && liars_of(r, p) == 0)
        broken(r, "a commit is good, and a tentative operation of member %llu is restored",
               (unsigned long long)p->m.id);
    if (act->what == TT_ROUND_OK || act->what == TT_ROUND_LOST)
        memset(p->owes, 0, sizeof p->owes);
}

static const char *const call_names[TT_CALL_KINDS] = { "no call", "epoch",    "agree",
                                                       "commit",  "optimize", "sync" };
static const char *const outcome_names[TT_ROUND_STATUSES] = {
    [TT_ROUND_OK] = "ok",
    [TT_ROUND_SAME] = "same",
    [TT_ROUND_TIMEOUT] = "deadline",
    [TT_ROUND_MISMATCH] = "mismatch",
    [TT_ROUND_TOO_FEW] = "too few",
    [TT_ROUND_LOST] = "some are lost",
    [TT_ROUND_NOBODY] = "nobody sends",
    [TT_ROUND_OTHER_STATE] = "another state",
    [TT_ROUND_ABANDONED] = "abandoned",
    [TT_ROUND_NOT_RECEIVED] = "not received",
};

static bool is_apart(const struct tt_member_act *act)
{
    return (act->differs & ~TT_DIFFERS_BACK) == TT_DIFFERS_INSIDE;
}

/* Checks a reported mismatch: all make the same calls, except members that lie, omit an operation,
 * or stray. */
void check_mismatch(struct run *r, struct peer *p, const struct tt_member_act *act)
{
    if (is_apart(act))
        check_apart(r, p, act, act->id, act->other);
    else if (liars_of(r, p) == 0 && !is_torn(r, p))
        broken(r, "members %llu and %llu call different things", (unsigned long long)act->id,
               (unsigned long long)act->other);
}

static void on_call_done(struct run *r, struct peer *p, const struct tt_member_act *act)
{
    const bool view = p->m.calling == false && p->phase == EPOCH && act->what == TT_ROUND_OK;
    const bool back = act->what == TT_ROUND_TIMEOUT ||
                      (act->what == TT_ROUND_MISMATCH && act->differs & TT_DIFFERS_BACK);

    picture_mark(r, index_of(r, p), PICTURE_CALL, "%s: %s",
                 call_names[p->phase == SYNC ? TT_CALL_SYNC : p->m.call.what],
                 outcome_names[act->what]);
    if (act->what == TT_ROUND_MISMATCH && act->differs & TT_DIFFERS_BACK &&
        p->back != p->m.attempts)
        broken(r, "call %llu of member %llu is taken back, and that is not written down",
               (unsigned long long)p->m.attempts, (unsigned long long)p->m.id);
    if (p->phase == SYNC) {
        on_synced(r, p, act);
        return;
    }
    r->backs += back && act->what == TT_ROUND_MISMATCH && !is_apart(act);
    if (!view && p->m.round > 0 && !back)
        check_round(r, p, p->m.epoch, p->m.round, act);
    if (act->what == TT_ROUND_MISMATCH)
        check_mismatch(r, p, act);
    if ((p->phase == VALUE || p->phase == CLOSE) && p->m.call.what == TT_CALL_COMMIT)
        on_committed(r, p, act);
    if (act->what == TT_ROUND_MISMATCH && is_torn(r, p))
        tt_member_revoke(&p->m, r->w.now_ns); /* restores tentative operations; members that owe no
                                                 commit call `epoch`, and others may commit first */
    if (act->what == TT_ROUND_MISMATCH &&
        (p->liar || !has_kept(p) || (is_torn(r, p) && p->m.stopped)))
        memset(p->owes, 0, sizeof p->owes); /* because of a lie others restored what is final
                                               here, or got other news: what it did not start is
                                               not required of them */
    if (act->what == TT_ROUND_TIMEOUT)
        p->most = 0; /* repeats the call, and accepts any view size */
    else if (p->phase == EPOCH && (act->what == TT_ROUND_OK || act->what == TT_ROUND_SAME)) {
        p->phase = act->what == TT_ROUND_OK ? SYNC : STEP;
        p->step_in_view++;
    } else if (p->phase == VALUE && act->what == TT_ROUND_OK &&
               (p->m.call.what != TT_CALL_OPTIMIZE || act->value == 0)) {
        p->phase = STEP;
        p->step_in_view++;
    } else {
        p->phase = EPOCH;
    }
    plan_program(r, p, 40 * MS);
}

/* Checks that the reported member has revoked, for the reported reason. */
static void check_revoker(struct run *r, const struct peer *p, const struct tt_member_act *act)
{
    const struct peer *by = act->other ? peer_of_id(r, act->other) : NULL;

    if (act->what == TT_REVOKED_APART) {
        check_apart(r, p, act, act->other, act->also);
        return;
    }
    r->revokers += by != NULL;
    if ((act->other != 0) != (act->what != TT_REVOKED_NO_REASON) || (act->other != 0 && !by))
        broken(r, "member %llu hears that nobody revoked, for a reason, or somebody for none",
               (unsigned long long)p->m.id);
    else if (by && by->m.epoch == p->m.epoch &&
             (by->m.revocation != act->what || by->m.unreached != act->also))
        broken(
            r, "member %llu hears that member %llu revoked for reason %u, %llu, which is %u, %llu",
            (unsigned long long)p->m.id, (unsigned long long)by->m.id, act->what,
            (unsigned long long)act->also, by->m.revocation, (unsigned long long)by->m.unreached);
}

/* Falsifies a reply: nonexistent operations, or wrong results. */
static size_t lie(struct run *r, const struct peer *p, const struct tt_member_act *act,
                  uint8_t *data)
{
    static const uint8_t no_result[sizeof p->parts[0].sum[0]];
    struct tt_elmsg_writer w;
    struct tt_op_entry e;
    struct tt_elmsg msg;
    const uint64_t how = tt_prng_below(&r->w.prng, 6);

    tt_assert(tt_elmsg_read(&msg, act->data, act->bytes));
    tt_elmsg_begin(&w, data, 1024, &msg);
    for (uint32_t i = 0; i < msg.nlist; i++) {
        tt_elmsg_next_op(&msg, &e);
        if (how == 0)
            e.n += 1ull << (tt_prng_below(&r->w.prng, 63));
        else if (how == 1)
            e.state = TT_OP_FINAL;
        else if (how == 2)
            e.state = TT_OP_PENDING;
        if (how == 4)
            e.before = e.before != TT_BEFORE_FINAL ? TT_BEFORE_FINAL : TT_BEFORE_TENTATIVE;
        if (how == 5 && !p->settles[e.tag]) { /* wrong statements about data would be accepted */
            e.state = TT_OP_SETTLED;
            e.nresult = sizeof no_result;
            e.result = no_result;
        }
        if (e.n == 1 || e.state == TT_OP_FINAL || e.state == TT_OP_SETTLED)
            e.before = TT_BEFORE_FINAL;
        if (how != 3)
            tt_elmsg_add_op(&w, &e);
    }
    return tt_elmsg_end(&w);
}

static void on_send(struct run *r, struct peer *p, const struct tt_member_act *act)
{
    struct conn *c = p->conn < 0 ? NULL : &r->conns[p->conn];
    const uint64_t at_ns = r->w.now_ns + delay(r, p, 2 * MS);
    size_t bytes = act->bytes;
    uint8_t data[1024];

    tt_assert(bytes <= sizeof data);
    if (!c || !c->member_open)
        return;
    if (p->liar && act->bytes > 1 &&
        (((const uint8_t *)act->data)[1] == TT_ELMSG_ANSWER ||
         ((const uint8_t *)act->data)[1] == TT_ELMSG_LEAVE))
        bytes = lie(r, p, act, data);
    else
        memcpy(data, act->data, act->bytes);
    if ((data[1] == TT_ELMSG_CALL || data[1] == TT_ELMSG_OFFER) && p->back == p->m.attempts)
        r->backs_again++;
    c->up_ns = at_ns > c->up_ns ? at_ns : c->up_ns;
    if (c->up_ns < c->mute_up_ns)
        c->up_ns = c->mute_up_ns;
    send_along(r, c->up_ns, TO_COORD, p->conn, data, bytes);
    picture_message(r, index_of(r, p), COORDINATOR, c->up_ns, tt_elmsg_name(data[1]));
}

static void on_send_peer(struct run *r, struct peer *p, const struct tt_member_act *act)
{
    struct peer *to = peer_of_id(r, p->m.view[act->rank].id);
    struct held h = { .from_peer = (uint32_t)index_of(r, p), .epoch = p->m.epoch };
    struct tt_reader reader;

    tt_assert(act->bytes == sizeof h.data);
    memcpy(h.data, act->data, act->bytes);
    tt_reader_init(&reader, h.data, sizeof h.data); /* version, round, tag, epoch, n */
    tt_read_u16(&reader);
    h.tag = tt_read_u16(&reader);
    tt_read_u64(&reader);
    h.n = tt_read_u64(&reader);
    if (to && to->alive)
        for (int times = tt_prng_below(&r->w.prng, 50) == 0 ? 2 : 1; times > 0; times--)
            send_to_peer(r, p, to, PEER, &h);
}

static void on_reach(struct run *r, struct peer *p)
{
    uint64_t failed[1 + PEERS_MAX] = { p->m.proposal };
    uint32_t n = 1;

    for (uint32_t i = 0; i < p->m.nproposed; i++) {
        const struct peer *other = peer_of_id(r, p->m.proposed[i].id);

        if (other != p && (!other || !other->alive ||
                           past_parting(p, other, past_parting(other, p, 0)) > r->w.now_ns ||
                           (r->w.now_ns < r->quiet_ns && tt_prng_below(&r->w.prng, 40) == 0)))
            failed[n++] = p->m.proposed[i].id;
    }
    if (r->w.now_ns < r->quiet_ns && tt_prng_below(&r->w.prng, 100) == 0)
        return; /* the peer hangs there, and never reports that */
    world_plan(&r->w, r->w.now_ns + delay(r, p, 10 * MS), REACHED, index_of(r, p), 0, failed,
               n * sizeof *failed);
}

static void on_connect(struct run *r, struct peer *p, uint64_t delay_ns)
{
    p->conn = -1;
    world_plan(&r->w, r->w.now_ns + delay_ns + delay(r, p, 2 * MS), CONNECT, index_of(r, p),
               (int)++p->attempt, NULL, 0);
}

static void on_disconnect(struct run *r, struct peer *p)
{
    if (p->conn < 0)
        return;
    r->conns[p->conn].member_open = false;
    world_plan(&r->w, r->conns[p->conn].up_ns + delay(r, p, 2 * MS) + r->w.now_ns, COORD_CLOSED,
               p->conn, 0, NULL, 0);
    p->conn = -1;
}

void on_member_act(void *context, const struct tt_member_act *act)
{
    struct peer *p = context;
    struct run *r = p->run;

    if (is_killed_before(r, p))
        return;
    switch (act->kind) {
    case TT_MEMBER_ACT_CONNECT:
        on_connect(r, p, act->delay_ns);
        return;
    case TT_MEMBER_ACT_DISCONNECT:
        on_disconnect(r, p);
        return;
    case TT_MEMBER_ACT_SEND:
        on_send(r, p, act);
        return;
    case TT_MEMBER_ACT_SEND_PEER:
        on_send_peer(r, p, act);
        return;
    case TT_MEMBER_ACT_REACH:
        on_reach(r, p);
        return;
    case TT_MEMBER_ACT_VIEW:
        on_view(r, p);
        return;
    case TT_MEMBER_ACT_LOST:
        return;
    case TT_MEMBER_ACT_STOP:
        check_revoker(r, p, act);
        p->dropped = p->m.epoch == 0;
        p->diverged |= p->dropped; /* the others continue without this member */
        return;
    case TT_MEMBER_ACT_OP_DONE:
        on_op_done(r, p, act);
        return;
    case TT_MEMBER_ACT_SYNC_PLAN:
        on_sync_plan(r, p);
        return;
    case TT_MEMBER_ACT_CALL_DONE:
        on_call_done(r, p, act);
        return;
    case TT_MEMBER_ACT_OVER:
        p->over = true;
        picture_mark(r, index_of(r, p), PICTURE_DOWN, "%s", act->text ? act->text : "is over");
        if (p->m.parting && act->status == TUTTI_OK &&
            strcmp(act->text, "the coordinator confirmed that this member left") == 0)
            on_parted(r, p);
        if (act->status == TUTTI_ERR_ABORTED && act->text && strstr(act->text, "shared state") &&
            !may_be_out(r, p, act->text))
            broken(r, "member %llu told the truth of its state, and is out: %s",
                   (unsigned long long)p->m.id, act->text);
        if (act->status == TUTTI_ERR_PROTOCOL && !p->liar && liars_of(r, p) == 0)
            broken(r, "member %llu is out, among members who all speak the truth: %s",
                   (unsigned long long)p->m.id, act->text);
        if (!p->liar && act->text && strstr(act->text, "has not completed"))
            broken(r, "a lie made member %llu go", (unsigned long long)p->m.id);
        p->phase = OUT;
        return;
    default:
        return;
    }
}

/* ---- programs ---- */

/* Returns an `epoch` call. The members of a view derive their requirements on the next view from
 * the round; with replica groups they have none, because they might wait forever for complete
 * groups. The requirements of a newcomer are random. */
static struct tt_elmsg epoch_call(const struct run *r, const struct peer *p)
{
    const uint64_t drawn = tt_mix64(p->m.epoch * 7368787 + p->m.round);
    struct tt_elmsg msg = { .what = TT_CALL_EPOCH, .flags = TT_EPOCH_ADMIT, .least = r->least };

    if (p->m.epoch == 0)
        msg.most = p->most;
    else if (r->nroles == 1 && drawn % 8 == 0)
        msg.flags = 0;
    else if (r->nroles == 1 && drawn % 8 == 1)
        msg.most = r->least + (uint32_t)(drawn >> 8) % 6;
    return msg;
}

static void call(struct run *r, struct peer *p, uint8_t what, uint64_t value)
{
    const struct tt_elmsg msg =
        what == TT_CALL_EPOCH
            ? epoch_call(r, p)
            : (struct tt_elmsg){ .what = what,
                                 .other = what == TT_CALL_OPTIMIZE ? p->step_in_view + 1 : 0,
                                 .value = value };
    const tutti_status status = tt_member_call(&p->m, &msg, r->w.now_ns);

    if (what == TT_CALL_OPTIMIZE)
        send_links(r, p);
    if (what != TT_CALL_EPOCH) {
        /* the round that has ended */
        struct round_record *o = round_record(r, p->m.epoch, p->m.round + 1);

        o->votes &= value;
        o->voters |= 1u << p->m.rank;
    }
    if (status != TUTTI_OK)
        broken(r, "member %llu may not call %u: status %d", (unsigned long long)p->m.id, what,
               (int)status);
    if (p->m.epoch == 0 && msg.most > 0)
        world_plan(&r->w, r->w.now_ns + delay(r, p, LEASE_NS), CANCEL, index_of(r, p), 0, NULL, 0);
    else if (r->w.now_ns < r->quiet_ns && tt_prng_below(&r->w.prng, 30) == 0)
        world_plan(&r->w, r->w.now_ns + delay(r, p, 20 * MS), CANCEL, index_of(r, p), 0, NULL, 0);
}

/* Checks that a tag with an open operation cannot be used. */
static void check_tag_is_taken(struct run *r, struct peer *p, uint32_t tag)
{
    if (!p->dying && p->ended[tag] == TT_OP_PENDING && tt_prng_below(&r->w.prng, 10) == 0 &&
        tt_member_begin(&p->m, tag, r->w.now_ns) != TUTTI_ERR_INVALID)
        broken(r, "member %llu may begin a second operation of tag %u", (unsigned long long)p->m.id,
               tag);
}

/* Returns whether this member's role or group omits an operation that all others start. */
static bool leaves_out(const struct run *r, const struct peer *p, enum scope scope, uint64_t drawn)
{
    if (scope == SCOPE_ROLE)
        return drawn % r->nroles == p->m.rank % r->nroles;
    return drawn % (p->m.nranks / r->nroles) == p->m.rank / r->nroles;
}

/* A tentative operation in the scope of a role or a group does not make the previous one final,
 * because others may not have started that. If that one is still owed, this one is therefore not
 * tentative. */
static void begin_one(struct run *r, struct peer *p, uint32_t tag, bool tentative)
{
    const uint64_t drawn = tt_mix64(plan_of(p) + 1 + tag);
    const enum scope scope = scope_of(r, drawn);
    const bool settles = r->nroles == 1 && !tentative && drawn >> 40 & 1;

    tentative &= scope == SCOPE_ALL || !p->owes[tag] || TT_PLANTED(TT_BUG_SCOPES_CHAINED);
    if (!tentative || scope == SCOPE_ALL || drawn >> 8 & 63) {
        begin(r, p, tag, scope, tentative, settles);
        return;
    }
    p->tears = true;
    epoch_record(r, p->m.epoch)->torn = true;
    if (leaves_out(r, p, scope, drawn >> 16))
        r->left_out++;
    else
        begin(r, p, tag, scope, tentative, settles);
}

static void begin_step(struct run *r, struct peer *p)
{
    const uint64_t plan = plan_of(p);
    const uint32_t ntags = r->nroles > 1 ? TAGS / 2 : TAGS, first = (uint32_t)(plan >> 8) % ntags;

    if ((plan >> 32) % 16 == 0)
        send_links(r, p);
    p->phase = IN_STEP;
    p->refused = p->tears = false;
    p->nopen = 1; /* small operations, and those in a scope of one member, may complete at once,
                     before the step has started all operations */
    memset(p->ended, 0, sizeof p->ended);
    memset(&p->news, 0, sizeof p->news);
    begin_one(r, p, first, plan >> 2 & 1);
    check_tag_is_taken(r, p, first);
    if (plan & 1)
        begin_one(r, p, (first + 1) % ntags, plan >> 3 & 1);
    if (--p->nopen == 0)
        plan_program(r, p, MS);
    if (r->nroles > 1)
        release_held(r, p);
}

static void end_step(struct run *r, struct peer *p)
{
    bool good = !p->refused;

    for (uint32_t tag = 0; tag < TAGS; tag++) {
        const uint64_t n = p->m.ops[tag].n;

        if (p->ended[tag] == TT_OP_FINAL) {
            add(r, p, tag, n);
            p->owes[tag] = false;
        }
        if (p->ended[tag] == TT_OP_FINAL || p->ended[tag] == TT_OP_RESTORED)
            clear_parts(p, tag, n);
        good &= p->ended[tag] != TT_OP_RESTORED;
    }
    p->finals_quiet += good && r->w.now_ns >= r->quiet_ns;
    if (!good || p->news.newcomers || p->news.leaving || p->news.lost || p->news.revoked ||
        p->news.better) {
        p->phase = EPOCH;
    } else if (p->tears || plan_of(p) >> 20 & 1) {
        p->phase = VALUE;
    } else {
        p->phase = (plan_of(p) >> 24) % 4 == 0 && !owes(p) ? SYNC : STEP;
        p->step_in_view++;
    }
    plan_program(r, p, 20 * MS);
}

/* All members make the same call, which depends on the step. */
static void call_value(struct run *r, struct peer *p)
{
    const uint64_t plan = plan_of(p), own = tt_mix64(plan + p->m.id);

    if (owes(p) || p->tears) {
        call(r, p, TT_CALL_COMMIT, own % 8 > 0);
    } else if (plan >> 22 & 1) {
        call(r, p, TT_CALL_OPTIMIZE, RING_BYTES);
    } else if (plan >> 21 & 1) {
        call(r, p, TT_CALL_AGREE, own);
    } else {
        call(r, p, TT_CALL_COMMIT, own % 8 > 0);
    }
}

/* Strays once: calls while the others start a step, or starts an operation while they call. Only
 * one member strays at a time: two might be in different operations, with none in a call. */
static void stray(struct run *r, struct peer *p)
{
    const bool does = p->phase == STEP || p->phase == VALUE || p->phase == SYNC;

    if (!p->strays || !does || p->m.calling || p->m.stopped || p->m.nranks < 2 || is_torn(r, p) ||
        r->w.now_ns >= r->quiet_ns || tt_prng_below(&r->w.prng, 4) > 0)
        return;
    p->strays = false;
    p->strayed_in = p->m.epoch;
    epoch_record(r, p->m.epoch)->torn = true;
    r->strayed++;
    if (p->phase == STEP) {
        p->phase = tt_prng_below(&r->w.prng, 2) ? EPOCH : VALUE;
        return;
    }
    p->phase = IN_STEP;
    p->refused = p->tears = false;
    p->nopen = 0;
    memset(p->ended, 0, sizeof p->ended);
    memset(&p->news, 0, sizeof p->news);
    begin(r, p, (uint32_t)tt_prng_below(&r->w.prng, TAGS), SCOPE_ALL, false, false);
    if (p->nopen == 0)
        plan_program(r, p, MS);
}

void on_program(struct run *r, struct peer *p)
{
    p->planned = false;
    if (p->over || p->m.parting)
        return;
    release_held(r, p);
    stray(r, p);
    if (p->phase == SYNC && p->liar && !p->m.calling && r->w.now_ns < r->quiet_ns &&
        tt_prng_below(&r->w.prng, 4) == 0)
        p->phase = EPOCH; /* others sync */
    if (p->phase == EPOCH && owes(p))
        p->phase = CLOSE;
    if (p->phase == EPOCH && !p->m.calling && !has_kept(p)) /* otherwise the outcome comes first */
        call(r, p, TT_CALL_EPOCH, 0);
    else if (p->phase == CLOSE && !p->m.calling)
        call(r, p, TT_CALL_COMMIT, 0);
    else if (p->phase == VALUE && !p->m.calling)
        call_value(r, p);
    else if (p->phase == SYNC && !p->m.calling)
        call_sync(r, p);
    else if (p->phase == STEP)
        begin_step(r, p);
    else if (p->phase == IN_STEP && p->nopen == 0)
        end_step(r, p);
    after_member(r, p);
}
