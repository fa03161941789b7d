/* Idea: the peer with the fewest possible predecessors comes next. A path is abandoned as soon
 * as some other peer could no longer be reached or left. */
#include "ringorder/ring_dfs.h"

#include <string.h>

#include "base/status.h"

size_t tt_ring_dfs_bytes(uint32_t n)
{
    const size_t words = (n + 63) / 64;

    return (3 * n * words + words) * sizeof(uint64_t) + n * sizeof(uint32_t) + sizeof(uint64_t);
}

static bool is_set(const uint64_t *set, uint32_t k) { return set[k / 64] >> k % 64 & 1; }

static void flip(uint64_t *set, uint32_t k) { set[k / 64] ^= 1ull << k % 64; }

void tt_ring_dfs_init(struct tt_ring_dfs *d, const struct tt_ring_costs *c, uint64_t limit,
                      struct tt_prng *random, void *memory)
{
    const uint32_t n = c->n, words = (n + 63) / 64;

    tt_assert(n >= 2 && n <= TT_RING_PEERS_MAX);
    memset(memory, 0, tt_ring_dfs_bytes(n));
    *d = (struct tt_ring_dfs){ .n = n, .words = words, .length = 1, .to = memory };
    d->from = d->to + (size_t)n * words;
    d->left = d->from + (size_t)n * words;
    d->free = d->left + (size_t)n * words;
    d->way = (uint32_t *)(d->free + words);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++) {
            const uint64_t slow = c->slow[(size_t)i * n + k];

            if (i == k || slow > limit || slow == TT_RING_NONE)
                continue;
            flip(d->to + (size_t)i * words, k);
            flip(d->from + (size_t)k * words, i);
        }
    d->way[0] = (uint32_t)tt_prng_below(random, n);
    for (uint32_t k = 0; k < n; k++)
        if (k != d->way[0])
            flip(d->free, k);
    memcpy(d->left, d->to + (size_t)d->way[0] * words, words * sizeof *d->left);
}

/* Returns the number of free peers in the row. */
static uint32_t free_in(const struct tt_ring_dfs *d, const uint64_t *row)
{
    uint32_t count = 0;

    for (uint32_t w = 0; w < d->words; w++)
        count += (uint32_t)__builtin_popcountll(row[w] & d->free[w]);
    return count;
}

/* Returns whether each free peer can still be reached and left. At most one may be reachable
 * only from the path's end, and one may lead only to its beginning. */
static bool may_close(const struct tt_ring_dfs *d)
{
    const uint32_t first = d->way[0], last = d->way[d->length - 1];
    uint32_t only_last = 0, only_first = 0;

    if (d->length == d->n)
        return is_set(d->to + (size_t)last * d->words, first);
    if (free_in(d, d->from + (size_t)first * d->words) == 0)
        return false;
    for (uint32_t w = 0; w < d->words; w++)
        for (uint64_t rest = d->free[w]; rest; rest &= rest - 1) {
            const uint32_t k = w * 64 + (uint32_t)__builtin_ctzll(rest);
            const uint64_t *to = d->to + (size_t)k * d->words,
                           *from = d->from + (size_t)k * d->words;

            if (free_in(d, from) == 0 && (!is_set(from, last) || only_last++))
                return false;
            if (free_in(d, to) == 0 && (!is_set(to, first) || only_first++))
                return false;
        }
    return true;
}

/* Returns the untried successor of the path's end with the fewest possible predecessors; n: all
 * were tried. */
static uint32_t hardest(const struct tt_ring_dfs *d)
{
    const uint64_t *left = d->left + (size_t)(d->length - 1) * d->words;
    uint32_t best = d->n, least = UINT32_MAX;

    for (uint32_t w = 0; w < d->words; w++)
        for (uint64_t rest = left[w] & d->free[w]; rest; rest &= rest - 1) {
            const uint32_t k = w * 64 + (uint32_t)__builtin_ctzll(rest),
                           count = free_in(d, d->from + (size_t)k * d->words);

            if (count < least) {
                least = count;
                best = k;
            }
        }
    return best;
}

enum tt_ring_dug tt_ring_dfs_step(struct tt_ring_dfs *d)
{
    const uint32_t next = hardest(d);

    if (next == d->n) {
        if (d->length == 1)
            return TT_RING_NO_RING;
        flip(d->free, d->way[--d->length]);
        return TT_RING_DIGGING;
    }
    flip(d->left + (size_t)(d->length - 1) * d->words, next);
    flip(d->free, next);
    d->way[d->length++] = next;
    if (!may_close(d)) {
        flip(d->free, d->way[--d->length]);
        return TT_RING_DIGGING;
    }
    memcpy(d->left + (size_t)(d->length - 1) * d->words, d->to + (size_t)next * d->words,
           d->words * sizeof *d->left);
    return d->length == d->n ? TT_RING_DUG : TT_RING_DIGGING;
}
