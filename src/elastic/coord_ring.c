/* The ring order. Members report their incoming links from each rank (LINKS). When all members of a
 * view have reported the same measurement, the coordinator searches for the order with the best
 * predicted time (ringorder/ring_order.h). The coordinator runs one slice of the search per
 * iteration of its loop. If a change is worthwhile, the order is pending until the next epoch, and
 * an update notifies the members; ranks are then assigned in that order (coord_view.c). The search
 * continues for some time at a lower rate.
 *
 * With replica groups, members of one role measure each other, and the order is one of groups. The
 * rings of all roles use it at the same time, and a step completes when all of them have completed.
 * Therefore a link between two groups is as slow as the slowest link between their members of the
 * same role.
 *
 * The journal contains none of this: members report their measurements again when they reconnect,
 * and the same order is found. False reports make rings slow, and have no other effect. */
#include <string.h>
#include "base/clock.h"
#include "base/status.h"
#include "elastic/coord_state.h"
#include "ringorder/ring_order.h"

/* a slice usually takes less than a millisecond; a tenth of a second with 512 peers */
#define SLICE_STEPS 256u
#define PAUSE_NS (5 * TT_MS)        /* between slices of a search that no call waits for */
#define LONG_SEARCH 8u              /* multiple of the usual steps, for a long search */
#define SEGMENT_BYTES (1u << 20)    /* assumed segment size */
#define HANDSHAKE_ROUND_TRIPS 3u    /* one of TCP, two of TLS with name and token */
#define SEED 1u                     /* constant, so that equal links lead to equal orders */

static size_t aligned(size_t bytes) { return (bytes + 15) & ~(size_t)15; }

size_t tt_coord_ring_bytes(uint32_t peers_max)
{
    const size_t n = peers_max;
    size_t search = 0;

    /* a small number of peers, which is searched exactly, may need more memory than a larger one */
    for (uint32_t k = 1; k <= peers_max; k++)
        if (tt_ring_order_bytes(k) > search)
            search = tt_ring_order_bytes(k);
    return 2 * aligned(n * n * sizeof(uint64_t)) + aligned(n * sizeof(uint64_t)) +
           2 * aligned(n * sizeof(uint32_t)) + search;
}

void tt_coord_init_ring(struct tt_coord *c)
{
    const size_t n = c->conf.ring_peers_max;
    struct tt_coord_ring *r = &c->ring;
    char *at = c->conf.ring_memory;

    tt_assert(n <= TT_RING_PEERS_MAX && (n == 0 || at));
    if (n == 0)
        return; /* ring orders are disabled in this coordinator */
    r->rate = (uint64_t *)(void *)at;
    at += aligned(n * n * sizeof(uint64_t));
    r->latency = (uint64_t *)(void *)at;
    at += aligned(n * n * sizeof(uint64_t));
    r->ids = (uint64_t *)(void *)at;
    at += aligned(n * sizeof(uint64_t));
    r->order = (uint32_t *)(void *)at;
    at += aligned(n * sizeof(uint32_t));
    r->now = (uint32_t *)(void *)at;
    at += aligned(n * sizeof(uint32_t));
    r->search_memory = at;
}

void tt_coord_reset_ring(struct tt_coord *c)
{
    c->stale_news |= c->ring.waits;
    c->ring.number = 0;
    c->ring.have = 0;
    c->ring.search = NULL;
    c->ring.waited_for = c->ring.waits = false;
    for (uint32_t i = 0; i < c->nmembers; i++)
        c->conf.members[i].measured = 0;
}

/* ---- the matrix ---- */

/* Returns the number of consecutive ranks that form one entry of the order: a replica group, or a
 * single member. */
static uint32_t group_size(const struct tt_coord *c)
{
    return c->nroles > 1 ? c->nroles : 1;
}

static uint32_t in_view(const struct tt_coord *c)
{
    return tt_coord_count(c, TT_COORD_IN_VIEW) + tt_coord_count(c, TT_COORD_LOST);
}

static struct tt_ring_matrix matrix_of(const struct tt_coord_ring *r)
{
    return (struct tt_ring_matrix){ .n = r->n, .rate = r->rate, .latency = r->latency };
}

/* Begins a new measurement, and discards the previous one. */
static void begin_matrix(struct tt_coord *c, uint64_t number)
{
    struct tt_coord_ring *r = &c->ring;
    const uint32_t size = group_size(c);

    tt_coord_reset_ring(c);
    r->number = number;
    r->n = in_view(c) / size;
    r->ordered = r->worth = false;
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (m->rank != TT_COORD_NO_RANK && m->rank % size == 0)
            r->ids[m->rank / size] = m->id;
    }
    memset(r->rate, 0xff, (size_t)r->n * r->n * sizeof *r->rate); /* maximum, until a report has a
                                                                     lower rate */
    memset(r->latency, 0, (size_t)r->n * r->n * sizeof *r->latency);
    c->stale_news = true;
}

/* Records a member's measurement between its group and another. */
static void record_link(struct tt_coord_ring *r, size_t at, const struct tt_ring_link *link)
{
    if (link->rate < r->rate[at])
        r->rate[at] = link->rate;
    if (link->latency > r->latency[at])
        r->latency[at] = link->latency;
}

static void begin_search(struct tt_coord *c)
{
    struct tt_coord_ring *r = &c->ring;
    const struct tt_ring_matrix m = matrix_of(r);

    r->matrix = m;
    for (uint32_t k = 0; k < r->n; k++)
        r->now[k] = r->order[k] = k;
    r->search = tt_ring_order_init(r->search_memory, &r->matrix, &r->load, r->now, SEED);
    r->steps = 0;
    r->search_ns = c->now_ns;
    r->waited_for = true;
    tt_coord_due(c, c->now_ns);
}

void tt_coord_links(struct tt_coord *c, struct tt_coord_member *m, struct tt_elmsg *msg)
{
    struct tt_coord_ring *r = &c->ring;
    const uint32_t size = group_size(c);

    if (!tt_coord_is_live(m) || msg->epoch != c->epoch)
        return; /* belongs to an earlier measurement */
    if (msg->number > m->reported)
        m->reported = msg->number;
    if (msg->number < r->number || msg->number == m->measured)
        return; /* belongs to another measurement, or was repeated */
    if (msg->number == 0 || msg->nlist != in_view(c) / size) {
        tt_coord_lose(c, m, TT_LOSS_ILLEGAL);
        return;
    }
    if (msg->nlist > c->conf.ring_peers_max)
        return; /* members request no order for such a view */
    if (msg->number > r->number)
        begin_matrix(c, msg->number);
    for (uint32_t from = 0; from < r->n; from++) {
        struct tt_ring_link link;

        tt_elmsg_next_link(msg, &link);
        record_link(r, (size_t)from * r->n + m->rank / size, &link);
    }
    if (m->rank == 0 || r->have == 0) {
        r->load = (struct tt_ring_load){ .bytes = msg->value, .segment_bytes = SEGMENT_BYTES };
        r->expected = msg->other;
        r->gain_percent = msg->least;
    }
    m->measured = msg->number;
    if (++r->have == r->n * size)
        begin_search(c);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Rotates the ring so that rank 0 keeps its rank. */
static void rotate_to_first(struct tt_coord_ring *r, uint32_t *order)
{
    uint32_t at = 0;

    while (order[at] != 0)
        at++;
    for (uint32_t k = 0; k < r->n; k++)
        r->order[k] = order[(at + k) % r->n];
}

_Static_assert(TT_RING_AS_RING + TT_RING_ONE == TT_RING_AS_RING &&
                   TT_RING_AS_RING + TT_RING_TWO == TT_RING_AS_TWO_RINGS &&
                   TT_RING_AS_RING + TT_RING_TREES == TT_RING_AS_TREES,
               "plans are as shapes are");

uint8_t tt_coord_ring_plan(const struct tt_coord *c)
{
    return (uint8_t)(TT_RING_AS_RING + c->ring.shape);
}

/* Unordered ranks count as a ring. */
static uint8_t plan_shape(uint8_t plan)
{
    return plan == TT_RING_UNMEASURED ? TT_RING_ONE : (uint8_t)(plan - TT_RING_AS_RING);
}

static uint64_t predict_shape(const struct tt_coord_ring *r, uint8_t shape, const uint32_t *order)
{
    return tt_ring_predict_as((enum tt_ring_shape)shape, &r->matrix, &r->load, order);
}

/* Assigns the members of the view their ranks in the found order. */
static void set_places(struct tt_coord *c)
{
    const struct tt_coord_ring *r = &c->ring;
    const uint32_t size = group_size(c);
    uint32_t at[TT_RING_PEERS_MAX];

    for (uint32_t k = 0; k < r->n; k++)
        at[r->order[k]] = k;
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        m->place = m->rank == TT_COORD_NO_RANK || m->rank / size >= r->n
                       ? TT_COORD_NO_RANK
                       : at[m->rank / size] * size + m->rank % size;
    }
}

/* Determines whether a change to the best order found is worthwhile; if so, the order is
 * pending. */
static void check_worth(struct tt_coord *c)
{
    struct tt_coord_ring *r = &c->ring;
    uint32_t found[TT_RING_PEERS_MAX];
    struct tt_ring_change change = { .steps = r->expected, .gain_percent = r->gain_percent };
    uint64_t ns[TT_RING_SHAPES];

    if (!tt_ring_order_found(r->search, found).any)
        return; /* some members are unreachable: there is no ring */
    rotate_to_first(r, found);
    r->ordered = true;
    for (uint8_t shape = TT_RING_ONE; shape < TT_RING_SHAPES; shape++)
        ns[shape] = predict_shape(r, shape, r->order);
    r->shape = (uint8_t)tt_ring_fastest(ns);
    r->was_shape = plan_shape(c->plan);
    change.now_ns = predict_shape(r, r->was_shape, r->now);
    change.then_ns = ns[r->shape];
    change.reconnect_ns = tt_ring_reconnect_ns(
        &r->matrix, change.now_ns == TT_RING_NONE ? NULL : r->now, r->order, HANDSHAKE_ROUND_TRIPS);
    r->was_ns = change.now_ns;
    r->best_ns = change.then_ns;
    if (!tt_ring_is_worth(&change))
        return;
    r->worth = r->waits = c->stale_news = true;
    set_places(c);
}

void tt_coord_search_ring(struct tt_coord *c)
{
    struct tt_coord_ring *r = &c->ring;
    const uint64_t enough = r->search ? tt_ring_order_enough(r->n) : 0;
    bool more;

    if (!r->search || c->now_ns < r->search_ns)
        return;
    more = tt_ring_order_step(r->search, SLICE_STEPS);
    r->steps += SLICE_STEPS;
    more &= r->steps < LONG_SEARCH * enough;
    if (!more || (r->waited_for && r->steps >= enough)) {
        check_worth(c);
        r->waited_for = false;
        c->dirty = true;
    }
    if (!more)
        r->search = NULL;
    r->search_ns = r->waited_for ? c->now_ns : c->now_ns + PAUSE_NS;
    tt_coord_due(c, tt_coord_ring_next_ns(c));
}

uint64_t tt_coord_ring_next_ns(const struct tt_coord *c)
{
    return c->ring.search ? c->ring.search_ns : TT_NEVER;
}
