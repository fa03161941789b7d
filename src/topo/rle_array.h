/* Compressed array of numbers: number i is i / period * step + pattern[i % period]. Identical hosts
 * take the space of one host. Irregular numbers take an entry each, of the width of the largest. */
#ifndef TT_TOPO_RLE_ARRAY_H
#define TT_TOPO_RLE_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

struct tt_rle_array {
    uint32_t period, step;      /* step: modulo 2^32, so numbers may also decrease */
    uint32_t width;             /* bytes of an entry: 1, 2 or 4 */
    void *pattern;              /* [period]; owned */
};

/* Compresses numbers[n], n at least 1, with their shortest period. Overwrites scratch[n]. Linear
 * time. Returns false if out of memory. Release with tt_rle_array_fini, which accepts a zeroed
 * struct. */
bool tt_rle_array_init(struct tt_rle_array *c, const uint32_t *numbers, uint32_t n,
                       uint32_t *scratch);
void tt_rle_array_fini(struct tt_rle_array *c);
/* Returns the bytes of the pattern. */
uint64_t tt_rle_array_bytes(const struct tt_rle_array *c);

/* Returns number i < n. */
static inline uint32_t tt_rle_array_at(const struct tt_rle_array *c, uint32_t i)
{
    uint32_t base = 0;

    if (i >= c->period) {       /* common for irregular numbers: saves the division */
        base = i / c->period * c->step;
        i %= c->period;
    }
    if (c->width == 1)
        return base + ((const uint8_t *)c->pattern)[i];
    return base +
           (c->width == 2 ? ((const uint16_t *)c->pattern)[i] : ((const uint32_t *)c->pattern)[i]);
}

#endif
