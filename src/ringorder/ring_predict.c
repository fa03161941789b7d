/* Idea. In a ring of n peers, link i carries K = 2 (n - 1) blocks, one after another; a block
 * consists of m segments. A segment can be sent when two others are ready: the previous segment
 * was sent (after t_i, its transfer), and the same segment of the previous block has arrived
 * from the left. That takes t_i + l_i, with the latency. The completion time is the longest path
 * through these dependencies. The path stays on a link for some segments, with t each. A hop to the
 * next link takes t + l and continues with the next block. With h hops this is the sum of t + l
 * over those links. The rest of the K blocks, except the last segment, is on the slowest of them:
 *
 *   T = max over begin and h < K of   sum over hops of (t + l)  +  ((K - h) m - 1) t_slowest
 *                                     +  t + l of the last link
 *
 * For many steps this approaches K times the longer of a block on the slowest link and the mean
 * of t + l. */
#include "ringorder/ring_predict.h"

#include <string.h>

#include "base/status.h"

#define FIRST_WINDOW 14600u     /* bytes, ten packets: RFC 6928 */

/* ---- rings ---- */

/* The links of a ring, by the position of their sender. */
struct links {
    uint32_t n;
    uint64_t block[TT_RING_PEERS_MAX];      /* ns of a block */
    uint64_t hop[TT_RING_PEERS_MAX];        /* of a segment, with the latency */
    uint64_t latency[TT_RING_PEERS_MAX];
};

static void set_link(struct links *l, uint32_t at, const struct tt_ring_load *load, uint64_t rate,
                     uint64_t latency)
{
    const uint64_t block = load->bytes / l->n + (load->bytes % l->n != 0);
    const uint64_t segment =
        load->segment_bytes && load->segment_bytes < block ? load->segment_bytes : block;

    l->block[at] = tt_ring_transfer_ns(block, rate);
    l->latency[at] = latency;
    l->hop[at] = rate ? tt_ring_transfer_ns(segment, rate) + latency : TT_RING_NONE;
}

static uint64_t longest_way(const struct links *l)
{
    const uint32_t n = l->n, steps = 2 * (n - 1);
    uint64_t longest = 0;

    for (uint32_t k = 0; k < n; k++)
        if (l->block[k] == TT_RING_NONE)
            return TT_RING_NONE;
    for (uint32_t begin = 0; begin < n; begin++) {
        uint64_t hops = 0, slowest = 0, segment = 0;    /* of the slowest link */

        for (uint32_t h = 0, at = begin; h < steps; h++, at = at + 1 < n ? at + 1 : 0) {
            uint64_t way;

            if (l->block[at] >= slowest) {
                slowest = l->block[at];
                segment = l->hop[at] - l->latency[at];
            }
            way = hops + (steps - h) * slowest - segment + l->hop[at];
            longest = way > longest ? way : longest;
            hops += l->hop[at];
        }
    }
    return longest;
}

static uint32_t next_at(uint32_t n, uint32_t at) { return at + 1 < n ? at + 1 : 0; }

uint64_t tt_ring_predict(const struct tt_ring_matrix *m, const struct tt_ring_load *load,
                         const uint32_t *order)
{
    struct links l = { .n = m->n };

    for (uint32_t k = 0; m->n > 1 && k < m->n; k++) {
        const uint32_t a = order[k], b = order[next_at(m->n, k)];

        set_link(&l, k, load, tt_ring_rate(m, a, b), m->latency[(uint64_t)a * m->n + b]);
    }
    return m->n > 1 ? longest_way(&l) : 0;
}

/* Returns the guaranteed share of a cap if the other flows use all that their links permit: at
 * least an equal part. */
static uint64_t guaranteed_share(uint64_t cap, uint64_t others, uint32_t sharers)
{
    const uint64_t left = cap > others ? cap - others : 0, part = cap / sharers;

    return left > part ? left : part;
}

static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void places_of(uint32_t n, const uint32_t *order, uint32_t *at)
{
    for (uint32_t k = 0; k < n; k++)
        at[order[k]] = k;
}

static uint64_t link_rate_of(const struct tt_ring_matrix *m, uint32_t from, uint32_t to)
{
    return m->rate[(uint64_t)from * m->n + to];
}

/* Predicts one of two rings, while the other one runs. */
static uint64_t predict_beside(const struct tt_ring_matrix *m, const struct tt_ring_load *half,
                               const uint32_t *order, const uint32_t *other)
{
    const uint32_t n = m->n;
    struct links l = { .n = n };
    uint32_t at[TT_RING_PEERS_MAX];

    places_of(n, other, at);
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t a = order[k], b = order[next_at(n, k)];
        const uint64_t beside_up = link_rate_of(m, a, other[next_at(n, at[a])]);
        const uint64_t beside_down = link_rate_of(m, other[at[b] ? at[b] - 1 : n - 1], b);
        const uint64_t up = guaranteed_share(tt_ring_up(m, a), beside_up, 2),
                       down = guaranteed_share(tt_ring_down(m, b), beside_down, 2);

        set_link(&l, k, half, min_u64(link_rate_of(m, a, b), min_u64(up, down)),
                 m->latency[(uint64_t)a * n + b]);
    }
    return longest_way(&l);
}

uint64_t tt_ring_predict_two(const struct tt_ring_matrix *m, const struct tt_ring_load *load,
                             const uint32_t *order)
{
    const struct tt_ring_load half = { load->bytes - load->bytes / 2, load->segment_bytes };
    uint32_t back[TT_RING_PEERS_MAX];
    uint64_t there_ns, back_ns;

    if (m->n < 3)
        return tt_ring_predict(m, load, order);     /* both rings have the same links */
    for (uint32_t k = 0; k < m->n; k++)
        back[k] = order[m->n - 1 - k];
    there_ns = predict_beside(m, &half, order, back);
    back_ns = predict_beside(m, &half, back, order);
    return there_ns > back_ns ? there_ns : back_ns;
}

/* ---- trees ---- */

uint32_t tt_ring_tree_parent(uint32_t m, uint32_t tree, uint32_t node)
{
    /* the first tree's node at that position */
    const uint32_t x = tree == 0 ? node : node == 1 ? m : node - 1;
    const uint32_t bit = x & -x, above = (x ^ bit) | 2 * bit, parent = above <= m ? above : x ^ bit;

    return tree == 0 || parent == 0 ? parent : parent % m + 1;
}

/* Traffic over a peer's caps: first up the trees, then down; or both at once if segments stream. */
struct sharing {
    uint32_t out[TT_RING_PEERS_MAX], in[TT_RING_PEERS_MAX];
};

static void count_links(struct sharing *s, const struct tt_ring_matrix *m, const uint32_t *order,
                        bool up, bool down)
{
    memset(s, 0, sizeof *s);
    for (uint32_t tree = 0; tree < 2; tree++)
        for (uint32_t node = 1; node <= m->n; node++) {
            const uint32_t parent = tt_ring_tree_parent(m->n, tree, node);

            if (parent == 0)
                continue;
            s->out[order[node - 1]] += up;
            s->in[order[parent - 1]] += up;
            s->out[order[parent - 1]] += down;
            s->in[order[node - 1]] += down;
        }
}

struct tree_walk {
    const struct tt_ring_matrix *m;
    const uint32_t *order;
    uint64_t half, segment;
    const struct sharing *sharing[2];   /* during the upward and the downward phase */
    uint32_t tree;
};

/* Returns the time of one half of the data on the link between a node and its parent. *hop: that
 * of a segment, with the latency. */
static uint64_t tree_link(const struct tree_walk *w, uint32_t node, bool down, uint64_t *hop)
{
    const uint32_t other = tt_ring_tree_parent(w->m->n, w->tree, node);
    const uint32_t a = w->order[(down ? other : node) - 1], b = w->order[(down ? node : other) - 1];
    const struct sharing *s = w->sharing[down];
    const uint64_t up = tt_ring_up(w->m, a) / s->out[a], in = tt_ring_down(w->m, b) / s->in[b];
    const uint64_t rate = min_u64(link_rate_of(w->m, a, b), min_u64(up, in));

    *hop = rate ? tt_ring_transfer_ns(w->segment, rate) + w->m->latency[(uint64_t)a * w->m->n + b]
                : TT_RING_NONE;
    return tt_ring_transfer_ns(w->half, rate);
}

/* Returns the longest path between a node and the root, plus the remaining data of its slowest
 * link after the first segment. */
static uint64_t longest_branch(const struct tree_walk *w, bool down)
{
    uint64_t longest = 0, slowest = 0, slowest_segment = 0;

    for (uint32_t leaf = 1; leaf <= w->m->n; leaf++) {
        uint64_t way = 0;

        for (uint32_t node = leaf; tt_ring_tree_parent(w->m->n, w->tree, node) != 0;
             node = tt_ring_tree_parent(w->m->n, w->tree, node)) {
            uint64_t hop, whole = tree_link(w, node, down, &hop);

            if (whole == TT_RING_NONE)
                return TT_RING_NONE;
            way += hop;
            if (whole > slowest) {
                slowest = whole;
                slowest_segment =
                    w->half ? (uint64_t)((unsigned __int128)whole * w->segment / w->half) : whole;
            }
        }
        longest = way > longest ? way : longest;
    }
    return longest + (slowest - slowest_segment);
}

uint64_t tt_ring_predict_trees(const struct tt_ring_matrix *m, const struct tt_ring_load *load,
                               const uint32_t *order)
{
    struct tree_walk w = { .m = m, .order = order, .half = load->bytes - load->bytes / 2 };
    struct sharing up, down;
    uint64_t longest = 0;
    bool streams;

    if (m->n < 2)
        return 0;
    w.segment = load->segment_bytes && load->segment_bytes < w.half ? load->segment_bytes : w.half;
    streams = w.segment < w.half;       /* then both directions are active at once */
    count_links(&up, m, order, true, streams);
    count_links(&down, m, order, streams, true);
    w.sharing[0] = &up;
    w.sharing[1] = &down;
    for (w.tree = 0; w.tree < 2; w.tree++) {
        const uint64_t a = longest_branch(&w, false), b = longest_branch(&w, true);

        if (a == TT_RING_NONE || b == TT_RING_NONE)
            return TT_RING_NONE;
        longest = a + b > longest ? a + b : longest;
    }
    return longest;
}

/* ---- decision -------------------------------------------------------------------------------- */

const char *tt_ring_shape_name(enum tt_ring_shape shape)
{
    static const char *const names[] = { "one ring", "two rings", "two trees" };

    return names[shape];
}

uint64_t tt_ring_predict_as(enum tt_ring_shape shape, const struct tt_ring_matrix *m,
                            const struct tt_ring_load *load, const uint32_t *order)
{
    return shape == TT_RING_ONE   ? tt_ring_predict(m, load, order)
           : shape == TT_RING_TWO ? tt_ring_predict_two(m, load, order)
                                  : tt_ring_predict_trees(m, load, order);
}

enum tt_ring_shape tt_ring_fastest(const uint64_t ns[TT_RING_SHAPES])
{
    enum tt_ring_shape best = TT_RING_ONE;

    for (int k = TT_RING_TWO; k < TT_RING_SHAPES; k++)
        if (ns[k] < ns[best])
            best = (enum tt_ring_shape)k;
    return best;
}

uint64_t tt_ring_reconnect_ns(const struct tt_ring_matrix *m, const uint32_t *now,
                              const uint32_t *then, uint32_t handshake_round_trips)
{
    const uint32_t n = m->n;
    uint32_t at[TT_RING_PEERS_MAX];
    uint64_t slowest = 0;

    if (now)
        places_of(n, now, at);
    for (uint32_t k = 0; n > 1 && k < n; k++) {
        const uint32_t a = then[k], b = then[next_at(n, k)];
        const uint64_t round_trip =
            m->latency[(uint64_t)a * n + b] + m->latency[(uint64_t)b * n + a];
        const uint64_t in_flight =
            (uint64_t)((unsigned __int128)tt_ring_rate(m, a, b) * round_trip / 1000000000u);
        uint64_t trips = handshake_round_trips;

        if (now && now[next_at(n, at[a])] == b)
            continue;
        for (uint64_t window = FIRST_WINDOW; window < in_flight; window *= 2)
            trips++;
        slowest = trips * round_trip > slowest ? trips * round_trip : slowest;
    }
    return slowest;
}

bool tt_ring_is_worth(const struct tt_ring_change *c)
{
    unsigned __int128 gain;

    if (c->then_ns == TT_RING_NONE || c->now_ns == TT_RING_NONE)
        return c->then_ns != TT_RING_NONE;
    if (c->then_ns >= c->now_ns)
        return false;
    gain = c->now_ns - c->then_ns;
    return gain * 100 >= (unsigned __int128)c->now_ns * c->gain_percent &&
           gain * c->steps > c->reconnect_ns;
}
