/* Existence of rings. Peers are bits of words, 64 at a time. */
#include <string.h>

#include "base/status.h"
#include "ringorder/ring_reach.h"

#define WORDS_MAX (TT_RING_PEERS_MAX / 64)

/* The links that are fast enough. */
struct reach {
    uint32_t n, words;
    uint64_t *to;       /* [n][words]: possible successors */
    uint64_t *from;     /* [n][words]: possible predecessors */
    uint32_t *before;   /* [n] assigned predecessor; n: none */
    uint32_t *back;     /* [n] in a search: the previous peer */
    uint32_t *queue;    /* [n] */
};

static uint32_t words_of(uint32_t n) { return (n + 63) / 64; }

size_t tt_ring_reach_bytes(uint32_t n)
{
    return (size_t)n * (2 * words_of(n) * sizeof(uint64_t) + 3 * sizeof(uint32_t)) +
           sizeof(uint64_t);
}

static struct reach reach_of(const struct tt_ring_costs *c, uint64_t limit, void *memory)
{
    const uint32_t n = c->n, words = words_of(n);
    struct reach r = { .n = n, .words = words, .to = memory };

    r.from = r.to + (size_t)n * words;
    r.before = (uint32_t *)(r.from + (size_t)n * words);
    r.back = r.before + n;
    r.queue = r.back + n;
    memset(r.to, 0, 2 * (size_t)n * words * sizeof *r.to);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++) {
            const uint64_t slow = c->slow[(size_t)i * n + k];

            if (i == k || slow > limit || slow == TT_RING_NONE)
                continue;
            r.to[(size_t)i * words + k / 64] |= 1ull << k % 64;
            r.from[(size_t)k * words + i / 64] |= 1ull << i % 64;
        }
    return r;
}

/* Returns whether all can be reached from peer 0 over rows[n][words]. */
static bool reaches_all(const struct reach *r, const uint64_t *rows)
{
    uint64_t seen[WORDS_MAX] = { 1 };
    uint32_t head = 0, tail = 0;

    r->queue[tail++] = 0;
    while (head < tail) {
        const uint64_t *row = rows + (size_t)r->queue[head++] * r->words;

        for (uint32_t w = 0; w < r->words; w++) {
            uint64_t fresh = row[w] & ~seen[w];

            seen[w] |= fresh;
            for (; fresh; fresh &= fresh - 1)
                r->queue[tail++] = w * 64 + (uint32_t)__builtin_ctzll(fresh);
        }
    }
    return tail == r->n;
}

/* Assigns a successor to `peer`, reassigning others if necessary: breadth first. */
static bool assign_successor(struct reach *r, uint32_t peer)
{
    uint64_t seen[WORDS_MAX] = { 0 };
    uint32_t head = 0, tail = 0;

    r->queue[tail++] = peer;
    while (head < tail) {
        const uint32_t at = r->queue[head++];

        for (uint32_t w = 0; w < r->words; w++)
            for (uint64_t fresh = r->to[(size_t)at * r->words + w] & ~seen[w]; fresh;
                 fresh &= fresh - 1) {
                uint32_t next = w * 64 + (uint32_t)__builtin_ctzll(fresh);

                seen[w] |= fresh & -fresh;
                r->back[next] = at;
                if (r->before[next] != r->n) {
                    r->queue[tail++] = r->before[next];
                    continue;
                }
                /* augment along the path: each peer takes the successor that it found */
                for (uint32_t who = at;; who = r->back[next]) {
                    uint32_t had = r->n;

                    for (uint32_t k = 0; k < r->n && who != peer; k++)
                        if (r->before[k] == who)
                            had = k;
                    r->before[next] = who;
                    if (who == peer)
                        return true;
                    next = had;
                }
            }
    }
    return false;
}

bool tt_ring_may_exist(const struct tt_ring_costs *c, uint64_t limit, void *memory)
{
    struct reach r = reach_of(c, limit, memory);

    tt_assert(c->n >= 2 && c->n <= TT_RING_PEERS_MAX);
    if (!reaches_all(&r, r.to) || !reaches_all(&r, r.from))
        return false;
    for (uint32_t k = 0; k < r.n; k++)
        r.before[k] = r.n;
    for (uint32_t i = 0; i < r.n; i++)
        if (!assign_successor(&r, i))
            return false;
    return true;
}

uint64_t tt_ring_slow_between(const struct tt_ring_costs *c, uint64_t low, uint64_t high)
{
    const uint64_t middle = low + (high > low ? (high - low) / 2 : 0);
    uint64_t above = TT_RING_NONE, below = TT_RING_NONE;

    for (size_t at = 0; at < (size_t)c->n * c->n; at++) {
        const uint64_t slow = c->slow[at];

        if (slow < low || slow >= high || slow == TT_RING_NONE)
            continue;
        if (slow >= middle && slow < above)
            above = slow;
        if (slow < middle && (below == TT_RING_NONE || slow > below))
            below = slow;
    }
    return above != TT_RING_NONE ? above : below;
}
