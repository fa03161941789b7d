/* Puts and gets of every type, to the heap and to globals; strides; signals; and the order of a
 * fence. */
#include <string.h>
#include "expect.h"

#define N 37

static int me, npes, next, before;

/* ---- every type ---- */

/* Element i sent by PE `pe`: different for all, and exact in every type. */
static int value_of(int pe, int i) { return (pe * 11 + i) % 120; }

/* clang-format off */
/* To the heap or a global of the next PE; each checks the data from the previous PE, and reads its
 * own back from the next one. */
#define CHECK_TYPE(NAME, T)                                                     \
    static T NAME##_global[N];                                                  \
    static void NAME##_rounds(T *there)                                         \
    {                                                                           \
        T mine[N], back[N] = { 0 };                                             \
                                                                                \
        for (int i = 0; i < N; i++)                                             \
            mine[i] = (T)value_of(me, i);                                       \
        shmem_put(there, mine, N - 2, next);                                    \
        shmem_put_nbi(SHMEM_CTX_DEFAULT, &there[N - 2], &mine[N - 2], 1, next); \
        shmem_p(&there[N - 1], mine[N - 1], next);                              \
        shmem_barrier_all();                                                    \
        for (int i = 0; i < N; i++)                                             \
            EXPECT(there[i] == (T)value_of(before, i));                         \
        shmem_get(SHMEM_CTX_DEFAULT, back, there, N - 3, next);                 \
        shmem_get_nbi(&back[N - 3], &there[N - 3], 2, next);                    \
        back[N - 1] = shmem_g(&there[N - 1], next);                             \
        shmem_quiet();                                                          \
        for (int i = 0; i < N; i++)                                             \
            EXPECT(back[i] == mine[i]);                                         \
        shmem_barrier_all();                                                    \
        for (int i = 0; i < N; i++)                                             \
            there[i] = 0;                                                       \
        shmem_barrier_all();                                                    \
        shmem_iput(there, mine, 3, 2, 5, next);                                 \
        shmem_barrier_all();                                                    \
        for (int i = 0; i < 15; i++)                                            \
            EXPECT(there[i] == (T)(i % 3 ? 0 : value_of(before, i / 3 * 2)));   \
        shmem_iget(back, there, 4, 3, 5, next);                                 \
        for (int i = 0; i < 5; i++)                                             \
            EXPECT(back[4 * i] == mine[2 * i]);                                 \
        shmem_barrier_all();                                                    \
    }                                                                           \
    static void NAME##_check(void)                                              \
    {                                                                           \
        T *heap = shmem_malloc(sizeof(T) * N);                                  \
                                                                                \
        EXPECT(heap);                                                           \
        NAME##_rounds(heap);                                                    \
        NAME##_rounds(NAME##_global);                                           \
        shmem_free(heap);                                                       \
    }
CHECK_TYPE(float, float)
CHECK_TYPE(double, double)
CHECK_TYPE(longdouble, long double)
CHECK_TYPE(char, char)
CHECK_TYPE(schar, signed char)
CHECK_TYPE(short, short)
CHECK_TYPE(longlong, long long)
CHECK_TYPE(uint, unsigned int)
CHECK_TYPE(uint64, uint64_t)
CHECK_TYPE(ptrdiff, ptrdiff_t)

/* ---- by size ---- */

static char sized[2048];

#define CHECK_SIZE(BITS, BYTES)                                                               \
    {                                                                                         \
        char mine[4 * BYTES], back[4 * BYTES];                                                \
                                                                                              \
        memset(mine, me + BITS, sizeof mine);                                                 \
        shmem_put##BITS(sized, mine, 4, next);                                                \
        shmem_iput##BITS(sized + 1024, mine, 2, 1, 2, next);                                  \
        shmem_barrier_all();                                                                  \
        for (int i = 0; i < 4 * BYTES; i++)                                                   \
            EXPECT(sized[i] == (char)(before + BITS));                                        \
        EXPECT(sized[1024 + 2 * BYTES] == (char)(before + BITS) && sized[1024 + BYTES] == 0); \
        shmem_get##BITS(back, sized, 4, next);                                                \
        EXPECT(memcmp(back, mine, sizeof mine) == 0);                                         \
        shmem_barrier_all();                                                                  \
        memset(sized, 0, sizeof sized);                                                       \
        shmem_barrier_all();                                                                  \
    }
/* clang-format on */

/* ---- signals ---- */

static uint64_t signal_here;

/* Long and short ones, with different bytes; the signal is a global, the bytes are on the heap. */
static void check_signals(void)
{
    static const size_t sizes[] = { 0, 1, 8, 1000, 40000, 300000 };
    const size_t most = sizes[sizeof sizes / sizeof *sizes - 1];
    unsigned char *there = shmem_malloc(most), *mine = malloc(most);

    EXPECT(there && mine);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        memset(mine, (int)(me + 10 * k), most);
        if (k % 2)
            shmem_putmem_signal(there, mine, sizes[k], &signal_here, k + 1, SHMEM_SIGNAL_SET, next);
        else
            shmem_uchar_put_signal_nbi(there, mine, sizes[k], &signal_here, 1, SHMEM_SIGNAL_ADD,
                                       next);
        EXPECT(shmem_signal_wait_until(&signal_here, SHMEM_CMP_EQ, k + 1) == k + 1);
        for (size_t i = 0; i < sizes[k]; i++)
            EXPECT(there[i] == (unsigned char)(before + 10 * (int)k));
        shmem_barrier_all();
    }
    EXPECT(shmem_signal_fetch(&signal_here) == sizeof sizes / sizeof *sizes);
    free(mine);
    shmem_free(there);
}

/* The stride of a single element is not used, whatever its size. */
static void check_single_elements(void)
{
    static long there;
    long mine = 4711 + me, back = 0;

    shmem_long_iput(&there, &mine, PTRDIFF_MAX, PTRDIFF_MAX, 1, next);
    shmem_barrier_all();
    EXPECT(there == 4711 + before);
    shmem_long_iget(&back, &there, PTRDIFF_MAX, PTRDIFF_MAX, 1, next);
    EXPECT(back == 4711 + me);
    shmem_barrier_all();
}

/* ---- order ---- */

#define WORDS 50000

static int flag_int, done_int;
static long flag_long;

/* If a flag put after a fence is visible, so is the data put before: flags that are signals, and
 * flags that are not. */
static void check_order(void)
{
    long *there = shmem_calloc(WORDS, sizeof *there), *mine = malloc(WORDS * sizeof *mine);

    EXPECT(there && mine);
    for (int k = 1; k <= 20; k++) {
        for (int i = 0; i < WORDS; i++)
            mine[i] = k;
        shmem_long_put_nbi(there, mine, WORDS, next);
        shmem_fence();
        if (k % 2)
            shmem_p(&flag_int, k, next);
        else
            shmem_atomic_set(&flag_long, (long)k, next);
        if (k % 2)
            shmem_wait_until(&flag_int, SHMEM_CMP_GE, k);
        else
            shmem_wait_until(&flag_long, SHMEM_CMP_GE, k);
        for (int i = 0; i < WORDS; i++)
            EXPECT(there[i] == k);
        shmem_p(&done_int, k, before);      /* the next round may overwrite it */
        shmem_wait_until(&done_int, SHMEM_CMP_EQ, k);
        shmem_quiet();
    }
    free(mine);
    shmem_free(there);
}

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    npes = shmem_n_pes();
    next = (me + 1) % npes;
    before = (me + npes - 1) % npes;
    float_check();
    double_check();
    longdouble_check();
    char_check();
    schar_check();
    short_check();
    longlong_check();
    uint_check();
    uint64_check();
    ptrdiff_check();
    CHECK_SIZE(8, 1)
    CHECK_SIZE(16, 2)
    CHECK_SIZE(32, 4)
    CHECK_SIZE(64, 8)
    CHECK_SIZE(128, 16)
    check_single_elements();
    check_signals();
    check_order();
    shmem_finalize();
    return 0;
}
