/* The two inner loops of the hash, implemented per instruction set, with identical results.
 * tutti/hash.h defines what they compute. */
#ifndef TT_REDUCE_HASH_KERNELS_H
#define TT_REDUCE_HASH_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include "reduce/hash.h"
#include "tutti/hash.h"

struct tt_hash_kernels {
    /* Processes data[nrows][TT_HASH_ROW_BYTES], at any alignment. */
    void (*rows)(struct tt_hash_lanes *lanes, const uint8_t *data, size_t nrows);
    /* digest: the sum of all lanes, each mixed. */
    void (*fold)(uint32_t digest[4], const struct tt_hash_lanes *lanes);
};

extern const struct tt_hash_kernels tt_hash_portable;
#if defined(__x86_64__)
extern const struct tt_hash_kernels tt_hash_avx2;
#endif

#endif
