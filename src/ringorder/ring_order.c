/* Idea: a step of the ring takes the longer of two times: a block on the slowest link, and the
 * mean hop (elastic/ring_predict.c). The assignment problem gives a lower bound for the mean hop
 * of any ring. Therefore blocks that take less time may count as equally fast (`floor`), and the
 * sum decides between them. With such a floor the search minimizes the slowest link first. If
 * the mean hop of the found ring exceeds its slowest link, a ring with a slower link may be
 * faster. Then the floor is raised to that mean, and the search continues; its results have no
 * higher mean. The order with the best prediction of all is kept. */
#include "ringorder/ring_order.h"

#include <string.h>

#include "base/status.h"
#include "ringorder/ring_assign.h"
#include "ringorder/ring_predict.h"

#define ROUNDS 4u               /* times that the floor is raised */

struct tt_ring_order {
    const struct tt_ring_matrix *m;
    struct tt_ring_load load;
    uint64_t *slow, *cost;      /* [n][n] */
    uint64_t seed, steps;
    uint64_t floor, mean;       /* mean: lower bound for the mean hop of any ring */
    uint64_t slow_bound;        /* lower bound for the slowest block of any ring */
    uint64_t left;              /* remaining steps of this round */
    uint32_t round;
    struct tt_ring_assign assign;
    struct tt_ring_search *search;      /* NULL: the assignment is still being computed */
    void *search_memory;
    uint32_t *order, *found;    /* [n] */
    struct tt_ring_ordered best;
    bool none, done;
};

static size_t aligned(size_t bytes) { return (bytes + 15) & ~(size_t)15; }

static size_t work_bytes(uint32_t n)
{
    const size_t search = tt_ring_search_bytes(n), assign = tt_ring_assign_bytes(n);

    return search > assign ? search : assign;
}

size_t tt_ring_order_bytes(uint32_t n)
{
    return aligned(sizeof(struct tt_ring_order)) + aligned(2 * (size_t)n * n * sizeof(uint64_t)) +
           aligned(2 * n * sizeof(uint32_t)) + work_bytes(n);
}

uint64_t tt_ring_order_enough(uint32_t n)
{
    return n + 2 * tt_ring_search_enough(n);
}

struct tt_ring_order *tt_ring_order_init(void *memory, const struct tt_ring_matrix *m,
                                         const struct tt_ring_load *load, const uint32_t *now,
                                         uint64_t seed)
{
    const uint32_t n = m->n;
    char *at = memory;
    struct tt_ring_order *o = memory;

    *o = (struct tt_ring_order){ .m = m, .load = *load, .seed = seed };
    at += aligned(sizeof *o);
    o->slow = (uint64_t *)(void *)at;
    o->cost = o->slow + (size_t)n * n;
    at += aligned(2 * (size_t)n * n * sizeof(uint64_t));
    o->order = (uint32_t *)(void *)at;
    o->found = o->order + n;
    o->search_memory = at + aligned(2 * n * sizeof(uint32_t));
    for (uint32_t k = 0; k < n; k++)
        o->order[k] = now ? now[k] : k;
    o->best.predicted_ns = tt_ring_predict(m, load, o->order);
    o->best.any = o->best.predicted_ns != TT_RING_NONE;
    tt_ring_costs_fill(m, load, 0, o->slow, o->cost);
    if (n >= 2)
        tt_ring_assign_init(&o->assign, n, (const int64_t *)o->cost, o->search_memory);
    return o;
}

/* ---- rounds ---- */

static struct tt_ring_costs costs_of(const struct tt_ring_order *o)
{
    return (struct tt_ring_costs){ o->m->n, o->slow, o->cost };
}

static void begin_round(struct tt_ring_order *o, uint64_t floor)
{
    struct tt_ring_costs c;

    tt_ring_costs_fill(o->m, &o->load, floor, o->slow, o->cost);
    c = costs_of(o);
    o->floor = floor;
    o->left = tt_ring_search_enough(o->m->n);
    memcpy(o->found, o->order, o->m->n * sizeof *o->found);
    o->search = tt_ring_search_init(o->search_memory, &c, o->best.any ? o->found : NULL,
                                    o->seed + o->round);
}

/* Keeps the result of the search if its prediction is better; or equal, with no worse value at
 * this floor. */
static void keep_order(struct tt_ring_order *o)
{
    const struct tt_ring_found f = tt_ring_search_found(o->search, o->found);
    const struct tt_ring_costs c = costs_of(o);
    uint64_t ns;

    if (f.any && f.slow_bound > o->floor && f.slow_bound > o->slow_bound)
        o->slow_bound = f.slow_bound;
    o->none |= f.none;
    if (!f.any)
        return;
    ns = tt_ring_predict(o->m, &o->load, o->found);
    if (o->best.any && (ns > o->best.predicted_ns ||
                        (ns == o->best.predicted_ns &&
                         tt_ring_value_less(tt_ring_value_of(&c, o->order), f.value))))
        return;
    memcpy(o->order, o->found, o->m->n * sizeof *o->order);
    o->best = (struct tt_ring_ordered){ .any = true,
                                        .best = f.best,
                                        .predicted_ns = ns,
                                        .floor_ns = o->floor,
                                        .value = f.value,
                                        .slow_bound = f.slow_bound };
}

/* Ends the round: raises the floor, or continues this search as long as requested. */
static void end_round(struct tt_ring_order *o, bool more)
{
    const struct tt_ring_found f = tt_ring_search_found(o->search, o->found);
    const uint64_t mean = f.any ? f.value.sum / o->m->n : 0;

    keep_order(o);
    if (f.any && o->round + 1 < ROUNDS && mean > f.value.slow && mean > o->floor) {
        o->round++;
        begin_round(o, mean);
        return;
    }
    o->done = !more;
    o->left = UINT64_MAX;
}

bool tt_ring_order_step(struct tt_ring_order *o, uint64_t steps)
{
    while (steps > 0 && !o->done) {
        const uint64_t now = o->search == NULL ? 1 : steps < o->left ? steps : o->left;
        bool more;

        steps -= now;
        o->steps += now;
        if (o->search == NULL) {
            if (o->m->n >= 2 && !tt_ring_assign_step(&o->assign))
                continue;
            o->mean = o->m->n >= 2 ? (uint64_t)tt_ring_assign_sum(&o->assign) / o->m->n : 0;
            begin_round(o, o->mean < TT_RING_NS_MAX ? o->mean : 0);
            continue;
        }
        more = tt_ring_search_step(o->search, now);
        if (o->left != UINT64_MAX)
            o->left -= now;
        if (!more || o->left == 0)
            end_round(o, more);
        else if (steps == 0)
            keep_order(o);
    }
    return !o->done;
}

struct tt_ring_ordered tt_ring_order_found(const struct tt_ring_order *o, uint32_t *order)
{
    const uint64_t steps = o->m->n >= 2 ? 2 * (o->m->n - 1) : 0,
                   step = o->mean > o->slow_bound ? o->mean : o->slow_bound;
    struct tt_ring_ordered best = o->best;

    best.none = !best.any && o->none;
    best.steps = o->steps;
    best.bound_ns = steps * step < best.predicted_ns ? steps * step : best.predicted_ns;
    if (best.any)
        memcpy(order, o->order, o->m->n * sizeof *order);
    return best;
}
