/* The offer of a rank as one record, for elastic runs, which exchange no other data at the start of
 * a world. */
#ifndef TT_COMM_OFFER_H
#define TT_COMM_OFFER_H

#include "comm/comm.h"

/* Writes the offer into out[*bytes]. UNSUPPORTED (logged): it does not fit. */
tutti_status tt_world_offer_write(const struct tt_world_offer *offer, uint8_t out[TT_CARD_BYTES],
                                  size_t *bytes);
/* Adds the offer of one rank. Call for all ranks, including this one, in order. MISMATCH (logged):
 * its settings differ from those of this rank. PROTOCOL (logged): it is invalid. */
tutti_status tt_world_add_offer(struct tt_world *w, uint32_t rank, const uint8_t *offer,
                                size_t bytes);

#endif
