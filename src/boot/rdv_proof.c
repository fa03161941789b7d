#include "boot/rdv_proof.h"

#include <string.h>
#include "base/status.h"

#define NONCES_BYTES (2 * TT_NONCE_BYTES)

void tt_rdv_prove(uint8_t out[TT_MAC_BYTES], const char *token, const char *purpose,
                  const uint8_t *server_nonce, const uint8_t *member_nonce, const void *said,
                  size_t bytes)
{
    uint8_t input[TT_MAC_INPUT_MAX];

    tt_assert(NONCES_BYTES + bytes <= sizeof input);
    memcpy(input, server_nonce, TT_NONCE_BYTES);
    memcpy(input + TT_NONCE_BYTES, member_nonce, TT_NONCE_BYTES);
    memcpy(input + NONCES_BYTES, said, bytes);
    tt_mac(out, token, strlen(token), purpose, input, NONCES_BYTES + bytes);
}

void tt_rdv_mask(uint8_t secret[TT_SECRET_BYTES], const char *token, const uint8_t *server_nonce,
                 const uint8_t *member_nonce)
{
    uint8_t pad[TT_MAC_BYTES];

    tt_rdv_prove(pad, token, "tutti rendezvous pad", server_nonce, member_nonce, "", 0);
    for (size_t i = 0; i < TT_SECRET_BYTES; i++)
        secret[i] ^= pad[i];
}

void tt_rdv_prove_table(uint8_t out[TT_MAC_BYTES], const char *token, const uint8_t *server_nonce,
                        const uint8_t *member_nonce, const uint8_t masked[TT_SECRET_BYTES],
                        const uint8_t digest[TT_MAC_BYTES])
{
    uint8_t said[TT_SECRET_BYTES + TT_MAC_BYTES];

    memcpy(said, masked, TT_SECRET_BYTES);
    memcpy(said + TT_SECRET_BYTES, digest, TT_MAC_BYTES);
    tt_rdv_prove(out, token, "tutti rendezvous table", server_nonce, member_nonce, said,
                 sizeof said);
}
