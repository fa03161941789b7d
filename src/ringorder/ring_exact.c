/* Idea: the best path from peer 0 through a set of peers to one of them extends the best path to
 * its predecessor. This holds for the slowest link alone and, among links that are fast enough,
 * for the sum alone. It does not hold for both at once: a path with a slower link may be as good
 * in the end, if an even slower link follows, and have the lower sum. Therefore there are two
 * passes: the first finds the slowest link of the best ring, the second the least sum among the
 * links that are no slower. Each takes n^2 2^n steps. */
#include "ringorder/ring_exact.h"

#include "base/status.h"

/* Peer e + 1 is end e of a path; the table is [2^ends][ends]. */
struct ways {
    const struct tt_ring_costs *c;
    uint32_t ends;
    uint64_t limit;     /* slower links are excluded */
    bool slowest;       /* minimize the slowest link instead of the sum */
    uint64_t *table;
};

size_t tt_ring_exact_bytes(uint32_t n)
{
    tt_assert(n >= 1 && n <= TT_RING_EXACT_PEERS_MAX);
    return ((size_t)(n - 1) << (n - 1)) * sizeof(uint64_t) + sizeof(uint64_t);
}

static uint64_t link_of(const struct ways *w, uint32_t from, uint32_t to)
{
    const uint64_t at = (uint64_t)from * w->c->n + to, slow = w->c->slow[at];

    if (slow > w->limit || slow == TT_RING_NONE)
        return TT_RING_NONE;
    return w->slowest ? slow : w->c->cost[at];
}

static uint64_t then(const struct ways *w, uint64_t way, uint64_t link)
{
    if (way == TT_RING_NONE || link == TT_RING_NONE)
        return TT_RING_NONE;
    if (w->slowest)
        return way > link ? way : link;
    return way + link;
}

/* Returns the value of the best path through `set` to its member `end`. */
static uint64_t best_to(const struct ways *w, uint32_t set, uint32_t end)
{
    const uint32_t before = set & ~(1u << end);
    const uint64_t *row = w->table + (size_t)before * w->ends;
    uint64_t best = TT_RING_NONE;

    if (before == 0)
        return link_of(w, 0, end + 1);
    for (uint32_t rest = before; rest; rest &= rest - 1) {
        const uint32_t from = (uint32_t)__builtin_ctz(rest);
        const uint64_t way = then(w, row[from], link_of(w, from + 1, end + 1));

        if (way < best)
            best = way;
    }
    return best;
}

/* Fills the table; returns the best ring's value, and its last peer in *last. */
static uint64_t fill_table(const struct ways *w, uint32_t *last)
{
    const uint32_t all = (1u << w->ends) - 1;
    uint64_t best = TT_RING_NONE;

    for (uint32_t set = 1; set <= all; set++)
        for (uint32_t rest = set; rest; rest &= rest - 1) {
            const uint32_t end = (uint32_t)__builtin_ctz(rest);

            w->table[(size_t)set * w->ends + end] = best_to(w, set, end);
        }
    for (uint32_t end = 0; end < w->ends; end++) {
        const uint64_t ring =
            then(w, w->table[(size_t)all * w->ends + end], link_of(w, end + 1, 0));

        if (ring < best) {
            best = ring;
            *last = end;
        }
    }
    return best;
}

/* Reconstructs the order backwards from the last peer. */
static void read_order(const struct ways *w, uint32_t last, uint32_t *order)
{
    uint32_t set = (1u << w->ends) - 1, end = last;

    for (uint32_t at = w->ends; at > 0; at--) {
        const uint64_t way = w->table[(size_t)set * w->ends + end];
        const uint32_t before = set & ~(1u << end);
        uint32_t from = 0;

        order[at] = end + 1;
        while (before &&
               (!(before >> from & 1) || then(w, w->table[(size_t)before * w->ends + from],
                                              link_of(w, from + 1, end + 1)) != way))
            tt_assert(++from < w->ends);
        set = before;
        end = from;
    }
    order[0] = 0;
}

bool tt_ring_exact(const struct tt_ring_costs *c, void *memory, uint32_t *order)
{
    struct ways w = {
        .c = c, .ends = c->n - 1, .limit = TT_RING_NONE, .slowest = true, .table = memory
    };
    uint32_t last = 0;

    tt_assert(c->n >= 1 && c->n <= TT_RING_EXACT_PEERS_MAX);
    if (c->n == 1) {
        order[0] = 0;
        return true;
    }
    w.limit = fill_table(&w, &last);
    if (w.limit == TT_RING_NONE)
        return false;
    w.slowest = false;
    tt_assert(fill_table(&w, &last) != TT_RING_NONE);
    read_order(&w, last, order);
    return true;
}
