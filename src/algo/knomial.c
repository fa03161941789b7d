#include "algo/knomial.h"

#include "algo/algos.h"

uint64_t tt_knomial_power(uint32_t k, uint32_t level)
{
    uint64_t power = 1;

    while (level-- > 0)
        power *= k;
    return power;
}

uint32_t tt_knomial_levels(uint32_t nranks, uint32_t k)
{
    uint32_t levels = 0;

    for (uint64_t reach = 1; reach < nranks; reach *= k)
        levels++;
    return levels;
}

uint32_t tt_knomial_children(uint32_t v, uint32_t nranks, uint32_t k, uint64_t step)
{
    uint64_t n;

    if (v % (k * step) != 0 || v + step >= nranks)
        return 0;
    n = (nranks - 1 - v) / step;
    return n < k - 1 ? (uint32_t)n : k - 1;
}

bool tt_knomial_parent(uint32_t v, uint32_t k, uint64_t step, uint32_t *parent)
{
    const uint64_t digit = v / step % k;

    if (v % step != 0 || digit == 0)
        return false;
    *parent = v - (uint32_t)(digit * step);
    return true;
}

uint32_t tt_knomial_subtree(uint32_t v, uint32_t nranks, uint32_t k)
{
    uint64_t step = 1;

    while (v > 0 && v % (step * k) == 0)
        step *= k;
    return v > 0 && step < nranks - v ? (uint32_t)step : nranks - v;
}

uint32_t tt_knomial_before_end(const struct tt_coll *c, uint32_t v, uint32_t count)
{
    const uint32_t left = c->nranks - tt_rank_at(c, v);

    return count < left ? count : left;
}

uint64_t tt_knomial_nrounds(const struct tt_coll *c, uint32_t k)
{
    return c->nranks > 1 ? tt_knomial_levels(c->nranks, k) : 1;
}

uint32_t tt_knomial_npeers(const struct tt_coll *c, uint32_t k)
{
    const uint32_t most = (k - 1) * tt_knomial_levels(c->nranks, k) + 1;

    return most < c->nranks - 1 ? most : c->nranks - 1;
}

/* The maximum number of children on each level: those of the root. */
double tt_knomial_messages(uint32_t nranks, uint32_t k)
{
    double messages = 0;

    for (uint64_t step = 1; step < nranks; step *= k)
        messages += tt_cost_burst(tt_knomial_children(0, nranks, k, step));
    return messages;
}

double tt_knomial_vectors(uint32_t nranks, uint32_t k)
{
    double vectors = 0;

    for (uint64_t step = 1; step < nranks; step *= k)
        vectors += tt_knomial_children(0, nranks, k, step);
    return vectors;
}
