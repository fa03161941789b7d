/* Connection to peers. The caller holds the progress lock. */
#ifndef TT_ENGINE_CONNECT_H
#define TT_ENGINE_CONNECT_H

#include "engine/state.h"

/* Reads the card of a rank into card[TT_ENGINE_CARD_BYTES]. Returns its size; 0: there is none. */
size_t tt_engine_read_card(const struct tt_engine *e, uint32_t rank, uint8_t *card);
/* Connects to p over the first wire that reaches it. */
void tt_peer_connect(struct tt_engine *e, struct tt_peer *p);
/* Logs the allowed transports that are unusable. Logged once per host, and there once per
 * process, however many communicators or views are created. */
void tt_engine_log_unusable(struct tt_engine *e);

#endif
