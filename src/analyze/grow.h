/* Arrays that grow. */
#ifndef TT_ANALYZE_GROW_H
#define TT_ANALYZE_GROW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Makes room for element n of *array, whose elements have `each` bytes. Returns false without
 * memory; then the array is unchanged. */
static inline bool tt_grow(void *array, size_t *capacity, size_t n, size_t each)
{
    void **at = array;
    const size_t more = *capacity ? *capacity + *capacity / 2 + 1 : 64;
    void *bigger;

    if (n < *capacity)
        return true;
    if (more > SIZE_MAX / each)
        return false;
    bigger = realloc(*at, more * each);
    if (!bigger)
        return false;
    *at = bigger;
    *capacity = more;
    return true;
}

#endif
