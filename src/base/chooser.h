/* Which of two ways of doing the same thing takes less, where only trying tells: both are timed at first, then the better one is in use and the other is
 * tried now and then, as what was better may not stay so. Pure: who uses it has the clock. */
#ifndef TT_BASE_CHOOSER_H
#define TT_BASE_CHOOSER_H

#include <stdbool.h>
#include <stdint.h>

#define TT_CHOOSER_KEPT 8u

/* All zero: nothing is known yet. */
struct tt_chooser {
    bool second;                            /* the way in use; whoever goes it without timing it may look */
    bool last;                              /* what tt_chooser_next said */
    bool in_runs;                           /* of tt_chooser_runs: each cost is that of the last of a run, so two tell enough at first */
    uint32_t uses;
    uint32_t known[2];                      /* uses timed, of either way */
    uint32_t cost[2][TT_CHOOSER_KEPT];      /* what the last ones took */
};

/* Whether the next use goes the second way. Depends on the number of uses and on what was learnt alone: who counts alike tries alike. */
bool tt_chooser_next(struct tt_chooser *c);
/* Learns that a use went this way, and what it took (of its length, say); beyond 32 bits all is the same. margins: by how many sixteenths of what is in
 * use the first way, and the second, must be better to take its place. */
void tt_chooser_learn(struct tt_chooser *c, bool second, uint64_t cost, const uint8_t margins[2]);

/* The same where a way takes some uses until the caches are as it leaves them: so many in a row go it, and the last of them is timed. All zero at first. */
struct tt_chooser_runs {
    struct tt_chooser chooser;
    uint32_t uses;
};

/* Whether the next use goes the second way; *timed: and is to be learnt from. run: at least 1; the same from one use to the next, or nothing is lost but time. */
bool tt_chooser_runs_next(struct tt_chooser_runs *r, uint32_t run, bool *timed);

#endif
