#include "topo/topo.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

void tt_topo_fini(struct tt_topo *t)
{
    free(t->rules);
    *t = (struct tt_topo){ 0 };
}

uint32_t tt_topo_group_ranks(const struct tt_topo *t, enum tt_distance level)
{
    const uint32_t factors[TT_NEAR_WAN] = {
        [TT_NEAR_SOCKET] = t->host_ranks / t->host_sockets, [TT_NEAR_HOST] = t->host_sockets,
        [TT_NEAR_RACK] = t->rack_hosts,                     [TT_NEAR_ZONE] = t->zone_racks,
        [TT_NEAR_BUILDING] = t->building_zones,             [TT_NEAR_FABRIC] = t->buildings,
    };
    uint32_t ranks = 1;

    tt_assert(level >= TT_NEAR_SOCKET && level < TT_NEAR_WAN);
    for (unsigned d = TT_NEAR_SOCKET; d <= (unsigned)level; d++)
        ranks *= factors[d];
    return ranks;
}

uint32_t tt_topo_nranks(const struct tt_topo *t)
{
    return tt_topo_group_ranks(t, TT_NEAR_FABRIC);
}

static tutti_status check_rank_count(const struct tt_topo *t, uint32_t nranks)
{
    if (!t->has_shape)
        return tt_fail(TUTTI_ERR_INVALID,
                       "the topology \"%s\" has no \"machine\": it has labels of hosts only, "
                       "without the number of ranks",
                       t->name);
    if (nranks < 1 || nranks > tt_topo_nranks(t))
        return tt_fail(TUTTI_ERR_INVALID,
                       "invalid number of ranks: %u: must be 1 to %u with the topology \"%s\"",
                       nranks, tt_topo_nranks(t), t->name);
    return TUTTI_OK;
}

tutti_status tt_topo_layout(const struct tt_topo *t, uint32_t nranks, struct tt_layout *out)
{
    const tutti_status st = check_rank_count(t, nranks);

    if (st)
        return st;
    tt_layout_regular(out, nranks, t->host_ranks, t->host_sockets, t->nrails, t->node);
    for (unsigned d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
        out->group_ranks[d] = tt_topo_group_ranks(t, (enum tt_distance)d);
    return TUTTI_OK;
}

double tt_topo_uplink(const struct tt_topo *t, enum tt_distance level)
{
    uint32_t hosts;

    tt_assert(level > TT_NEAR_RACK && level <= TT_NEAR_WAN);
    hosts = tt_topo_group_ranks(t, (enum tt_distance)(level - 1)) / t->host_ranks;
    return (double)hosts * t->nrails * t->link[TT_NEAR_RACK].bytes_per_s /
           t->link[level].oversubscription;
}

static tutti_status check_link(const struct tt_topo *t, enum tt_distance d, bool rate)
{
    const struct tt_topo_link *l = &t->link[d];

    if (l->latency_ns == 0 || (rate && l->bytes_per_s <= 0))
        return tt_fail(TUTTI_ERR_INVALID,
                       "the topology \"%s\" is incomplete: it lacks links.%s.%s",
                       t->name, tt_distance_name(d), l->latency_ns == 0 ? "latency_ns" : "gbit_s");
    return TUTTI_OK;
}

tutti_status tt_topo_is_complete(const struct tt_topo *t, uint32_t nranks)
{
    tutti_status st = check_rank_count(t, nranks);
    uint32_t below = 1;

    for (unsigned d = TT_NEAR_SOCKET; d < TT_NEAR_WAN && !st; d++) {
        const uint32_t size = tt_topo_group_ranks(t, (enum tt_distance)d);

        if (size > below && nranks > below)
            st = check_link(t, (enum tt_distance)d, d <= TT_NEAR_RACK);
        below = size;
    }
    if (!st && nranks > t->host_ranks && t->link[TT_NEAR_RACK].bytes_per_s <= 0)
        st = tt_fail(TUTTI_ERR_INVALID,
                     "the topology \"%s\" is incomplete: it lacks links.rack.gbit_s, the rate of "
                     "a rail",
                     t->name);
    return st;
}
