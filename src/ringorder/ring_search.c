/* Idea. Given a limit for slow links, these cost more than any ring, and only a sum must be
 * minimized:
 *
 *   try     at a limit: first depth first for a while, which may also prove that there is no ring.
 *           Otherwise join the rings of the assignment problem into one, and improve it by moves.
 *           Then kick, improve by moves, and undo if that does not help. The try succeeds when no
 *           link is too slow any more.
 *   bound   first find the least limit at which a ring may exist (ring_reach.h). Usually
 *           one does, so that limit is tried first.
 *   narrow  otherwise try a limit between the highest that failed and the slowest link of the best
 *           ring, until there is none between.
 *   polish  then minimize the sum at the reached limit, for a long time.
 *   again   afterwards, alternate between trying failed limits again and polishing. */
#include "ringorder/ring_search.h"

#include <string.h>

#include "base/prng.h"
#include "base/status.h"
#include "ringorder/ring_assign.h"
#include "ringorder/ring_reach.h"
#include "ringorder/ring_dfs.h"
#include "ringorder/ring_exact.h"
#include "ringorder/ring_tour.h"

#define TRY_KICKS 30u       /* maximum kicks per peer at one limit */
#define DIG_STEPS 200u      /* steps per peer of the first search */
/* on average one of this many kicks is far; in a try, one of half as many */
#define FAR_KICK_EACH 4u
#define RESTART_KICKS 25u      /* kicks per peer before polishing continues from a worse ring */
#define POLISH_KICKS 150u   /* kicks per peer before limits are tried again */

enum phase { EXACT, BOUND, DIG, ASSIGN, SORT, JOIN, IMPROVE, DONE };

struct tt_ring_search {
    struct tt_ring_costs c;
    enum phase phase;
    bool polishing, best_known;
    uint64_t low, high;         /* BOUND: low <= bound <= high */
    uint64_t limit, failed;     /* slower links are excluded; limits below `failed` were tried
                                   without success */
    uint64_t kicks_left, steps;
    uint32_t rings;             /* number of rings that are not joined yet, in phase JOIN */
    struct tt_prng random;
    struct tt_ring_value value;
    uint32_t *best;             /* [n] */
    uint32_t *kept;             /* [n] the order before a kick, or rings while they are joined */
    int64_t kept_sum, too_slow;
    int64_t *weight;            /* [n][n] */
    struct tt_ring_assign assign;
    struct tt_ring_tour tour;
    struct tt_ring_dfs dig;
    uint64_t digs, digs_left;   /* steps of a depth-first search, in a try */
    void *assign_memory, *tour_memory, *scratch;    /* scratch: memory of a single phase */
};

/* ---- memory ---- */

static size_t aligned(size_t bytes) { return (bytes + 15) & ~(size_t)15; }

static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

static size_t scratch_bytes(uint32_t n)
{
    return n <= TT_RING_EXACT_PEERS ? tt_ring_exact_bytes(n)
                                    : max_size(tt_ring_reach_bytes(n), tt_ring_dfs_bytes(n));
}

size_t tt_ring_search_bytes(uint32_t n)
{
    tt_assert(n >= 1 && n <= TT_RING_PEERS_MAX);
    return aligned(sizeof(struct tt_ring_search)) + 2 * aligned(n * sizeof(uint32_t)) +
           aligned((size_t)n * n * sizeof(int64_t)) + aligned(tt_ring_assign_bytes(n)) +
           aligned(tt_ring_tour_bytes(n)) + aligned(scratch_bytes(n));
}

static void *carve(char **at, size_t bytes)
{
    void *piece = *at;

    *at += aligned(bytes);
    return piece;
}

uint64_t tt_ring_search_enough(uint32_t n)
{
    return n <= TT_RING_EXACT_PEERS ? 1 : 40000 + 2000ull * n;
}

struct tt_ring_search *tt_ring_search_init(void *memory, const struct tt_ring_costs *c,
                                           const uint32_t *order, uint64_t seed)
{
    const uint32_t n = c->n;
    char *at = memory;
    struct tt_ring_search *s = carve(&at, sizeof *s);

    *s = (struct tt_ring_search){ .c = *c,
                                  .phase = n <= TT_RING_EXACT_PEERS ? EXACT : BOUND,
                                  .too_slow = 1 };
    s->best = carve(&at, n * sizeof *s->best);
    s->kept = carve(&at, n * sizeof *s->kept);
    s->weight = carve(&at, (size_t)n * n * sizeof *s->weight);
    s->assign_memory = carve(&at, tt_ring_assign_bytes(n));
    s->tour_memory = carve(&at, tt_ring_tour_bytes(n));
    s->scratch = carve(&at, scratch_bytes(n));
    tt_assert((size_t)(at - (char *)memory) == tt_ring_search_bytes(n));
    tt_prng_init(&s->random, seed);
    s->digs = DIG_STEPS * (uint64_t)n;
    for (uint32_t k = 0; k < n; k++)
        s->best[k] = order ? order[k] : k;
    s->value = tt_ring_value_of(c, s->best);
    s->high = TT_RING_NONE;
    for (size_t k = 0; k < (size_t)n * n; k++)
        if (c->slow[k] != TT_RING_NONE && (s->high == TT_RING_NONE || c->slow[k] > s->high))
            s->high = c->slow[k];
    s->too_slow += (int64_t)(2 * TT_RING_NS_MAX) * n;
    return s;
}

/* ---- results --------------------------------------------------------------------------------- */

static void remember(struct tt_ring_search *s, const uint32_t *order)
{
    const struct tt_ring_value v = tt_ring_value_of(&s->c, order);

    if (!tt_ring_value_less(v, s->value))
        return;
    s->value = v;
    memcpy(s->best, order, s->c.n * sizeof *order);
}

struct tt_ring_found tt_ring_search_found(const struct tt_ring_search *s, uint32_t *order)
{
    struct tt_ring_found f = { .any = s->value.slow != TT_RING_NONE, .steps = s->steps };

    f.none = !f.any && s->phase == DONE;
    if (!f.any)
        return f;
    f.best = s->best_known;
    f.value = s->value;
    f.slow_bound = s->phase == EXACT ? 0 : s->low;
    memcpy(order, s->best, s->c.n * sizeof *order);
    return f;
}

/* ---- limits ---- */

static void begin_limit(struct tt_ring_search *s, uint64_t limit, bool polishing)
{
    const uint32_t n = s->c.n;

    s->limit = limit;
    s->polishing = polishing;
    s->kicks_left = (uint64_t)n * (polishing ? POLISH_KICKS : TRY_KICKS);
    for (size_t k = 0; k < (size_t)n * n; k++)
        s->weight[k] = s->c.slow[k] <= limit && s->c.slow[k] != TT_RING_NONE ? (int64_t)s->c.cost[k]
                                                                             : s->too_slow;
    tt_ring_assign_init(&s->assign, n, s->weight, s->assign_memory);
    tt_ring_tour_init(&s->tour, n, s->weight, s->tour_memory);
    s->phase = ASSIGN;
    if (polishing)
        return;
    tt_ring_dfs_init(&s->dig, &s->c, limit, &s->random, s->scratch);
    s->digs_left = s->digs;
    s->phase = DIG;
}

/* Selects the next limit below the best ring that has not failed yet, or polishes that ring. */
static void next_limit(struct tt_ring_search *s)
{
    const uint64_t high = s->value.slow == TT_RING_NONE ? s->high + 1 : s->value.slow;
    const uint64_t between = tt_ring_slow_between(&s->c, s->failed, high);

    if (between != TT_RING_NONE)
        begin_limit(s, between, false);
    else
        begin_limit(s, s->value.slow == TT_RING_NONE ? s->high : s->value.slow, true);
}

/* Called when the limit was reached, or all kicks were used. */
static void end_limit(struct tt_ring_search *s)
{
    if (s->polishing) {
        s->failed = s->low;     /* search again, deeper and with other random numbers */
        s->digs += s->digs / 2;
    } else if (s->value.slow == TT_RING_NONE || s->value.slow > s->limit) {
        s->failed = s->limit + 1;
    }
    next_limit(s);
}

/* ---- phases ---- */

static void phase_exact(struct tt_ring_search *s)
{
    const bool any = tt_ring_exact(&s->c, s->scratch, s->kept);

    s->best_known = true;
    s->phase = DONE;
    if (!any)
        return;
    s->value = (struct tt_ring_value){ TT_RING_NONE, 0 };
    if (s->c.n > 1)
        remember(s, s->kept);
    else
        s->value.slow = 0;
    s->low = s->value.slow;
}

static void phase_dig(struct tt_ring_search *s)
{
    switch (tt_ring_dfs_step(&s->dig)) {
    case TT_RING_DUG:
        remember(s, s->dig.way);
        end_limit(s);
        break;
    case TT_RING_NO_RING:
        s->low = s->limit + 1;
        if (tt_ring_slow_between(&s->c, s->low, s->value.slow) == TT_RING_NONE)
            s->low = s->value.slow;
        end_limit(s);
        break;
    case TT_RING_DIGGING:
        if (--s->digs_left == 0)
            s->phase = ASSIGN;
        break;
    }
}

static void phase_bound(struct tt_ring_search *s)
{
    uint64_t middle;

    if (s->high == TT_RING_NONE ||
        (s->steps == 1 && !tt_ring_may_exist(&s->c, s->high, s->scratch))) {
        s->phase = DONE;
        return;
    }
    middle = tt_ring_slow_between(&s->c, s->low, s->high);
    if (middle != TT_RING_NONE) {
        if (tt_ring_may_exist(&s->c, middle, s->scratch))
            s->high = middle;
        else
            s->low = middle + 1;
        return;
    }
    s->low = s->high;
    for (size_t k = 0; k < (size_t)s->c.n * s->c.n; k++)
        if (s->c.slow[k] != TT_RING_NONE && s->c.slow[k] > s->high)
            s->high = s->c.slow[k];
    s->failed = s->low;
    if (s->value.slow == s->low)
        begin_limit(s, s->low, true);
    else
        begin_limit(s, s->low, false);
}

/* Writes the ring of each peer to tour.spare, and its successor to kept. */
static void sort_rings(struct tt_ring_search *s)
{
    const uint32_t n = s->c.n;
    uint32_t *next = s->kept, *ring = s->tour.spare;

    for (uint32_t k = 0; k < n; k++) {
        next[s->assign.row_of[k]] = k;
        ring[k] = n;
    }
    s->rings = 0;
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t at = k; ring[at] == n; at = next[at])
            ring[at] = s->rings;
        s->rings += ring[k] == s->rings;
    }
    s->phase = JOIN;
}

/* Joins another ring with the first, by the cheapest exchange of two successors. */
static void join_one(struct tt_ring_search *s)
{
    const uint32_t n = s->c.n;
    uint32_t *next = s->kept, *ring = s->tour.spare, a = 0, b = 0, swap;
    int64_t least = INT64_MAX;

    for (uint32_t i = 0; i < n; i++) {
        const int64_t *row = s->weight + (size_t)i * n;

        for (uint32_t k = 0; ring[i] == 0 && k < n; k++) {
            const int64_t *other = s->weight + (size_t)k * n;
            const int64_t more = row[next[k]] + other[next[i]] - row[next[i]] - other[next[k]];

            if (ring[k] != 0 && more < least) {
                least = more;
                a = i;
                b = k;
            }
        }
    }
    for (uint32_t at = b; ring[at] != 0; at = next[at])
        ring[at] = 0;
    swap = next[a];
    next[a] = next[b];
    next[b] = swap;
    s->rings--;
}

/* Starts with the joined rings or the best known order, whichever has the lower sum, and
 * determines the near peers at this limit. */
static void start_tour(struct tt_ring_search *s)
{
    int64_t joined;

    for (uint32_t k = 0, at = 0; k < s->c.n; k++, at = s->kept[at])
        s->tour.spare[k] = at;
    memcpy(s->kept, s->tour.spare, s->c.n * sizeof *s->kept);
    tt_ring_tour_near(&s->tour, s->assign.column_price);
    tt_ring_tour_set(&s->tour, s->kept);
    joined = s->tour.sum;
    tt_ring_tour_set(&s->tour, s->best);
    if (joined < s->tour.sum)
        tt_ring_tour_set(&s->tour, s->kept);
    s->kept_sum = INT64_MAX;
    s->phase = IMPROVE;
}

/* Called when no move improves the sum: keeps or undoes the result, and kicks. */
static void end_improve(struct tt_ring_search *s)
{
    /* A try also accepts rings with the same number of slow links, whatever their sums. */
    const bool as_few = !s->polishing && s->tour.sum / s->too_slow <= s->kept_sum / s->too_slow;

    const bool restart = s->polishing && s->kicks_left % ((uint64_t)s->c.n * RESTART_KICKS) == 0;

    if (s->tour.sum <= s->kept_sum || as_few || restart) {
        if (s->tour.sum < s->kept_sum)
            remember(s, s->tour.order);
        s->kept_sum = s->tour.sum;
        memcpy(s->kept, s->tour.order, s->c.n * sizeof *s->kept);
    } else {
        tt_ring_tour_restore(&s->tour, s->kept, s->kept_sum);
    }
    if (s->value.slow == s->low && s->limit == s->low && s->polishing &&
        s->kept_sum == tt_ring_assign_sum(&s->assign)) {
        s->best_known = true;
        s->phase = DONE;
    } else if (s->kicks_left-- == 0 || (!s->polishing && s->kept_sum < s->too_slow)) {
        end_limit(s);
    } else {
        tt_ring_tour_kick(
            &s->tour, &s->random,
            tt_prng_below(&s->random, s->polishing ? FAR_KICK_EACH : FAR_KICK_EACH / 2) == 0);
    }
}

bool tt_ring_search_step(struct tt_ring_search *s, uint64_t steps)
{
    for (; steps > 0 && s->phase != DONE; steps--) {
        s->steps++;
        switch (s->phase) {
        case EXACT:
            phase_exact(s);
            break;
        case BOUND:
            phase_bound(s);
            break;
        case DIG:
            phase_dig(s);
            break;
        case ASSIGN:
            if (tt_ring_assign_step(&s->assign))
                s->phase = SORT;
            break;
        case SORT:
            sort_rings(s);
            break;
        case JOIN:
            if (s->rings > 1)
                join_one(s);
            else
                start_tour(s);
            break;
        case IMPROVE:
            if (!tt_ring_tour_improve(&s->tour))
                end_improve(s);
            break;
        case DONE: break;
        }
    }
    return s->phase != DONE;
}
