/* Cache of choices, by class of calls. The choice depends on the class alone: not on which call of
 * a class was first, or on evictions. */
#ifndef TT_TUNE_MEMORY_H
#define TT_TUNE_MEMORY_H

#include "tune/tune.h"

#define TT_TUNE_SLOTS_MAX 128u

struct tt_tune_slot {
    uint64_t key;                   /* 0: empty */
    struct tt_tune_choice choice;
};

/* Zero it before its first use. It grows when two classes would have the same slot. */
struct tt_tune_memory {
    struct tt_tune_slot *slot;      /* [cap], by hash; NULL: empty */
    uint32_t cap;                   /* a power of two up to TT_TUNE_SLOTS_MAX, or 0 */
};

/* Discards all choices. */
void tt_tune_forget(struct tt_tune_memory *m);
/* Returns the allocated bytes. */
uint64_t tt_tune_memory_bytes(const struct tt_tune_memory *m);

/* Returns the choice for a call, from the cache or made now (tt_tune_choose) and cached. forced: as
 * in tt_tune_choose. If the choice of the class does not fit this call, the closed forms decide.
 * One thread at a time. */
struct tt_tune_choice tt_tune_recall(struct tt_tune_memory *m, const struct tt_tune_conf *conf,
                                     const struct tt_coll *call, const struct tt_algo *forced,
                                     bool simulate);

#endif
