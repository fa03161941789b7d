/* What both sides of the rendezvous compute, to prove to each other that they know the token. Pure. */
#ifndef TT_BOOT_RDV_PROOF_H
#define TT_BOOT_RDV_PROOF_H

#include "boot/rendezvous.h"

/* Proof by `token` of `said`, bound to this very connection. */
void tt_rdv_prove(uint8_t out[TT_MAC_BYTES], const char *token, const char *purpose, const uint8_t *server_nonce,
                  const uint8_t *member_nonce, const void *said, size_t bytes);
/* Covers or uncovers the secret: HMAC of the fresh numbers as a one-time pad, so that it is not readable on the way. */
void tt_rdv_mask(uint8_t secret[TT_SECRET_BYTES], const char *token, const uint8_t *server_nonce,
                 const uint8_t *member_nonce);
/* The table is long and the same for all: its digest is what each connection's proof covers, with the masked secret. */
void tt_rdv_prove_table(uint8_t out[TT_MAC_BYTES], const char *token, const uint8_t *server_nonce,
                        const uint8_t *member_nonce, const uint8_t masked[TT_SECRET_BYTES],
                        const uint8_t digest[TT_MAC_BYTES]);

#endif
