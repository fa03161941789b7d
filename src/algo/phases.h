/* Rounds that several algorithms are made of. */
#ifndef TT_ALGO_PHASES_H
#define TT_ALGO_PHASES_H

#include "algo/blocks.h"

/* Round k < nranks - 1 of the ring allgather of the call's blocks in DST, by rank: passes block (rank - k) to the
 * right.
 * `own` is where this rank's own block is read. */
void tt_phase_ring_gather(struct tt_sched *s, const struct tt_coll *c, uint32_t k, uint32_t tag, struct tt_ref own);

/* One exchange of an alltoall or alltoallv: row `peer` goes to peer, and theirs takes its place. The peer does the same in the
 * same round, so in place the row has been read once it is overwritten: what arrives waits in a pipe for that. */
void tt_phase_exchange(struct tt_sched *s, const struct tt_coll *c, uint32_t peer);
/* Its two halves. Where a rank exchanges with several in one round it gives to all before it takes: programs are also run step by
 * step. */
void tt_phase_give(struct tt_sched *s, const struct tt_coll *c, uint32_t peer);
void tt_phase_take(struct tt_sched *s, const struct tt_coll *c, uint32_t peer);

/* Whom this rank exchanges with in round k of a pairwise alltoall, in partner[2]; returns how many there are. They do so in the
 * same round. A power of two ranks: the one that differs by k + 1 (exclusive or). Else the two that are k + 1 away, which in the
 * last round of an even number of ranks are one. */
uint32_t tt_phase_partners(const struct tt_coll *c, uint64_t k, uint32_t partner[2]);
/* Rounds in which each pair has met once; at least 1. */
uint64_t tt_phase_partner_rounds(const struct tt_coll *c);

/* All-reduce of folded ranks, in `inner` rounds among the groups: before them the odd rank of each first pair gives its vector to the even
 * one, which takes it into DST; and after them gets the result. Pipe 0 and tag 0 are theirs. True: round *k is one of the groups,
 * whose number *k becomes, and this rank takes part. False: what this rank does in it has been emitted. */
bool tt_phase_among_groups(struct tt_sched *s, const struct tt_coll *c, const struct tt_fold *f, uint64_t inner,
                           uint64_t *k);

/* Allgather of folded ranks, for ranks of a folded pair: the odd rank gives its block to the even one; and afterwards gets all but its
 * own, those before it, and those after it. */
void tt_phase_gather_fold_in(struct tt_sched *s, const struct tt_coll *c, const struct tt_fold *f);
void tt_phase_gather_fold_out(struct tt_sched *s, const struct tt_coll *c, const struct tt_fold *f);

/* Rounds in which n independent exchanges go, `each` to a round; at least 1. */
uint64_t tt_phase_rounds(uint32_t n, uint32_t each);

#endif
