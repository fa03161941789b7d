/* Which processors ranks may run on. A rank that its launcher has bound knows its own only: cards tell it the others', as ranks of a
 * host share what all of them together may use. */
#ifndef TT_COMM_CORES_H
#define TT_COMM_CORES_H

#include <sched.h>

#include "base/bytes.h"

#define TT_CORES_BYTES (1 + CPU_SETSIZE / 8)    /* at most, in a card */

/* Those of the calling thread; none where the kernel has more than a cpu_set_t. */
void tt_cores_own(cpu_set_t *out);
void tt_cores_write(const cpu_set_t *set, struct tt_writer *w);
void tt_cores_read(cpu_set_t *out, struct tt_reader *r);

#endif
