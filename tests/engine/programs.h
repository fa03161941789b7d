/* Random programs beyond the registered algorithms: many concurrent chains of steps across ranks,
 * connected by pipes and memory. */
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
    uint64_t bytes; /* size of SRC, DST and WORK each */
    uint32_t nsteps[ADVERSARY_RANKS_MAX][PROGRAM_ROUNDS_MAX];
    struct tt_step step[ADVERSARY_RANKS_MAX][PROGRAM_ROUNDS_MAX][TT_ROUND_STEPS_MAX];
};

/* The verifier's result for the order of its steps, independent of their data. */
enum program_order { ORDER_SOUND, ORDER_STUCK_IN_SEGMENTS, ORDER_BAD };

/* Both ends of each message, and of each pipe, are in the same round. Messages have up to 3 * depth
 * segments. */
void program_draw(struct program *out, struct tt_prng *p, uint64_t segment_bytes, uint32_t depth);

/* A ring of running sums, with n - 1 hops for each, whose n chains all use pipes, in one round: if
 * the messages are longer than the total space, every rank waits for the next one to free space. */
void program_ring_of_pipes(struct program *out, uint32_t nranks, uint64_t bytes);

/* A funnel: in each round rank 0 receives a message from each of ranks 2 and up, and forwards their
 * sums with its own bytes to rank 1 without storing them. The message forwarded first may arrive
 * last. */
void program_funnel(struct program *out, uint32_t nranks, uint32_t nrounds, uint64_t bytes);

/* Rank 0 forwards data in two pieces, while the data between them still arrives, and its own sum
 * waits behind both: a wait for the gap would be circular. `bytes` is a quarter of the messages. */
void program_gap(struct program *out, uint64_t bytes);

enum program_order program_order(const struct program *program);

/* Returns the algorithm that emits the program. It uses this program until the next call. */
const struct tt_algo *program_algo(const struct program *program);

#endif
