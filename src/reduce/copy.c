/* Copying. Short copies are memcpy's; it cannot write past the cache on request, nor two places while reading once. */
#include <string.h>
#include "reduce/kernels.h"
#include "reduce/reduce.h"

/* From here on memcpy is not asked. glibc's uses `rep movsb` for long copies, which on AMD's Zen 3 falls to a fifteenth of its speed where
 * the destination begins a few bytes further into its page than the source into its own; from a page-aligned slot
 * to malloc's memory it always does. */
#define OWN_BYTES_MIN 2048

void tt_copy(void *dst, void *dst2, const void *src, size_t bytes, uint32_t stream)
{
    if (bytes == 0)
        return;
    if (!stream && !dst2 && bytes < OWN_BYTES_MIN)
        memcpy(dst, src, bytes);
    else
        tt_kernels_get()->copy(dst, dst2, src, bytes, stream);
}
