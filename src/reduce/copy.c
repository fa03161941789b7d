/* Copying. Short copies are memcpy's, and on Intel's processors long ones, too; it cannot write past the cache on request, nor two places while
 * reading once. */
#include <stdbool.h>
#include <string.h>
#include "reduce/kernels.h"
#include "reduce/reduce.h"

/* glibc uses `rep movsb` for long copies. On AMD's Zen 3 that falls to a fifteenth of its speed where the destination begins a few bytes further
 * into its page than the source into its own; from a page-aligned slot to malloc's memory it always does. On Intel's Sapphire Rapids and later it
 * claims whole lines without reading them first, which pays where another core had them: long messages take a sixth less. */
#define OWN_BYTES_MIN 2048

static bool is_memcpys(size_t bytes)
{
#ifdef __x86_64__
    return bytes < OWN_BYTES_MIN || __builtin_cpu_is("intel");
#else
    return bytes < OWN_BYTES_MIN;
#endif
}

uint32_t tt_from_far(void)
{
#ifdef __x86_64__
    return __builtin_cpu_is("amd") ? TT_FROM_FAR : 0;
#else
    return 0;
#endif
}

void tt_copy(void *dst, void *dst2, const void *src, size_t bytes, uint32_t stream)
{
    if (bytes == 0)
        return;
    if (!(stream & (TT_STREAM_DST | TT_STREAM_DST2)) && !dst2 && is_memcpys(bytes))
        memcpy(dst, src, bytes);
    else
        tt_kernels_get()->copy(dst, dst2, src, bytes, stream);
}
