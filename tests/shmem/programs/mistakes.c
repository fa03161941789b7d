/* Makes the error named by its argument; tests check the message. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include "expect.h"

static long word, words[4];

/* Numbers of elements whose size wraps or exceeds the address space. */
static void huge(const char *what)
{
    static long other[4];

    if (!strcmp(what, "huge_put"))
        shmem_long_put(words, other, SIZE_MAX / 8 + 1, 0);
    if (!strcmp(what, "huge_putmem"))
        shmem_putmem(words, other, SIZE_MAX, 0);
    if (!strcmp(what, "huge_get"))
        shmem_long_get(other, words, SIZE_MAX, 0);
    if (!strcmp(what, "huge_getmem"))
        shmem_getmem_nbi(other, words, SIZE_MAX - (size_t)words, 0);
    if (!strcmp(what, "huge_iput"))
        shmem_long_iput(words, other, PTRDIFF_MAX, 1, 4, 0);
    if (!strcmp(what, "huge_iget"))
        shmem_long_iget(other, words, 1, PTRDIFF_MAX, 3, 0);
    if (!strcmp(what, "huge_signal"))
        shmem_put_signal(words, other, SIZE_MAX, (uint64_t *)(void *)&word, 1, SHMEM_SIGNAL_ADD, 0);
    if (!strcmp(what, "huge_broadcast"))
        shmem_broadcastmem(SHMEM_TEAM_WORLD, words, other, SIZE_MAX, 0);
    if (!strcmp(what, "huge_alltoall"))
        shmem_alltoallmem(SHMEM_TEAM_WORLD, words, other, SIZE_MAX / 2 + 1);
    if (!strcmp(what, "huge_alltoalls"))
        shmem_alltoallsmem(SHMEM_TEAM_WORLD, words, other, 1, PTRDIFF_MAX, 4);
    if (!strcmp(what, "huge_collect"))
        shmem_collectmem(SHMEM_TEAM_WORLD, words, other, SIZE_MAX / 2 + 1);
    if (!strcmp(what, "huge_fcollect"))
        shmem_fcollectmem(SHMEM_TEAM_WORLD, words, other, SIZE_MAX / 2 + 1);
    if (!strcmp(what, "huge_reduce"))
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, words, other, SIZE_MAX);
}

static void mistake(const char *what, int me, int npes)
{
    long local = 0, *heap = shmem_malloc(64);

    if (!strcmp(what, "stack"))
        shmem_putmem(&local, &word, sizeof local, 0);
    if (!strcmp(what, "past"))
        shmem_getmem(words, (char *)heap - 4096 - 8, 8, 0);
    if (!strcmp(what, "pe"))
        shmem_p(&word, 1L, npes);
    if (!strcmp(what, "aligned"))
        shmem_atomic_inc((long *)(void *)((char *)words + 4), 0);
    if (!strcmp(what, "stride"))
        shmem_iput(words, words, 0, 1, 2, 0);
    if (!strcmp(what, "sig_op"))
        shmem_put_signal(words, words, 1, (uint64_t *)(void *)&word, 1, 7, 0);
    if (!strcmp(what, "cmp"))
        shmem_wait_until(&word, 9, 1L);
    if (!strcmp(what, "team"))
        shmem_sync(SHMEM_TEAM_INVALID);
    if (!strcmp(what, "root"))
        shmem_broadcast(SHMEM_TEAM_WORLD, words, words + 2, 1, npes);
    if (!strcmp(what, "ctx"))
        shmem_p(SHMEM_CTX_INVALID, &word, 1L, 0);
    if (!strcmp(what, "free"))
        shmem_free(heap + 1);
    if (!strcmp(what, "size"))
        shmem_malloc((size_t)(me + 1) * 64);
    if (!strcmp(what, "set"))
        shmem_barrier(0, 0, npes + 1, NULL);
    if (!strcmp(what, "unlocked"))
        shmem_clear_lock(&word);
    if (!strcmp(what, "again")) {
        shmem_finalize();
        shmem_quiet();
    }
    if (!strcmp(what, "late"))
        shmem_wait_until(&word, SHMEM_CMP_EQ, -7L);
    if (!strcmp(what, "late_all")) {
        words[0] = 1;
        shmem_wait_until_all(words, 4, NULL, SHMEM_CMP_GT, 0L);
    }
    if (!strcmp(what, "late_any"))
        shmem_wait_until_any_vector(words, 3, (int[3]){ 1, 0, 0 }, SHMEM_CMP_NE, words);
    if (!strcmp(what, "late_signal"))
        shmem_signal_wait_until((uint64_t *)(void *)&word, SHMEM_CMP_GE, UINT64_MAX);
    if (!strcmp(what, "late_barrier") && me == 1)
        pause();                    /* until the launcher ends it */
    if (!strcmp(what, "exit")) {    /* all others wait forever */
        if (me == npes - 1)
            shmem_global_exit(0);
        shmem_wait_until(&word, SHMEM_CMP_EQ, 1L);
    }
    if (!strcmp(what, "exit5") && me == 0)
        shmem_global_exit(5);
    huge(what);
    shmem_barrier_all();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (!strcmp(what, "early"))
        shmem_my_pe();
    shmem_init();
    mistake(what, shmem_my_pe(), shmem_n_pes());
    printf("still here\n");
    return 0;
}
