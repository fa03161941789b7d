/* Proof that both ends of a connection have the same secret, without sending it: HMAC-SHA256 over
 * nonces of both ends. libcrypto provides the cryptography. */
#ifndef TT_BOOT_AUTH_H
#define TT_BOOT_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_MAC_BYTES 32
#define TT_NONCE_BYTES 16
#define TT_MAC_INPUT_MAX 4096

/* out = HMAC-SHA256(key, purpose NUL data). `purpose` separates proofs of different kinds.
 * data_bytes is at most TT_MAC_INPUT_MAX. After OpenSSL's teardown at process exit, out is random:
 * it proves nothing and matches nothing. Threads that hold locks may call this at any time. */
void tt_mac(uint8_t out[TT_MAC_BYTES], const void *key, size_t key_bytes, const char *purpose,
            const void *data, size_t data_bytes);
/* Compares in constant time. */
bool tt_mac_equal(const uint8_t a[TT_MAC_BYTES], const uint8_t b[TT_MAC_BYTES]);
/* SHA-256, for data longer than TT_MAC_INPUT_MAX. After OpenSSL's teardown, out is random, too. */
void tt_digest(uint8_t out[TT_MAC_BYTES], const void *data, size_t bytes);

#endif
