/* Which host gets which ranks: an order of hosts, and how many ranks each takes, so that groups of consecutive ranks stay together. Pure. */
#ifndef TT_TOPO_ORDER_H
#define TT_TOPO_ORDER_H

#include "topo/layout.h"
#include "tutti/tutti.h"

struct tt_order_host {
    const char *name;
    uint32_t slots;                 /* at least 1 */
    uint32_t group[TT_NEAR_WAN];    /* HOST to FABRIC: numbers of its groups, which nest */
};

/* Each group of `ranks` consecutive ranks, from rank 0, lies inside one group of that level. */
struct tt_order_rule {
    uint32_t ranks;
    enum tt_distance within;        /* HOST to FABRIC */
};
#define TT_ORDER_RULES_MAX 8

/* Places nranks ranks on hosts[n]: order[i] is the i-th host that is used, take[i] how many ranks it gets, *used how many hosts there are;
 * both arrays have room for n. The hosts' own order stays where it keeps the rules; else, if `reorder`, hosts of one group are
 * brought together, in order of first appearance, and slots that would tear a group are left free. INVALID (logged) with what is in the
 * way: then, with `reorder`, no order exists. For groups that do not divide each other, or nranks, that is said instead. */
tutti_status tt_order_ranks(const struct tt_order_host *hosts, uint32_t n, uint32_t nranks,
                            const struct tt_order_rule *rules, uint32_t nrules, bool reorder, uint32_t *order,
                            uint32_t *take, uint32_t *used);

#endif
