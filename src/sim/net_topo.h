/* A simulated network of a described machine. */
#ifndef TT_SIM_NET_TOPO_H
#define TT_SIM_NET_TOPO_H

#include "sim/net.h"
#include "topo/topo.h"

/* Configures the network of the ranks of a layout of that machine. layout remains the caller's,
 * valid as long as the network. Layers that are not over-subscribed have no uplinks (net.h).
 * INVALID (logged): the description is incomplete. */
tutti_status tt_net_of_topo(struct tt_net_conf *out, const struct tt_topo *topo,
                            const struct tt_layout *layout);

#endif
