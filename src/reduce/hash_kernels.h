/* The two inner loops of the hash, which every instruction set has its own of; all give the same bits. And the numbers of the
 * definition (docs/hash.md) that they share. */
#ifndef TT_REDUCE_HASH_KERNELS_H
#define TT_REDUCE_HASH_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include "reduce/hash.h"

/* Odd pieces of the fractions of pi and e, in base 16. */
#define TT_HASH_MULTIPLY_A 0x85a308d3u
#define TT_HASH_MULTIPLY_B 0xec4e6c89u
#define TT_HASH_MULTIPLY_MIX 0x9cf4f3c7u
/* What a lane's two words are mixed with, and the sum of all blocks. */
#define TT_HASH_LANE_2 0x243f6a88u
#define TT_HASH_LANE_3 0x13198a2eu
#define TT_HASH_VALUE_2 0xb7e15162u
#define TT_HASH_VALUE_3 0xbf715880u

enum { TT_HASH_MIX_PASSES = 3, TT_HASH_MIX_SHIFT = 15, TT_HASH_ROTATE_A = 16, TT_HASH_ROTATE_B = 13 };

struct tt_hash_kernels {
    /* Takes data[nrows][TT_HASH_ROW_BYTES], at any alignment, into the lanes. */
    void (*rows)(struct tt_hash_lanes *lanes, const uint8_t *data, size_t nrows);
    /* digest: the sum of all lanes, each mixed. */
    void (*fold)(uint32_t digest[4], const struct tt_hash_lanes *lanes);
};

extern const struct tt_hash_kernels tt_hash_portable;
#if defined(__x86_64__)
extern const struct tt_hash_kernels tt_hash_avx2;
#endif

/* Stirs 128 bits; a permutation of them. */
static inline void tt_hash_mix(uint32_t x[4])
{
    for (int pass = 0; pass < TT_HASH_MIX_PASSES; pass++)
        for (int i = 0; i < 4; i++) {
            x[i] = (x[i] ^ x[(i + 3) % 4]) * TT_HASH_MULTIPLY_MIX;
            x[i] ^= x[i] >> TT_HASH_MIX_SHIFT;
        }
}

#endif
