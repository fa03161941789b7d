/* Who serves whom in exchanges that go through hosts (alltoall_two_level.c, alltoallv_two_level.c): the ranks of a host share the ranks of all
 * hosts out among themselves. Local m of n serves those whose own local number is m mod n: what their host's ranks have for them goes
 * through it. Pure arithmetic; where hosts are not alike it looks at each. */
#ifndef TT_ALGO_LEVELS_H
#define TT_ALGO_LEVELS_H

#include "sched/sched.h"

struct tt_levels {
    const struct tt_coll *c;
    struct tt_layout alone;
    const struct tt_layout *layout;
    uint32_t hosts, host, n, me;    /* ranks of this rank's host; its local number */
    uint32_t widest, narrowest;
    bool fills;                     /* hosts are alike but for the last, their ranks consecutive */
    bool even;                      /* and so is the last */
};

/* Of rank c->rank. May point into itself: it stays where it is. */
void tt_levels_init(struct tt_levels *v, const struct tt_coll *c);

/* Ranks that local m of this host serves: of all hosts, and of those before `host`. */
uint32_t tt_levels_served(const struct tt_levels *v, uint32_t m);
uint32_t tt_levels_served_before(const struct tt_levels *v, uint32_t host, uint32_t m);

/* How many ranks of one other host a rank serves at most, on any host. */
uint32_t tt_levels_served_max(const struct tt_levels *v);

/* Ranks on the hosts before `host`. */
uint32_t tt_levels_ranks_before(const struct tt_levels *v, uint32_t host);

#endif
