/* Copying. A plain copy is memcpy, which nothing beats in cache; what memcpy cannot do is write past the cache on
 * request, or write two places while reading once. */
#include <string.h>
#include "reduce/kernels.h"
#include "reduce/reduce.h"

/* dst[bytes] = src[bytes], and dst2[bytes] if not NULL; see reduce.h. Any thread. */
void tt_copy(void *dst, void *dst2, const void *src, size_t bytes, bool stream)
{
    if (bytes == 0)
        return;
    if (!stream && !dst2)
        memcpy(dst, src, bytes);
    else
        tt_kernels_get()->copy(dst, dst2, src, bytes, stream);
}
