/* Idea: a ring a A.. b B.. c (and back to a), where A.. ends at b and B.. at c, becomes a B..c
 * A..b. Three links are replaced, which is the only possible exchange of three links without
 * reversal. A move is built link by link, as by Lin and Kernighan. First, the link a -> B must
 * be shorter than the one that it replaces. Then b, which has lost B, gets a successor with a
 * positive balance. The last link closes the move. For any three differences with a positive sum
 * there is a first one from which all partial sums are positive. Therefore this rule excludes no
 * move, except by the restriction to near peers.
 *
 * If links cost about the same in both directions, as latencies do, reversing pieces also helps:
 * a A.. b B becomes a b.. A B. */
#include "ringorder/ring_tour.h"

#include <string.h>

#include "base/status.h"

#define KICK_PEERS 30u      /* longest piece that a kick moves */
#define FAR_DRAWS 8u

size_t tt_ring_tour_bytes(uint32_t n)
{
    return (size_t)n *
               ((4 + TT_RING_NEAR) * sizeof(uint32_t) + n * sizeof(uint16_t) + sizeof(bool)) +
           2 * ((size_t)n + 1) * sizeof(int64_t) + sizeof(int64_t);
}

void tt_ring_tour_init(struct tt_ring_tour *t, uint32_t n, const int64_t *weight, void *memory)
{
    tt_assert(n >= 3 && n <= UINT16_MAX);
    *t = (struct tt_ring_tour){ .n = n,
                                .near = n - 1 < TT_RING_NEAR ? n - 1 : TT_RING_NEAR,
                                .weight = weight,
                                .forth = memory };
    t->back = t->forth + n + 1;
    t->order = (uint32_t *)(t->back + n + 1);
    t->at = t->order + n;
    t->queue = t->at + n;
    t->spare = t->queue + n;
    t->near_of = t->spare + n;
    t->all_of = (uint16_t *)(t->near_of + (size_t)n * TT_RING_NEAR);
    t->is_queued = (bool *)(t->all_of + (size_t)n * (n - 1));
    for (uint32_t k = 0; k < n; k++)
        t->spare[k] = k;
    tt_ring_tour_set(t, t->spare);
}

/* ---- near peers ------------------------------------------------------------------------------ */

static bool list_contains(const uint32_t *list, uint32_t n, uint32_t peer)
{
    for (uint32_t k = 0; k < n; k++)
        if (list[k] == peer)
            return true;
    return false;
}

/* Adds the best peers that are not yet in list[n], which has `has` entries. */
static void add_near(const struct tt_ring_tour *t, uint32_t peer, const int64_t *price,
                     uint32_t *list, uint32_t has, uint32_t n)
{
    const int64_t *row = t->weight + (size_t)peer * t->n;
    int64_t worth[TT_RING_NEAR];

    for (uint32_t k = 0, first = has; k < t->n; k++) {
        const int64_t left = row[k] - (price ? price[k] : 0);
        uint32_t place = has;

        if (k == peer || (has == n && left >= worth[n - 1]) || list_contains(list, first, k))
            continue;
        place = has < n ? has++ : n - 1;
        for (; place > first && worth[place - 1] > left; place--) {
            list[place] = list[place - 1];
            worth[place] = worth[place - 1];
        }
        list[place] = k;
        worth[place] = left;
    }
}

static void sort_near(const struct tt_ring_tour *t, uint32_t peer, uint32_t *list)
{
    const int64_t *row = t->weight + (size_t)peer * t->n;

    for (uint32_t k = 1; k < t->near; k++)
        for (uint32_t i = k; i > 0 && row[list[i]] < row[list[i - 1]]; i--) {
            const uint32_t other = list[i];

            list[i] = list[i - 1];
            list[i - 1] = other;
        }
}

/* Shell sort with Ciura's gaps: about n^1.3. */
static void sort_all(const struct tt_ring_tour *t, uint32_t peer)
{
    static const uint32_t gaps[] = { 301, 132, 57, 23, 10, 4, 1 };
    const int64_t *row = t->weight + (size_t)peer * t->n;
    uint16_t *list = t->all_of + (size_t)peer * (t->n - 1);

    for (uint32_t k = 0; k < t->n - 1; k++)
        list[k] = (uint16_t)(k < peer ? k : k + 1);
    for (uint32_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (uint32_t k = gaps[g]; k < t->n - 1; k++) {
            const uint16_t moved = list[k];
            uint32_t i = k;

            for (; i >= gaps[g] && row[list[i - gaps[g]]] > row[moved]; i -= gaps[g])
                list[i] = list[i - gaps[g]];
            list[i] = moved;
        }
}

void tt_ring_tour_near(struct tt_ring_tour *t, const int64_t *column_price)
{
    const uint32_t by_price = column_price ? (t->near + 1) / 2 : 0;

    for (uint32_t peer = 0; peer < t->n; peer++) {
        uint32_t *list = t->near_of + (size_t)peer * TT_RING_NEAR;

        if (by_price)
            add_near(t, peer, column_price, list, 0, by_price);
        add_near(t, peer, NULL, list, by_price, t->near);
        sort_near(t, peer, list);
        sort_all(t, peer);
    }
}

/* ---- the order ---- */

static void tour_enqueue(struct tt_ring_tour *t, uint32_t peer)
{
    if (t->is_queued[peer])
        return;
    t->is_queued[peer] = true;
    t->queue[(t->head + t->queued++) % t->n] = peer;
}

void tt_ring_tour_set(struct tt_ring_tour *t, const uint32_t *order)
{
    t->sum = 0;
    t->wide = t->stale = true;
    t->head = t->queued = 0;
    memset(t->is_queued, 0, t->n * sizeof *t->is_queued);
    if (order != t->order)
        memcpy(t->order, order, t->n * sizeof *order);
    for (uint32_t k = 0; k < t->n; k++) {
        t->at[t->order[k]] = k;
        t->sum += t->weight[(size_t)t->order[k] * t->n + t->order[k + 1 < t->n ? k + 1 : 0]];
        tour_enqueue(t, t->order[k]);
    }
}

void tt_ring_tour_restore(struct tt_ring_tour *t, const uint32_t *order, int64_t sum)
{
    memcpy(t->order, order, t->n * sizeof *order);
    for (uint32_t k = 0; k < t->n; k++)
        t->at[order[k]] = k;
    t->sum = sum;
    t->stale = true;
}

static uint32_t around(const struct tt_ring_tour *t, uint32_t place)
{
    return place < t->n ? place : place - t->n;
}

/* Returns the number of positions after `from`, 1 to n. */
static uint32_t distance(const struct tt_ring_tour *t, uint32_t from, uint32_t to)
{
    return to > from ? to - from : to + t->n - from;
}

/* Exchanges two adjacent pieces of x and y peers that begin at a position. */
static void exchange_pieces(struct tt_ring_tour *t, uint32_t place, uint32_t x, uint32_t y)
{
    t->stale = true;
    for (uint32_t k = 0; k < x; k++)
        t->spare[k] = t->order[around(t, place + k)];
    for (uint32_t k = 0; k < y; k++) {
        const uint32_t to = around(t, place + k);

        t->order[to] = t->order[around(t, around(t, place + x) + k)];
        t->at[t->order[to]] = to;
    }
    for (uint32_t k = 0; k < x; k++) {
        const uint32_t to = around(t, around(t, place + y) + k);

        t->order[to] = t->spare[k];
        t->at[t->order[to]] = to;
    }
}

/* Exchanges two of the ring's three pieces after position `at` (x, y, and the rest). Any two
 * give the same ring, so the shortest are exchanged. */
static void move_pieces(struct tt_ring_tour *t, uint32_t at, uint32_t x, uint32_t y)
{
    const uint32_t z = t->n - x - y, first = around(t, at + 1);

    if (z >= x && z >= y)
        exchange_pieces(t, first, x, y);
    else if (x >= y)
        exchange_pieces(t, around(t, first + x), y, z);
    else
        exchange_pieces(t, around(t, around(t, first + x) + y), z, x);
}

/* ---- moves ---- */

static const int64_t *weight_row(const struct tt_ring_tour *t, uint32_t peer)
{
    return t->weight + (size_t)peer * t->n;
}

static uint32_t after(const struct tt_ring_tour *t, uint32_t peer)
{
    return t->order[around(t, t->at[peer] + 1)];
}

static uint32_t before(const struct tt_ring_tour *t, uint32_t peer)
{
    return t->order[t->at[peer] ? t->at[peer] - 1 : t->n - 1];
}

/* Return the number of successors that a move considers, and the k-th one of a peer. */
static uint32_t count_successors(const struct tt_ring_tour *t)
{
    return t->wide ? t->n - 1 : t->near;
}

static uint32_t successor_candidate(const struct tt_ring_tour *t, uint32_t peer, uint32_t k)
{
    return t->wide ? t->all_of[(size_t)peer * (t->n - 1) + k]
                   : t->near_of[(size_t)peer * TT_RING_NEAR + k];
}

/* Completes a move in which a gets the successor `next`, with a partial gain of `gain`. Finds
 * b's new successor, and moves if the total is a gain. */
static bool close_move(struct tt_ring_tour *t, uint32_t a, uint32_t next, int64_t gain)
{
    const uint32_t was = after(t, a), b = before(t, next), x = distance(t, t->at[a], t->at[b]),
                   count = count_successors(t);
    const int64_t lost = gain + weight_row(t, b)[next];

    for (uint32_t k = 0; k < count; k++) {
        const uint32_t end = successor_candidate(t, b, k), c = before(t, end);
        const int64_t balance = lost - weight_row(t, b)[end];
        const uint32_t to_c = distance(t, t->at[a], t->at[c]);

        if (balance <= 0)
            break;
        if (to_c <= x || to_c == t->n ||
            balance + weight_row(t, c)[end] - weight_row(t, c)[was] <= 0)
            continue;       /* b's new successor must come after `next`, at the latest a itself */
        t->sum -= balance + weight_row(t, c)[end] - weight_row(t, c)[was];
        move_pieces(t, t->at[a], x, to_c - x);
        tour_enqueue(t, a);
        tour_enqueue(t, b);
        tour_enqueue(t, c);
        return true;
    }
    return false;
}

/* ---- reversal -------------------------------------------------------------------------------- */

static void sum_links(struct tt_ring_tour *t)
{
    t->forth[0] = t->back[0] = 0;
    for (uint32_t k = 0; k < t->n; k++) {
        const uint32_t a = t->order[k], b = t->order[around(t, k + 1)];

        t->forth[k + 1] = t->forth[k] + weight_row(t, a)[b];
        t->back[k + 1] = t->back[k] + weight_row(t, b)[a];
    }
    t->stale = false;
}

/* Returns the sum of the links from one position to another. */
static int64_t links_between(const struct tt_ring_tour *t, const int64_t *sums, uint32_t from,
                             uint32_t to)
{
    return sums[to] - sums[from] + (to < from ? sums[t->n] : 0);
}

static void reverse_piece(struct tt_ring_tour *t, uint32_t from, uint32_t to)
{
    for (uint32_t left = distance(t, from, to) + 1; left > 1; left -= 2) {
        const uint32_t peer = t->order[from];

        t->order[from] = t->order[to];
        t->order[to] = peer;
        t->at[peer] = to;
        t->at[t->order[from]] = from;
        from = around(t, from + 1);
        to = to ? to - 1 : t->n - 1;
    }
    t->stale = true;
}

/* Gives a near successor to a by reversing everything in between, if that is a gain. */
static void reverse_after(struct tt_ring_tour *t, uint32_t a)
{
    const uint32_t was = after(t, a);

    if (t->stale)
        sum_links(t);
    for (uint32_t k = 0; k < t->near; k++) {
        const uint32_t end = t->near_of[(size_t)a * TT_RING_NEAR + k], beyond = after(t, end);
        const uint32_t from = t->at[was], to = t->at[end];
        int64_t gain;

        if (end == was || beyond == a)
            continue;
        gain = weight_row(t, a)[was] + weight_row(t, end)[beyond] - weight_row(t, a)[end] -
               weight_row(t, was)[beyond] + links_between(t, t->forth, from, to) -
               links_between(t, t->back, from, to);
        if (gain <= 0)
            continue;
        t->sum -= gain;
        reverse_piece(t, from, to);
        tour_enqueue(t, a);
        tour_enqueue(t, was);
        tour_enqueue(t, end);
        return;
    }
}

bool tt_ring_tour_improve(struct tt_ring_tour *t)
{
    const uint32_t count = count_successors(t);
    uint32_t a;
    int64_t has;

    if (t->queued == 0)
        return false;
    a = t->queue[t->head];
    t->head = (t->head + 1) % t->n;
    t->queued--;
    t->is_queued[a] = false;
    has = weight_row(t, a)[after(t, a)];
    for (uint32_t k = 0; k < count; k++) {
        const uint32_t next = successor_candidate(t, a, k);
        const int64_t gain = has - weight_row(t, a)[next];

        if (gain <= 0)
            break;
        if (close_move(t, a, next, gain))
            return true;
    }
    reverse_after(t, a);
    return true;
}

/* ---- kicks ---- */

/* Draws three pieces near a random position. */
static uint32_t draw_near(const struct tt_ring_tour *t, struct tt_prng *random, uint32_t length[3])
{
    const uint32_t longest = (t->n - 1) / 3 < KICK_PEERS ? (t->n - 1) / 3 : KICK_PEERS;

    for (int k = 0; k < 3; k++)
        length[k] = 1 + (uint32_t)tt_prng_below(random, longest);
    return (uint32_t)tt_prng_below(random, t->n);
}

/* Draws pieces that end in heavy links: the heaviest of a few random positions each. */
static uint32_t draw_far(const struct tt_ring_tour *t, struct tt_prng *random, uint32_t length[3])
{
    uint32_t place[4], n = 0;

    while (n < 4) {
        uint32_t best = (uint32_t)tt_prng_below(random, t->n), i = n;

        for (uint32_t k = 0; k < FAR_DRAWS; k++) {
            const uint32_t other = (uint32_t)tt_prng_below(random, t->n);

            if (weight_row(t, t->order[other])[after(t, t->order[other])] >
                weight_row(t, t->order[best])[after(t, t->order[best])])
                best = other;
        }
        while (list_contains(place, n, best))
            best = around(t, best + 1);
        for (n++; i > 0 && place[i - 1] > best; i--)
            place[i] = place[i - 1];
        place[i] = best;
    }
    for (int k = 0; k < 3; k++)
        length[k] = place[k + 1] - place[k];
    return around(t, place[0] + 1);
}

void tt_ring_tour_kick(struct tt_ring_tour *t, struct tt_prng *random, bool far)
{
    uint32_t length[3];
    const uint32_t n = t->n,
                   first = far ? draw_far(t, random, length) : draw_near(t, random, length);
    uint32_t cut[4] = { around(t, first + n - 1) }, piece[4] = { first };
    int64_t gone = 0, come = 0;

    tt_assert(n >= 8);
    t->wide = far;
    for (int k = 0; k < 3; k++) {
        cut[k + 1] = around(t, cut[k] + length[k]);
        piece[k + 1] = around(t, cut[k + 1] + 1);
    }
    for (int k = 0; k < 4; k++) {
        cut[k] = t->order[cut[k]];
        piece[k] = t->order[piece[k]];
        gone += weight_row(t, cut[k])[piece[k]];
    }
    come = weight_row(t, cut[0])[piece[2]] + weight_row(t, cut[3])[piece[1]] +
           weight_row(t, cut[2])[piece[0]] + weight_row(t, cut[1])[piece[3]];
    exchange_pieces(t, first, length[0], length[1]);       /* 2 1 3 */
    exchange_pieces(t, first, length[0] + length[1], length[2]);       /* 3 2 1 */
    t->sum += come - gone;
    for (int k = 0; k < 4; k++)
        tour_enqueue(t, cut[k]);
}
