/* Rings between hosts, one for each local rank, and what goes on inside the hosts meanwhile: the rounds of which the parallel-rings
 * algorithms are made.
 *
 * Hosts are a ring in the order of their numbers. A *column* is one ring over them: column j of a host's blocks is the block of its local j,
 * and on a host of n ranks the local j mod n carries it. So with the same number of ranks on all hosts each local rank has a ring of its
 * own, and ranks of a host with fewer carry several columns. There are as many columns as the widest host has ranks; a host with fewer
 * ranks puts nothing of its own into the others.
 *
 * Time goes in *slots*, of as many rounds as the steps of a slot need: what a slot sends, earlier slots have brought. Arrival i of a
 * host is what step i of the rings brings it; its own blocks are arrival -1. Where ranks are joined by sockets, a round has one hop of a
 * rank at most, so that in no round two transfers of a rank share a kind of link. */
#ifndef TT_ALGO_RINGS_H
#define TT_ALGO_RINGS_H

#include "algo/mates.h"
#include "sched/algo.h"

struct tt_rings {
    struct tt_layout alone;             /* the layout, where the call has none: one host */
    const struct tt_layout *layout;
    uint32_t hosts, host;               /* how many there are, and this rank's */
    uint32_t widest, narrowest;         /* ranks of a host */
    uint32_t columns;                   /* that a rank carries, at most */
    uint32_t levels;                    /* slots that an arrival takes to go round the host */
    uint32_t hops;                      /* of a slot, at most, on any host */
    bool one_by_one;                    /* one hop to a round */
    struct tt_mates mates;
};

/* The form that the layout asks for: sockets where ranks of a host are joined by sockets, else linear. */
enum tt_form tt_rings_form(const struct tt_coll *c);
/* *r is used where it is: it may point into itself. */
void tt_rings_init(struct tt_rings *r, const struct tt_coll *c, enum tt_form form);

/* Tags that one round takes, from its first on. */
#define TT_RINGS_TAGS 8

/* Allgather of the call's blocks into DST; own: where this rank's own block is read. Every block crosses each border between hosts once.
 * With at most 13 steps to a round. */
uint64_t tt_rings_gather_rounds(const struct tt_rings *r);
void tt_rings_gather(struct tt_sched *s, const struct tt_coll *c, const struct tt_rings *r, uint64_t k, uint32_t tag,
                     struct tt_ref own);

/* Reduce_scatter of the call's blocks, the gather backwards: on each host the parts of a row are added up at its carrier while the running
 * value of the row before crosses the network, and then added to that. Linear and sockets only.
 * Values need a place while they are added up: in DST, where the row is (all-reduce), or in WORK (reduce_scatter), of which each takes
 * `slab` bytes; then rows go in slabs, one after the other. */
struct tt_ring_sums {
    bool in_dst;
    uint64_t begin, slab;       /* which part of each row: [begin, begin + slab); in_dst: all */
};
/* How many values in WORK are under way at once, at most, on any rank. */
uint64_t tt_rings_sums(const struct tt_rings *r);
uint64_t tt_rings_reduce_rounds(const struct tt_rings *r);
void tt_rings_reduce(struct tt_sched *s, const struct tt_coll *c, const struct tt_rings *r,
                     const struct tt_ring_sums *sums, uint64_t k, uint32_t tag);

/* Bound on the ranks this one exchanges with, either way. */
uint32_t tt_rings_npeers(const struct tt_rings *r);
/* What the gather costs, or the reduction but for its additions, with blocks of `block` bytes. */
struct tt_cost tt_rings_cost(const struct tt_rings *r, double block);

#endif
