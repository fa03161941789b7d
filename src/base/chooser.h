/* Which of some ways of doing the same thing takes least, where only trying tells: all are timed at first, then the best one is in use and the others are
 * tried now and then, as what was best may not stay so. Pure: who uses it has the clock. */
#ifndef TT_BASE_CHOOSER_H
#define TT_BASE_CHOOSER_H

#include <stdbool.h>
#include <stdint.h>

#define TT_CHOOSER_WAYS 3u
#define TT_CHOOSER_KEPT 12u

/* All zero: nothing is known yet. */
struct tt_chooser {
    uint8_t best;                           /* of what is known; whoever goes it without timing it may look */
    uint8_t last;                           /* what tt_chooser_next said */
    uint8_t ways;
    bool in_runs;                           /* of tt_chooser_runs: each cost is that of the last of a run, so two tell enough at first */
    uint32_t uses;
    uint32_t known[TT_CHOOSER_WAYS];        /* uses timed, of each way */
    uint32_t cost[TT_CHOOSER_WAYS][TT_CHOOSER_KEPT];        /* what the last ones took */
};

/* Which way the next use goes. ways: 2 or TT_CHOOSER_WAYS, always the same. Depends on the number of uses and on what was learnt alone: who counts alike tries alike. */
uint8_t tt_chooser_next(struct tt_chooser *c, uint8_t ways);
/* Learns that a use went this way, and what it took (of its length, say); beyond 32 bits all is the same. margins: [ways], by how many sixteenths of what the best takes
 * each must be better to take its place. */
void tt_chooser_learn(struct tt_chooser *c, uint8_t way, uint64_t cost, const uint8_t margins[]);

/* The same where a way takes some uses until the caches are as it leaves them: so many in a row go it, and the last of them is timed. All zero at first. */
struct tt_chooser_runs {
    struct tt_chooser chooser;
    uint32_t uses;
};

/* Which way the next use goes; *timed: and is to be learnt from. run: at least 1; the same from one use to the next, or nothing is lost but time.
 * in_use: the way that is gone where none is tried. That is the best known here (r->chooser.best), or what several who go together have agreed on. */
uint8_t tt_chooser_runs_next(struct tt_chooser_runs *r, uint8_t ways, uint32_t run, uint8_t in_use, bool *timed);

#endif
