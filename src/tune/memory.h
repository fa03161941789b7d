/* Choices that were made, by class of calls. Which call of a class came first, and what was forgotten in between, changes nothing: what is
 * chosen depends on the class alone. */
#ifndef TT_TUNE_MEMORY_H
#define TT_TUNE_MEMORY_H

#include "tune/tune.h"

#define TT_TUNE_REMEMBERED 128u

struct tt_tune_memory {
    struct {
        uint64_t key;       /* 0: empty */
        struct tt_tune_choice choice;
    } slot[TT_TUNE_REMEMBERED];
};

/* The choice for a call, from memory or made now (tt_tune_choose) and kept. forced: as there. Where the choice of the class does
 * not fit this call, the closed forms decide. One thread at a time. */
struct tt_tune_choice tt_tune_recall(struct tt_tune_memory *m, const struct tt_tune_conf *conf,
                                     const struct tt_coll *call, const struct tt_algo *forced, bool simulate);

#endif
