/* The content hash (docs/hash.md). The idea: words are distributed to lanes, so vectors and GPUs
 * process a row at once. A lane processes a word by steps that are permutations of the lane's 64
 * bits and of the word. One differing word, or two in a row, therefore always change the lane.
 * Lanes, and then blocks, are mixed with their index and added, so they may be processed in any
 * order and by any thread. A word takes two 32-bit multiplications, which is as fast as memory. */
#include "reduce/hash.h"

#include <string.h>

#include "reduce/hash_kernels.h"
#include "reduce/kernels.h"

/* Initial lanes: tutti_hash_lane_begin of each. */
static const struct tt_hash_lanes lanes_at_first = {
    .a = {
        0x45df8da9, 0xba3be1ea, 0xbaf60d31, 0x057ecbea, 0x948687c2, 0xd0c2c256, 0x3580db04, 0x79deac69,
        0x597efc36, 0x90dcbd3d, 0x4450afcb, 0xd7094a1a, 0xa4428cff, 0xb2187754, 0x58c1eeb1, 0x42be44a3,
        0x9cb0d7d1, 0xda3becde, 0xb8342250, 0xa838cccb, 0x4c2e4fb6, 0x34c1dca6, 0xca7b1762, 0x284bc7e3,
        0x829d4822, 0x971c872b, 0x466e0d21, 0xc21a7844, 0x047ad4c6, 0xc3749d0f, 0xa4000640, 0x047479d7,
    },
    .b = {
        0x3d1d783e, 0x7fc24a9b, 0xe1540278, 0x93d5279f, 0x631c9e81, 0x7a29ea01, 0x5e9e193b, 0xcbf0604f,
        0xe8154f70, 0x4eb23f3d, 0xea9c1e27, 0x3a152cde, 0xd8814df4, 0x25dd1194, 0x662e0a86, 0x8f4c8c1c,
        0xf18d1738, 0x6e5ed945, 0x0119986a, 0x38c0f5e5, 0x46e73c7c, 0x2800a183, 0x79956ee2, 0x2f15658f,
        0x8b6cfdd8, 0x0207cd63, 0x975a89f6, 0x1781a0c7, 0x36710fb8, 0xce55c106, 0xf8d680d2, 0x6f810cb0,
    },
};

/* ---- blocks of the data ---- */

/* Adds the completed block to the sum, and starts the next one. */
static void close_block(struct tt_hash_stream *s)
{
    uint32_t digest[4];

    tt_kernels_get()->hash->fold(digest, &s->lanes);
    tutti_hash_block_end(s->sum.word, digest, s->block++);
    s->filled = 0;
    s->lanes = lanes_at_first;
}

/* Processes part of data[bytes] at once, at least one byte and at most the rest of the block;
 * returns its length. */
static size_t add_some(struct tt_hash_stream *s, const uint8_t *data, size_t bytes)
{
    const size_t room = TT_HASH_BLOCK_BYTES - s->filled, in_row = s->filled % TT_HASH_ROW_BYTES;
    const size_t some = bytes < room ? bytes : room, row_room = TT_HASH_ROW_BYTES - in_row;
    size_t taken;

    if (in_row == 0 && some >= TT_HASH_ROW_BYTES) {
        taken = some - some % TT_HASH_ROW_BYTES;
        tt_kernels_get()->hash->rows(&s->lanes, data, taken / TT_HASH_ROW_BYTES);
    } else {
        taken = some < row_room ? some : row_room;
        memcpy(s->row + in_row, data, taken);
        if (taken == row_room)
            tt_kernels_get()->hash->rows(&s->lanes, s->row, 1);
    }
    s->filled += taken;
    return taken;
}

void tt_hash_begin(struct tt_hash_stream *s, uint64_t first_block)
{
    s->block = first_block;
    s->filled = 0;
    s->sum = (struct tt_hash_sum){ { 0 } };
    s->lanes = lanes_at_first;
}

void tt_hash_add(struct tt_hash_stream *s, const void *data, size_t bytes)
{
    for (const uint8_t *at = data; bytes > 0;) {
        const size_t taken = add_some(s, at, bytes);

        at += taken;
        bytes -= taken;
        if (s->filled == TT_HASH_BLOCK_BYTES)
            close_block(s);
    }
}

/* Pads a short last row with zeros; a short last block is not padded. */
struct tt_hash_sum tt_hash_end(struct tt_hash_stream *s)
{
    const size_t in_row = s->filled % TT_HASH_ROW_BYTES;

    if (in_row) {
        memset(s->row + in_row, 0, TT_HASH_ROW_BYTES - in_row);
        tt_kernels_get()->hash->rows(&s->lanes, s->row, 1);
    }
    if (s->filled)
        close_block(s);
    return s->sum;
}

void tt_hash_combine(struct tt_hash_sum *sum, const struct tt_hash_sum *range)
{
    for (int i = 0; i < 4; i++)
        sum->word[i] += range->word[i];
}

struct tt_hash tt_hash_value(const struct tt_hash_sum *sum, uint64_t bytes_total)
{
    struct tt_hash h;

    tutti_hash_end(h.word, sum->word, bytes_total);
    return h;
}

struct tt_hash tt_hash_of(const void *data, size_t bytes)
{
    struct tt_hash_stream s;
    struct tt_hash_sum sum;

    tt_hash_begin(&s, 0);
    tt_hash_add(&s, data, bytes);
    sum = tt_hash_end(&s);
    return tt_hash_value(&sum, bytes);
}

bool tt_hash_equal(const struct tt_hash *x, const struct tt_hash *y)
{
    return memcmp(x, y, sizeof *x) == 0;
}

void tt_hash_text(const struct tt_hash *h, char text[TT_HASH_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < 16; i++) {
        const uint32_t byte = h->word[i / 4] >> 8 * (i % 4) & 0xff;

        text[2 * i] = digits[byte >> 4];
        text[2 * i + 1] = digits[byte & 15];
    }
    text[2 * 16] = '\0';
}
