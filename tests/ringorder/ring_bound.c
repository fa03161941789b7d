/* The bound for the sum. A ring is a set of links that enters each peer once,
 * reaches all peers from peer 0, and leaves each peer once. Without the last condition it is an
 * arborescence plus a link into its root, whose least sum is fast to compute. Prices for leaving
 * a peer cancel in a ring. They are adjusted so that the arborescence leaves each peer about
 * once. Source: M. Held, R. M. Karp, "The travelling-salesman problem and minimum spanning
 * trees", 1971, here with directed links. The initial prices are those of the assignment
 * problem, so the bound begins with its sum. */
#include "ringorder/ring_bound.h"

#include <string.h>

#include "base/status.h"
#include "ringorder/ring_arbor.h"
#include "ringorder/ring_assign.h"
#include "ringorder/ring_reach.h"

#define STALE_ROUNDS 100    /* rounds without a better bound, before the steps get smaller */
#define STEP_ONE (1 << 20)  /* unit of step sizes: a whole step */
#define COURSE_ONE 1024
#define COURSE_NOW 717      /* 0.7 */
/* 0.95: for clusters of peers, the prices of a whole cluster must rise together */
#define COURSE_BEFORE 970

struct bound {
    uint32_t n;
    int64_t *weight;    /* [n][n]; links that are too slow cost more than any ring */
    int64_t *priced;    /* [n][n] */
    int64_t *price, *kept;      /* [n] prices for leaving; those of the best bound */
    int64_t *course;    /* [n] previous direction, in units of 1 / COURSE_ONE */
    int64_t price_max;
    uint32_t *from;     /* [n] */
    int32_t *leaves;    /* [n] */
    void *memory;
};

static size_t max_i64(size_t a, size_t b) { return a > b ? a : b; }

size_t tt_ring_sum_bound_bytes(uint32_t n)
{
    return 2 * (size_t)n * n * sizeof(int64_t) +
           (size_t)n * (3 * sizeof(int64_t) + 2 * sizeof(uint32_t)) + sizeof(int64_t) +
           max_i64(tt_ring_assign_bytes(n), tt_ring_arbor_bytes(n));
}

static struct bound bound_begin(const struct tt_ring_costs *c, uint64_t limit, int64_t too_slow,
                                void *memory)
{
    const uint32_t n = c->n;
    struct bound b = { .n = n, .weight = memory, .price_max = 2 * too_slow };

    b.priced = b.weight + (size_t)n * n;
    b.price = b.priced + (size_t)n * n;
    b.kept = b.price + n;
    b.course = b.kept + n;
    b.from = (uint32_t *)(b.course + n);
    b.leaves = (int32_t *)(b.from + n);
    b.memory = b.leaves + n;
    for (size_t at = 0; at < (size_t)n * n; at++)
        b.weight[at] =
            c->slow[at] <= limit && c->slow[at] != TT_RING_NONE ? (int64_t)c->cost[at] : too_slow;
    return b;
}

/* Computes the bound at these prices, and the out-degree of each peer. */
static int64_t evaluate(struct bound *b)
{
    const uint32_t n = b->n;
    int64_t sum;

    for (uint32_t i = 0; i < n; i++) {
        b->leaves[i] = 0;
        for (uint32_t k = 0; k < n; k++)
            b->priced[(size_t)i * n + k] = b->weight[(size_t)i * n + k] + b->price[i];
    }
    sum = tt_ring_arbor(n, b->priced, b->from, b->memory);
    b->from[0] = 1;
    for (uint32_t i = 2; i < n; i++)
        if (b->priced[(size_t)i * n] < b->priced[(size_t)b->from[0] * n])
            b->from[0] = i;
    sum += b->priced[(size_t)b->from[0] * n];
    for (uint32_t k = 0; k < n; k++) {
        b->leaves[b->from[k]]++;
        sum -= b->price[k];
    }
    return sum;
}

/* Raises the prices of peers with an out-degree above 1, partly in the previous direction: the mean
 * of two directions oscillates less (P. Camerini, L. Fratta, F. Maffioli, 1975). Returns false if
 * every out-degree is 1: then this is a ring, and the best one. */
static bool move_prices(struct bound *b, int64_t gap, int64_t step)
{
    int64_t norm = 0;
    bool ring = true;

    for (uint32_t i = 0; i < b->n; i++) {
        b->course[i] = (b->leaves[i] - 1) * COURSE_NOW + b->course[i] * COURSE_BEFORE / COURSE_ONE;
        norm += b->course[i] * b->course[i];
        ring = ring && b->leaves[i] == 1;
    }
    for (uint32_t i = 0; i < b->n && norm > 0; i++) {
        const __int128 price =
            b->price[i] + (__int128)gap * step * b->course[i] / STEP_ONE * COURSE_ONE / norm;

        b->price[i] = price > b->price_max    ? b->price_max
                      : price < -b->price_max ? -b->price_max
                                              : (int64_t)price;
    }
    return !ring;
}

uint64_t tt_ring_sum_bound(const struct tt_ring_costs *c, uint64_t limit, uint64_t known,
                           uint32_t rounds, void *memory)
{
    const int64_t too_slow = (int64_t)(2 * TT_RING_NS_MAX) * c->n + 1;
    struct bound b = bound_begin(c, limit, too_slow, memory);
    struct tt_ring_assign a;
    int64_t best, step = STEP_ONE;
    uint32_t stale = 0;

    tt_ring_assign_init(&a, c->n, b.weight, b.memory);
    while (!tt_ring_assign_step(&a))
        ;
    best = tt_ring_assign_sum(&a);
    if (best >= too_slow)
        return TT_RING_NONE;
    for (uint32_t i = 0; i < c->n; i++) {
        b.price[i] = b.kept[i] = -a.row_price[i];
        b.course[i] = 0;
    }
    for (uint32_t round = 0; round < rounds && step > 0 && best < (int64_t)known; round++) {
        const int64_t now = evaluate(&b);

        stale++;
        if (now > best) {
            best = now;
            stale = 0;
            memcpy(b.kept, b.price, c->n * sizeof *b.kept);
        } else if (stale == STALE_ROUNDS) {     /* return to the best prices, with smaller steps */
            step /= 2;
            stale = 0;
            memcpy(b.price, b.kept, c->n * sizeof *b.price);
            memset(b.course, 0, c->n * sizeof *b.course);
            continue;
        }
        if (!move_prices(&b, (int64_t)known - now, step))
            break;
    }
    return best < 0 ? 0 : (uint64_t)best;
}

uint64_t tt_ring_slow_bound(const struct tt_ring_costs *c, void *memory)
{
    uint64_t high = 0, low = 0, middle;

    for (size_t at = 0; at < (size_t)c->n * c->n; at++)
        if (c->slow[at] != TT_RING_NONE && c->slow[at] > high)
            high = c->slow[at];
    if (!tt_ring_may_exist(c, high, memory))
        return TT_RING_NONE;
    while ((middle = tt_ring_slow_between(c, low, high)) != TT_RING_NONE) {
        if (tt_ring_may_exist(c, middle, memory))
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}
