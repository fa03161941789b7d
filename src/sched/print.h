/* Steps as text, for the verifier's messages. */
#ifndef TT_SCHED_PRINT_H
#define TT_SCHED_PRINT_H

#include <stddef.h>
#include "sched/sched.h"

/* Maximum length of a step's text, with NUL. */
#define TT_STEP_TEXT_BYTES 400

/* Writes "put DST[0, 64) to 3 DST[0, 64) tag 7", "reduce DST[0, 64) = SRC[0, 64) op PIPE 2,
 * finish", etc. Writes at most `bytes`, including NUL; returns out. */
const char *tt_step_text(const struct tt_step *step, char *out, size_t bytes);

#endif
