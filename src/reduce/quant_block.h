/* The parameters of one quantized block: computed from the range of its elements, or read from
 * untrusted bytes. In both cases they are derived from the encoded words, so both ends compute with
 * the same numbers. Pure. */
#ifndef TT_REDUCE_QUANT_BLOCK_H
#define TT_REDUCE_QUANT_BLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include "reduce/quant.h"
#include "reduce/quant_kernels.h"

enum { TT_QUANT_WORDS_MAX = 2 };

struct tt_quant_block {
    uint32_t word[TT_QUANT_WORDS_MAX];  /* as encoded */
    bool poisoned;                      /* then the members below are invalid */
    struct tt_quant_linear linear;      /* unset for 8-bit float codecs */
    struct tt_quant_float real;         /* unset for other codecs */
};

/* Returns the number of words before a block's data. */
uint32_t tt_quant_block_words(enum tt_quant_codec codec);

/* Computes the parameters of a block with elements in [least, largest]; `finite`: all are finite.
 * Decoded values will not exceed `most`. */
void tt_quant_block_find(struct tt_quant_block *b, enum tt_quant_codec codec, bool finite,
                         float least, float largest, float most);

/* Reads the parameters from word[]. Returns false, with *b unchanged, if no encoder writes these
 * words. */
bool tt_quant_block_read(struct tt_quant_block *b, enum tt_quant_codec codec,
                         const uint32_t word[TT_QUANT_WORDS_MAX], float most);

#endif
