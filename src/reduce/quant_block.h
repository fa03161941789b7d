/* The parameters of one quantized block: found from the range of its elements, or read from foreign bytes; both ways lead through
 * the words that travel, so that both ends compute with the same numbers. Pure. */
#ifndef TT_REDUCE_QUANT_BLOCK_H
#define TT_REDUCE_QUANT_BLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include "reduce/quant.h"
#include "reduce/quant_kernels.h"

enum { TT_QUANT_WORDS_MAX = 2 };

struct tt_quant_block {
    uint32_t word[TT_QUANT_WORDS_MAX];  /* as they travel */
    bool poisoned;                      /* then nothing below holds */
    struct tt_quant_linear linear;      /* of an 8-bit float codec nothing */
    struct tt_quant_float real;         /* of any other codec nothing */
};

/* How many words travel in front of a block's data. */
uint32_t tt_quant_block_words(enum tt_quant_codec codec);

/* The parameters of a block whose elements span [least, largest]; `finite`: all of them are. Decoded values will not exceed `most`. */
void tt_quant_block_find(struct tt_quant_block *b, enum tt_quant_codec codec, bool finite, float least, float largest,
                         float most);

/* The parameters that word[] says; false if no encoder writes such, and then *b is as it was. */
bool tt_quant_block_read(struct tt_quant_block *b, enum tt_quant_codec codec, const uint32_t word[TT_QUANT_WORDS_MAX],
                         float most);

#endif
