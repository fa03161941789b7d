#include "boot/auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <string.h>
#include "base/prng.h"
#include "base/status.h"
#include "secure/ending.h"

void tt_mac(uint8_t out[TT_MAC_BYTES], const void *key, size_t key_bytes, const char *purpose,
            const void *data, size_t data_bytes)
{
    uint8_t input[64 + TT_MAC_INPUT_MAX];
    const size_t named = strlen(purpose) + 1;
    const unsigned char *done;
    unsigned bytes = 0;

    tt_assert(named <= 64 && data_bytes <= TT_MAC_INPUT_MAX);
    memcpy(input, purpose, named);
    memcpy(input + named, data, data_bytes);
    if (!tt_openssl_try()) {
        tt_random_bytes(out, TT_MAC_BYTES);
        return;
    }
    done = HMAC(EVP_sha256(), key, (int)key_bytes, input, named + data_bytes, out, &bytes);
    tt_openssl_leave();
    tt_assert(done && bytes == TT_MAC_BYTES);
}

bool tt_mac_equal(const uint8_t a[TT_MAC_BYTES], const uint8_t b[TT_MAC_BYTES])
{
    return CRYPTO_memcmp(a, b, TT_MAC_BYTES) == 0;
}

void tt_digest(uint8_t out[TT_MAC_BYTES], const void *data, size_t bytes)
{
    if (!tt_openssl_try()) {
        tt_random_bytes(out, TT_MAC_BYTES);
        return;
    }
    SHA256(data, bytes, out);
    tt_openssl_leave();
}
