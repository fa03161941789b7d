/* Rounds shared by several algorithms. */
#ifndef TT_ALGO_PHASES_H
#define TT_ALGO_PHASES_H

#include "algo/blocks.h"

/* Round k < nranks - 1 of the ring allgather of the call's blocks in DST, by rank: passes block
 * (rank - k) to the right. `own` is the source of this rank's own block. */
void tt_phase_ring_gather(struct tt_sched *s, const struct tt_coll *c, uint32_t k, uint32_t tag,
                          struct tt_ref own);

/* One exchange of an alltoall or alltoallv: sends row `peer` to peer, and replaces it by the
 * received row. The peer does the same in the same round. In place, the row is read before it is
 * overwritten: the arrival waits in a pipe. */
void tt_phase_exchange(struct tt_sched *s, const struct tt_coll *c, uint32_t peer);
/* The two halves of tt_phase_exchange. A rank that exchanges with several peers in one round sends
 * to all before it receives, because programs are also run step by step. */
void tt_phase_give(struct tt_sched *s, const struct tt_coll *c, uint32_t peer);
void tt_phase_take(struct tt_sched *s, const struct tt_coll *c, uint32_t peer);

/* Writes the peers of round k of a pairwise alltoall to partner[2]; returns their number. Both ends
 * are in the same round. With a power of two ranks: the one that differs by k + 1 (exclusive or).
 * Otherwise the two at distance k + 1, which are one rank in the last round of an even number of
 * ranks. */
uint32_t tt_phase_partners(const struct tt_coll *c, uint64_t k, uint32_t partner[2]);
/* Number of rounds until each pair has exchanged once; at least 1. */
uint64_t tt_phase_partner_rounds(const struct tt_coll *c);

/* All-reduce of folded ranks, with `inner` rounds among the groups. Before these, the odd rank of
 * each first pair sends its vector to the even one, which adds it in DST; after them it receives
 * the result. Both use pipe 0 and tag 0. Returns true if round *k is among the groups and this rank
 * takes part; *k is then the round's index among these. Returns false if its steps have been
 * emitted. */
bool tt_phase_among_groups(struct tt_sched *s, const struct tt_coll *c, const struct tt_fold *f,
                           uint64_t inner, uint64_t *k);

/* Allgather of folded ranks, for ranks of a folded pair: the odd rank sends its block to the even
 * one. Afterwards the odd rank receives all other blocks: first those before its own, then those
 * after. */
void tt_phase_gather_fold_in(struct tt_sched *s, const struct tt_coll *c, const struct tt_fold *f);
void tt_phase_gather_fold_out(struct tt_sched *s, const struct tt_coll *c, const struct tt_fold *f);

/* Rounds for n independent exchanges, `each` per round; at least 1. */
uint64_t tt_phase_rounds(uint32_t n, uint32_t each);

#endif
