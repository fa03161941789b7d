/* Losses of peers, and the failures that they have reported. The caller holds the progress lock. */
#ifndef TT_ENGINE_LOSSES_H
#define TT_ENGINE_LOSSES_H

#include "engine/state.h"

/* Declares job rank `rank` lost: fails every context that contains it. `how` completes the
 * message, e.g. "its connection closed". */
void tt_peer_lost(struct tt_engine *e, uint32_t rank, const char *how);
/* The peer closed its connection in order: only operations that still need it fail. */
void tt_peer_left(struct tt_engine *e, struct tt_peer *p);
/* Keeps the last failure that a rank reported; UINT32_MAX: none. */
void tt_report_keep(struct tt_engine *e, uint32_t rank, const char *sentence);
#define TT_REPORT_TEXT_BYTES 400
/* Prints the last failure that a rank reported: "; it had reported: ...", or "". Returns out. */
const char *tt_report_text(const struct tt_engine *e, uint32_t rank,
                           char out[TT_REPORT_TEXT_BYTES]);

#endif
