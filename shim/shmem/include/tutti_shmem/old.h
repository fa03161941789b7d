/* OpenSHMEM: interfaces that version 1.5 deprecates. An active set consists of PE_size PEs:
 * PE_start, PE_start + 2^logPE_stride, ... pSync and pWrk are not used and may be NULL. */
#ifndef TUTTI_SHMEM_OLD_H
#define TUTTI_SHMEM_OLD_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHMEM_SYNC_SIZE 1
#define SHMEM_BARRIER_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_BCAST_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_COLLECT_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALL_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1
#define SHMEM_SYNC_VALUE 0L

#define _SHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define _SHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
#define _SHMEM_VENDOR_STRING SHMEM_VENDOR_STRING
#define _SHMEM_SYNC_VALUE SHMEM_SYNC_VALUE
#define _SHMEM_BARRIER_SYNC_SIZE SHMEM_BARRIER_SYNC_SIZE
#define _SHMEM_BCAST_SYNC_SIZE SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE
#define _SHMEM_CMP_EQ SHMEM_CMP_EQ
#define _SHMEM_CMP_NE SHMEM_CMP_NE
#define _SHMEM_CMP_GT SHMEM_CMP_GT
#define _SHMEM_CMP_GE SHMEM_CMP_GE
#define _SHMEM_CMP_LT SHMEM_CMP_LT
#define _SHMEM_CMP_LE SHMEM_CMP_LE

/* Old names of functions for initialization, queries and memory. */
SHMEM_API void start_pes(int npes);
SHMEM_API int _my_pe(void);
SHMEM_API int _num_pes(void);
SHMEM_API void *shmalloc(size_t size);
SHMEM_API void shfree(void *ptr);
SHMEM_API void *shrealloc(void *ptr, size_t size);
SHMEM_API void *shmemalign(size_t alignment, size_t size);

/* Old names of atomics. */
#define SHMEMI_DECLARE_OLD_EXTENDED(NAME, T)                     \
    SHMEM_API T shmem_##NAME##_fetch(const T *source, int pe);   \
    SHMEM_API void shmem_##NAME##_set(T *dest, T value, int pe); \
    SHMEM_API T shmem_##NAME##_swap(T *dest, T value, int pe);
#define SHMEMI_DECLARE_OLD_STANDARD(NAME, T)                            \
    SHMEM_API T shmem_##NAME##_cswap(T *dest, T cond, T value, int pe); \
    SHMEM_API T shmem_##NAME##_finc(T *dest, int pe);                   \
    SHMEM_API void shmem_##NAME##_inc(T *dest, int pe);                 \
    SHMEM_API T shmem_##NAME##_fadd(T *dest, T value, int pe);          \
    SHMEM_API void shmem_##NAME##_add(T *dest, T value, int pe);
#define SHMEMI_OLD_STANDARD_TYPES(X) X(int, int) X(long, long) X(longlong, long long)
#define SHMEMI_OLD_EXTENDED_TYPES(X) X(float, float) X(double, double) SHMEMI_OLD_STANDARD_TYPES(X)
SHMEMI_OLD_EXTENDED_TYPES(SHMEMI_DECLARE_OLD_EXTENDED)
SHMEMI_OLD_STANDARD_TYPES(SHMEMI_DECLARE_OLD_STANDARD)
#undef SHMEMI_DECLARE_OLD_EXTENDED
#undef SHMEMI_DECLARE_OLD_STANDARD

/* shmem_<type>_wait waits until *ivar is not cmp_value. Names without a type are for long. */
#define SHMEMI_DECLARE_OLD_WAIT(NAME, T) \
    SHMEM_API void shmem_##NAME##_wait(volatile T *ivar, T cmp_value);
#define SHMEMI_OLD_WAIT_TYPES(X) X(short, short) X(int, int) X(long, long) X(longlong, long long)
SHMEMI_OLD_WAIT_TYPES(SHMEMI_DECLARE_OLD_WAIT)
#undef SHMEMI_DECLARE_OLD_WAIT
SHMEM_API void shmem_wait(volatile long *ivar, long cmp_value);
SHMEM_API void shmem_wait_until(volatile long *ivar, int cmp, long cmp_value);

/* Collectives of active sets. PE_root is the index of the root in the set; broadcast does not write
 * the root's dest. */
SHMEM_API void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync);
SHMEM_API void shmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync);
#define SHMEMI_DECLARE_OLD_COLLECTIVES(BITS)                                                       \
    SHMEM_API void shmem_broadcast##BITS(void *dest, const void *source, size_t nelems,            \
                                         int PE_root, int PE_start, int logPE_stride, int PE_size, \
                                         long *pSync);                                             \
    SHMEM_API void shmem_collect##BITS(void *dest, const void *source, size_t nelems,              \
                                       int PE_start, int logPE_stride, int PE_size, long *pSync);  \
    SHMEM_API void shmem_fcollect##BITS(void *dest, const void *source, size_t nelems,             \
                                        int PE_start, int logPE_stride, int PE_size, long *pSync); \
    SHMEM_API void shmem_alltoall##BITS(void *dest, const void *source, size_t nelems,             \
                                        int PE_start, int logPE_stride, int PE_size, long *pSync); \
    SHMEM_API void shmem_alltoalls##BITS(void *dest, const void *source, ptrdiff_t dst,            \
                                         ptrdiff_t sst, size_t nelems, int PE_start,               \
                                         int logPE_stride, int PE_size, long *pSync);
SHMEMI_DECLARE_OLD_COLLECTIVES(32)
SHMEMI_DECLARE_OLD_COLLECTIVES(64)
#undef SHMEMI_DECLARE_OLD_COLLECTIVES

#define SHMEMI_DECLARE_TO_ALL(NAME, OP, T)                                                   \
    SHMEM_API void shmem_##NAME##_##OP##_to_all(T *dest, const T *source, int nreduce,       \
                                                int PE_start, int logPE_stride, int PE_size, \
                                                T *pWrk, long *pSync);
#define SHMEMI_DECLARE_BITS_TO_ALL(NAME, T) \
    SHMEMI_DECLARE_TO_ALL(NAME, and, T)     \
    SHMEMI_DECLARE_TO_ALL(NAME, or, T) SHMEMI_DECLARE_TO_ALL(NAME, xor, T)
#define SHMEMI_DECLARE_ORDER_TO_ALL(NAME, T) \
    SHMEMI_DECLARE_TO_ALL(NAME, max, T) SHMEMI_DECLARE_TO_ALL(NAME, min, T)
#define SHMEMI_DECLARE_SUM_TO_ALL(NAME, T) \
    SHMEMI_DECLARE_TO_ALL(NAME, sum, T) SHMEMI_DECLARE_TO_ALL(NAME, prod, T)
SHMEMI_TO_ALL_BITS_TYPES(SHMEMI_DECLARE_BITS_TO_ALL)
SHMEMI_TO_ALL_ORDER_TYPES(SHMEMI_DECLARE_ORDER_TO_ALL)
SHMEMI_TO_ALL_SUM_TYPES(SHMEMI_DECLARE_SUM_TO_ALL)
#undef SHMEMI_DECLARE_SUM_TO_ALL
#undef SHMEMI_DECLARE_ORDER_TO_ALL
#undef SHMEMI_DECLARE_BITS_TO_ALL
#undef SHMEMI_DECLARE_TO_ALL

/* These have no effect, because caches are coherent. */
SHMEM_API void shmem_set_cache_inv(void);
SHMEM_API void shmem_set_cache_line_inv(void *dest);
SHMEM_API void shmem_clear_cache_inv(void);
SHMEM_API void shmem_clear_cache_line_inv(void *dest);
SHMEM_API void shmem_udcflush(void);
SHMEM_API void shmem_udcflush_line(void *dest);

#ifdef __cplusplus
}
#endif
#endif
