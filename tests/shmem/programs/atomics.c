/* Every atomic, of every type, by all PEs on words of PE 0; and a counter to which all add without
 * a result. */
#include "expect.h"

static int me, npes;

/* clang-format off */
/* Each PE's bit, its ticket, and its swap. */
#define CHECK_STANDARD(NAME, T)                                                                    \
    static T NAME##_words[6];                                                                      \
    static void NAME##_check(void)                                                                 \
    {                                                                                              \
        T old = 99, *w = NAME##_words;                                                             \
                                                                                                   \
        for (int i = 0; i < 5; i++) {                                                              \
            shmem_atomic_inc(&w[0], 0);                                                            \
            shmem_atomic_add(&w[1], (T)(me + 1), 0);                                               \
            EXPECT(shmem_atomic_fetch_inc(&w[2], 0) < (T)(10 * npes));                             \
            shmem_atomic_fetch_add_nbi(&old, &w[2], (T)1, 0);                                      \
            shmem_quiet();                                                                         \
            EXPECT(old < (T)(10 * npes));                                                          \
        }                                                                                          \
        while (shmem_atomic_compare_swap(&w[3], (T)me, (T)(me + 1), 0) != (T)me)                   \
            ;                                                                                      \
        shmem_atomic_set(&w[4], (T)7, me);                                                         \
        EXPECT(shmem_atomic_swap(&w[4], (T)8, me) == 7);                                           \
        shmem_atomic_swap_nbi(SHMEM_CTX_DEFAULT, &old, &w[4], (T)9, me);                           \
        shmem_quiet();                                                                             \
        EXPECT(old == 8 && shmem_atomic_fetch(&w[4], me) == 9);                                    \
        shmem_barrier_all();                                                                       \
        EXPECT(shmem_atomic_fetch(&w[0], 0) == (T)(5 * npes));                                     \
        EXPECT(shmem_atomic_fetch(SHMEM_CTX_DEFAULT, &w[1], 0) == (T)(5 * npes * (npes + 1) / 2)); \
        EXPECT(shmem_atomic_fetch(&w[2], 0) == (T)(10 * npes));                                    \
        EXPECT(shmem_atomic_fetch(&w[3], 0) == (T)npes);                                           \
        shmem_barrier_all();                                                                       \
    }
CHECK_STANDARD(int, int)
CHECK_STANDARD(long, long)
CHECK_STANDARD(longlong, long long)
CHECK_STANDARD(uint, unsigned int)
CHECK_STANDARD(ulong, unsigned long)
CHECK_STANDARD(ulonglong, unsigned long long)

#define CHECK_BITS(NAME, T)                                                           \
    static void NAME##_check(T *w)                                                    \
    {                                                                                 \
        const T bit = (T)((T)1 << (me + 8)), all = (T)((((T)1 << npes) - 1) << 8);    \
                                                                                      \
        if (me == 0)                                                                  \
            w[1] = w[3] = (T)-1;                                                      \
        shmem_barrier_all();                                                          \
        shmem_##NAME##_atomic_or(&w[0], bit, 0);                                      \
        shmem_##NAME##_atomic_and(&w[1], (T)~bit, 0);                                 \
        EXPECT((shmem_##NAME##_atomic_fetch_or(&w[2], bit, 0) & bit) == 0);           \
        EXPECT((shmem_##NAME##_atomic_fetch_and(&w[3], (T)~bit, 0) & bit) == bit);    \
        EXPECT((shmem_##NAME##_atomic_fetch_xor(&w[4], bit, 0) & bit) == 0);          \
        shmem_##NAME##_atomic_xor(&w[4], (T)1, 0);                                    \
        shmem_barrier_all();                                                          \
        if (me == 0) {                                                                \
            EXPECT(w[0] == all && w[1] == (T)~all && w[2] == all && w[3] == (T)~all); \
            EXPECT(w[4] == (T)(all | (T)(npes & 1)));                                 \
        }                                                                             \
        shmem_barrier_all();                                                          \
    }
/* clang-format on */
CHECK_BITS(uint32, uint32_t)
CHECK_BITS(int64, int64_t)

static float real;
static double wide;

int main(void)
{
    void *heap;
    float was = 0;

    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    int_check();
    long_check();
    longlong_check();
    uint_check();
    ulong_check();
    ulonglong_check();
    heap = shmem_calloc(10, sizeof(uint64_t));
    EXPECT(heap);
    uint32_check(heap);
    shmem_free(heap);
    heap = shmem_calloc(10, sizeof(uint64_t));
    EXPECT(heap);
    int64_check(heap);
    shmem_atomic_set(&real, 1.5f, (me + 1) % npes);
    shmem_atomic_set(&wide, -2.25, (me + 1) % npes);
    shmem_barrier_all();
    EXPECT(real == 1.5f && shmem_atomic_fetch(&wide, (me + 1) % npes) == -2.25);
    shmem_barrier_all();
    shmem_atomic_swap_nbi(&was, &real, 2.5f, (me + 1) % npes);
    shmem_barrier_all();
    EXPECT(was == 1.5f && real == 2.5f);
    return 0;                   /* the end of the program finalizes */
}
