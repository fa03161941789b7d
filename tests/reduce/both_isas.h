/* Runs a program's tests twice, in processes of their own: with the portable kernels, and with the best the CPU has. */
#ifndef TESTS_REDUCE_BOTH_ISAS_H
#define TESTS_REDUCE_BOTH_ISAS_H

/* `tests` returns how many failed; so does this, of both runs. Called from main before anything is hashed or reduced. */
int both_isas(int (*tests)(void));

#endif
