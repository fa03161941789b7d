#include "left_heavy.h"

#include <string.h>

void left_heavy(void *dst, void *dst2, const void *a, const void *b, size_t count, uint32_t stream,
                uint32_t finish_n)
{
    (void)stream;
    (void)finish_n;
    for (size_t i = 0; i < 4 * count; i += 4) {
        uint32_t x, y;

        memcpy(&x, (const uint8_t *)a + i, 4);
        memcpy(&y, (const uint8_t *)b + i, 4);
        x = 3 * x + y;
        memcpy((uint8_t *)dst + i, &x, 4);
        if (dst2)
            memcpy((uint8_t *)dst2 + i, &x, 4);
    }
}
