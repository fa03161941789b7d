/* Runs the programs of all ranks on real memory, in an order drawn from a seed, and compares the
 * result with the collective's definition. Independent of the verifier, except for sched.h. */
#ifndef TESTS_ALGO_INTERPRETER_H
#define TESTS_ALGO_INTERPRETER_H

#include "support/cases.h"
#include "sched/verify.h"

/* When the bytes of a put are transferred. */
enum moves {
    AT_ONCE,        /* read when the put runs, written at its wait: unlimited buffers */
    AT_WAIT,        /* read from the source when the wait runs, and then the put is done: no
                       buffers */
    LANDING,        /* written to the receiver's DST or WORK when the put runs, in any state of
                       the receiver */
    MOVES
};

/* Selection among the steps that can run. */
enum order {
    AS_DICE_FALL,
    NEWEST_FIRST,   /* the last one in the program of a random rank */
    ONE_RANK_LAST,  /* one random rank runs only if no other can */
    STRAIGHT,       /* the steps of each rank in sequence */
    ORDERS
};

struct manner {
    enum moves moves;
    enum order order;
    uint32_t window;        /* number of rounds that a rank can access; any step in them may run
                               that conflicts with no earlier step */
    uint64_t seed;          /* for random choices */
};

/* `program`: the program to run, as one round, even if it is invalid; NULL: the program emitted by
 * the algorithm. Writes `why` and returns false on a deadlock, a wrong byte, a byte written outside
 * the result, an access out of bounds, an unwritten operand (pipes), or a message that differs at
 * both ends. For the algorithm's program, also if a row's length (tt_algo.length_at) does not
 * arrive at its receiver. */
bool interpret(const struct case_spec *spec, const struct case_calls *calls,
               const struct tt_program *program, const struct manner *manner, char *why,
               size_t why_bytes);

#endif
