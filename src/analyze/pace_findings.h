/* The findings of all windows. */
#ifndef TT_ANALYZE_PACE_FINDINGS_H
#define TT_ANALYZE_PACE_FINDINGS_H

#include "analyze/pace_state.h"

/* Adds a finding of the current window, or counts the window for an earlier finding of the same
 * ranks or the same group. Ignores first, last, nwindows of *x. Returns false without memory. */
bool tt_pace_findings_add(struct tt_pace *p, const struct tt_pace_found *x);

#endif
