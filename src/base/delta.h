/* Packs a string of bytes as its difference to another one (the base), in pairs:
 *   number of bytes equal to the base's, 8 bits; number of further bytes, 7 bits; these bytes
 * With the bit AGAIN, the further bytes are those at a distance (8 bits) before them in the same
 * string. Address records contain the same host and addresses several times. Lossless. */
#ifndef TT_BASE_DELTA_H
#define TT_BASE_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"

#define TT_DELTA_MAX(bytes) (3 * (size_t)(bytes))       /* maximum packed size */

/* Sets back[i] to the distance of an earlier occurrence of the 4 bytes at data[i], 0 if there is
 * none that a pair can refer to. */
void tt_delta_repeats(const uint8_t *data, size_t bytes, uint8_t *back);
/* Packs data[bytes] as a difference to base[bytes] into out[TT_DELTA_MAX(bytes)]; `back` is from
 * tt_delta_repeats. Returns the packed size. */
size_t tt_delta_pack(const uint8_t *data, size_t bytes, const uint8_t *back, const uint8_t *base,
                     uint8_t *out);
/* Unpacks into data[bytes], which must contain the base. Accepts any input: the reader becomes bad
 * if it is invalid, and data is then undefined. */
void tt_delta_unpack(struct tt_reader *r, uint8_t *data, size_t bytes);

#endif
