#include "algo/pat.h"

static uint32_t pat_lowest_bit(uint32_t x) { return x & -x; }

struct tt_pat tt_pat_of(uint32_t nranks, uint64_t blocks_max)
{
    struct tt_pat p = { .nranks = nranks, .levels = tt_log2_up(nranks), .aggregated = 1 };

    while (p.far_steps < p.levels && 2ull * p.aggregated <= blocks_max) {
        p.aggregated *= 2;
        p.far_steps++;
    }
    p.apart = 1u << (p.levels - p.far_steps);
    p.steps = p.far_steps + (p.apart < nranks ? p.apart : nranks) - 1;
    return p;
}

struct tt_pat_step tt_pat_step(const struct tt_pat *p, uint32_t k)
{
    struct tt_pat_step s = { .far = k < p->far_steps };

    s.child = s.far ? p->apart << (p->far_steps - 1 - k) : k - p->far_steps + 1;
    s.distance = pat_lowest_bit(s.child);
    s.parent = s.child - s.distance;
    s.apart = s.far ? 2 * s.distance : p->apart;
    s.count = s.child < p->nranks ? (p->nranks - 1 - s.child) / s.apart + 1 : 0;
    return s;
}

uint32_t tt_pat_wrap(uint32_t rank, uint32_t first, uint32_t apart, uint32_t count)
{
    const uint32_t before = rank < first ? 0 : (rank - first) / apart + 1;

    return before < count ? before : count;
}

uint32_t tt_pat_root(const struct tt_pat *p, uint32_t rank, uint32_t offset)
{
    return (rank + p->nranks - offset) % p->nranks;
}
