/* Algorithms of shared objects: tutti_algorithm (tutti/algorithm.h) as a tt_algo, and the bounds on what they emit. */
#ifndef TT_COMM_PLUGIN_H
#define TT_COMM_PLUGIN_H

#include "sched/algo.h"
#include "tutti/algorithm.h"

/* Loads a shared object and adds its algorithms to the register. It stays loaded, also on error. INVALID (logged): not found, none, of
 * another version, incomplete, a name that is taken. *hash goes on over what ranks must have alike. From one thread. */
tutti_status tt_plugin_load(const char *path, uint64_t *hash);

/* Whether an algorithm that comes from outside may do this call: emits all its rounds within bounds, and, with at most 64 ranks, is
 * proven. INVALID (logged) with what was found. OK for others. Takes as long as a proof does: once for each plan. */
tutti_status tt_plugin_check(const struct tt_algo *algo, const struct tt_coll *c);

/* Whether that looks at what all ranks do, so that each finds the same. */
bool tt_plugin_checks_all(const struct tt_coll *c);

#endif
