/* A simulated network of a described machine. */
#ifndef TT_SIM_NET_TOPO_H
#define TT_SIM_NET_TOPO_H

#include "sim/net.h"
#include "topo/topo.h"

/* The network of the ranks of a layout of that machine; layout stays the caller's, alive as long as the network. Layers that are not
 * over-subscribed have no uplinks (net.h). INVALID (logged): the description lacks what is needed. */
tutti_status tt_net_of_topo(struct tt_net_conf *out, const struct tt_topo *topo, const struct tt_layout *layout);

#endif
