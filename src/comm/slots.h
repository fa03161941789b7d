/* Room for algorithms that are not compiled in: their functions need to know whose they are, and those of struct tt_algo are asked
 * with nothing but the call. Each slot has functions of its own, which know its number. From one thread; slots that are taken may then be
 * used from any. */
#ifndef TT_COMM_SLOTS_H
#define TT_COMM_SLOTS_H

#include "sched/algo.h"

#define TT_SLOTS 32

/* As struct tt_algo, with whose it is. */
struct tt_slot_ops {
    bool (*fits)(const void *self, const struct tt_coll *c);
    uint64_t (*nrounds)(const void *self, const struct tt_coll *c);
    void (*round)(const void *self, struct tt_sched *s, const struct tt_coll *c, uint64_t k);
    uint64_t (*work_bytes)(const void *self, const struct tt_coll *c);
    uint32_t (*npeers)(const void *self, const struct tt_coll *c);
    struct tt_cost (*cost)(const void *self, const struct tt_coll *c);
    void (*free)(void *self);
};

/* The algorithm of a slot that now is taken, with the names, needs, kind and flags of `like`. self becomes the slot's. NULL: all are taken. */
const struct tt_algo *tt_slot_take(const struct tt_algo *like, const struct tt_slot_ops *ops, void *self);
/* Whose an algorithm is, if it is in a slot of these ops; else NULL. */
const void *tt_slot_self(const struct tt_algo *algo, const struct tt_slot_ops *ops);
/* Frees the slots from the n-th on, and what they hold; tt_slots_drop: it is the caller's again. How many are taken. */
void tt_slots_free(uint32_t n);
void tt_slots_drop(uint32_t n);
uint32_t tt_slots_taken(void);

#endif
