#include "base/pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES (2u << 20)

void tt_pages_huge(void *memory, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = ((uintptr_t)memory + page - 1) / page * page,
                    end = ((uintptr_t)memory + bytes) / page * page;

    if (memory && bytes >= HUGE_BYTES && end > first)
        madvise((void *)first, end - first, MADV_HUGEPAGE); /* where the kernel has none, it is as it was */
}
