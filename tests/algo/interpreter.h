/* Runs the programs of all ranks on real memory, in an order drawn from a seed, and compares with the collective's
 * definition. Knows nothing of the verifier: what it shares with it is sched.h. */
#ifndef TESTS_ALGO_INTERPRETER_H
#define TESTS_ALGO_INTERPRETER_H

#include "support/cases.h"
#include "sched/verify.h"

/* When a put's bytes move. */
enum moves {
    AT_ONCE,        /* copied out when the put runs, in at its wait: plenty of room */
    AT_WAIT,        /* taken from the source when the wait runs; the put is done then: no room at all */
    LANDING,        /* into the receiver's DST or WORK when the put runs, whatever the receiver is doing */
    MOVES
};

/* Which of the steps that can run does. */
enum order {
    AS_DICE_FALL,
    NEWEST_FIRST,   /* of a rank drawn by dice, the one that comes last in its program */
    ONE_RANK_LAST,  /* one rank, drawn by dice, only moves when nobody else can */
    STRAIGHT,       /* each rank's steps one after another */
    ORDERS
};

struct manner {
    enum moves moves;
    enum order order;
    uint32_t window;        /* rounds that a rank sees at a time; within them any step may run that no earlier one conflicts with */
    uint64_t seed;          /* of the dice */
};

/* `program`: what to run, as one round, however wrong it is; NULL: what the algorithm emits. Writes why and returns
 * false on deadlock, a wrong byte, a byte written outside the result, an access out of bounds, an operand that nobody
 * wrote (pipes), or a message that the other side does not take as it is sent; and, of what the algorithm emits, where the length of a row
 * (tt_algo.length_at) does not come to its receiver. */
bool interpret(const struct case_spec *spec, const struct case_calls *calls, const struct tt_program *program,
               const struct manner *manner, char *why, size_t why_bytes);

#endif
