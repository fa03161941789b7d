/* Slow ranks, slow links and late callers, from completed operations in windows of time. Pure: no
 * clock. Not for concurrent use.
 *
 * The transfer time of an operation is the time from its last call to its median end (to its last
 * end, if not all ranks wait for each other). It does not depend on late callers. It is compared
 * with the transfer times of other groups of ranks in the same kind of operation, or of earlier
 * windows of the same group.
 *
 *   late caller   the rank calls most operations of a group later than the other ranks, after more
 *                 time outside of operations: it did not wait for another late rank
 *   slow rank     all groups of the rank are slow, at least two, and no other rank is in all of
 *                 them; or the rank ends most operations later than the others, in all groups of
 *                 more than two ranks
 *   slow link     a group of two is slow; both ranks have other groups, which are not slow
 *   slow group    another group is slow; the records do not show the reason
 *
 * Each condition must be true in TT_PACE_STREAK consecutive windows (those with too few operations
 * are skipped), and must cost TT_PACE_SHARE of the time. */
#ifndef TT_ANALYZE_PACE_H
#define TT_ANALYZE_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

#define TT_PACE_STREAK 3u
#define TT_PACE_OPS_MIN 8u              /* minimum operations to evaluate a group in a window */
#define TT_PACE_SLOW 1.5                /* slow: this multiple of the usual transfer time */
#define TT_PACE_SHARE 0.03              /* of a window */
#define TT_PACE_NONE UINT32_MAX

/* Bounds for hostile dumps. */
#define TT_PACE_SAMPLES 64u             /* kept transfer times of a group and class in a window */
#define TT_PACE_SAMPLES_MAX (1u << 24)  /* of all groups and classes */
#define TT_PACE_SERIES_MAX (1u << 20)   /* pairs of a group and a class */
#define TT_PACE_STEPS \
    64u /* of the search for slow ranks, per rank of each group with
                                           operations in the window */

enum tt_pace_kind { TT_PACE_LATE, TT_PACE_RANK, TT_PACE_LINK, TT_PACE_GROUP };

struct tt_pace_found {
    enum tt_pace_kind kind;
    uint32_t rank, to;                  /* LATE, RANK: rank; LINK: both; otherwise NONE */
    uint32_t group;                     /* with the strongest evidence */
    uint32_t first, last;               /* windows, counted from 0; reported in `first` */
    uint32_t nwindows;                  /* windows with this finding, from `first` on */
    double factor;                      /* transfer time in the last window / usual one; LATE: 0 */
    double lost_ns;                     /* LATE: time that others waited for it, since `first` */
};

/* A completed operation of all ranks of a group, in the order of the group's ranks. */
struct tt_pace_op {
    uint32_t group;
    uint64_t class;                     /* equal for operations that should take equal time; 0:
                                           only the calls are compared */
    bool is_mutual;                     /* no rank can end before all have called */
    int64_t error_ns;                   /* maximum error of time differences between ranks */
    const int64_t *called, *ended;      /* [n] */
    const int64_t *outside;             /* [n] time outside of operations before the call */
};

/* What the bounds excluded, and the costs. */
struct tt_pace_counts {
    uint64_t nskipped;                  /* operations whose transfer times were not used */
    uint64_t nunjudged;                 /* ranks that could not be evaluated in a window */
    uint64_t nsteps;                    /* of the evaluations of all windows */
    size_t nseries_most;                /* pairs of a group and a class at the same time */
    size_t bytes_most;                  /* allocated for them */
};

struct tt_pace;

/* Allocates the state for ranks below nranks. NOMEM (logged): NULL. The caller must call
 * tt_pace_destroy. */
struct tt_pace *tt_pace_create(uint32_t nranks);
void tt_pace_destroy(struct tt_pace *p);
/* Adds a group of two or more different ranks[n], each below nranks. Returns its index. NONE: out
 * of memory (logged). */
uint32_t tt_pace_add_group(struct tt_pace *p, const uint32_t *ranks, uint32_t n);
/* Adds an operation to the current window. NOMEM (logged). */
tutti_status tt_pace_add(struct tt_pace *p, const struct tt_pace_op *op);
/* Ends the current window, of window_ns, and evaluates it. NOMEM (logged): it is not evaluated. */
tutti_status tt_pace_close(struct tt_pace *p, int64_t window_ns);
struct tt_pace_counts tt_pace_counts(const struct tt_pace *p);
/* Returns the findings of all windows so far, in the order in which they were found. *n: their
 * number. Valid until the next call. */
const struct tt_pace_found *tt_pace_found(const struct tt_pace *p, uint32_t *n);

#endif
