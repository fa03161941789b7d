/* Forwarding in exchanges that go through hosts (alltoall_two_level.c, alltoallv_two_level.c): the
 * ranks of all hosts are divided among the ranks of each host. Local rank m of n serves those whose
 * local rank is m mod n: it forwards the data of its host's ranks to them. Pure arithmetic;
 * examines each host if hosts are not alike. */
#ifndef TT_ALGO_LEVELS_H
#define TT_ALGO_LEVELS_H

#include "sched/sched.h"

struct tt_levels {
    const struct tt_coll *c;
    struct tt_layout alone;
    const struct tt_layout *layout;
    uint32_t hosts, host, n, me;    /* n: ranks of this rank's host; me: its local rank */
    uint32_t widest, narrowest;
    bool fills;                     /* hosts have equally many, consecutive ranks, except for the
                                       last */
    bool even;                      /* and also the last */
};

/* For rank c->rank. May point into itself, so it must not be moved. */
void tt_levels_init(struct tt_levels *v, const struct tt_coll *c);

/* Number of ranks that local rank m of this host serves: on all hosts, and on those before
 * `host`. */
uint32_t tt_levels_served(const struct tt_levels *v, uint32_t m);
uint32_t tt_levels_served_before(const struct tt_levels *v, uint32_t host, uint32_t m);

/* Maximum number of ranks of one other host that any rank serves. */
uint32_t tt_levels_served_max(const struct tt_levels *v);

/* Number of ranks on the hosts before `host`. */
uint32_t tt_levels_ranks_before(const struct tt_levels *v, uint32_t host);

#endif
