/* Algorithms in shared objects: tutti_algorithm (tutti/algorithm.h) as a tt_algo, and the bounds
 * on their steps. */
#ifndef TT_COMM_PLUGIN_H
#define TT_COMM_PLUGIN_H

#include "sched/algo.h"
#include "tutti/algorithm.h"

/* Loads a shared object and adds its algorithms to the registry. It stays loaded, even on error.
 * INVALID (logged): not found, no algorithm, a wrong version, incomplete, or a duplicate name.
 * *hash is updated with the properties that must be equal on all ranks. Single-threaded. */
tutti_status tt_plugin_load(const char *path, uint64_t *hash);

/* Checks whether an external algorithm may run this call: emits all its rounds within the
 * bounds, and verifies them with at most 64 ranks. INVALID (logged) with the finding. OK for
 * built-in algorithms. A proof is slow: call once per plan. */
tutti_status tt_plugin_check(const struct tt_algo *algo, const struct tt_coll *c);

/* Returns whether the check covers all ranks, so that each rank gets the same result. */
bool tt_plugin_checks_all(const struct tt_coll *c);

#endif
