#include "algo/levels.h"

#include "algo/blocks.h"

void tt_levels_init(struct tt_levels *v, const struct tt_coll *c)
{
    v->c = c;
    v->layout = tt_layout_of(c, &v->alone);
    v->hosts = v->layout->nhosts;
    v->host = tt_layout_host(v->layout, c->rank);
    v->n = tt_layout_host_ranks(v->layout, v->host);
    v->me = tt_layout_local(v->layout, c->rank);
    v->widest = tt_layout_widest(v->layout);
    v->narrowest = tt_layout_narrowest(v->layout);
    v->fills = tt_layout_fills(v->layout);
    v->even = v->fills && v->widest == v->narrowest;
}

/* Number of ranks that local rank m of this host serves on a host with `ranks` ranks. */
static uint32_t served_of(const struct tt_levels *v, uint32_t ranks, uint32_t m)
{
    return ranks > m ? (ranks - m - 1) / v->n + 1 : 0;
}

uint32_t tt_levels_served_before(const struct tt_levels *v, uint32_t host, uint32_t m)
{
    uint32_t served = 0;

    if (v->fills)
        return host * served_of(v, v->widest, m);
    for (uint32_t h = 0; h < host; h++)
        served += served_of(v, tt_layout_host_ranks(v->layout, h), m);
    return served;
}

uint32_t tt_levels_served(const struct tt_levels *v, uint32_t m)
{
    const uint32_t last = v->hosts - 1;

    return tt_levels_served_before(v, last, m) +
           served_of(v, tt_layout_host_ranks(v->layout, last), m);
}

uint32_t tt_levels_served_max(const struct tt_levels *v)
{
    return (v->widest + v->narrowest - 1) / v->narrowest;
}

uint32_t tt_levels_ranks_before(const struct tt_levels *v, uint32_t host)
{
    uint32_t ranks = 0;

    if (v->fills)
        return host * v->widest;
    for (uint32_t h = 0; h < host; h++)
        ranks += tt_layout_host_ranks(v->layout, h);
    return ranks;
}
