/* The heap: alignments up to the size of the heap, 4 MiB here; allocations that do not fit return
 * NULL, without effect. */
#include <stdint.h>
#include "expect.h"

#define MIB ((size_t)1 << 20)

/* Allocates memory with the alignment; others can access its last word. */
static void check_alignment(size_t alignment)
{
    const int me = shmem_my_pe(), npes = shmem_n_pes();
    const size_t words = 40;
    long *mem = shmem_align(alignment, words * sizeof *mem);

    EXPECT(mem && (uintptr_t)mem % alignment == 0);
    shmem_long_p(&mem[words - 1], me + 1, (me + 1) % npes);
    shmem_barrier_all();
    EXPECT(mem[words - 1] == (me + npes - 1) % npes + 1);
    shmem_free(mem);
}

/* Sizes whose sum or product wraps, or that no heap can have. */
static void check_impossible_sizes(void)
{
    long *mem;

    EXPECT(!shmem_malloc(SIZE_MAX) && !shmem_malloc(SIZE_MAX - 63) &&
           !shmem_malloc(SIZE_MAX / 2 + 1) && !shmem_malloc_with_hints(SIZE_MAX, 0));
    EXPECT(!shmem_calloc(SIZE_MAX, SIZE_MAX) && !shmem_calloc(SIZE_MAX / 8 + 1, 8) &&
           !shmem_calloc(8, SIZE_MAX / 8 + 1) && !shmem_calloc(SIZE_MAX, 1));
    EXPECT(!shmem_align(64, SIZE_MAX) && !shmem_align(4096, SIZE_MAX - 4095) &&
           !shmem_align(SIZE_MAX / 2 + 1, SIZE_MAX));
    mem = shmem_malloc(64);
    EXPECT(mem);
    *mem = 4711;
    EXPECT(!shmem_realloc(mem, SIZE_MAX) && !shmem_realloc(mem, SIZE_MAX - 4095));
    EXPECT(*mem == 4711);
    shmem_free(mem);
}

int main(void)
{
    void *first, *second;

    shmem_init();
    for (size_t alignment = sizeof(void *); alignment <= 4 * MIB; alignment *= 2)
        check_alignment(alignment);
    check_impossible_sizes();
    EXPECT(!shmem_align(0, 64) && !shmem_align(4, 64) && !shmem_align(96, 64));
    EXPECT(!shmem_malloc(0) && !shmem_calloc(SIZE_MAX / 2, 4));
    EXPECT(!shmem_align(8 * MIB, 64) && !shmem_align(SIZE_MAX / 2 + 1, 64));
    first = shmem_malloc(3 * MIB);
    EXPECT(first && !shmem_malloc(2 * MIB) && !shmem_malloc(2 * MIB) &&
           !shmem_realloc(first, 5 * MIB));
    second = shmem_malloc(MIB);
    EXPECT(second);
    shmem_free(second);
    shmem_free(first);
    first = shmem_malloc(4 * MIB);
    EXPECT(first);
    shmem_free(first);
    shmem_finalize();
    return 0;
}
