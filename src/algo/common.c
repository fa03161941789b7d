/* Functions that many algorithms have in common: requirements, rounds, peers and costs. */
#include "algo/algos.h"
#include "algo/blocks.h"

bool tt_fits_always(const struct tt_coll *c)
{
    (void)c;
    return true;
}

bool tt_fits_packed(const struct tt_coll *c)
{
    return tt_blocks_packed(c);
}

uint64_t tt_rounds_one(const struct tt_coll *c)
{
    (void)c;
    return 1;
}

uint64_t tt_rounds_linear(const struct tt_coll *c)
{
    return c->nranks > 1 ? c->nranks - 1 : 1;
}

uint64_t tt_rounds_log(const struct tt_coll *c)
{
    return c->nranks > 1 ? tt_log2_up(c->nranks) : 1;
}

uint64_t tt_work_none(const struct tt_coll *c)
{
    (void)c;
    return 0;
}

uint32_t tt_npeers_all(const struct tt_coll *c)
{
    return c->nranks - 1;
}

uint32_t tt_npeers_log(const struct tt_coll *c)
{
    return 2 * tt_log2_up(c->nranks);
}

uint32_t tt_npeers_two(const struct tt_coll *c)
{
    return c->nranks > 2 ? 2 : c->nranks - 1;
}

uint32_t tt_npeers_flat(const struct tt_coll *c)
{
    return c->rank == c->root || c->nranks == 1 ? c->nranks - 1 : 1;
}

uint32_t tt_npeers_tree(const struct tt_coll *c)
{
    return tt_log2_up(c->nranks) + 1;
}

double tt_cost_burst(uint32_t n)
{
    return n == 0 ? 0 : 1 + 0.4 * (n - 1);
}
