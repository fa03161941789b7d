/* Runs a program's tests twice, in separate processes: with the portable kernels, and with the best
 * ones of the CPU. */
#ifndef TESTS_REDUCE_BOTH_ISAS_H
#define TESTS_REDUCE_BOTH_ISAS_H

/* `tests` returns the number of failures; both_isas returns the total of both runs. Call it from
 * main before anything is hashed or reduced. */
int both_isas(int (*tests)(void));

#endif
