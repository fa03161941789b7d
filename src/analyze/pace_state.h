/* The state of struct tt_pace. Used by the pace files only. */
#ifndef TT_ANALYZE_PACE_STATE_H
#define TT_ANALYZE_PACE_STATE_H

#include "analyze/pace.h"

#define TT_PACE_HISTORY 16u             /* medians of earlier windows that were not slow */
#define TT_PACE_HISTORY_MIN 4u

enum tt_pace_state { TT_PACE_UNKNOWN, TT_PACE_NORMAL, TT_PACE_IS_SLOW };

/* A rank in a group, in the current window. */
struct tt_pace_seat {
    uint32_t rank;
    uint32_t nlate, nbehind;            /* operations called late; ended after the others */
    double late_ns, behind_ns;          /* total delays of these */
    double behind;                      /* sum of the factors of its transfer times */
    double lost_ns;                     /* time that others waited for it */
};

struct tt_pace_members {
    size_t first;                       /* in seats */
    uint32_t n;
    uint32_t nops, nmutual;             /* in the current window */
    uint32_t nslow, nnormal;            /* of these, comparable with a usual transfer time */
    double slow_ns;                     /* time beyond the usual time */
    double factor;                      /* largest factor of its series */
    enum tt_pace_state state;
    uint32_t streak;                    /* consecutive slow windows without a slow rank */
};

/* Operations of one class in one group. */
struct tt_pace_series {
    uint64_t class;
    uint32_t group;
    uint32_t window;                    /* of its last operation: index + 1 */
    uint32_t nops, nsamples;            /* in this window */
    uint32_t last_sample;               /* index + 1; 0: none */
    uint32_t history;                   /* index + 1; 0: it was never evaluated */
    uint32_t nhistory;                  /* total number of medians; the last ones are kept */
    bool is_compared;                   /* with other groups, not with earlier windows */
    double median, usual;               /* usual 0: unknown */
};

/* A transfer time of the current window. */
struct tt_pace_sample {
    double ns;
    uint32_t before;                    /* previous one of the same series: index + 1; 0: none */
};

struct tt_pace_history {
    double medians[TT_PACE_HISTORY];
};

struct tt_pace_rank {
    uint32_t nslow, nnormal;            /* its groups in the current window */
    uint32_t nbehind, nequal;           /* groups in which it ends after, or with, the others */
    bool is_used;                       /* a group of the rank had an operation */
    bool is_slow, is_judged;            /* is_judged: its calls were evaluated */
    uint32_t group;                     /* with the strongest evidence */
    double factor, lost_ns;
    uint32_t late_group;
    uint32_t late_streak, slow_streak;
    bool is_late;
    size_t slow_first;                  /* its slow groups, in tt_pace.slow */
};

struct tt_pace {
    uint32_t nranks, window;
    struct tt_pace_rank *ranks;
    struct tt_pace_members *groups;
    struct tt_pace_seat *seats;
    struct tt_pace_series *series;
    struct tt_pace_sample *samples;
    struct tt_pace_history *histories;
    struct tt_pace_found *found;
    uint32_t *slots, *found_slots;      /* by hash: index + 1; 0: free */
    size_t ngroups, nseats, nseries, nsamples, nhistories, nfound, nslots, nfound_slots;
    size_t cap_groups, cap_seats, cap_series, cap_samples, cap_histories, cap_found;
    size_t nseries_kept;                /* when series were last dropped */
    uint32_t *used_groups, *used_ranks; /* with operations in the current window */
    size_t nused_groups, nused_ranks, cap_used_groups, cap_used_ranks;
    size_t nused_seats;                 /* in these groups */
    uint32_t *used_series;
    size_t nused_series, cap_used_series;
    double *values;                     /* scratch */
    size_t cap_values;
    uint32_t *slow;                     /* scratch: slow groups of each rank, in ascending order */
    size_t cap_slow;
    struct tt_pace_counts counts;
};

#endif
