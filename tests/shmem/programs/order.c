/* The order of a fence: a get, a nonblocking get, an element, strided elements and a fetching
 * atomic see the data put to the same PE before the fence; and a signal arrives after atomics
 * without a result. */
#include <string.h>
#include "expect.h"

#define BYTES (1u << 20)
#define WORDS (BYTES / sizeof(uint64_t))
#define ROUNDS 300

static int me, npes, next;
static uint64_t global[WORDS], source[WORDS], back[WORDS];
static uint32_t bits;
static uint64_t bell;

/* Puts n words to the next PE and reads them back behind a fence, in one of five ways. */
static void check_round(uint64_t *there, size_t n, int way, uint64_t salt)
{
    for (size_t i = 0; i < n; i++)
        source[i] = salt << 32 | i;
    memset(back, 0, n * sizeof *back);
    shmem_putmem_nbi(there, source, n * sizeof *source, next);
    shmem_fence();
    if (way == 0) {
        shmem_getmem(back, there, n * sizeof *back, next);
        EXPECT(memcmp(back, source, n * sizeof *back) == 0);
    } else if (way == 1) {
        shmem_getmem_nbi(back, there, n * sizeof *back, next);
        shmem_quiet();
        EXPECT(memcmp(back, source, n * sizeof *back) == 0);
    } else if (way == 2) {
        EXPECT(shmem_uint64_g(&there[n - 1], next) == source[n - 1]);
    } else if (way == 3) {
        EXPECT(shmem_uint64_atomic_fetch(&there[n - 1], next) == source[n - 1]);
    } else {
        const size_t stride = n / 8 + 1, count = (n - 1) / stride + 1;

        shmem_uint64_iget(back, there, 1, (ptrdiff_t)stride, count, next);
        for (size_t i = 0; i < count; i++)
            EXPECT(back[i] == source[i * stride]);
    }
    shmem_quiet();              /* the source is reused */
}

/* All bits set by the previous PE are visible when its signal arrives. */
static void check_atomics(void)
{
    for (uint64_t i = 1; i <= 32; i++) {
        shmem_uint32_atomic_or(&bits, 1u << (i - 1), next);
        shmem_fence();
        shmem_uint64_atomic_set(&bell, i, next);
        shmem_uint64_wait_until(&bell, SHMEM_CMP_GE, i);
        EXPECT((__atomic_load_n(&bits, __ATOMIC_ACQUIRE) & (uint32_t)((1ull << i) - 1)) ==
               (uint32_t)((1ull << i) - 1));
    }
}

int main(void)
{
    static const size_t sizes[] = { 8, WORDS, 512, 40000, 1, 6000 };
    uint64_t *heap;

    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    next = (me + 1) % npes;
    heap = shmem_malloc(BYTES);
    EXPECT(heap);
    for (int i = 0; i < ROUNDS; i++)
        check_round(i % 2 ? heap : global, sizes[i / 2 % 6] - (size_t)i % 7 % sizes[i / 2 % 6],
                    i % 5, (uint64_t)i + 1);
    shmem_barrier_all();
    check_atomics();
    shmem_free(heap);
    shmem_finalize();
    return 0;
}
