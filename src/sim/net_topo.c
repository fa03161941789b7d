/* A simulated network of a described machine. */
#include "sim/net_topo.h"

tutti_status tt_net_of_topo(struct tt_net_conf *out, const struct tt_topo *topo,
                            const struct tt_layout *layout)
{
    struct tt_net_conf c = { .layout = layout };
    const tutti_status st = tt_topo_is_complete(topo, layout->nranks);

    if (st)
        return st;
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES; d++) {
        c.link[d].latency_ns = (double)topo->link[d].latency_ns;
        c.link[d].bytes_per_s = topo->link[d].bytes_per_s;
        if (d >= TT_NEAR_ZONE && topo->link[d].oversubscription > 1)
            c.uplink_bytes_per_s[d] = tt_topo_uplink(topo, (enum tt_distance)d);
    }
    *out = c;
    return TUTTI_OK;
}
