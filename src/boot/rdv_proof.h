/* Proofs of the rendezvous, by which both ends show that they have the token. Pure. */
#ifndef TT_BOOT_RDV_PROOF_H
#define TT_BOOT_RDV_PROOF_H

#include "boot/rendezvous.h"

/* Computes a proof of `said` by `token`, bound to this connection by its nonces. */
void tt_rdv_prove(uint8_t out[TT_MAC_BYTES], const char *token, const char *purpose,
                  const uint8_t *server_nonce, const uint8_t *member_nonce, const void *said,
                  size_t bytes);
/* Masks or unmasks the secret: the HMAC of the nonces is a one-time pad, so the secret is not
 * readable in transit. */
void tt_rdv_mask(uint8_t secret[TT_SECRET_BYTES], const char *token, const uint8_t *server_nonce,
                 const uint8_t *member_nonce);
/* The table is long and equal for all members: the proof of each connection covers its digest and
 * the masked secret. */
void tt_rdv_prove_table(uint8_t out[TT_MAC_BYTES], const char *token, const uint8_t *server_nonce,
                        const uint8_t *member_nonce, const uint8_t masked[TT_SECRET_BYTES],
                        const uint8_t digest[TT_MAC_BYTES]);

#endif
