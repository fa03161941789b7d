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

/* Each rank sees `window` rounds at a time; within them any step may run that no earlier one conflicts with.
 * `program`: what to run, as one round; NULL: what the algorithm emits. Writes why and returns false on deadlock, a
 * wrong byte, or a byte written outside the result. */
bool interpret(const struct case_spec *spec, const struct case_calls *calls, const struct tt_program *program,
               enum moves moves, uint32_t window, char *why, size_t why_bytes);

#endif
