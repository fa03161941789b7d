/* Interfaces that OpenSHMEM 1.5 deprecates. */
#include "move.h"
#include "reduce.h"

/* ---- set-up and memory ---- */

void start_pes(int npes)
{
    (void)npes;
    shmem_init();
}

int _my_pe(void)
{
    return shmem_my_pe();
}

int _num_pes(void)
{
    return shmem_n_pes();
}

void *shmalloc(size_t size)
{
    return shmem_malloc(size);
}

void shfree(void *ptr)
{
    shmem_free(ptr);
}

void *shrealloc(void *ptr, size_t size)
{
    return shmem_realloc(ptr, size);
}

void *shmemalign(size_t alignment, size_t size)
{
    return shmem_align(alignment, size);
}

/* ---- atomics and waiting ---- */

/* clang-format off */
#define EXTENDED(NAME, T)                                   \
    T shmem_##NAME##_fetch(const T *source, int pe)         \
    {                                                       \
        return shmem_##NAME##_atomic_fetch(source, pe);     \
    }                                                       \
    void shmem_##NAME##_set(T *dest, T value, int pe)       \
    {                                                       \
        shmem_##NAME##_atomic_set(dest, value, pe);         \
    }                                                       \
    T shmem_##NAME##_swap(T *dest, T value, int pe)         \
    {                                                       \
        return shmem_##NAME##_atomic_swap(dest, value, pe); \
    }
SHMEMI_OLD_EXTENDED_TYPES(EXTENDED)

#define STANDARD(NAME, T)                                                 \
    T shmem_##NAME##_cswap(T *dest, T cond, T value, int pe)              \
    {                                                                     \
        return shmem_##NAME##_atomic_compare_swap(dest, cond, value, pe); \
    }                                                                     \
    T shmem_##NAME##_finc(T *dest, int pe)                                \
    {                                                                     \
        return shmem_##NAME##_atomic_fetch_inc(dest, pe);                 \
    }                                                                     \
    void shmem_##NAME##_inc(T *dest, int pe)                              \
    {                                                                     \
        shmem_##NAME##_atomic_inc(dest, pe);                              \
    }                                                                     \
    T shmem_##NAME##_fadd(T *dest, T value, int pe)                       \
    {                                                                     \
        return shmem_##NAME##_atomic_fetch_add(dest, value, pe);          \
    }                                                                     \
    void shmem_##NAME##_add(T *dest, T value, int pe)                     \
    {                                                                     \
        shmem_##NAME##_atomic_add(dest, value, pe);                       \
    }
SHMEMI_OLD_STANDARD_TYPES(STANDARD)

#define WAIT(NAME, T)                                             \
    void shmem_##NAME##_wait(volatile T *ivar, T cmp_value)       \
    {                                                             \
        shmem_##NAME##_wait_until(ivar, SHMEM_CMP_NE, cmp_value); \
    }
SHMEMI_OLD_WAIT_TYPES(WAIT)

/* In parentheses, because generic.h defines macros with these names. */
void(shmem_wait)(volatile long *ivar, long cmp_value)
{
    shmem_long_wait_until(ivar, SHMEM_CMP_NE, cmp_value);
}

void(shmem_wait_until)(volatile long *ivar, int cmp, long cmp_value)
{
    shmem_long_wait_until(ivar, cmp, cmp_value);
}

/* ---- active sets ---- */

void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
    const struct sh_party p = sh_party_of_set(__func__, PE_start, logPE_stride, PE_size);

    (void)pSync;
    shmem_quiet();
    sh_party_sync(&p);
}

void(shmem_sync)(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
    const struct sh_party p = sh_party_of_set(__func__, PE_start, logPE_stride, PE_size);

    (void)pSync;
    sh_party_sync(&p);
}

#define SET int PE_start, int logPE_stride, int PE_size
#define PARTY sh_party_of_set(__func__, PE_start, logPE_stride, PE_size)
#define COLLECTIVES(BITS, bytes)                                                               \
    void shmem_broadcast##BITS(void *dest, const void *source, size_t nelems, int PE_root, SET, long *pSync) \
    {                                                                                          \
        const struct sh_party p = PARTY;                                                       \
        const size_t block = sh_bytes(__func__, nelems, bytes);                                \
                                                                                               \
        (void)pSync;                                                                           \
        sh_party_buffers(&p, dest, 1, source, 1, block);                                       \
        sh_party_broadcast(&p, dest, source, block, PE_root, false);                           \
    }                                                                                          \
    void shmem_collect##BITS(void *dest, const void *source, size_t nelems, SET, long *pSync)  \
    {                                                                                          \
        const struct sh_party p = PARTY;                                                       \
                                                                                               \
        (void)pSync;                                                                           \
        sh_party_collect(&p, dest, source, sh_bytes(__func__, nelems, bytes));                 \
    }                                                                                          \
    void shmem_fcollect##BITS(void *dest, const void *source, size_t nelems, SET, long *pSync) \
    {                                                                                          \
        const struct sh_party p = PARTY;                                                       \
        const size_t block = sh_bytes(__func__, nelems, bytes);                                \
                                                                                               \
        (void)pSync;                                                                           \
        sh_party_buffers(&p, dest, p.n, source, 1, block);                                     \
        sh_party_fcollect(&p, dest, source, block);                                            \
    }                                                                                          \
    void shmem_alltoall##BITS(void *dest, const void *source, size_t nelems, SET, long *pSync) \
    {                                                                                          \
        const struct sh_party p = PARTY;                                                       \
        const size_t block = sh_bytes(__func__, nelems, bytes);                                \
                                                                                               \
        (void)pSync;                                                                           \
        sh_party_buffers(&p, dest, p.n, source, p.n, block);                                   \
        sh_party_alltoall(&p, dest, source, block);                                            \
    }                                                                                          \
    void shmem_alltoalls##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, SET, \
                               long *pSync)                                                    \
    {                                                                                          \
        const struct sh_party p = PARTY;                                                       \
                                                                                               \
        (void)pSync;                                                                           \
        sh_party_alltoalls(&p, dest, source, dst, sst, nelems, bytes);                         \
    }
COLLECTIVES(32, (size_t)4)
COLLECTIVES(64, (size_t)8)

#define TO_ALL(NAME, CALL, T, op)                                \
    void shmem_##NAME##_##CALL##_to_all(T *dest, const T *source, int nreduce, SET, T *pWrk, long *pSync) \
    {                                                            \
        const struct sh_party p = PARTY;                         \
        const size_t n = nreduce > 0 ? (size_t)nreduce : 0;      \
                                                                 \
        (void)pWrk;                                              \
        (void)pSync;                                             \
        sh_party_buffers(&p, dest, 1, source, 1, n * sizeof(T)); \
        sh_reduce(&p, dest, source, n, SH_TYPE(T), op);          \
    }
#define BITS_TO_ALL(NAME, T) TO_ALL(NAME, and, T, SH_AND) TO_ALL(NAME, or, T, SH_OR) TO_ALL(NAME, xor, T, SH_XOR)
#define ORDER_TO_ALL(NAME, T) TO_ALL(NAME, max, T, SH_MAX) TO_ALL(NAME, min, T, SH_MIN)
#define SUM_TO_ALL(NAME, T) TO_ALL(NAME, sum, T, SH_SUM) TO_ALL(NAME, prod, T, SH_PROD)
SHMEMI_TO_ALL_BITS_TYPES(BITS_TO_ALL)
SHMEMI_TO_ALL_ORDER_TYPES(ORDER_TO_ALL)
SHMEMI_TO_ALL_SUM_TYPES(SUM_TO_ALL)

/* ---- caches ---- */

void shmem_set_cache_inv(void)
{
}

void shmem_set_cache_line_inv(void *dest)
{
    (void)dest;
}

void shmem_clear_cache_inv(void)
{
}

void shmem_clear_cache_line_inv(void *dest)
{
    (void)dest;
}

void shmem_udcflush(void)
{
}

void shmem_udcflush_line(void *dest)
{
    (void)dest;
}
