/* Collectives of teams, for each type. */
#include "move.h"
#include "reduce.h"

/* clang-format off */
#define COLLECTIVES(PRE, POST, T, bytes)                                                \
    int PRE##broadcast##POST(shmem_team_t team, T *dest, const T *source, size_t nelems, int PE_root) \
    {                                                                                   \
        const struct sh_party p = sh_party_of_team(__func__, team);                     \
        const size_t block = sh_bytes(__func__, nelems, bytes);                         \
                                                                                        \
        sh_party_buffers(&p, dest, 1, source, 1, block);                                \
        sh_party_broadcast(&p, dest, source, block, PE_root, true);                     \
        return 0;                                                                       \
    }                                                                                   \
    int PRE##collect##POST(shmem_team_t team, T *dest, const T *source, size_t nelems)  \
    {                                                                                   \
        const struct sh_party p = sh_party_of_team(__func__, team);                     \
                                                                                        \
        sh_party_collect(&p, dest, source, sh_bytes(__func__, nelems, bytes));          \
        return 0;                                                                       \
    }                                                                                   \
    int PRE##fcollect##POST(shmem_team_t team, T *dest, const T *source, size_t nelems) \
    {                                                                                   \
        const struct sh_party p = sh_party_of_team(__func__, team);                     \
        const size_t block = sh_bytes(__func__, nelems, bytes);                         \
                                                                                        \
        sh_party_buffers(&p, dest, p.n, source, 1, block);                              \
        sh_party_fcollect(&p, dest, source, block);                                     \
        return 0;                                                                       \
    }                                                                                   \
    int PRE##alltoall##POST(shmem_team_t team, T *dest, const T *source, size_t nelems) \
    {                                                                                   \
        const struct sh_party p = sh_party_of_team(__func__, team);                     \
        const size_t block = sh_bytes(__func__, nelems, bytes);                         \
                                                                                        \
        sh_party_buffers(&p, dest, p.n, source, p.n, block);                            \
        sh_party_alltoall(&p, dest, source, block);                                     \
        return 0;                                                                       \
    }                                                                                   \
    int PRE##alltoalls##POST(shmem_team_t team, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems) \
    {                                                                                   \
        const struct sh_party p = sh_party_of_team(__func__, team);                     \
                                                                                        \
        sh_party_alltoalls(&p, dest, source, dst, sst, nelems, bytes);                  \
        return 0;                                                                       \
    }

#define TYPED(NAME, T) COLLECTIVES(shmem_##NAME##_, , T, sizeof(T))
SHMEMI_RMA_TYPES(TYPED)
COLLECTIVES(shmem_, mem, void, (size_t)1)

/* ---- reductions ---- */

#define REDUCE(NAME, CALL, T, type, op)                                                   \
    int shmem_##NAME##_##CALL##_reduce(shmem_team_t team, T *dest, const T *source, size_t nreduce) \
    {                                                                                     \
        const struct sh_party p = sh_party_of_team(__func__, team);                       \
                                                                                          \
        sh_party_buffers(&p, dest, 1, source, 1, sh_bytes(__func__, nreduce, sizeof(T))); \
        sh_reduce(&p, dest, source, nreduce, type, op);                                   \
        return 0;                                                                         \
    }
#define BITS(NAME, T)                        \
    REDUCE(NAME, and, T, SH_TYPE(T), SH_AND) \
    REDUCE(NAME, or, T, SH_TYPE(T), SH_OR) REDUCE(NAME, xor, T, SH_TYPE(T), SH_XOR)
#define ORDER(NAME, T) REDUCE(NAME, max, T, SH_TYPE(T), SH_MAX) REDUCE(NAME, min, T, SH_TYPE(T), SH_MIN)
#define SUM(NAME, T) REDUCE(NAME, sum, T, SH_TYPE(T), SH_SUM) REDUCE(NAME, prod, T, SH_TYPE(T), SH_PROD)
SHMEMI_REDUCE_BITS_TYPES(BITS)
SHMEMI_REDUCE_ORDER_TYPES(ORDER)
SHMEMI_REDUCE_SUM_TYPES(SUM)
