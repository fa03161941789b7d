/* The content hash: 128 bits to compare the data of two peers. Its definition (docs/hash.md; code
 * in tutti/hash.h) depends only on the bytes and their number: not on alignment, instruction set,
 * or division of the work. Pure functions of memory; any thread. Not cryptographic: it detects
 * accidental differences, not deliberate collisions. */
#ifndef TT_REDUCE_HASH_H
#define TT_REDUCE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/hash.h"

enum {
    TT_HASH_LANES = TUTTI_HASH_LANES,
    TT_HASH_ROW_BYTES = TUTTI_HASH_ROW_BYTES,
    TT_HASH_BLOCK_BYTES = TUTTI_HASH_BLOCK_BYTES,
    TT_HASH_TEXT_BYTES = 33,
};

/* A hash value. Encoded as four little-endian u32. */
struct tt_hash {
    uint32_t word[4];
};

/* Partial sum over a subset of the data's blocks. All zeros: no blocks. */
struct tt_hash_sum {
    uint32_t word[4];
};

/* Lanes of one block. */
struct tt_hash_lanes {
    uint32_t a[TT_HASH_LANES], b[TT_HASH_LANES];
};

/* State of hashing a range of the data, which is added in pieces of any size. The caller provides
 * the storage; nothing must be freed. */
struct tt_hash_stream {
    uint64_t block;             /* current block */
    size_t filled;              /* number of its bytes that were processed */
    struct tt_hash_sum sum;     /* of the previous blocks */
    struct tt_hash_lanes lanes;
    uint8_t row[TT_HASH_ROW_BYTES];     /* the last row of the block, if incomplete */
};

/* Returns the hash of data[bytes]. */
struct tt_hash tt_hash_of(const void *data, size_t bytes);

/* Hash the range of the data that begins with block `first_block` (at byte first_block *
 * TT_HASH_BLOCK_BYTES): begin, add its bytes in order in pieces of any size, end. Every range
 * except the last one of the data consists of whole blocks. Ranges may be hashed concurrently. */
void tt_hash_begin(struct tt_hash_stream *s, uint64_t first_block);
void tt_hash_add(struct tt_hash_stream *s, const void *data, size_t bytes);
struct tt_hash_sum tt_hash_end(struct tt_hash_stream *s);

/* Adds the sum of a range to that of others, in any order. */
void tt_hash_combine(struct tt_hash_sum *sum, const struct tt_hash_sum *range);

/* Returns the hash of bytes_total bytes of data; `sum` is the sum of all its ranges, each added
 * once. */
struct tt_hash tt_hash_value(const struct tt_hash_sum *sum, uint64_t bytes_total);

bool tt_hash_equal(const struct tt_hash *x, const struct tt_hash *y);

/* text: 32 hexadecimal digits, the encoded bytes of the value. */
void tt_hash_text(const struct tt_hash *h, char text[TT_HASH_TEXT_BYTES]);

#endif
