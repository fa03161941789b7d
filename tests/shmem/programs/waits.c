/* Waits and tests of words of every width and sign, one and many, with every comparison. */
#include "expect.h"

#define NWORDS 8

static int me, npes;
static long words[NWORDS];
static int status[NWORDS];

/* All PEs set word `pe` on PE 0; words without a PE are ignored. */
static void notify_pe_0(long value)
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
    notify_pe_0(100 + me);
    if (me == 0) {
        shmem_wait_until_all(words, NWORDS, status, SHMEM_CMP_GE, 100L);
        for (int i = 0; i < npes; i++)
            EXPECT(words[i] == 100 + i);
        EXPECT(shmem_test_all(words, NWORDS, status, SHMEM_CMP_GT, 99L));
        EXPECT(!shmem_test_all(words, (size_t)npes, NULL, SHMEM_CMP_LT, 100L));
        EXPECT(shmem_test_any(words, NWORDS, status, SHMEM_CMP_GT, 1000L) == SIZE_MAX);
        EXPECT(shmem_test_some(words, NWORDS, seen, status, SHMEM_CMP_LE, 100L) == 1 &&
               seen[0] == 0);
    }
    shmem_barrier_all();
    notify_pe_0(200 + me);
    while (me == 0 && left > 0) {
        const size_t i = shmem_wait_until_any_vector(words, NWORDS, status, SHMEM_CMP_EQ, wanted);

        EXPECT(i < (size_t)npes && !status[i] && words[i] == 200 + (long)i);
        status[i] = 1;
        left--;
    }
    EXPECT(me || shmem_wait_until_any(words, NWORDS, status, SHMEM_CMP_EQ, 1L) == SIZE_MAX);
    shmem_barrier_all();
    notify_pe_0(300 + me);
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
/* A token passes around a ring, through words of the heap or of the program, by calls that are not
 * signals. */
#define CHECK_RING(NAME, T)                                          \
    {                                                                \
        static T token;                                              \
        T *heap = shmem_calloc(1, sizeof *heap);                     \
                                                                     \
        EXPECT(heap);                                                \
        for (int k = 1; k <= 10; k++) {                              \
            T *word = k % 2 ? heap : &token;                         \
                                                                     \
            if (me == 0)                                             \
                shmem_##NAME##_p(word, (T)-k, 1 % npes);             \
            shmem_##NAME##_wait_until(word, SHMEM_CMP_EQ, (T)-k);    \
            if (me > 0)                                              \
                shmem_##NAME##_p(word, (T)-k, (me + 1) % npes);      \
            EXPECT(shmem_##NAME##_test(word, SHMEM_CMP_LE, (T)-k));  \
            EXPECT(!shmem_##NAME##_test(word, SHMEM_CMP_NE, (T)-k)); \
        }                                                            \
        shmem_free(heap);                                            \
    }
/* clang-format on */

/* A search starts at a pseudo-random index. After this number of calls, each word that a fair
 * search can return has been returned. */
#define TURNS 1000

/* clang-format off */
/* All four words match: each form that returns one index returns every index, also if calls for
 * another array are interleaved, and if a word is ignored. Forms that return several return all. */
#define CHECK_TURNS(NAME, T)                                                                     \
    {                                                                                            \
        static T four[4] = { 5, 5, 5, 5 }, single = 5;                                           \
        const T values[4] = { 5, 5, 5, 5 };                                                      \
        const int out[4] = { 0, 0, 1, 0 };                                                       \
        size_t some[4];                                                                          \
        unsigned got[5] = { 0 };                                                                 \
                                                                                                 \
        for (int k = 0; k < TURNS; k++) {                                                        \
            got[0] |= 1u << shmem_##NAME##_test_any(four, 4, NULL, SHMEM_CMP_EQ, 5);             \
            got[1] |= 1u << shmem_##NAME##_test_any_vector(four, 4, NULL, SHMEM_CMP_EQ, values); \
            got[2] |= 1u << shmem_##NAME##_wait_until_any(four, 4, NULL, SHMEM_CMP_EQ, 5);       \
            got[3] |= 1u << shmem_##NAME##_wait_until_any_vector(four, 4, NULL, SHMEM_CMP_EQ, values); \
            got[4] |= 1u << shmem_##NAME##_wait_until_any(four, 4, out, SHMEM_CMP_EQ, 5);        \
            EXPECT(shmem_##NAME##_test_any(&single, 1, NULL, SHMEM_CMP_EQ, 5) == 0);             \
        }                                                                                        \
        EXPECT(got[0] == 15 && got[1] == 15 && got[2] == 15 && got[3] == 15 && got[4] == 11);    \
        EXPECT(shmem_##NAME##_test_some(four, 4, some, NULL, SHMEM_CMP_EQ, 5) == 4);             \
        EXPECT(shmem_##NAME##_wait_until_some_vector(four, 4, some, out, SHMEM_CMP_EQ, values) == 3 && some[2] == 3); \
    }
/* clang-format on */

/* If a program alternates between many arrays, each word is still returned. */
static void check_many_turns(void)
{
    enum { ARRAYS = 1000 };
    static int many[ARRAYS][4];
    static unsigned char got[ARRAYS];
    int left = ARRAYS;

    for (int a = 0; a < ARRAYS; a++)
        for (int i = 0; i < 4; i++)
            many[a][i] = 1;
    for (int k = 0; k < TURNS && left > 0; k++) {
        left = ARRAYS;
        for (int a = 0; a < ARRAYS; a++) {
            got[a] |= (unsigned char)(1u << shmem_test_any(many[a], 4, NULL, SHMEM_CMP_EQ, 1));
            left -= got[a] == 15;
        }
    }
    EXPECT(left == 0);
}

/* Programs alternate between two kinds of calls for one array: with two values, two masks, or two
 * lengths. Each call returns each word that it can return. */
static void check_alternating_calls(void)
{
    static long six[6] = { 1, 1, 2, 2, 1, 1 };
    const int first[6] = { 0, 0, 1, 1, 1, 1 }, last[6] = { 1, 1, 1, 1, 0, 0 };
    unsigned got[6] = { 0 };

    for (int k = 0; k < TURNS; k++) {
        got[0] |= 1u << shmem_wait_until_any(six, 6, NULL, SHMEM_CMP_EQ, 1L);
        got[1] |= 1u << shmem_wait_until_any(six, 6, NULL, SHMEM_CMP_EQ, 2L);
    }
    for (int k = 0; k < TURNS; k++) {
        got[2] |= 1u << shmem_test_any(six, 6, first, SHMEM_CMP_EQ, 1L);
        got[3] |= 1u << shmem_test_any(six, 6, last, SHMEM_CMP_EQ, 1L);
    }
    for (int k = 0; k < TURNS; k++) {
        got[4] |= 1u << shmem_test_any(six, 6, NULL, SHMEM_CMP_EQ, 1L);
        got[5] |= 1u << shmem_test_any(six, 2, NULL, SHMEM_CMP_EQ, 1L);
    }
    EXPECT(got[0] == 0x33 && got[1] == 0x0c);
    EXPECT(got[2] == 0x03 && got[3] == 0x30);
    EXPECT(got[4] == 0x33 && got[5] == 0x03);
}

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
    CHECK_TURNS(int, int)
    CHECK_TURNS(long, long)
    CHECK_TURNS(uint32, uint32_t)
    CHECK_TURNS(uint64, uint64_t)
    CHECK_TURNS(size, size_t)
    CHECK_TURNS(ptrdiff, ptrdiff_t)
    check_many_turns();
    check_alternating_calls();
    while (!shmem_test(&status[0], SHMEM_CMP_EQ, status[0]))
        ;
    shmem_finalize();
    return 0;
}
