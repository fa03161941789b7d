/* The ranks of one host as a crowd that passes blocks on: each block has a carrier on the host, and every other rank of the host, its
 * mate, gets it over a tree that the form names. Read backwards, the same trees add up: every mate's part comes to the carrier.
 * Pure arithmetic.
 *
 * A host of n ranks has n - 1 hops for one block of each carrier. In hop e every rank passes on at most one block and takes at most one,
 * so that both ends of a transfer can name it by e. A hop of level l needs what hops of lower levels brought. */
#ifndef TT_ALGO_MATES_H
#define TT_ALGO_MATES_H

#include "topo/layout.h"

enum tt_form {
    TT_FORM_LINEAR,     /* the carrier gives its block to all others, the nearest first: one level */
    TT_FORM_DOUBLING,   /* binomial, near ones first: in level l whoever has it gives it to the rank 2^l further on */
    TT_FORM_HALVING,    /* binomial, far ones first */
    TT_FORM_KNOMIAL,    /* in level l whoever has it gives it to the ranks 1, 2 and 3 times 4^l further on */
    /* Three phases: the carrier gives its block to the ranks of its socket, and to one rank of each other socket, which in level 1 gives
     * it to its own socket: what crosses between sockets crosses once. A host whose sockets are not alike goes linearly. */
    TT_FORM_SOCKETS
};

/* A host with more ranks than this goes linearly where its sockets would count. */
#define TT_MATES_MAX 256

struct tt_mates {
    enum tt_form form;
    uint32_t n, me;             /* the host's ranks, and which of them this rank is: "local" numbers */
    uint32_t sockets, each;     /* of TT_FORM_SOCKETS: how many there are, of so many ranks */
    /* Of TT_FORM_SOCKETS: the socket of a local, numbered by first appearance; its place within it; and the local at [socket * each + place].
     * Locals ascend within a socket, and the first locals of sockets do. */
    uint16_t socket[TT_MATES_MAX], place[TT_MATES_MAX], at[TT_MATES_MAX];
};

/* The host of a rank, as `form` sees it. */
void tt_mates_init(struct tt_mates *m, const struct tt_layout *l, uint32_t rank, enum tt_form form);

/* Levels that a host of up to `widest` ranks needs: 0 for one rank. */
uint32_t tt_form_levels(enum tt_form form, uint32_t widest);

/* One end of a transfer: the block of local `carrier`, to or from local `peer`. */
struct tt_hop {
    uint32_t carrier, peer, level;
};

/* What this rank passes on in hop e < n - 1, and what it takes. */
struct tt_hop tt_mates_give(const struct tt_mates *m, uint32_t e);
struct tt_hop tt_mates_take(const struct tt_mates *m, uint32_t e);

/* How many of a host's hops are of level 0; they come before the others. Linear and sockets only. */
uint32_t tt_mates_first_hops(const struct tt_mates *m);

/* Backwards, this rank adds up what tt_mates_give(m, e) names, in the order of hops. Linear and sockets only. */
struct tt_add {
    bool first;             /* of that block: the other operand is this rank's own part */
    bool last;              /* of this rank's own block */
    uint32_t there, coming; /* the lowest local that has contributed to what there is, and to what comes */
};
struct tt_add tt_mates_add(const struct tt_mates *m, uint32_t e);

/* Backwards, whether this rank has added something to what it hands on in tt_mates_take(m, e). Linear and sockets only. */
bool tt_mates_relays(const struct tt_mates *m, uint32_t e);
/* Of the blocks that this rank adds up for others, the number of the one that hop e adds to, or hands on. */
uint32_t tt_mates_relay(const struct tt_mates *m, uint32_t e);

#endif
