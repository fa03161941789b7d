/* Trampolines for external algorithms: the functions of struct tt_algo get only the call, but need
 * the algorithm's data. Each slot has its own functions, which contain its index. Only one thread
 * takes slots; afterwards, any thread may use them. */
#ifndef TT_COMM_PLUGIN_TRAMPOLINES_H
#define TT_COMM_PLUGIN_TRAMPOLINES_H

#include "sched/algo.h"

#define TT_SLOTS 32

/* Like struct tt_algo, with the algorithm's data. */
struct tt_slot_ops {
    bool (*fits)(const void *self, const struct tt_coll *c);
    uint64_t (*nrounds)(const void *self, const struct tt_coll *c);
    void (*round)(const void *self, struct tt_sched *s, const struct tt_coll *c, uint64_t k);
    uint64_t (*work_bytes)(const void *self, const struct tt_coll *c);
    uint32_t (*npeers)(const void *self, const struct tt_coll *c);
    struct tt_cost (*cost)(const void *self, const struct tt_coll *c);
    void (*free)(void *self);
};

/* Takes a slot and returns its algorithm, with the names, needs, kind and flags of `like`. self
 * then belongs to the slot. NULL: all are taken. */
const struct tt_algo *tt_slot_take(const struct tt_algo *like, const struct tt_slot_ops *ops,
                                   void *self);
/* Returns the algorithm's data, if it is in a slot of these ops; else NULL. */
const void *tt_slot_self(const struct tt_algo *algo, const struct tt_slot_ops *ops);
/* Free the slots from index n on, with their data (tt_trampolines_drop: the caller owns the data
 * again). tt_trampolines_used returns the number of taken slots. */
void tt_trampolines_free(uint32_t n);
void tt_trampolines_drop(uint32_t n);
uint32_t tt_trampolines_used(void);

#endif
