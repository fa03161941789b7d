/* Rings between hosts, one for each local rank, and the distribution inside the hosts: the rounds
 * of the parallel-rings algorithms.
 *
 * Hosts form a ring in the order of their numbers. A *column* is one ring over them: column j
 * contains the block of each host's local rank j, and on a host of n ranks, local rank j mod n
 * carries it. With equal numbers of ranks on all hosts each local rank has its own ring; on hosts
 * with fewer, ranks carry several columns. There are as many columns as the largest host has ranks;
 * smaller hosts add no block of their own to the excess columns.
 *
 * Time is divided into *slots*, of as many rounds as the steps of a slot need: a slot sends what
 * earlier slots received. Arrival i of a host is received in step i of the rings; its own blocks
 * are arrival -1. If ranks are joined by sockets, a round has at most one hop of a rank. Two
 * transfers of a rank then never share a kind of link in a round. */
#ifndef TT_ALGO_RINGS_H
#define TT_ALGO_RINGS_H

#include "algo/local_fanout.h"
#include "sched/algo.h"

struct tt_rings {
    struct tt_layout alone;             /* the layout for a call without one: one host */
    const struct tt_layout *layout;
    uint32_t hosts, host;               /* number of hosts, and this rank's */
    uint32_t widest, narrowest;         /* maximum and minimum ranks of a host */
    uint32_t columns;                   /* maximum per rank */
    uint32_t levels;                    /* slots to distribute an arrival within the host */
    uint32_t hops;                      /* maximum per slot, over all hosts */
    bool one_by_one;                    /* one hop per round */
    struct tt_local_fanout mates;
};

/* Returns the form for the layout: sockets if ranks of a host are joined by sockets, else
 * linear. */
enum tt_form tt_rings_form(const struct tt_coll *c);
/* *r must not be moved: it may point into itself. */
void tt_rings_init(struct tt_rings *r, const struct tt_coll *c, enum tt_form form);

/* Tags used by a round. */
#define TT_RINGS_TAGS 8

/* Allgather of the call's blocks into DST; own: source of this rank's own block. Every block
 * crosses each border between hosts once. At most 13 steps per round. */
uint64_t tt_rings_gather_rounds(const struct tt_rings *r);
void tt_rings_gather(struct tt_sched *s, const struct tt_coll *c, const struct tt_rings *r,
                     uint64_t k, uint32_t tag, struct tt_ref own);

/* Reduce_scatter of the call's blocks, the reverse of the gather: on each host the parts of a row
 * are reduced at its carrier while the running value of the previous row crosses the network, and
 * then added to it. Linear and sockets only. Values need space while they are reduced: in DST, at
 * the row's place (all-reduce), or in WORK (reduce_scatter), `slab` bytes each; rows are then
 * processed in slabs, one after the other. */
struct tt_ring_sums {
    bool in_dst;
    uint64_t begin, slab;       /* the part [begin, begin + slab) of each row; in_dst: all */
};
/* Maximum number of values in WORK at once, on any rank. */
uint64_t tt_rings_sums(const struct tt_rings *r);
uint64_t tt_rings_reduce_rounds(const struct tt_rings *r);
void tt_rings_reduce(struct tt_sched *s, const struct tt_coll *c, const struct tt_rings *r,
                     const struct tt_ring_sums *sums, uint64_t k, uint32_t tag);

/* Upper bound of the number of peers of this rank. */
uint32_t tt_rings_npeers(const struct tt_rings *r);
/* Cost of the gather, or of the reduction without its additions, with blocks of `block` bytes. */
struct tt_cost tt_rings_cost(const struct tt_rings *r, double block);

#endif
