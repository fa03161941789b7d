/* The cards of all ranks, packed: cards of one job differ in few bytes, so each is kept as what it differs in from one of a few that are kept
 * whole, or from that of a rank just before it, which may be on the same host. What comes out is what went in. One thread at a time. */
#ifndef TT_ENGINE_CARDS_H
#define TT_ENGINE_CARDS_H

#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

#define TT_ENGINE_CARD_BYTES 1024u
#define TT_CARDS_WHOLE 8u

struct tt_cards {
    uint32_t nranks;
    uint32_t *at;               /* [nranks] where its packed form begins, from 1 on; 0: there is none */
    uint8_t *bytes;             /* [cap], [1 .. end) used */
    uint32_t end, cap;
    uint32_t whole[TT_CARDS_WHOLE], nwhole;     /* where cards that are whole begin, to pack others by */
    uint32_t near;              /* where the newest begins that is packed by none such as this; 0: there is none */
};

/* Empty, for that many ranks. Ends with tt_cards_fini, also if it fails. */
tutti_status tt_cards_init(struct tt_cards *c, uint32_t nranks);
void tt_cards_fini(struct tt_cards *c);
/* card[bytes], at most TT_ENGINE_CARD_BYTES, is that of `rank`, from now on. NOMEM (logged). */
tutti_status tt_cards_put(struct tt_cards *c, uint32_t rank, const void *card, size_t bytes);
/* Gives back memory that was kept for more cards. */
void tt_cards_settle(struct tt_cards *c);
/* The card of `rank` into card[TT_ENGINE_CARD_BYTES], zeros behind it; returns its bytes, 0 if there is none. */
size_t tt_cards_get(const struct tt_cards *c, uint32_t rank, uint8_t *card);
/* That the cards take, and how to find them. */
uint64_t tt_cards_bytes(const struct tt_cards *c);

#endif
