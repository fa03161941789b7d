/* Locks on the heap and in globals; the heap itself; threads that put concurrently; and direct
 * loads and stores. */
#include <pthread.h>
#include <string.h>
#include "expect.h"

#define ROUNDS 20
#define NTHREADS 3
#define THREAD_ROUNDS 6         /* per thread */

static int me, npes;
static long locks[2];
static long count, sums[NTHREADS];

/* The protected data is read and written by plain gets and puts. */
static void add_locked(long *lock, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        if (i % 4 == 3)
            while (shmem_test_lock(lock))
                ;
        else
            shmem_set_lock(lock);
        shmem_p(&count, shmem_g(&count, 0) + 1, 0);
        shmem_clear_lock(lock);
    }
}

static void check_lock(long *lock)
{
    count = 0;
    shmem_barrier_all();
    add_locked(lock, ROUNDS);
    shmem_barrier_all();
    EXPECT(shmem_g(&count, 0) == (long)ROUNDS * npes);
    shmem_barrier_all();
}

/* The owner of a lock may test it, and still passes it to a PE that queued meanwhile. */
static void check_holder(long *lock)
{
    uint32_t *link = (uint32_t *)(void *)lock + 1;

    if (me == 0)
        shmem_set_lock(lock);
    shmem_barrier_all();
    if (me == 0 && npes > 1) {
        shmem_uint32_wait_until(link, SHMEM_CMP_GT, 1u << 30);  /* another PE has queued */
        EXPECT(shmem_test_lock(lock) != 0);
    }
    if (me != 0)
        shmem_set_lock(lock);
    shmem_clear_lock(lock);
    shmem_barrier_all();
    EXPECT(*link == 0);
    shmem_barrier_all();
}

static void *add_from_a_thread(void *lock)
{
    add_locked(lock, THREAD_ROUNDS);
    return NULL;
}

/* Threads of all PEs queue for one lock, several of each. */
static void check_threads_of_a_lock(long *lock)
{
    pthread_t threads[NTHREADS];

    count = 0;
    shmem_barrier_all();
    for (int i = 0; i < NTHREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, add_from_a_thread, lock) == 0);
    for (int i = 0; i < NTHREADS; i++)
        pthread_join(threads[i], NULL);
    shmem_barrier_all();
    EXPECT(shmem_g(&count, 0) == (long)THREAD_ROUNDS * NTHREADS * npes);
    EXPECT(((uint32_t *)(void *)lock)[1] == 0);
    shmem_barrier_all();
}

static void check_heap(void)
{
    char *a = shmem_malloc(100), *b = shmem_align(4096, 10), *c, *d;

    EXPECT(a && b && (uintptr_t)a % 64 == 0 && (uintptr_t)b % 4096 == 0);
    EXPECT(shmem_addr_accessible(a, 0) && !shmem_addr_accessible(&a, 0) &&
           !shmem_addr_accessible(a, npes));
    EXPECT(shmem_addr_accessible(locks, npes - 1) && shmem_pe_accessible(0) &&
           !shmem_pe_accessible(-1));
    memset(a, 'a', 100);
    c = shmem_realloc(a, 100000);
    EXPECT(c && c[0] == 'a' && c[99] == 'a');
    d = shmem_calloc(10, 10);
    EXPECT(d && d[0] == 0 && d[99] == 0);
    EXPECT(!shmem_malloc((size_t)1 << 60) && !shmem_malloc(0) && !shmem_align(3, 8));
    EXPECT(shmem_malloc_with_hints(0, SHMEM_MALLOC_ATOMICS_REMOTE) == NULL);
    shmem_free(b);
    shmem_free(c);
    shmem_free(d);
    shmem_free(NULL);
    a = shmem_malloc(100);
    b = shmem_malloc(100);
    EXPECT(a && b >= a + 100);
    shmem_free(a);
    shmem_free(b);
}

/* Loads and stores if the heap of the next PE is mapped. */
static void check_pointers(void)
{
    const int next = (me + 1) % npes;
    long *mine = shmem_calloc(1, sizeof *mine), *there;

    EXPECT(mine && shmem_ptr(mine, me) == mine && shmem_ptr(&count, me) == &count &&
           !shmem_ptr(&mine, me));
    EXPECT((shmem_ptr(mine, next) != NULL) ==
           (shmem_team_translate_pe(SHMEM_TEAM_WORLD, next, SHMEM_TEAM_SHARED) >= 0));
    there = shmem_ptr(mine, next);
    if (there)
        *there = 77 + me;
    else
        shmem_p(mine, 77L + me, next);
    shmem_wait_until(mine, SHMEM_CMP_NE, 0L);   /* a store does not wake it, but is still seen */
    shmem_barrier_all();
    EXPECT(*mine == 77 + (me + npes - 1) % npes);
    shmem_barrier_all();
    shmem_free(mine);
}

static void *add(void *arg)
{
    long *sum = arg;

    for (int i = 0; i < 100; i++) {
        shmem_atomic_add(sum, 1L, (me + i) % npes);
        if (i % 10 == 0)
            shmem_quiet();
        if (i % 25 == 0)
            shmem_fence();
    }
    return NULL;
}

static void check_threads(void)
{
    pthread_t threads[NTHREADS];
    long all = 0;
    int level;

    shmem_query_thread(&level);
    EXPECT(level == SHMEM_THREAD_MULTIPLE);
    for (int i = 0; i < NTHREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, add, &sums[i]) == 0);
    for (int i = 0; i < NTHREADS; i++)
        pthread_join(threads[i], NULL);
    shmem_barrier_all();
    for (int pe = 0; pe < npes; pe++)
        for (int i = 0; i < NTHREADS; i++)
            all += shmem_g(&sums[i], pe);
    EXPECT(all == 100L * NTHREADS * npes);
}

int main(void)
{
    char name[SHMEM_MAX_NAME_LEN];
    long *heap_lock;
    int provided, major, minor;

    EXPECT(shmem_init_thread(9, &provided) != 0);
    EXPECT(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
    me = shmem_my_pe();
    npes = shmem_n_pes();
    shmem_info_get_name(name);
    shmem_info_get_version(&major, &minor);
    EXPECT(strcmp(name, SHMEM_VENDOR_STRING) == 0 && major == SHMEM_MAJOR_VERSION &&
           minor == SHMEM_MINOR_VERSION);
    heap_lock = shmem_calloc(1, sizeof *heap_lock);
    EXPECT(heap_lock);
    check_lock(heap_lock);
    check_lock(&locks[1]);
    check_holder(heap_lock);
    check_holder(&locks[0]);
    check_threads_of_a_lock(heap_lock);
    check_threads_of_a_lock(&locks[0]);
    check_heap();
    check_pointers();
    check_threads();
    shmem_finalize();
    return 0;
}
