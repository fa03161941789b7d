/* OpenSHMEM: waiting until symmetric words of this PE compare so with a value, and looking whether they do. What was put before the word is seen
 * then. A word may be changed by any put, atomic or signal.
 *
 * Forms with `status` leave out the words whose entry is not 0; status NULL leaves out none. all: every word; any: returns the index of one; some: writes
 * the indices of those that do and returns how many. Where no word is left, waiting ends at once, and any returns SIZE_MAX. vector: word i is
 * compared with cmp_values[i]. */
#ifndef TUTTI_SHMEM_WAIT_H
#define TUTTI_SHMEM_WAIT_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHMEM_CMP_EQ 1
#define SHMEM_CMP_NE 2
#define SHMEM_CMP_GT 3
#define SHMEM_CMP_GE 4
#define SHMEM_CMP_LT 5
#define SHMEM_CMP_LE 6

#define SHMEMI_DECLARE_WAIT_ONE(NAME, T)                                                                               \
    SHMEM_API void shmem_##NAME##_wait_until(volatile T *ivar, int cmp, T cmp_value);                                  \
    SHMEM_API int shmem_##NAME##_test(volatile T *ivar, int cmp, T cmp_value);
SHMEMI_WAIT_TYPES(SHMEMI_DECLARE_WAIT_ONE)
#undef SHMEMI_DECLARE_WAIT_ONE

#define SHMEMI_DECLARE_WAIT_MANY(NAME, T)                                                                              \
    SHMEM_API void shmem_##NAME##_wait_until_all(volatile T *ivars, size_t nelems, const int *status, int cmp,         \
                                                 T cmp_value);                                                         \
    SHMEM_API size_t shmem_##NAME##_wait_until_any(volatile T *ivars, size_t nelems, const int *status, int cmp,       \
                                                   T cmp_value);                                                       \
    SHMEM_API size_t shmem_##NAME##_wait_until_some(volatile T *ivars, size_t nelems, size_t *indices,                 \
                                                    const int *status, int cmp, T cmp_value);                          \
    SHMEM_API void shmem_##NAME##_wait_until_all_vector(volatile T *ivars, size_t nelems, const int *status, int cmp,  \
                                                        const T *cmp_values);                                          \
    SHMEM_API size_t shmem_##NAME##_wait_until_any_vector(volatile T *ivars, size_t nelems, const int *status,         \
                                                          int cmp, const T *cmp_values);                               \
    SHMEM_API size_t shmem_##NAME##_wait_until_some_vector(volatile T *ivars, size_t nelems, size_t *indices,          \
                                                           const int *status, int cmp, const T *cmp_values);           \
    SHMEM_API int shmem_##NAME##_test_all(volatile T *ivars, size_t nelems, const int *status, int cmp, T cmp_value);  \
    SHMEM_API size_t shmem_##NAME##_test_any(volatile T *ivars, size_t nelems, const int *status, int cmp,             \
                                             T cmp_value);                                                             \
    SHMEM_API size_t shmem_##NAME##_test_some(volatile T *ivars, size_t nelems, size_t *indices, const int *status,    \
                                              int cmp, T cmp_value);                                                   \
    SHMEM_API int shmem_##NAME##_test_all_vector(volatile T *ivars, size_t nelems, const int *status, int cmp,         \
                                                 const T *cmp_values);                                                 \
    SHMEM_API size_t shmem_##NAME##_test_any_vector(volatile T *ivars, size_t nelems, const int *status, int cmp,      \
                                                    const T *cmp_values);                                              \
    SHMEM_API size_t shmem_##NAME##_test_some_vector(volatile T *ivars, size_t nelems, size_t *indices,                \
                                                     const int *status, int cmp, const T *cmp_values);
SHMEMI_AMO_TYPES(SHMEMI_DECLARE_WAIT_MANY)
#undef SHMEMI_DECLARE_WAIT_MANY

/* Returns what the signal was then. */
SHMEM_API uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value);

#ifdef __cplusplus
}
#endif
#endif
