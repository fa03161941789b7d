/* The processors that ranks may run on. A rank that its launcher has bound sees only its own
 * processors. Cards distribute the sets, because the ranks of a host share the union of all of
 * them. */
#ifndef TT_COMM_CORES_H
#define TT_COMM_CORES_H

#include <sched.h>

#include "base/bytes.h"

#define TT_CORES_BYTES (1 + CPU_SETSIZE / 8)    /* maximum size in a card */

/* Returns the set of the calling thread; empty if the kernel has more processors than a
 * cpu_set_t. */
void tt_cores_own(cpu_set_t *out);
void tt_cores_write(const cpu_set_t *set, struct tt_writer *w);
void tt_cores_read(cpu_set_t *out, struct tt_reader *r);

#endif
