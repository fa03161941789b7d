#include "topo/rle_array.h"

#include <stdlib.h>

/* Finds the shortest period. Numbers repeat, up to a step, where their differences repeat. For
 * every prefix of the differences, border[i] is the length of its longest proper prefix that is
 * also a suffix (Knuth, Morris and Pratt, "Fast pattern matching in strings", 1977). */
static uint32_t period_of(const uint32_t *numbers, uint32_t n, uint32_t *border)
{
    uint32_t length = 0;

    if (n < 2)
        return 1;
    border[0] = 0;
    for (uint32_t i = 1; i + 1 < n; i++) {
        const uint32_t difference = numbers[i + 1] - numbers[i];

        while (length > 0 && numbers[length + 1] - numbers[length] != difference)
            length = border[length - 1];
        length += numbers[length + 1] - numbers[length] == difference;
        border[i] = length;
    }
    return n - 1 - length;
}

bool tt_rle_array_init(struct tt_rle_array *c, const uint32_t *numbers, uint32_t n,
                       uint32_t *scratch)
{
    struct tt_rle_array made = { .period = period_of(numbers, n, scratch) };
    uint32_t most = 0;

    made.step = made.period < n ? numbers[made.period] - numbers[0] : 0;
    for (uint32_t i = 0; i < made.period; i++)
        most = numbers[i] > most ? numbers[i] : most;
    made.width = most <= UINT8_MAX ? 1 : most <= UINT16_MAX ? 2 : 4;
    made.pattern = malloc(tt_rle_array_bytes(&made));
    if (!made.pattern)
        return false;
    for (uint32_t i = 0; i < made.period; i++)
        if (made.width == 1)
            ((uint8_t *)made.pattern)[i] = (uint8_t)numbers[i];
        else if (made.width == 2)
            ((uint16_t *)made.pattern)[i] = (uint16_t)numbers[i];
        else
            ((uint32_t *)made.pattern)[i] = numbers[i];
    *c = made;
    return true;
}

void tt_rle_array_fini(struct tt_rle_array *c)
{
    free(c->pattern);
    *c = (struct tt_rle_array){ 0 };
}

uint64_t tt_rle_array_bytes(const struct tt_rle_array *c)
{
    return (uint64_t)c->period * c->width;
}
