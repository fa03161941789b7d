/* Selects outputs for non-temporal stores (reduce/reduce.h). */
#ifndef TT_ENGINE_NONTEMPORAL_H
#define TT_ENGINE_NONTEMPORAL_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/sched.h"

/* Returns the size of input and output per rank from which non-temporal stores pay. `ranks` of
 * this host run on `cores`, of which `sharing` share this rank's last-level cache of
 * cache_bytes. 0: unknown. */
uint64_t tt_nontemporal_least(uint64_t cache_bytes, uint32_t sharing, uint32_t cores,
                              uint32_t ranks);
/* Returns whether they pay for the outputs of c, given that threshold. */
bool tt_nontemporal_pays(const struct tt_coll *c, uint64_t least);

#endif
