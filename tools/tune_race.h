/* One collective at one size: who is fastest? All functions here are collective, and all ranks come to the same results, as they
 * see the same times. */
#ifndef TUTTI_TOOLS_TUNE_RACE_H
#define TUTTI_TOOLS_TUNE_RACE_H

#include "comm/tunefile.h"
#include "perf_case.h"
#include "tune_options.h"

#define TUNE_SCOUTING 2u            /* rounds before anybody is dropped */
#define TUNE_CANDIDATES_MAX 96u

struct tune_candidate {
    const struct tt_algo *algo;
    struct tt_segments segments;
    bool untuned, dropped;
    long iters;                     /* of a round; 0: not known yet */
    uint32_t nus;
    double us[TUNE_ROUNDS_MAX];     /* [nus] medians of the rounds, since the last start */
};

struct tune_race {
    const struct perf_case *c;      /* placed; out of place */
    tutti_comm *comm;
    uint32_t rounds;
    /* Asked after each measurement whether this rank wants to end. */
    bool (*is_over)(void *arg);
    void (*round)(void *arg, uint32_t done, uint32_t of, uint32_t ncandidates);     /* progress; after each round */
    void *arg;
    struct tt_coll coll;
    uint32_t n;
    struct tune_candidate candidate[TUNE_CANDIDATES_MAX];
};

/* About how long it will take, in no unit: for estimates of what is left. */
double tune_race_weight(const struct perf_case *c, const tutti_comm *comm, uint32_t rounds);

/* Measures. *over: some rank wanted to end, and nothing was found. The communicator is left without a tune file. */
tutti_status tune_race_run(struct tune_race *r, bool *over);

/* Adds what was found to rows[], best first: of each algorithm its best segments, and what is chosen untuned. Returns how many, at most
 * TUNE_CANDIDATES_MAX. Local. */
uint32_t tune_race_rows(struct tune_race *r, struct tt_tune_row *rows);

#endif
