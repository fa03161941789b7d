/* Programs that no algorithm has: chains of steps across ranks, many at once, tied by pipes and memory, drawn at random. */
#ifndef TESTS_ENGINE_PROGRAMS_H
#define TESTS_ENGINE_PROGRAMS_H

#include "adversary.h"
#include "base/prng.h"

#define PROGRAM_ROUNDS_MAX 8

struct program {
    struct tt_algo algo;
    struct tt_coll coll[ADVERSARY_RANKS_MAX];
    uint32_t nranks;
    uint64_t nrounds;
    uint64_t bytes; /* of SRC, DST and WORK each */
    uint32_t nsteps[ADVERSARY_RANKS_MAX][PROGRAM_ROUNDS_MAX];
    struct tt_step step[ADVERSARY_RANKS_MAX][PROGRAM_ROUNDS_MAX][TT_ROUND_STEPS_MAX];
};

/* What the verifier says of the order of its steps, whatever they compute. */
enum program_order { ORDER_SOUND, ORDER_STUCK_IN_SEGMENTS, ORDER_BAD };

/* Both ends of each message, and of each pipe, are in the same round. Messages have up to 3 * depth segments. */
void program_draw(struct program *out, struct tt_prng *p, uint64_t segment_bytes, uint32_t depth);

/* A ring of running sums, n - 1 hops for each, whose n chains all go through pipes, in one round: every rank waits for the next one to
 * make room, if the messages are longer than the room in all. */
void program_ring_of_pipes(struct program *out, uint32_t nranks, uint64_t bytes);

/* A funnel: in each round ranks 2 and up send rank 0 a message each, whose sum with its own bytes it passes on to rank 1 without storing
 * it. What is sent on first may come last. */
void program_funnel(struct program *out, uint32_t nranks, uint32_t nrounds, uint64_t bytes);

/* Rank 0 sends on what lies in two pieces, while what lies between them still comes, and its own sum waits behind both: who waited for
 * the gap too would wait for himself. `bytes` is a quarter of the messages. */
void program_gap(struct program *out, uint64_t bytes);

enum program_order program_order(const struct program *program);

/* The algorithm that emits it. The program is used by this algorithm until the next call. */
const struct tt_algo *program_algo(const struct program *program);

#endif
