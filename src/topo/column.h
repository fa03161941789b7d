/* Numbers by index, kept as what repeats in them: number i is i / period * step + pattern[i % period]. What hosts that are alike repeat takes
 * the room of one host; numbers without order take an entry each, of as few bytes as the largest needs. */
#ifndef TT_TOPO_COLUMN_H
#define TT_TOPO_COLUMN_H

#include <stdbool.h>
#include <stdint.h>

struct tt_column {
    uint32_t period, step;      /* step: modulo 2^32, so that numbers may also fall */
    uint32_t width;             /* bytes of an entry: 1, 2 or 4 */
    void *pattern;              /* [period]; the column's own */
};

/* Keeps numbers[n], n at least 1, with the shortest period that they have. scratch[n] is overwritten. Linear time. False: out of memory. Ends
 * with tt_column_fini, which may be called on zeros. */
bool tt_column_init(struct tt_column *c, const uint32_t *numbers, uint32_t n, uint32_t *scratch);
void tt_column_fini(struct tt_column *c);
/* That its pattern takes. */
uint64_t tt_column_bytes(const struct tt_column *c);

/* Number i < n. */
static inline uint32_t tt_column_at(const struct tt_column *c, uint32_t i)
{
    uint32_t base = 0;

    if (i >= c->period) {       /* numbers without order, which are many, go without a division */
        base = i / c->period * c->step;
        i %= c->period;
    }
    if (c->width == 1)
        return base + ((const uint8_t *)c->pattern)[i];
    return base + (c->width == 2 ? ((const uint16_t *)c->pattern)[i] : ((const uint32_t *)c->pattern)[i]);
}

#endif
