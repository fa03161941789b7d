/* Assignment of ranks to hosts: an order of hosts and the number of ranks on each, such that groups
 * of consecutive ranks stay together. Pure. */
#ifndef TT_TOPO_ORDER_H
#define TT_TOPO_ORDER_H

#include "topo/layout.h"
#include "tutti/tutti.h"

struct tt_order_host {
    const char *name;
    uint32_t slots;                 /* at least 1 */
    uint32_t group[TT_NEAR_WAN];    /* HOST to FABRIC: numbers of its groups, which nest */
};

/* Each group of `ranks` consecutive ranks, from rank 0, must be in one group of that level. */
struct tt_order_rule {
    uint32_t ranks;
    enum tt_distance within;        /* HOST to FABRIC */
};
#define TT_ORDER_RULES_MAX 8

/* Places nranks ranks on hosts[n]: order[i] is the i-th used host, take[i] its number of ranks,
 * *used the number of hosts; both arrays have n entries. The given order is kept if it satisfies
 * the rules. Otherwise, with `reorder`, hosts of a group are moved together, in order of first
 * appearance, and slots that would split a group stay free. INVALID (logged) names the conflict;
 * with `reorder` it means that no order exists. Group sizes that do not divide each other, or
 * nranks, are reported instead. */
tutti_status tt_order_ranks(const struct tt_order_host *hosts, uint32_t n, uint32_t nranks,
                            const struct tt_order_rule *rules, uint32_t nrules, bool reorder,
                            uint32_t *order, uint32_t *take, uint32_t *used);

#endif
