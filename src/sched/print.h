/* Steps as text, for the sentences of the verifier. */
#ifndef TT_SCHED_PRINT_H
#define TT_SCHED_PRINT_H

#include <stddef.h>
#include "sched/sched.h"

/* Longest text of a step, with its NUL. */
#define TT_STEP_TEXT_BYTES 400

/* "put DST[0, 64) to 3 DST[0, 64) tag 7", "reduce DST[0, 64) = SRC[0, 64) op PIPE 2, finish", and so on. Writes at most
 * `bytes`, NUL included; returns out. */
const char *tt_step_text(const struct tt_step *step, char *out, size_t bytes);

#endif
