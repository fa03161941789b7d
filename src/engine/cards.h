/* Compressed store of the cards of all ranks. The cards of one job differ in few bytes. Each is
 * stored as a difference to another card: one of a few whole ones, or that of a preceding rank,
 * which may be on the same host. Compression is lossless. One thread at a time. */
#ifndef TT_ENGINE_CARDS_H
#define TT_ENGINE_CARDS_H

#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

#define TT_ENGINE_CARD_BYTES 1024u
#define TT_CARDS_WHOLE 8u

struct tt_cards {
    uint32_t nranks;
    uint32_t *at;               /* [nranks] position of the packed card in `bytes`, from 1; 0:
                                   none */
    uint8_t *bytes;             /* [cap], [1 .. end) used */
    uint32_t end, cap;
    uint32_t whole[TT_CARDS_WHOLE], nwhole;     /* positions of the whole cards */
    uint32_t near;              /* position of the newest card whose base is not NEAR; 0: none */
};

/* Initializes an empty store for nranks cards. Call tt_cards_fini afterwards, even on failure. */
tutti_status tt_cards_init(struct tt_cards *c, uint32_t nranks);
void tt_cards_fini(struct tt_cards *c);
/* Stores card[bytes] as that of `rank`; bytes is at most TT_ENGINE_CARD_BYTES. NOMEM (logged). */
tutti_status tt_cards_put(struct tt_cards *c, uint32_t rank, const void *card, size_t bytes);
/* Frees the memory reserved for more cards. */
void tt_cards_settle(struct tt_cards *c);
/* Copies the card of `rank` to card[TT_ENGINE_CARD_BYTES], padded with zeros. Returns its size,
 * or 0 if there is none. */
size_t tt_cards_get(const struct tt_cards *c, uint32_t rank, uint8_t *card);
/* Returns the memory used by the store, in bytes. */
uint64_t tt_cards_bytes(const struct tt_cards *c);

#endif
