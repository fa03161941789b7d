#include "algo/rings.h"

#include "algo/algos.h"
#include "algo/blocks.h"
#include "algo/phases.h"
#include "base/status.h"

#define GIVES 6     /* hops of a round of the gather: put and wait each; plus one step of a ring */
/* hops of a round of the reduction: put, wait and reduce each; plus one step of a ring */
#define ADDS 4

_Static_assert(2 * GIVES + 2 <= TT_ROUND_STEPS_MAX - 1, "the caller may add a step");
_Static_assert(3 * ADDS + 3 <= TT_ROUND_STEPS_MAX, "a round holds them");
_Static_assert(GIVES < TT_RINGS_TAGS && ADDS < TT_RINGS_TAGS, "each has its tag");

enum tt_form tt_rings_form(const struct tt_coll *c)
{
    return c->layout && c->layout->node == TT_NODE_SOCKETS ? TT_FORM_SOCKETS : TT_FORM_LINEAR;
}

void tt_rings_init(struct tt_rings *r, const struct tt_coll *c, enum tt_form form)
{
    r->layout = tt_layout_of(c, &r->alone);
    r->hosts = r->layout->nhosts;
    r->host = tt_layout_host(r->layout, c->rank);
    r->widest = tt_layout_widest(r->layout);
    r->narrowest = tt_layout_narrowest(r->layout);
    r->columns = (r->widest + r->narrowest - 1) / r->narrowest;
    r->levels = tt_form_levels(form, r->widest);
    /* A host of n ranks has ceil(widest / n) (n - 1) hops, which is less than 2 widest - 1. */
    r->hops = r->widest == r->narrowest ? r->widest - 1 : 2 * r->widest - 2;
    r->one_by_one = form == TT_FORM_SOCKETS && r->widest > 1;
    tt_local_fanout_init(&r->mates, r->layout, c->rank, form);
}

/* ---- locations ---- */

/* The host `steps` before this one. */
static uint32_t host_before(const struct tt_rings *r, uint32_t steps)
{
    return (r->host + r->hosts - steps % r->hosts) % r->hosts;
}

static uint32_t ranks_of(const struct tt_rings *r, uint32_t host)
{
    return tt_layout_host_ranks(r->layout, host);
}

/* Of the columns sent from host `from` to host `to` in part z of a step, finds the one that this
 * rank sends or receives. A part has as many columns as the smaller host has ranks, so there is at
 * most one. Returns false if there is none, or the column has no block of `origin`. */
static bool column_of(const struct tt_rings *r, uint32_t from, uint32_t to, uint32_t origin,
                      uint32_t z, uint32_t *out)
{
    const uint32_t n = r->mates.n,
                   part = ranks_of(r, from) < ranks_of(r, to) ? ranks_of(r, from) : ranks_of(r, to);
    const uint32_t first = z * part, column = first + (r->mates.me + n - first % n) % n;

    if (column >= first + part || column >= ranks_of(r, origin))
        return false;
    *out = column;
    return true;
}

/* The rank that carries a column on a host. */
static uint32_t carrier_of(const struct tt_rings *r, uint32_t host, uint32_t column)
{
    return tt_layout_rank(r->layout, host, column % ranks_of(r, host));
}

static uint32_t mate(const struct tt_rings *r, uint32_t local)
{
    return tt_layout_rank(r->layout, r->host, local);
}

/* The block of `origin` in the carrier's m-th column, for the hop. */
static bool rings_block_of(const struct tt_rings *r, uint32_t origin, uint32_t carrier, uint32_t m,
                           uint32_t *rank)
{
    const uint32_t column = m * r->mates.n + carrier;

    if (column >= ranks_of(r, origin))
        return false;
    *rank = tt_layout_rank(r->layout, origin, column);
    return true;
}

/* Hop `at` of a slot: hop e for the m-th column of each carrier. Returns false if this host has
 * fewer. */
static bool hop_at(const struct tt_rings *r, uint64_t at, uint32_t *m, uint32_t *e)
{
    const uint32_t each = r->mates.n - 1;

    if (at >= r->hops || each == 0)
        return false;
    *m = (uint32_t)(at / each);
    *e = (uint32_t)(at % each);
    return true;
}

/* Number of a slot's hops on this host, of level 0 and of level 1, if they are one per round. */
struct hop_counts {
    uint32_t first, second;
};

static struct hop_counts hop_counts(const struct tt_rings *r)
{
    const uint32_t columns = (r->widest + r->mates.n - 1) / r->mates.n, each = r->mates.n - 1;
    const uint32_t first = columns * tt_local_fanout_first_hops(&r->mates);

    return (struct hop_counts){ first, columns * each - first };
}

/* Hop number `at` of its level: hop e for the m-th column of each carrier. Returns false if there
 * are fewer. */
static bool hop_of_level(const struct tt_rings *r, bool second, uint64_t at, uint32_t *m,
                         uint32_t *e)
{
    const struct hop_counts n = hop_counts(r);
    const uint32_t first = tt_local_fanout_first_hops(&r->mates),
                   each = second ? r->mates.n - 1 - first : first;

    if (at >= (second ? n.second : n.first))
        return false;
    *m = (uint32_t)(at / each);
    *e = (uint32_t)(at % each) + (second ? first : 0);
    return true;
}

/* ---- gather ---- */

static uint64_t gather_slot_rounds(const struct tt_rings *r)
{
    const uint64_t rounds = r->one_by_one ? r->hops : tt_phase_rounds(r->hops, GIVES);

    return rounds > r->columns ? rounds : r->columns;
}

/* With one hop per round, a slot's hops of level 1 precede those of level 0. The first slot has
 * none of level 1 and the last none of level 0. On one host, where these slots have nothing else,
 * the empty half of each is omitted. */
static uint64_t gather_skip(const struct tt_rings *r)
{
    return r->one_by_one && r->hosts == 1 ? hop_counts(r).second : 0;
}

uint64_t tt_rings_gather_rounds(const struct tt_rings *r)
{
    if (r->one_by_one && r->hosts == 1)
        return gather_slot_rounds(r);
    return gather_slot_rounds(r) * (r->hosts - 1 + r->levels);
}

struct gather {
    struct tt_sched *s;
    const struct tt_coll *c;
    const struct tt_rings *r;
    uint64_t slot, part;    /* part: round within the slot */
    uint32_t tag;
    struct tt_ref own;
};

static void put_block(const struct gather *g, uint32_t rank, uint32_t to, uint32_t tag)
{
    const struct tt_block block = tt_block_of(g->c, rank);

    tt_sched_put(g->s, to, rank == g->c->rank ? g->own : tt_dst(block.offset), tt_dst(block.offset),
                 block.bytes, tag);
}

static void wait_block(const struct gather *g, uint32_t rank, uint32_t from, uint32_t tag)
{
    const struct tt_block block = tt_block_of(g->c, rank);

    tt_sched_wait(g->s, from, tt_dst(block.offset), block.bytes, tag);
}

/* Step i of the rings: forwards the blocks received in step i - 1. */
static void gather_ring(const struct gather *g, bool put)
{
    const struct tt_rings *r = g->r;
    const uint32_t before = host_before(r, 1), after = (r->host + 1) % r->hosts;
    uint32_t origin, column;

    if (g->slot + 1 >= r->hosts || g->part >= r->columns)
        return;
    if (put) {
        origin = host_before(r, (uint32_t)g->slot);
        if (column_of(r, r->host, after, origin, (uint32_t)g->part, &column))
            put_block(g, tt_layout_rank(r->layout, origin, column), carrier_of(r, after, column),
                      g->tag);
    } else {
        origin = host_before(r, (uint32_t)g->slot + 1);
        if (column_of(r, before, r->host, origin, (uint32_t)g->part, &column))
            wait_block(g, tt_layout_rank(r->layout, origin, column), carrier_of(r, before, column),
                       g->tag);
    }
}

/* The i-th hop of the round. */
static bool gather_hop(const struct gather *g, uint32_t i, uint32_t *m, uint32_t *e)
{
    uint32_t second;

    if (!g->r->one_by_one)
        return hop_at(g->r, g->part * GIVES + i, m, e);
    second = hop_counts(g->r).second;
    return i == 0 && hop_of_level(g->r, g->part < second,
                                  g->part < second ? g->part : g->part - second, m, e);
}

/* The hops of arrival slot - 1 - level, for each level. */
static void gather_hops(const struct gather *g, bool put)
{
    const struct tt_rings *r = g->r;

    for (uint32_t i = 0; i < GIVES; i++) {
        uint32_t m, e, block;

        if (!gather_hop(g, i, &m, &e))
            return;
        const struct tt_hop hop =
            put ? tt_local_fanout_give(&r->mates, e) : tt_local_fanout_take(&r->mates, e);
        const uint64_t steps = g->slot - hop.level;     /* steps that the arrival has made; 0 for
                                                           the host's own blocks */

        if (g->slot < hop.level || steps >= r->hosts ||
            !rings_block_of(r, host_before(r, (uint32_t)steps), hop.carrier, m, &block))
            continue;
        if (put)
            put_block(g, block, mate(r, hop.peer), g->tag + 1 + i);
        else
            wait_block(g, block, mate(r, hop.peer), g->tag + 1 + i);
    }
}

void tt_rings_gather(struct tt_sched *s, const struct tt_coll *c, const struct tt_rings *r,
                     uint64_t k, uint32_t tag, struct tt_ref own)
{
    const uint64_t rounds = gather_slot_rounds(r), at = k + gather_skip(r);
    const struct gather g = {
        .s = s, .c = c, .r = r, .slot = at / rounds, .part = at % rounds, .tag = tag, .own = own,
    };

    gather_ring(&g, true);
    gather_hops(&g, true);
    gather_hops(&g, false);
    gather_ring(&g, false);
}

/* ---- reduction ---- */

/* Rounds of a slot's hops; the last one also has the first part of the rings' step. */
static uint64_t add_rounds(const struct tt_rings *r)
{
    return r->one_by_one ? r->hops : tt_phase_rounds(r->hops, ADDS);
}

static uint64_t reduce_slot_rounds(const struct tt_rings *r)
{
    return add_rounds(r) + r->columns - 1;
}

/* Like gather_skip, but level 0 comes first, and the first slot has no hops of level 0. */
static uint64_t reduce_skip(const struct tt_rings *r)
{
    return r->one_by_one && r->hosts == 1 ? hop_counts(r).first : 0;
}

uint64_t tt_rings_reduce_rounds(const struct tt_rings *r)
{
    if (r->one_by_one && r->hosts == 1)
        return reduce_slot_rounds(r);
    return reduce_slot_rounds(r) * (r->hosts - 1 + r->levels);
}

/* Relays of a rank: one for each other socket of its host, if sockets have at least two ranks. */
static uint32_t relays_max(const struct tt_rings *r)
{
    return r->levels == 2 && r->widest >= 4 ? r->widest / 2 - 1 : 0;
}

uint64_t tt_rings_sums(const struct tt_rings *r)
{
    return 2ull * r->columns * (1 + relays_max(r));
}

struct reduction {
    struct tt_sched *s;
    const struct tt_coll *c;
    const struct tt_rings *r;
    const struct tt_ring_sums *sums;
    uint64_t slot, part;
    uint32_t tag;
};

/* The current slab of a row. */
static struct tt_block rings_row_of(const struct reduction *x, uint32_t rank)
{
    const struct tt_block row = tt_block_of(x->c, rank);
    const uint64_t begin = x->sums->begin, slab = x->sums->slab;

    if (x->sums->in_dst)
        return row;
    if (begin >= row.bytes)
        return (struct tt_block){ row.offset, 0 };
    return (struct tt_block){ row.offset + begin,
                              row.bytes - begin < slab ? row.bytes - begin : slab };
}

/* The place where value i of a row is reduced: for the m-th column that this rank carries; or, with
 * relay > 0, for another carrier. Two places alternate. */
static struct tt_ref sum_at(const struct reduction *x, uint32_t rank, uint64_t i, uint32_t m,
                            uint32_t relay)
{
    const struct tt_rings *r = x->r;

    if (x->sums->in_dst)
        return tt_dst(rings_row_of(x, rank).offset);
    return tt_work(((i % 2 * (1 + relays_max(r)) + relay) * r->columns + m) * x->sums->slab);
}

/* This rank's own row. */
static struct tt_ref result_at(const struct reduction *x)
{
    return tt_dst(x->sums->in_dst ? tt_block_of(x->c, x->c->rank).offset : x->sums->begin);
}

/* The host's sum of a row that this rank carries, before the rings' value arrives. */
static struct tt_ref host_sum(const struct reduction *x, uint32_t rank, uint64_t i, uint32_t m)
{
    return x->r->mates.n == 1 ? tt_src(rings_row_of(x, rank).offset) : sum_at(x, rank, i, m, 0);
}

/* *rank: owner of the row that `hop` reduces in this slot. *i: index of the value, which belongs to
 * the host i + 1 places before this one. The gather's last level comes first. Returns false if the
 * hop has none in this slot. */
static bool hop_row(const struct reduction *x, const struct tt_hop *hop, uint32_t m, uint32_t *rank,
                    uint64_t *i)
{
    const uint32_t waits = x->r->levels - 1 - hop->level;

    if (x->slot < waits || x->slot - waits >= x->r->hosts)
        return false;
    *i = x->slot - waits;
    return rings_block_of(x->r, host_before(x->r, (uint32_t)*i + 1), hop->carrier, m, rank);
}

/* The n-th hop of the round. */
static bool rings_add_hop(const struct reduction *x, uint32_t n, uint32_t *m, uint32_t *e)
{
    uint32_t first;

    if (!x->r->one_by_one)
        return hop_at(x->r, x->part * ADDS + n, m, e);
    first = hop_counts(x->r).first;
    return n == 0 &&
           hop_of_level(x->r, x->part >= first, x->part < first ? x->part : x->part - first, m, e);
}

static void rings_hand_on(const struct reduction *x)
{
    const struct tt_rings *r = x->r;

    for (uint32_t n = 0; n < ADDS; n++) {
        uint32_t m, e, rank;
        uint64_t i;

        if (!rings_add_hop(x, n, &m, &e))
            return;
        const struct tt_hop hop = tt_local_fanout_take(&r->mates, e);

        if (!hop_row(x, &hop, m, &rank, &i))
            continue;
        const struct tt_block row = rings_row_of(x, rank);
        const uint32_t tag = x->tag + 1 + n;
        const struct tt_ref from =
            tt_local_fanout_relays(&r->mates, e)
                ? sum_at(x, rank, i, m, 1 + tt_local_fanout_relay(&r->mates, e))
                : tt_src(row.offset);

        tt_sched_put(x->s, mate(r, hop.peer), from, tt_pipe(tag), row.bytes, tag);
    }
}

static void rings_add_up(const struct reduction *x)
{
    const struct tt_rings *r = x->r;

    for (uint32_t n = 0; n < ADDS; n++) {
        uint32_t m, e, rank;
        uint64_t i;

        if (!rings_add_hop(x, n, &m, &e))
            return;
        const struct tt_hop hop = tt_local_fanout_give(&r->mates, e);

        if (!hop_row(x, &hop, m, &rank, &i))
            continue;
        const struct tt_block row = rings_row_of(x, rank);
        const struct tt_add add = tt_local_fanout_add(&r->mates, e);
        const uint32_t tag = x->tag + 1 + n, relay = hop.carrier == r->mates.me
                                                         ? 0
                                                         : 1 + tt_local_fanout_relay(&r->mates, e);
        const struct tt_ref sum = sum_at(x, rank, i, m, relay);
        const bool last = r->hosts == 1 && relay == 0 && add.last;

        tt_sched_wait(x->s, mate(r, hop.peer), tt_pipe(tag), row.bytes, tag);
        tt_sched_reduce_ordered(x->s, last ? result_at(x) : sum,
                                add.first ? tt_src(row.offset) : sum, add.there, tt_pipe(tag),
                                add.coming, row.bytes, last);
    }
}

/* Returns whether this round has part *z of a step of the rings, and of which step: step i receives
 * the previous host's sum of the rows of the host i + 2 before this one. */
static bool ring_step(const struct reduction *x, uint32_t *z, uint64_t *i)
{
    const uint64_t first = add_rounds(x->r) - 1;

    if (x->part < first || x->slot < x->r->levels || x->slot - x->r->levels + 1 >= x->r->hosts)
        return false;
    *z = (uint32_t)(x->part - first);
    *i = x->slot - x->r->levels;
    return true;
}

static void ring_put(const struct reduction *x)
{
    const struct tt_rings *r = x->r;
    const uint32_t after = (r->host + 1) % r->hosts;
    uint32_t z, column, rank, m;
    struct tt_ref from;
    uint64_t i;

    if (!ring_step(x, &z, &i) ||
        !column_of(r, r->host, after, host_before(r, (uint32_t)i + 1), z, &column))
        return;
    rank = tt_layout_rank(r->layout, host_before(r, (uint32_t)i + 1), column);
    m = column / r->mates.n;
    from = i == 0 ? host_sum(x, rank, i, m) : sum_at(x, rank, i, m, 0);
    tt_sched_put(x->s, carrier_of(r, after, column), from, tt_pipe(x->tag),
                 rings_row_of(x, rank).bytes, x->tag);
}

static void ring_add(const struct reduction *x)
{
    const struct tt_rings *r = x->r;
    const uint32_t before = host_before(r, 1);
    uint32_t z, column, rank, m, origin;
    uint64_t i;
    bool last;

    if (!ring_step(x, &z, &i))
        return;
    origin = host_before(r, (uint32_t)i + 2);
    if (!column_of(r, before, r->host, origin, z, &column))
        return;
    rank = tt_layout_rank(r->layout, origin, column);
    m = column / r->mates.n;
    last = i + 2 == r->hosts;
    tt_sched_wait(x->s, carrier_of(r, before, column), tt_pipe(x->tag), rings_row_of(x, rank).bytes,
                  x->tag);
    /* The received value is a sum over the hosts in between. Their lowest ranks are in the order of
     * host numbers. */
    tt_sched_reduce_ordered(x->s, last ? result_at(x) : sum_at(x, rank, i + 1, m, 0),
                            tt_pipe(x->tag), tt_lowest(origin + 1, (uint32_t)i + 1, r->hosts),
                            host_sum(x, rank, i + 1, m), r->host, rings_row_of(x, rank).bytes,
                            last);
}

void tt_rings_reduce(struct tt_sched *s, const struct tt_coll *c, const struct tt_rings *r,
                     const struct tt_ring_sums *sums, uint64_t k, uint32_t tag)
{
    const uint64_t rounds = reduce_slot_rounds(r), at = k + reduce_skip(r);
    const struct reduction x = {
        .s = s, .c = c, .r = r, .sums = sums, .slot = at / rounds, .part = at % rounds, .tag = tag,
    };

    ring_put(&x);
    rings_hand_on(&x);
    rings_add_up(&x);
    ring_add(&x);
}

/* ---- requirements and cost ---- */

uint32_t tt_rings_npeers(const struct tt_rings *r)
{
    /* columns that this rank carries */
    const uint32_t mine = (r->widest + r->mates.n - 1) / r->mates.n;
    const uint32_t before = ranks_of(r, host_before(r, 1)),
                   after = ranks_of(r, (r->host + 1) % r->hosts);
    uint32_t n = r->mates.n - 1;

    if (r->hosts > 1)
        n += mine < after ? mine : after;
    if (r->hosts > 2)       /* with two hosts, each is both before and after the other, and its
                               ranks carry the same columns in both directions */
        n += mine < before ? mine : before;
    return n;
}

/* The network's part: the blocks of all other hosts, over the rails that a host's ranks use. The
 * host's part: the last arrival, which nothing overlaps. With one host that is all. */
struct tt_cost tt_rings_cost(const struct tt_rings *r, double block)
{
    const uint32_t rails = r->layout->nrails < r->narrowest ? r->layout->nrails : r->narrowest;
    const double mates = r->widest - 1,
                 hop_messages = r->levels + tt_cost_burst(r->widest - 1) - (mates > 0);

    if (r->hosts == 1)
        return (struct tt_cost){ .messages = hop_messages, .bytes = mates * block };
    return (struct tt_cost){
        .messages = r->hosts - 1,
        .bytes = (double)(r->layout->nranks - r->narrowest) / rails * block,
        .near_messages = hop_messages,
        .near_bytes = mates * block,
    };
}
