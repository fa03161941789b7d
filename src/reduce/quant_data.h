/* Shared by all users of quantization: elements of any type to f32 and back, and one block from
 * numbers to bytes and back. Used between float_env's enter and leave. Pure; any alignment except
 * of float pointers. */
#ifndef TT_REDUCE_QUANT_DATA_H
#define TT_REDUCE_QUANT_DATA_H

#include "reduce/quant_block.h"

bool tt_quant_is_half_bytes(enum tt_quant_codec codec);
/* Bytes of the codes of n elements, and of the parameters before them. */
size_t tt_quant_data_bytes(enum tt_quant_codec codec, size_t n);
size_t tt_quant_head_bytes(enum tt_quant_codec codec);

size_t tt_quant_element_bytes(tutti_dtype type);
void tt_quant_widen(float *x, const char *src, size_t n, tutti_dtype type);
void tt_quant_narrow(char *dst, const float *x, size_t n, tutti_dtype type);
/* dst = a + x, rounded once to the type (or f32); dst may equal a. At most TT_QUANT_BLOCK_MAX
 * elements. */
void tt_quant_add(char *dst, const char *a, const float *x, size_t n, tutti_dtype type);
void tt_quant_add_f32(void *dst, const void *a, const float *x, size_t n);

/* Writes the head and the codes of x[n] to `to`, and the parameters to *b. Returns the bytes
 * written. */
size_t tt_quant_encode_block(uint8_t *to, struct tt_quant_block *b, const float *x, size_t n,
                             enum tt_quant_codec codec, tutti_dtype type);
/* Reads the complete head at `from`; false, with *b unchanged, if it is invalid. */
bool tt_quant_read_head(struct tt_quant_block *b, const uint8_t *from, enum tt_quant_codec codec,
                        tutti_dtype type);
/* Decodes the codes of a block to x[n]. */
void tt_quant_decode_data(float *x, const uint8_t *codes, size_t n, enum tt_quant_codec codec,
                          const struct tt_quant_block *b);

#endif
