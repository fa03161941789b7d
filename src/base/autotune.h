/* Selects the fastest of several methods (ways) by measuring them. At first all ways are timed.
 * Then the best is used, and all are retried periodically, since the best one may change. Pure: the
 * caller reads the clock. */
#ifndef TT_BASE_AUTOTUNE_H
#define TT_BASE_AUTOTUNE_H

#include <stdbool.h>
#include <stdint.h>

#define TT_CHOOSER_WAYS 3u
#define TT_CHOOSER_KEPT 12u

/* All zero: no measurements yet. */
struct tt_autotune {
    uint8_t best;                           /* best measured way; may be read without timing a
                                               use */
    uint8_t last;                           /* last result of tt_autotune_next */
    uint8_t ways;
    bool in_runs;                           /* used by tt_autotune_runs: each cost is the last of
                                               a run, so two tries suffice at first */
    uint32_t uses;
    uint32_t known[TT_CHOOSER_WAYS];        /* number of timed uses of each way */
    uint32_t cost[TT_CHOOSER_WAYS][TT_CHOOSER_KEPT];        /* costs of the last timed uses */
};

/* Returns the way for the next use. ways: 2 or TT_CHOOSER_WAYS, always the same. The result depends
 * only on the number of uses and the recorded costs: ranks with equal counts try the same way. */
uint8_t tt_autotune_next(struct tt_autotune *c, uint8_t ways);
/* Records the cost of one use of `way`, e.g. time per byte; costs beyond 32 bits are equal.
 * margins[ways]: by how many sixteenths of the best way's cost each way must be cheaper to replace
 * it. */
void tt_autotune_learn(struct tt_autotune *c, uint8_t way, uint64_t cost, const uint8_t margins[]);

/* Variant for ways whose first uses run with the caches of the previous way. A way is used for a
 * run of several uses, and only the last one is timed. All zero at first. */
struct tt_autotune_runs {
    struct tt_autotune chooser;
    uint32_t uses;
};

/* Returns the way for the next use. *timed: the use must be timed and recorded with
 * tt_autotune_learn.
 * run: uses per run, at least 1; it should be constant, since a change only wastes tries.
 * in_use: the way to use outside tries: the best one here (r->chooser.best), or one agreed on by
 * several ranks. */
uint8_t tt_autotune_runs_next(struct tt_autotune_runs *r, uint8_t ways, uint32_t run,
                              uint8_t in_use, bool *timed);

/* Variant for two ways of which the caller can measure only the first, because others pay for the
 * second. The first is timed at intervals and compared with a limit. All zero at first. */
struct tt_autotune_limit {
    uint8_t untimed, slow;      /* uses since the last timed one; consecutive slow ones */
    uint8_t seconds_left;       /* remaining uses of the second way */
};

/* Returns whether the next use is of the second way. *timed: the use must be timed and recorded. */
bool tt_autotune_limit_next(struct tt_autotune_limit *l, bool *timed);
/* Records a timed use; slow: its cost exceeded the limit. */
void tt_autotune_limit_learn(struct tt_autotune_limit *l, bool slow);

#endif
