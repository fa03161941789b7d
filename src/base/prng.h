/* A small deterministic generator (xoshiro256**, seeded by splitmix64): the same seed gives the
 * same sequence on every machine. Not for secrets. */
#ifndef TT_BASE_PRNG_H
#define TT_BASE_PRNG_H

#include <stdint.h>

struct tt_prng {
    uint64_t s[4];
};

void tt_prng_init(struct tt_prng *p, uint64_t seed);
uint64_t tt_prng_u64(struct tt_prng *p);
/* Uniform in [0, bound); bound > 0. */
uint64_t tt_prng_below(struct tt_prng *p, uint64_t bound);
/* splitmix64's finalizer: a good 64-bit hash of x. */
uint64_t tt_mix64(uint64_t x);
/* FNV-1a style hash over bytes, finished by tt_mix64; deterministic everywhere. */
uint64_t tt_hash_bytes(const void *data, uint64_t bytes, uint64_t seed);
/* Fills out[bytes] from the operating system (getrandom, else /dev/urandom); for tokens and nonces.
 * Aborts without both. */
void tt_random_bytes(void *out, uint64_t bytes);

#endif
