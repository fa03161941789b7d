/* Which outputs are written past the cache (non-temporal stores: reduce/reduce.h). */
#ifndef TT_ENGINE_STREAM_H
#define TT_ENGINE_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/sched.h"

/* How many bytes a rank has to give and get, until that pays. `ranks` of this host run on `cores`, of which `sharing` have the last cache of this rank's in common, of cache_bytes; 0: not
 * told. */
uint64_t tt_stream_least(uint64_t cache_bytes, uint32_t sharing, uint32_t cores, uint32_t ranks);
/* Whether it pays for the outputs of c, where it does from `least` on. */
bool tt_stream_pays(const struct tt_coll *c, uint64_t least);

#endif
