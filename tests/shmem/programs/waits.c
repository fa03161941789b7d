/* Waiting for words of every width and sign, one and many, in every comparison; and testing them. */
#include "expect.h"

#define NWORDS 8

static int me, npes;
static long words[NWORDS];
static int status[NWORDS];

/* All PEs tell PE 0, in word `pe`; words that no PE is for are left out. */
static void tell(long value)
{
    shmem_p(&words[me], value, 0);
    shmem_quiet();
}

static void check_all(void)
{
    size_t left = (size_t)npes, seen[NWORDS], n;
    long wanted[NWORDS];

    for (int i = 0; i < NWORDS; i++) {
        status[i] = i >= npes;
        wanted[i] = 200 + i;
    }
    tell(100 + me);
    if (me == 0) {
        shmem_wait_until_all(words, NWORDS, status, SHMEM_CMP_GE, 100L);
        for (int i = 0; i < npes; i++)
            EXPECT(words[i] == 100 + i);
        EXPECT(shmem_test_all(words, NWORDS, status, SHMEM_CMP_GT, 99L));
        EXPECT(!shmem_test_all(words, (size_t)npes, NULL, SHMEM_CMP_LT, 100L));
        EXPECT(shmem_test_any(words, NWORDS, status, SHMEM_CMP_GT, 1000L) == SIZE_MAX);
        EXPECT(shmem_test_some(words, NWORDS, seen, status, SHMEM_CMP_LE, 100L) == 1 && seen[0] == 0);
    }
    shmem_barrier_all();
    tell(200 + me);
    while (me == 0 && left > 0) {
        const size_t i = shmem_wait_until_any_vector(words, NWORDS, status, SHMEM_CMP_EQ, wanted);

        EXPECT(i < (size_t)npes && !status[i] && words[i] == 200 + (long)i);
        status[i] = 1;
        left--;
    }
    EXPECT(me || shmem_wait_until_any(words, NWORDS, status, SHMEM_CMP_EQ, 1L) == SIZE_MAX);
    shmem_barrier_all();
    tell(300 + me);
    left = (size_t)npes;
    for (int i = 0; i < NWORDS; i++)
        status[i] = i >= npes;
    while (me == 0 && left > 0) {
        n = shmem_wait_until_some(words, NWORDS, seen, status, SHMEM_CMP_GE, 300L);
        EXPECT(n >= 1 && n <= left);
        for (size_t k = 0; k < n; k++) {
            EXPECT(!status[seen[k]] && words[seen[k]] == 300 + (long)seen[k]);
            status[seen[k]] = 1;
        }
        left -= n;
    }
    EXPECT(me || shmem_wait_until_some(words, 0, seen, NULL, SHMEM_CMP_EQ, 1L) == 0);
    EXPECT(shmem_test_all_vector(words, 0, NULL, SHMEM_CMP_EQ, wanted) == 1);
    shmem_barrier_all();
}

/* clang-format off */
/* A token goes round, through words of the heap or of the program, by calls that are no signals. */
#define CHECK_RING(NAME, T)                                                                                            \
    {                                                                                                                  \
        static T token;                                                                                                \
        T *heap = shmem_calloc(1, sizeof *heap);                                                                       \
                                                                                                                       \
        EXPECT(heap);                                                                                                  \
        for (int k = 1; k <= 10; k++) {                                                                                \
            T *word = k % 2 ? heap : &token;                                                                           \
                                                                                                                       \
            if (me == 0)                                                                                               \
                shmem_##NAME##_p(word, (T)-k, 1 % npes);                                                               \
            shmem_##NAME##_wait_until(word, SHMEM_CMP_EQ, (T)-k);                                                      \
            if (me > 0)                                                                                                \
                shmem_##NAME##_p(word, (T)-k, (me + 1) % npes);                                                        \
            EXPECT(shmem_##NAME##_test(word, SHMEM_CMP_LE, (T)-k));                                                    \
            EXPECT(!shmem_##NAME##_test(word, SHMEM_CMP_NE, (T)-k));                                                   \
        }                                                                                                              \
        shmem_free(heap);                                                                                              \
    }
/* clang-format on */

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    check_all();
    CHECK_RING(short, short)
    CHECK_RING(int, int)
    CHECK_RING(uint32, uint32_t)
    CHECK_RING(long, long)
    CHECK_RING(ulonglong, unsigned long long)
    while (!shmem_test(&status[0], SHMEM_CMP_EQ, status[0]))
        ;
    shmem_finalize();
    return 0;
}
