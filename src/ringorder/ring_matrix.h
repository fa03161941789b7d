/* Measured links between the peers of a run, and the costs of ring orders that follow from them.
 * Everything is pure and uses integers, so that the results are the same on every machine. */
#ifndef TT_RINGORDER_RING_MATRIX_H
#define TT_RINGORDER_RING_MATRIX_H

#include <stdbool.h>
#include <stdint.h>
#include "tutti/tutti.h"

#define TT_RING_PEERS_MAX 512u
#define TT_RING_RATE_MAX 1000000000000000ull    /* 1 PB/s */
#define TT_RING_LATENCY_MAX 100000000000ull     /* 100 s, in ns */
#define TT_RING_NS_MAX (1ull << 42)             /* maximum predicted time of a transfer: 73 min */
#define TT_RING_NONE UINT64_MAX                 /* time of a transfer if there is no link */

/* From row to column. The arrays belong to the caller, and must outlive the matrix. */
struct tt_ring_matrix {
    uint32_t n;
    const uint64_t *rate;       /* [n][n] bytes/s of a pair alone; 0: no link. The diagonal is
                                   ignored */
    const uint64_t *latency;    /* [n][n] ns, one way */
    const uint64_t *up, *down;  /* [n] bytes/s that a peer can send, receive over all its links;
                                   NULL, or 0 for a peer: as fast as its fastest link */
};

/* The load: an all-reduce of `bytes`, whose blocks are sent in segments. */
struct tt_ring_load {
    uint64_t bytes;
    uint64_t segment_bytes;     /* 0: whole blocks */
};

/* Checks the matrix; INVALID (logged) names the first invalid pair. A single peer is valid. */
tutti_status tt_ring_matrix_check(const struct tt_ring_matrix *m);

/* Return the total rate of a peer for sending or receiving, in bytes/s: the given cap, or the rate
 * of its fastest link. */
uint64_t tt_ring_up(const struct tt_ring_matrix *m, uint32_t peer);
uint64_t tt_ring_down(const struct tt_ring_matrix *m, uint32_t peer);

/* Returns the rate of a link without other traffic: that of the pair, or of the slower cap; 0:
 * none. */
uint64_t tt_ring_rate(const struct tt_ring_matrix *m, uint32_t from, uint32_t to);

/* Returns the time of `bytes` at `rate`, rounded up; NONE at rate 0, otherwise at most NS_MAX. */
uint64_t tt_ring_transfer_ns(uint64_t bytes, uint64_t rate);

/* Costs of links for the choice of an order. In a ring all-reduce each link carries one block of
 * bytes / n per step. The time of a step is at least the longest transfer, `slow`, and at least
 * the mean time of a hop, `cost`: latency plus the transfer of a segment. */
struct tt_ring_costs {
    uint32_t n;
    const uint64_t *slow;   /* [n][n] ns, or NONE */
    const uint64_t *cost;   /* [n][n] ns; at most 2 NS_MAX */
};

/* Fills slow[n][n] and cost[n][n]. Transfers shorter than floor_ns count as floor_ns, since they
 * are not relevant below the time of a step. Sets the diagonal to NONE. */
void tt_ring_costs_fill(const struct tt_ring_matrix *m, const struct tt_ring_load *load,
                        uint64_t floor_ns, uint64_t *slow, uint64_t *cost);

/* The value of an order: the slowest link first, then the sum. */
struct tt_ring_value {
    uint64_t slow;      /* NONE: some link does not exist, and sum is that of the existing ones */
    uint64_t sum;
};

/* order[n] contains each peer once; the last sends to the first. For n < 2 there are no links,
 * and both values are 0. */
struct tt_ring_value tt_ring_value_of(const struct tt_ring_costs *c, const uint32_t *order);
bool tt_ring_value_less(struct tt_ring_value a, struct tt_ring_value b);

#endif
