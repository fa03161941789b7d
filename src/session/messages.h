/* Messages between members over the control connections: identity, properties of the view's
 * world, failures. The sender may be unauthenticated: a message is accepted completely or not at
 * all. */
#ifndef TT_SESSION_MESSAGES_H
#define TT_SESSION_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "boot/auth.h"
#include "boot/boot.h"
#include "elastic/message.h"

#define TT_MESSAGE_BYTES_MAX (TT_CARD_BYTES + 64)      /* maximum; texts are shorter */
/* size of a message text with NUL; enough for descriptions of two operations */
#define TT_MESSAGE_TEXT_BYTES 800

enum tt_message_kind {
    TT_MESSAGE_HELLO = 1,   /* first message on a connection, from both ends: id, nonce */
    TT_MESSAGE_PROOF,          /* second message: proves that the sender has the run's secret */
    TT_MESSAGE_OFFER,          /* the sender's proposal for the view's world */
    TT_MESSAGE_FAILED,         /* a context of the view failed at the sender first */
    TT_MESSAGE_KINDS
};

struct tt_message {
    uint8_t kind;
    bool keep;              /* OFFER: the world created in epoch `world` can be kept;
                               else a new one is needed, with this card */
    uint64_t id, epoch, world;
    uint32_t context, status;           /* FAILED */
    uint8_t nonce[TT_NONCE_BYTES], proof[TT_MAC_BYTES];
    uint16_t card_bytes;
    uint8_t card[TT_CARD_BYTES];
    char text[TT_MESSAGE_TEXT_BYTES];      /* FAILED */
};

/* Writes the message to out[TT_MESSAGE_BYTES_MAX]; returns its size. */
size_t tt_message_write(const struct tt_message *s, uint8_t out[TT_MESSAGE_BYTES_MAX]);
/* Returns false if data[bytes] is not exactly one message with valid values. */
bool tt_message_read(struct tt_message *s, const void *data, size_t bytes);

/* Identity of one end of a connection. */
struct tt_message_end {
    uint64_t id;
    uint8_t nonce[TT_NONCE_BYTES];
};
/* Computes the proof for `to` that `by` has the secret. connects: `by` initiated the connection. */
void tt_message_prove(uint8_t out[TT_MAC_BYTES], const uint8_t secret[TT_COOKIE_BYTES],
                      bool connects, const struct tt_message_end *by,
                      const struct tt_message_end *to);

#endif
