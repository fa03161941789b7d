/* Finds the fastest candidate for one collective and size. All functions here are collective unless
 * marked local. All ranks compute the same results, because they use the same times. */
#ifndef TUTTI_TOOLS_TUNE_RACE_H
#define TUTTI_TOOLS_TUNE_RACE_H

#include "comm/tunefile.h"
#include "tools/perf/perf_case.h"
#include "tools/tune/tune_options.h"

#define TUNE_SCOUTING 2u            /* rounds before the first candidate is dropped */
#define TUNE_CANDIDATES_MAX 96u

struct tune_candidate {
    const struct tt_algo *algo;
    struct tt_segments segments;
    bool untuned, dropped;
    long iters;                     /* iterations per round; 0: not known yet */
    uint32_t nus;
    double us[TUNE_ROUNDS_MAX];     /* [nus] medians of the rounds since the last reset */
};

struct tune_race {
    const struct perf_case *c;      /* placed; out of place */
    tutti_comm *comm;
    uint32_t rounds;
    /* Called after each measurement; returns true if this rank has been interrupted. */
    bool (*is_over)(void *arg);
    /* progress; called after each round */
    void (*round)(void *arg, uint32_t done, uint32_t of, uint32_t ncandidates);
    void *arg;
    struct tt_coll coll;
    uint32_t n;
    struct tune_candidate candidate[TUNE_CANDIDATES_MAX];
};

/* Returns the expected duration in arbitrary units, to estimate the remaining time. */
double tune_race_weight(const struct perf_case *c, const tutti_comm *comm, uint32_t rounds);

/* Measures. *over: a rank was interrupted, and there is no result. On return the communicator has
 * no tune file. */
tutti_status tune_race_run(struct tune_race *r, bool *over);

/* Adds the results to rows[], best first: the best segments of each algorithm, and the choice
 * without a tune file. Returns their number, at most TUNE_CANDIDATES_MAX. Local. */
uint32_t tune_race_rows(struct tune_race *r, struct tt_tune_row *rows);

#endif
