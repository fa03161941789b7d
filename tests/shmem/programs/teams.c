/* Teams and their contexts, and the collectives of teams and of active sets. */
#include <complex.h>
#include <string.h>
#include "expect.h"

#define N 100

static int me, npes;
static long from[8 * N], to[8 * N], pSync[SHMEM_ALLTOALL_SYNC_SIZE];
static short small[8], small_sum[8];
static long double precise[3], precise_sum[3];
static double _Complex wave[2], wave_product[2];

static void barrier(void) { shmem_barrier_all(); }

static void fill(long *array, size_t n, long first)
{
    for (size_t i = 0; i < n; i++)
        array[i] = first + (long)i;
}

/* Every collective of a team in which this PE is number `mine` of n; PE i of the team sends numbers
 * from 1000 * i on. */
static void check_collectives(shmem_team_t team)
{
    const int mine = shmem_team_my_pe(team), n = shmem_team_n_pes(team);

    fill(from, 8 * N, 1000 * mine);
    memset(to, 0, sizeof to);
    EXPECT(shmem_broadcast(team, to, from, N, n - 1) == 0);
    EXPECT(to[0] == 1000 * (n - 1) && to[N - 1] == 1000 * (n - 1) + N - 1);
    EXPECT(shmem_broadcastmem(team, from, from, 8, 0) == 0 && from[0] == 0);    /* in place */
    fill(from, 8 * N, 1000 * mine);
    EXPECT(shmem_fcollect(team, to, from, N) == 0);
    for (int i = 0; i < n; i++)
        EXPECT(to[i * N] == 1000 * i && to[i * N + N - 1] == 1000 * i + N - 1);
    EXPECT(shmem_long_collect(team, to, from, (size_t)mine + 1) == 0);
    for (int i = 0; i < n; i++)
        EXPECT(to[i * (i + 1) / 2] == 1000 * i && to[i * (i + 1) / 2 + i] == 1000 * i + i);
    EXPECT(shmem_alltoall(team, to, from, 3) == 0);
    for (int i = 0; i < n; i++)
        EXPECT(to[3 * i] == 1000 * i + 3 * mine && to[3 * i + 2] == 1000 * i + 3 * mine + 2);
    memset(to, 0, sizeof to);
    EXPECT(shmem_alltoalls(team, to, from, 2, 3, 2) == 0);
    for (int i = 0; i < n; i++)
        EXPECT(to[4 * i] == 1000 * i + 6 * mine && to[4 * i + 1] == 0 &&
               to[4 * i + 2] == 1000 * i + 6 * mine + 3);
    EXPECT(shmem_sum_reduce(team, to, from, N) == 0);
    EXPECT(to[7] == 500 * n * (n - 1) + 7 * n);
    EXPECT(shmem_max_reduce(team, from, from, N) == 0 && from[1] == 1000 * (n - 1) + 1);
    small[0] = (short)(mine + 1);
    EXPECT(shmem_prod_reduce(team, small_sum, small, 1) == 0);
    EXPECT(small_sum[0] == (n == 1 ? 1 : n == 2 ? 2 : n == 3 ? 6 : n == 4 ? 24 : 120));
    EXPECT(shmem_or_reduce(team, (unsigned short *)small_sum, (unsigned short *)small, 1) == 0);
    EXPECT(small_sum[0] == (n == 1 ? 1 : n < 4 ? 3 : 7));
    precise[0] = mine + 0.25L;
    EXPECT(shmem_min_reduce(team, precise_sum, precise, 3) == 0 && precise_sum[0] == 0.25L);
    EXPECT(shmem_sum_reduce(team, precise_sum, precise, 1) == 0);
    EXPECT(precise_sum[0] == n * (n - 1) / 2 + 0.25L * n);
    wave[0] = I;
    EXPECT(shmem_prod_reduce(team, wave_product, wave, 2) == 0);
    EXPECT(wave_product[0] == (n == 1 ? I : n == 2 ? -1 : n == 3 ? -I : n == 4 ? 1 : I));
    EXPECT(shmem_sync(team) == 0);
}

static void check_strided(void)
{
    const shmem_team_config_t config = { .num_contexts = 2 };
    shmem_team_config_t told = { 0 };
    shmem_team_t odd, again;
    shmem_ctx_t ctx;

    EXPECT(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes + 1, NULL, 0, &odd) != 0 &&
           odd == SHMEM_TEAM_INVALID);
    EXPECT(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &odd) != 0);
    EXPECT(shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1);
    if (npes < 2)
        return;
    EXPECT(shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, npes / 2, &config,
                                    SHMEM_TEAM_NUM_CONTEXTS, &odd) == 0);
    EXPECT((odd != SHMEM_TEAM_INVALID) == (me % 2 == 1));
    EXPECT(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 0, odd) == -1);
    if (odd != SHMEM_TEAM_INVALID) {
        long sent = 5;

        EXPECT(shmem_team_my_pe(odd) == me / 2 && shmem_team_n_pes(odd) == npes / 2);
        EXPECT(shmem_team_translate_pe(odd, 0, SHMEM_TEAM_WORLD) == 1);
        EXPECT(shmem_team_get_config(odd, SHMEM_TEAM_NUM_CONTEXTS, &told) == 0 &&
               told.num_contexts == 2);
        check_collectives(odd);
        EXPECT(shmem_team_create_ctx(odd, SHMEM_CTX_SERIALIZED, &ctx) == 0);
        EXPECT(shmem_ctx_get_team(ctx, &again) == 0 && again == odd);
        to[0] = 0;
        shmem_team_sync(odd);
        shmem_put(ctx, to, &sent, 1, shmem_team_n_pes(odd) - 1 - shmem_team_my_pe(odd));
        shmem_ctx_quiet(ctx);
        shmem_team_sync(odd);
        EXPECT(to[0] == 5 && shmem_g(ctx, to, 0) == 5);
        shmem_ctx_destroy(ctx);
        shmem_team_destroy(odd);
    }
    barrier();
}

/* Calls that OpenSHMEM 1.5 defines for SHMEM_TEAM_INVALID and SHMEM_CTX_INVALID have no effect, or
 * return the defined value. */
static void check_invalid(void)
{
    shmem_team_config_t config = { .num_contexts = 7 };
    shmem_team_t x = SHMEM_TEAM_WORLD, y = SHMEM_TEAM_WORLD, team = SHMEM_TEAM_WORLD;
    shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;

    shmem_team_destroy(SHMEM_TEAM_INVALID);
    EXPECT(shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1 &&
           shmem_team_n_pes(SHMEM_TEAM_INVALID) == -1);
    EXPECT(shmem_team_translate_pe(SHMEM_TEAM_INVALID, 0, SHMEM_TEAM_WORLD) == -1);
    EXPECT(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 0, SHMEM_TEAM_INVALID) == -1);
    EXPECT(shmem_team_get_config(SHMEM_TEAM_INVALID, SHMEM_TEAM_NUM_CONTEXTS, &config) != 0 &&
           config.num_contexts == 7);
    EXPECT(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &team) != 0 &&
           team == SHMEM_TEAM_INVALID);
    EXPECT(shmem_team_split_2d(SHMEM_TEAM_INVALID, 1, NULL, 0, &x, NULL, 0, &y) != 0);
    EXPECT(x == SHMEM_TEAM_INVALID && y == SHMEM_TEAM_INVALID);
    EXPECT(shmem_team_create_ctx(SHMEM_TEAM_INVALID, 0, &ctx) != 0 && ctx == SHMEM_CTX_INVALID);
    team = SHMEM_TEAM_WORLD;
    EXPECT(shmem_ctx_get_team(SHMEM_CTX_INVALID, &team) != 0 && team == SHMEM_TEAM_INVALID);
    EXPECT(shmem_ctx_get_team(SHMEM_CTX_DEFAULT, &team) == 0 && team == SHMEM_TEAM_WORLD);
    shmem_ctx_destroy(SHMEM_CTX_INVALID);
    shmem_ctx_fence(SHMEM_CTX_INVALID);
    shmem_ctx_quiet(SHMEM_CTX_INVALID);
}

static void check_2d(void)
{
    shmem_team_t x, y;

    EXPECT(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &x, NULL, 0, &y) == 0);
    EXPECT(shmem_team_my_pe(x) == me % 2 || npes == 1);
    EXPECT(shmem_team_my_pe(y) == me / 2 || npes == 1);
    EXPECT(shmem_team_translate_pe(x, 0, SHMEM_TEAM_WORLD) == me / 2 * 2);
    check_collectives(x);
    check_collectives(y);
    shmem_team_destroy(y);
    shmem_team_destroy(x);
}

/* The PEs from the second on with stride 1; or all of them. */
static void check_active_set(int start)
{
    const int n = npes - start;
    static int numbers[8], sum[8], work[8];

    if (n < 1 || me < start)
        return;
    fill(from, 8 * N, 1000 * me);
    fill(to, 8 * N, -1);
    shmem_broadcast64(to, from, N, n - 1, start, 0, n, pSync);
    EXPECT(to[1] == (me == npes - 1 ? 0 : 1000 * (npes - 1) + 1));
    shmem_fcollect64(to, from, 4, start, 0, n, pSync);
    for (int i = 0; i < n; i++)
        EXPECT(to[4 * i] == 1000 * (start + i) && to[4 * i + 3] == 1000 * (start + i) + 3);
    shmem_collect64(to, from, me == start ? 0 : 2, start, 0, n, pSync);
    for (int i = 1; i < n; i++)
        EXPECT(to[2 * i - 2] == 1000 * (start + i) && to[2 * i - 1] == 1000 * (start + i) + 1);
    shmem_alltoall64(to, from, 2, start, 0, n, pSync);
    for (int i = 0; i < n; i++)
        EXPECT(to[2 * i] == 1000 * (start + i) + 2 * (me - start));
    shmem_alltoalls64(to, from, 2, 1, 2, start, 0, n, pSync);
    for (int i = 0; i < n; i++)
        EXPECT(to[4 * i + 2] == 1000 * (start + i) + 2 * (me - start) + 1);
    numbers[0] = me;
    numbers[1] = 1 << me;
    shmem_int_sum_to_all(sum, numbers, 2, start, 0, n, work, pSync);
    EXPECT(sum[0] == (npes - 1) * npes / 2 - (start - 1) * start / 2 &&
           sum[1] == (1 << npes) - (1 << start));
    shmem_int_min_to_all(sum, numbers, 1, start, 0, n, work, pSync);
    EXPECT(sum[0] == start);
    shmem_sync(start, 0, n, pSync);
    shmem_barrier(start, 0, n, pSync);
}

int main(void)
{
    int provided;

    EXPECT(shmem_init_thread(SHMEM_THREAD_FUNNELED, &provided) == 0 &&
           provided == SHMEM_THREAD_FUNNELED);
    me = shmem_my_pe();
    npes = shmem_n_pes();
    EXPECT(shmem_team_n_pes(SHMEM_TEAM_WORLD) == npes && shmem_team_my_pe(SHMEM_TEAM_WORLD) == me);
    check_collectives(SHMEM_TEAM_WORLD);
    check_collectives(SHMEM_TEAM_SHARED);
    check_invalid();
    check_strided();
    check_2d();
    check_active_set(0);
    barrier();
    check_active_set(1);
    shmem_finalize();
    return 0;
}
