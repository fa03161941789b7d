/* Copies. Short copies use memcpy, and on Intel CPUs long ones, too. memcpy has no non-temporal
 * option, and cannot write two destinations with one read. */
#include <stdbool.h>
#include <string.h>
#include "reduce/kernels.h"
#include "reduce/reduce.h"

/* glibc uses `rep movsb` for long copies. On AMD's Zen 3 its speed falls to a fifteenth if the
 * destination's offset in its page is a few bytes larger than the source's; a copy from a
 * page-aligned slot to malloc's memory always has this. On Intel's Sapphire Rapids and later it
 * claims whole lines without reading them, which helps if another core had them: long messages take
 * a sixth less time. */
#define OWN_BYTES_MIN 2048

static bool is_memcpys(size_t bytes)
{
#ifdef __x86_64__
    return bytes < OWN_BYTES_MIN || __builtin_cpu_is("intel");
#else
    return bytes < OWN_BYTES_MIN;
#endif
}

uint32_t tt_other_core_flag(void)
{
#ifdef __x86_64__
    return __builtin_cpu_is("amd") ? TT_FROM_OTHER_CORE : 0;
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
