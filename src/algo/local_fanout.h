/* Distribution of blocks within a host. Each block has a carrier on the host; every other rank of
 * the host, a mate, receives it over a tree that depends on the form. Reversed, the same trees
 * reduce: every mate's part reaches the carrier. Pure arithmetic.
 *
 * A host of n ranks has n - 1 hops for one block of each carrier. In hop e every rank sends at most
 * one block and receives at most one, so both ends of a transfer can identify it by e. A hop of
 * level l needs the results of lower levels. */
#ifndef TT_ALGO_LOCAL_FANOUT_H
#define TT_ALGO_LOCAL_FANOUT_H

#include "topo/layout.h"

enum tt_form {
    TT_FORM_LINEAR,     /* the carrier sends its block to all others, the nearest first: one
                           level */
    TT_FORM_DOUBLING,   /* binomial, near ranks first: in level l each rank with the block sends
                           it 2^l further */
    TT_FORM_HALVING,    /* binomial, far ranks first */
    TT_FORM_KNOMIAL,    /* in level l each rank with the block sends it 1, 2 and 3 times 4^l
                           further */
    /* Three phases: the carrier sends its block to the ranks of its socket, and to one rank of each
     * other socket. In level 1 that rank sends it to its own socket: a block crosses between
     * sockets once. A host whose sockets differ in size uses LINEAR. */
    TT_FORM_SOCKETS
};

/* A host with more ranks than this uses LINEAR instead of SOCKETS. */
#define TT_MATES_MAX 256

struct tt_local_fanout {
    enum tt_form form;
    uint32_t n, me;             /* n: the host's ranks; me: this rank's local rank */
    uint32_t sockets, each;     /* for TT_FORM_SOCKETS: number of sockets, and ranks of each */
    /* For TT_FORM_SOCKETS: the socket of a local rank, numbered by first appearance; its place
     * within it; and the local rank at [socket * each + place]. Local ranks ascend within a socket,
     * and so do the sockets' first local ranks. */
    uint16_t socket[TT_MATES_MAX], place[TT_MATES_MAX], at[TT_MATES_MAX];
};

/* Describes the host of a rank for `form`. */
void tt_local_fanout_init(struct tt_local_fanout *m, const struct tt_layout *l, uint32_t rank,
                          enum tt_form form);

/* Levels for a host of up to `widest` ranks: 0 for one rank. */
uint32_t tt_form_levels(enum tt_form form, uint32_t widest);

/* One end of a transfer: the block of local rank `carrier`, to or from local rank `peer`. */
struct tt_hop {
    uint32_t carrier, peer, level;
};

/* The block that this rank sends in hop e < n - 1, and the one that it receives. */
struct tt_hop tt_local_fanout_give(const struct tt_local_fanout *m, uint32_t e);
struct tt_hop tt_local_fanout_take(const struct tt_local_fanout *m, uint32_t e);

/* Number of a host's hops of level 0; they precede the others. Linear and sockets only. */
uint32_t tt_local_fanout_first_hops(const struct tt_local_fanout *m);

/* Reduction: this rank adds the block of tt_local_fanout_give(m, e), in the order of hops. Linear
 * and sockets only. */
struct tt_add {
    bool first;             /* the first addition to that block: the other operand is this rank's
                               own part */
    bool last;              /* the last addition to this rank's own block */
    uint32_t there, coming; /* the lowest local rank that contributed to the present value, and
                               to the received one */
};
struct tt_add tt_local_fanout_add(const struct tt_local_fanout *m, uint32_t e);

/* Reduction: returns whether this rank has added to the value that it sends in
 * tt_local_fanout_take(m, e). Linear and sockets only. */
bool tt_local_fanout_relays(const struct tt_local_fanout *m, uint32_t e);
/* Returns the index, among the blocks that this rank reduces for others, of the one that hop e adds
 * to or sends. */
uint32_t tt_local_fanout_relay(const struct tt_local_fanout *m, uint32_t e);

#endif
