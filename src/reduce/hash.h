/* The content hash: 128 bits that say whether two peers hold the same bytes. One definition (docs/hash.md; in code tutti/hash.h), whose value depends on
 * nothing but the bytes and how many they are: not on alignment, instruction set, or who hashed which part of them. Pure functions
 * of memory; any thread. Not cryptographic: it finds what differs by accident, not what somebody has made to collide. */
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

/* A value. Travels as four little-endian u32. */
struct tt_hash {
    uint32_t word[4];
};

/* What some blocks of a content add up to. All zeros: no blocks. */
struct tt_hash_sum {
    uint32_t word[4];
};

/* What the lanes of one block hold. */
struct tt_hash_lanes {
    uint32_t a[TT_HASH_LANES], b[TT_HASH_LANES];
};

/* A range of a content while it comes in, in pieces of any size. The caller's storage; nothing to free. */
struct tt_hash_stream {
    uint64_t block;             /* the block that is being filled */
    size_t filled;              /* bytes of it that came */
    struct tt_hash_sum sum;     /* of the blocks before it */
    struct tt_hash_lanes lanes;
    uint8_t row[TT_HASH_ROW_BYTES];     /* the last row of it, where not all of that came yet */
};

/* The hash of data[bytes]. */
struct tt_hash tt_hash_of(const void *data, size_t bytes);

/* Hashes the range of a content that begins with block `first_block` (at byte first_block * TT_HASH_BLOCK_BYTES): begin, add its bytes in order
 * in pieces of any size, end. Every range but the content's last is of whole blocks. Ranges may be hashed at once, by as many
 * threads as there are ranges. */
void tt_hash_begin(struct tt_hash_stream *s, uint64_t first_block);
void tt_hash_add(struct tt_hash_stream *s, const void *data, size_t bytes);
struct tt_hash_sum tt_hash_end(struct tt_hash_stream *s);

/* Adds what a range came to to the others'. In any order. */
void tt_hash_combine(struct tt_hash_sum *sum, const struct tt_hash_sum *range);

/* The hash of a content of bytes_total bytes, of whose ranges, each taken once, `sum` is the sum. */
struct tt_hash tt_hash_value(const struct tt_hash_sum *sum, uint64_t bytes_total);

bool tt_hash_equal(const struct tt_hash *x, const struct tt_hash *y);

/* text: 32 hexadecimal digits, the bytes of the value as it travels. */
void tt_hash_text(const struct tt_hash *h, char text[TT_HASH_TEXT_BYTES]);

#endif
