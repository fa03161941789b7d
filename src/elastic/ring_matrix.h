/* What lies between the peers of a run, as it was measured, and what that makes of a ring: the costs that an order is chosen by.
 * Everything here is pure, and in whole numbers, so that it is the same on every machine. */
#ifndef TT_ELASTIC_RING_MATRIX_H
#define TT_ELASTIC_RING_MATRIX_H

#include <stdbool.h>
#include <stdint.h>
#include "tutti/tutti.h"

#define TT_RING_PEERS_MAX 512u
#define TT_RING_RATE_MAX 1000000000000000ull    /* 1 PB/s */
#define TT_RING_LATENCY_MAX 100000000000ull     /* 100 s, in ns */
#define TT_RING_NS_MAX (1ull << 42)             /* no transfer is predicted to take longer: 73 min */
#define TT_RING_NONE UINT64_MAX                 /* of a transfer: there is no link */

/* From row to column. The arrays are the caller's, and stay while the matrix is used. */
struct tt_ring_matrix {
    uint32_t n;
    const uint64_t *rate;       /* [n][n] bytes/s of a pair alone; 0: no link. The diagonal is not looked at */
    const uint64_t *latency;    /* [n][n] ns, one way */
    const uint64_t *up, *down;  /* [n] bytes/s that a peer sends, receives over all its links; NULL, or 0 of a peer: as fast as its fastest link */
};

/* What is sent: an all-reduce of `bytes`, whose blocks go in segments. */
struct tt_ring_load {
    uint64_t bytes;
    uint64_t segment_bytes;     /* 0: blocks go whole */
};

/* Whether the matrix makes sense; INVALID (logged) names the first pair that does not. One peer is enough. */
tutti_status tt_ring_matrix_check(const struct tt_ring_matrix *m);

/* What a peer sends, receives in all, as told or as the fastest of its links has it; bytes/s. */
uint64_t tt_ring_up(const struct tt_ring_matrix *m, uint32_t peer);
uint64_t tt_ring_down(const struct tt_ring_matrix *m, uint32_t peer);

/* The rate of a link that has its peers for itself: that of the pair, or of the slower cap; 0: none. */
uint64_t tt_ring_rate(const struct tt_ring_matrix *m, uint32_t from, uint32_t to);

/* How long `bytes` take at `rate`, rounded up; NONE at rate 0, at most NS_MAX else. */
uint64_t tt_ring_transfer_ns(uint64_t bytes, uint64_t rate);

/* What an order is chosen by. In a ring all-reduce each link carries one block of bytes / n per step. A step cannot be shorter than the
 * longest transfer, `slow`, nor than the mean of what a hop takes, `cost`: latency, and the transfer of a segment. */
struct tt_ring_costs {
    uint32_t n;
    const uint64_t *slow;   /* [n][n] ns, or NONE */
    const uint64_t *cost;   /* [n][n] ns; at most 2 NS_MAX */
};

/* Fills slow[n][n] and cost[n][n]. Transfers shorter than floor_ns count as that: what is below what a step takes anyway shall not
 * decide. The diagonal is NONE. */
void tt_ring_costs_fill(const struct tt_ring_matrix *m, const struct tt_ring_load *load, uint64_t floor_ns,
                        uint64_t *slow, uint64_t *cost);

/* What an order is worth: first its slowest link, then the sum. */
struct tt_ring_value {
    uint64_t slow;      /* NONE: some link does not exist, and sum is of the others */
    uint64_t sum;
};

/* order[n]: each peer once; its last sends to its first. For n < 2 there is no link, and both are 0. */
struct tt_ring_value tt_ring_value_of(const struct tt_ring_costs *c, const uint32_t *order);
bool tt_ring_value_less(struct tt_ring_value a, struct tt_ring_value b);

#endif
