/* Transfer times by group and class. */
#ifndef TT_ANALYZE_PACE_SERIES_H
#define TT_ANALYZE_PACE_SERIES_H

#include "analyze/pace_state.h"

/* Sorts values[n] and returns their median; 0 without values. */
double tt_pace_median(double *values, size_t n);

/* Adds an operation of a group and class to the current window. Transfer times of 0 or less are
 * ignored; operations beyond the bounds of pace.h are only counted. False: out of memory. */
bool tt_pace_series_add(struct tt_pace *p, uint32_t group, uint64_t class, double transfer_ns);
/* Sets the median of the current window. */
void tt_pace_series_set_median(const struct tt_pace *p, struct tt_pace_series *s);
/* Returns the usual median of earlier windows; 0: unknown. */
double tt_pace_series_usual(const struct tt_pace *p, const struct tt_pace_series *s);
/* Keeps the median of the current window for later windows. Returns false without memory. */
bool tt_pace_series_keep(struct tt_pace *p, struct tt_pace_series *s);
/* Begins a window: removes all transfer times, and sometimes the series without a history. */
void tt_pace_series_begin_window(struct tt_pace *p);
/* Returns the bytes allocated for series, their transfer times and histories. */
size_t tt_pace_series_bytes(const struct tt_pace *p);

#endif
