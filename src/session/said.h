/* What members of a run say to each other beside their data connections: who they are, what their view's world is made of, what failed.
 * Everything that is read here may come from a stranger: a message is taken whole or not at all. */
#ifndef TT_SESSION_SAID_H
#define TT_SESSION_SAID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "boot/auth.h"
#include "boot/boot.h"
#include "elastic/message.h"

#define TT_SAID_BYTES_MAX (TT_CARD_BYTES + 64)      /* of one message; a sentence is shorter */
#define TT_SAID_TEXT_BYTES 800          /* a sentence, also one that describes two operations, with its NUL */

enum tt_said_kind {
    TT_SAID_GREETING = 1,   /* the first on a connection, from both ends: id, nonce */
    TT_SAID_PROOF,          /* the second: that the sender knows the run's secret */
    TT_SAID_OFFER,          /* what the sender would have the view's world be */
    TT_SAID_FAILED,         /* a context of the view failed at the sender first */
    TT_SAID_KINDS
};

struct tt_said {
    uint8_t kind;
    bool keep;                          /* OFFER: the world that was made in epoch `world` will do; else a new one, and here is the card */
    uint64_t id, epoch, world;
    uint32_t context, status;           /* FAILED */
    uint8_t nonce[TT_NONCE_BYTES], proof[TT_MAC_BYTES];
    uint16_t card_bytes;
    uint8_t card[TT_CARD_BYTES];
    char text[TT_SAID_TEXT_BYTES];      /* FAILED */
};

/* Bytes written to out[TT_SAID_BYTES_MAX]. */
size_t tt_said_write(const struct tt_said *s, uint8_t out[TT_SAID_BYTES_MAX]);
/* False if data[bytes] is not exactly one message with values in range. */
bool tt_said_read(struct tt_said *s, const void *data, size_t bytes);

/* One end of a connection: who it is, and the number that it drew. */
struct tt_said_end {
    uint64_t id;
    uint8_t nonce[TT_NONCE_BYTES];
};
/* What `by`, which connected or was called, says to prove to `to` that it knows the secret. */
void tt_said_prove(uint8_t out[TT_MAC_BYTES], const uint8_t secret[TT_COOKIE_BYTES], bool connects,
                   const struct tt_said_end *by, const struct tt_said_end *to);

#endif
