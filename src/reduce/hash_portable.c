/* The steps of the content hash (hash.c) in portable C. */
#include <string.h>

#include "reduce/hash.h"
#include "reduce/hash_kernels.h"

static inline uint32_t load_word(const uint8_t *at)
{
    uint32_t word;

    memcpy(&word, at, sizeof word);
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap32(word) : word;
}

static void rows_portable(struct tt_hash_lanes *lanes, const uint8_t *data, size_t nrows)
{
    struct tt_hash_lanes now = *lanes;

    for (size_t r = 0; r < nrows; r++, data += TT_HASH_ROW_BYTES)
        for (int l = 0; l < TT_HASH_LANES; l++)
            tutti_hash_lane_take(&now.a[l], &now.b[l], load_word(data + 4 * l));
    *lanes = now;
}

static void fold_portable(uint32_t digest[4], const struct tt_hash_lanes *lanes)
{
    memset(digest, 0, 4 * sizeof digest[0]);
    for (int l = 0; l < TT_HASH_LANES; l++)
        tutti_hash_lane_end(digest, lanes->a[l], lanes->b[l]);
}

const struct tt_hash_kernels tt_hash_portable = { .rows = rows_portable, .fold = fold_portable };
