/* The 128-bit hash by which members of an elastic run compare their shared state (docs/hash.md).
 * The library and GPU kernels (tutti/hash_device.h) use the same functions, which consist of
 * arithmetic on 32-bit words and compile as C, C++ and CUDA. The hash is not cryptographic.
 *
 * The content is divided into blocks of TUTTI_HASH_BLOCK_BYTES, and each block into rows of
 * TUTTI_HASH_ROW_BYTES. Word l of each row, little-endian, belongs to lane l. The last row is
 * padded with zeros. Order of calls:
 *   per lane      tutti_hash_lane_begin; tutti_hash_lane_take for each word; tutti_hash_lane_end,
 *                 which adds the lane to the digest of the block
 *   per block     tutti_hash_block_end, which adds the digest to the sum
 *   at the end    tutti_hash_end
 * Lanes and blocks may be processed in any order and in parallel, because their results are
 * added. */
#ifndef TUTTI_HASH_H
#define TUTTI_HASH_H

#include <stdint.h>

#define TUTTI_HASH_LANES 32
#define TUTTI_HASH_ROW_BYTES 128
#define TUTTI_HASH_BLOCK_BYTES 16384

/* Odd multipliers, taken from the hexadecimal digits of pi and e. */
#define TUTTI_HASH_MULTIPLY_A 0x85a308d3u
#define TUTTI_HASH_MULTIPLY_B 0xec4e6c89u
#define TUTTI_HASH_MULTIPLY_MIX 0x9cf4f3c7u
/* Constants that are mixed into the state of each lane and into the sum of all blocks. */
#define TUTTI_HASH_LANE_2 0x243f6a88u
#define TUTTI_HASH_LANE_3 0x13198a2eu
#define TUTTI_HASH_VALUE_2 0xb7e15162u
#define TUTTI_HASH_VALUE_3 0xbf715880u

#define TUTTI_HASH_ROTATE_A 16
#define TUTTI_HASH_ROTATE_B 13
#define TUTTI_HASH_MIX_PASSES 3
#define TUTTI_HASH_MIX_SHIFT 15

#if defined(__CUDACC__)
#define TUTTI_HASH_CODE static __host__ __device__ inline
#else
#define TUTTI_HASH_CODE static inline
#endif

/* Returns x rotated to the left by `left` bits, 1 to 31. */
TUTTI_HASH_CODE uint32_t tutti_hash_rotate(uint32_t x, int left)
{
    return x << left | x >> (32 - left);
}

/* Mixes 128 bits. The function is a permutation of all 128-bit values. */
TUTTI_HASH_CODE void tutti_hash_mix(uint32_t x[4])
{
    for (int pass = 0; pass < TUTTI_HASH_MIX_PASSES; pass++)
        for (int i = 0; i < 4; i++) {
            x[i] = (x[i] ^ x[(i + 3) % 4]) * TUTTI_HASH_MULTIPLY_MIX;
            x[i] ^= x[i] >> TUTTI_HASH_MIX_SHIFT;
        }
}

/* ---- lanes ---- */

/* Writes the initial state of lane `lane` of a block to *a and *b. */
TUTTI_HASH_CODE void tutti_hash_lane_begin(uint32_t lane, uint32_t *a, uint32_t *b)
{
    uint32_t x[4] = { lane, 0, TUTTI_HASH_LANE_2, TUTTI_HASH_LANE_3 };

    tutti_hash_mix(x);
    *a = x[0];
    *b = x[1];
}

/* Adds one word to the state of a lane. */
TUTTI_HASH_CODE void tutti_hash_lane_take(uint32_t *a, uint32_t *b, uint32_t word)
{
    *a = tutti_hash_rotate(*a ^ word, TUTTI_HASH_ROTATE_A) * TUTTI_HASH_MULTIPLY_A;
    *b = tutti_hash_rotate(*b + *a, TUTTI_HASH_ROTATE_B) * TUTTI_HASH_MULTIPLY_B;
}

/* Mixes the final state of a lane into the digest of its block. The digest is initially zero. */
TUTTI_HASH_CODE void tutti_hash_lane_end(uint32_t digest[4], uint32_t a, uint32_t b)
{
    uint32_t x[4] = { a, b, TUTTI_HASH_LANE_2, TUTTI_HASH_LANE_3 };

    tutti_hash_mix(x);
    for (int i = 0; i < 4; i++)
        digest[i] += x[i];
}

/* ---- blocks and content ---- */

/* Mixes the digest of the block with index `block`, and adds the result to `sum`, which is
 * initially zero. */
TUTTI_HASH_CODE void tutti_hash_block_end(uint32_t sum[4], const uint32_t digest[4], uint64_t block)
{
    uint32_t x[4] = { digest[0] ^ (uint32_t)block, digest[1] ^ (uint32_t)(block >> 32), digest[2],
                      digest[3] };

    tutti_hash_mix(x);
    for (int i = 0; i < 4; i++)
        sum[i] += x[i];
}

/* Computes the hash of content of `bytes` bytes; `sum` is the sum over all its blocks. In messages,
 * the hash is sent as four little-endian words. */
TUTTI_HASH_CODE void tutti_hash_end(uint32_t value[4], const uint32_t sum[4], uint64_t bytes)
{
    value[0] = sum[0] ^ (uint32_t)bytes;
    value[1] = sum[1] ^ (uint32_t)(bytes >> 32);
    value[2] = sum[2] ^ TUTTI_HASH_VALUE_2;
    value[3] = sum[3] ^ TUTTI_HASH_VALUE_3;
    tutti_hash_mix(value);
}

#endif
