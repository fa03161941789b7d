/* The state of struct tt_pace. Used by the pace files only. */
#ifndef TT_ANALYZE_PACE_STATE_H
#define TT_ANALYZE_PACE_STATE_H

#include "analyze/pace.h"

#define TT_PACE_SAMPLES 64u             /* transfer times kept of a series and window */
#define TT_PACE_HISTORY 16u             /* medians of earlier windows that were not slow */
#define TT_PACE_HISTORY_MIN 4u

enum tt_pace_state { TT_PACE_UNKNOWN, TT_PACE_NORMAL, TT_PACE_IS_SLOW };

/* A rank in a group, in the current window. */
struct tt_pace_seat {
    uint32_t rank;
    uint32_t nlate, nbehind;            /* operations called late; ended behind the others */
    double late_ns, behind_ns;          /* by how much, in total */
    double behind;                      /* sum of factors of its transfer time */
    double lost_ns;                     /* what others waited for it */
};

struct tt_pace_members {
    size_t first;                       /* in seats */
    uint32_t n;
    uint32_t nops, nmutual;             /* in the current window */
    uint32_t nslow, nnormal;            /* of these, with a usual transfer time to compare with */
    double slow_ns;                     /* beyond the usual time */
    double factor;                      /* the largest of its series */
    enum tt_pace_state state;
    uint32_t streak;                    /* consecutive slow windows without a slow rank */
};

/* Operations of one class in one group. */
struct tt_pace_series {
    uint64_t class;
    uint32_t group;
    uint32_t nops, nsamples;            /* in the current window */
    double samples[TT_PACE_SAMPLES];
    double median, usual;               /* usual 0: not known */
    bool is_compared;                   /* with other groups, not with earlier windows */
    double history[TT_PACE_HISTORY];
    uint32_t nhistory;                  /* of all; the last ones are kept */
};

struct tt_pace_rank {
    uint32_t nslow, nnormal;            /* its groups in the current window */
    uint32_t nbehind, nequal;           /* groups in which it ends behind the others, or with them */
    bool is_slow, is_judged;            /* is_judged: its calls */
    uint32_t group;                     /* strongest evidence */
    double factor, lost_ns;
    uint32_t late_group;
    uint32_t late_streak, slow_streak;
    bool is_late;
    uint32_t shared;                    /* scratch */
};

struct tt_pace {
    uint32_t nranks, window;
    struct tt_pace_rank *ranks;
    struct tt_pace_members *groups;
    struct tt_pace_seat *seats;
    struct tt_pace_series *series;
    struct tt_pace_found *found;
    uint32_t *slots;                    /* of series, by hash: number + 1; 0: free */
    size_t ngroups, nseats, nseries, nfound, nslots;
    size_t cap_groups, cap_seats, cap_series, cap_found;
    double *values;                     /* scratch */
    size_t cap_values;
    uint32_t *by_class;                 /* scratch: [nseries] */
    size_t cap_by_class;
    uint32_t *by_rank, *rank_first;     /* groups of each rank: [nseats], [nranks + 1] */
    size_t nindexed;                    /* groups in this index */
};

/* Returns the median of values[n], which it sorts; 0 without values. */
double tt_pace_median(double *values, size_t n);

#endif
