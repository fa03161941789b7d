/* Connections to peers, their losses, and the failures that they have reported. The caller holds
 * the progress lock. */
#ifndef TT_ENGINE_CONNECT_H
#define TT_ENGINE_CONNECT_H

#include "engine/state.h"

/* Reads the card of a rank into card[TT_ENGINE_CARD_BYTES]. Returns its size; 0: there is none. */
size_t tt_engine_read_card(const struct tt_engine *e, uint32_t rank, uint8_t *card);
/* Connects to p over the first wire that reaches it. */
void tt_peer_connect(struct tt_engine *e, struct tt_peer *p);
/* Logs the allowed transports that are unusable. The first rank of a host logs a warning, once; all
 * other messages have level INFO. */
void tt_engine_log_unusable(struct tt_engine *e);

/* Declares job rank `rank` lost: fails every context that contains it. `how` completes the
 * message, e.g. "its connection closed". */
void tt_peer_lost(struct tt_engine *e, uint32_t rank, const char *how);
/* Records that a peer has left in order. Only operations that still need it fail. */
void tt_peer_left(struct tt_engine *e, struct tt_peer *p);
/* Keeps the last failure that `rank` reported. No effect if rank is UINT32_MAX. */
void tt_report_keep(struct tt_engine *e, uint32_t rank, const char *sentence);
#define TT_REPORT_TEXT_BYTES 400
/* Prints the last failure that a rank reported: "; it had reported: ...", or "". Returns out. */
const char *tt_report_text(const struct tt_engine *e, uint32_t rank,
                           char out[TT_REPORT_TEXT_BYTES]);

#endif
