/* The two inner loops of the hash, which every instruction set has its own of; all give the same bits. What they compute
 * is defined in tutti/hash.h. */
#ifndef TT_REDUCE_HASH_KERNELS_H
#define TT_REDUCE_HASH_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include "reduce/hash.h"
#include "tutti/hash.h"

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

#endif
